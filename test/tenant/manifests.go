package tenant

import "fmt"

// Manifests are the tenant's namespace, its role and quota, and an administrator's additions for
// users of gangs and Jobs: rights that become part of the role edit. They need the controllers of
// quotas and of aggregated roles.
func Manifests(cpus, pods int) []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: gangs-and-jobs
  labels: {rbac.authorization.k8s.io/aggregate-to-edit: "true"}
rules:
- apiGroups: [batch.volcano.sh]
  resources: [jobs]
  verbs: [get, list, watch, create, update, patch, delete, deletecollection]
- apiGroups: [scheduling.volcano.sh, scheduling.x-k8s.io]
  resources: [podgroups]
  verbs: [get, list, watch, create, update, patch, delete, deletecollection]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tenant, namespace: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %[2]s}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: tenant-looks}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: berth-viewer}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %[2]s}]
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: tenant, namespace: %[1]s}
spec:
  hard:
    requests.cpu: "%[3]d"
    limits.cpu: "%[3]d"
    requests.memory: 24Gi
    pods: "%[4]d"
    count/configmaps: "20"
    count/podgroups.scheduling.x-k8s.io: "40"
    count/podgroups.scheduling.volcano.sh: "40"
    count/jobs.batch.volcano.sh: "8"
    count/deployments.apps: "4"
---
apiVersion: v1
kind: LimitRange
metadata: {name: tenant, namespace: %[1]s}
spec:
  limits: [{type: Container, default: {cpu: 1m, memory: 1Mi}, defaultRequest: {cpu: 1m, memory: 1Mi}}]
`, Namespace, User, cpus, pods)
}
