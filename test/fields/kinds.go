package fields

import "strings"

// job is a Job with two tasks.
const job = `{"metadata":{"namespace":"d","name":"j","uid":"job-uid"},"spec":{
	"tasks":[{"name":"a","replicas":2,"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}},
		{"name":"b","replicas":1,"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}}]}}`

// restarted is a Job that restarts when a pod fails.
const restarted = `{"metadata":{"namespace":"d","name":"j","uid":"job-uid"},"spec":{
	"policies":[{"event":"PodFailed","action":"RestartJob"}],
	"tasks":[{"name":"a","replicas":2,"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}},
		{"name":"b","replicas":1,"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}}]}}`

// restartedTask is a Job whose first task restarts when a pod fails.
const restartedTask = `{"metadata":{"namespace":"d","name":"j","uid":"job-uid"},"spec":{
	"tasks":[{"name":"a","replicas":2,"policies":[{"event":"PodFailed","action":"RestartTask"}],"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}},
		{"name":"b","replicas":1,"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}}]}}`

// dependent is a Job with a task that waits for two others.
const dependent = `{"metadata":{"namespace":"d","name":"j","uid":"job-uid"},"spec":{"minAvailable":1,
	"tasks":[{"name":"a","replicas":1,"dependsOn":{"name":["b","c"]},"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}},
		{"name":"b","replicas":1,"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}},
		{"name":"c","replicas":1,"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}}]}}`

// claimed is a Job with a volume.
const claimed = `{"metadata":{"namespace":"d","name":"j","uid":"job-uid"},"spec":{
	"volumes":[{"mountPath":"/data","volumeClaim":{"accessModes":["ReadWriteOnce"]}}],
	"tasks":[{"name":"a","replicas":1,"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}}]}}`

const group = `{"metadata":{"namespace":"ns","name":"x"},"spec":{"minMember":2}}`

const reservation = `{"metadata":{"name":"x","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"owners":[{"object":{"name":"p"}}],
	"template":{"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"1"}}}]}}}}`

// controlled is a Reservation for the pods of a controller.
const controlled = `{"metadata":{"name":"x","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"owners":[{"controller":{"namespace":"n"}}],
	"template":{"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"1"}}}]}}}}`

const device = `{"metadata":{"name":"n1"},"spec":{"devices":[{"type":"gpu","minor":0,"health":true,"id":"0000:3b:00.0",
	"topology":{"socketID":0,"nodeID":0,"pcieID":"pci0000:3a"}}]}}`

// functions is a Device with a virtual function.
const functions = `{"metadata":{"name":"n1"},"spec":{"devices":[{"type":"rdma","minor":0,"health":true,"id":"0000:3b:00.0",
	"topology":{"socketID":0,"nodeID":0,"pcieID":"pci0000:3a"},"vfGroups":[{"vfs":[{"minor":0,"busID":"0000:3b:00.2"}]}]}]}}`

const numatopology = `{"metadata":{"name":"n1","annotations":{"timestamp":"1800000000"}},"spec":{
	"policies":{"CPUManagerPolicy":"static","TopologyManagerPolicy":"best-effort"},
	"numares":{"cpu":{"allocatable":"0,2,3","capacity":4}},"resReserved":{"cpu":"1"},
	"cpuDetail":{"0":{},"1":{"core":1},"2":{"core":2,"numa":1},"3":{"core":3,"numa":1}},
	"podAllocations":[{"name":"p","namespace":"n","uid":"u","containerAllocations":[{"name":"c","allocations":{"cpu":"1"}}]}]}}`

// named is a Numatopology of an exporter that identifies pods by name.
var named = strings.Replace(numatopology, `,"uid":"u"`, "", 1)

// Kinds are the kinds that Berth serves, in part or in whole.
var Kinds = []Kind{
	{Name: "Job of batch.volcano.sh/v1alpha1", CRD: "volcano-crds/batch.volcano.sh_jobs.yaml", Base: job, Fields: jobFields},
	{Name: "PodGroup of scheduling.volcano.sh/v1beta1", CRD: "volcano-crds/scheduling.volcano.sh_podgroups.yaml", Base: group, Fields: []Field{
		{Path: "spec.minMember", Fate: Read, Sample: `3`},
		{Path: "spec.minTaskMember", Fate: Read, Sample: `{"a":2}`, Whole: true},
		{Path: "spec.minResources", Fate: Read, Sample: `{"cpu":"3"}`, Whole: true},
		{Path: "spec.queue", Fate: Told, Sample: `"research"`},
		{Path: "spec.priorityClassName", Fate: Told, Sample: `"high"`},
		{Path: "spec.networkTopology", Fate: Refused, Sample: `{"mode":"hard"}`},
		{Path: "spec.networkTopology.mode", Fate: Told, Sample: `"soft"`},
		{Path: "spec.subGroupPolicy", Fate: Refused, Sample: `[{"name":"a"}]`},
	}},
	{Name: "PodGroup of scheduling.sigs.k8s.io/v1alpha1", CRD: "koordinator-crds/scheduling.sigs.k8s.io_podgroups.yaml", Base: group, Fields: []Field{
		{Path: "spec.minMember", Fate: Read, Sample: `3`},
		{Path: "spec.minResources", Fate: Read, Sample: `{"cpu":"3"}`, Whole: true},
		{Path: "spec.scheduleTimeoutSeconds", Fate: Read, Sample: `30`},
	}},
	{Name: "Reservation of scheduling.koordinator.sh/v1alpha1", CRD: "koordinator-crds/scheduling.koordinator.sh_reservations.yaml", Base: reservation, Fields: reservationFields},
	{Name: "Device of scheduling.koordinator.sh/v1alpha1", CRD: "koordinator-crds/scheduling.koordinator.sh_devices.yaml", Base: device, Fields: deviceFields},
	{Name: "Numatopology of nodeinfo.volcano.sh/v1alpha1", CRD: "volcano-crds/nodeinfo.volcano.sh_numatopologies.yaml", Base: numatopology, Fields: numatopologyFields},
}

// KindNamed returns the kind with that name, or nil.
func KindNamed(name string) *Kind {
	for i := range Kinds {
		if Kinds[i].Name == name {
			return &Kinds[i]
		}
	}
	return nil
}

// podsName is the reason why the name of a pod template has no effect.
const podsName = "pods of a Job are named by the Job, as with Volcano"

var jobFields = []Field{
	{Path: "spec.schedulerName", Fate: Read, Sample: `"other"`},
	{Path: "spec.minAvailable", Fate: Read, Sample: `1`},
	{Path: "spec.minSuccess", Fate: Read, Sample: `1`},
	{Path: "spec.maxRetry", Fate: Read, Sample: `1`, Base: restarted},
	{Path: "spec.ttlSecondsAfterFinished", Fate: Read, Sample: `5`},
	{Path: "spec.priorityClassName", Fate: Read, Sample: `"high"`},
	{Path: "spec.plugins", Fate: Read, Sample: `{"svc":[]}`, Whole: true},
	{Path: "spec.queue", Fate: Told, Sample: `"research"`},
	{Path: "spec.runningEstimate", Fate: Told, Sample: `"1h"`},
	{Path: "spec.networkTopology", Fate: Refused, Sample: `{"mode":"hard"}`},
	{Path: "spec.networkTopology.mode", Fate: Told, Sample: `"soft"`},
	{Path: "spec.policies[].action", Fate: Read, Sample: `"TerminateJob"`, Base: restarted},
	{Path: "spec.policies[].event", Fate: Read, Sample: `"PodEvicted"`, Base: restarted},
	{Path: "spec.policies[].events", Fate: Read, Sample: `["PodEvicted"]`, Base: restarted, Whole: true},
	{Path: "spec.policies[].exitCode", Fate: Read, At: "spec.policies[]", Sample: `{"exitCode":3,"action":"AbortJob"}`},
	{Path: "spec.policies[].timeout", Fate: Read, Sample: `"5s"`, Base: restarted},
	{Path: "spec.tasks[].name", Fate: Read, Sample: `"z"`},
	{Path: "spec.tasks[].replicas", Fate: Read, Sample: `3`},
	{Path: "spec.tasks[].minAvailable", Fate: Read, Sample: `1`},
	{Path: "spec.tasks[].maxRetry", Fate: Read, Sample: `1`, Base: strings.Replace(restartedTask, "PodFailed", "TaskFailed", 1)},
	{Path: "spec.tasks[].topologyPolicy", Fate: Read, Sample: `"restricted"`},
	{Path: "spec.tasks[].dependsOn.name", Fate: Read, Sample: `["b"]`, Base: dependent, Whole: true},
	{Path: "spec.tasks[].dependsOn.iteration", Fate: Read, Sample: `"any"`, Base: dependent},
	{Path: "spec.tasks[].partitionPolicy", Fate: Refused, Sample: `{"totalPartitions":2,"partitionSize":1}`},
	{Path: "spec.tasks[].policies[].action", Fate: Read, Sample: `"AbortJob"`, Base: restartedTask},
	{Path: "spec.tasks[].policies[].event", Fate: Read, Sample: `"PodEvicted"`, Base: restartedTask},
	{Path: "spec.tasks[].policies[].events", Fate: Read, Sample: `["PodEvicted"]`, Base: restartedTask, Whole: true},
	{Path: "spec.tasks[].policies[].exitCode", Fate: Read, At: "spec.tasks[].policies[]", Sample: `{"exitCode":3,"action":"AbortJob"}`},
	{Path: "spec.tasks[].policies[].timeout", Fate: Read, Sample: `"5s"`, Base: restartedTask},
	{Path: "spec.tasks[].template", Fate: Read, Sample: `{"spec":{"hostNetwork":true,"containers":[{"name":"c","image":"i"}]}}`},
	{Path: "spec.tasks[].template.metadata.name", Fate: Idle, Sample: `"web"`, Why: podsName},
	{Path: "spec.tasks[].template.metadata.namespace", Fate: Idle, Sample: `"web"`, Why: "pods of a Job are in its namespace"},
	{Path: "spec.volumes[].mountPath", Fate: Read, Sample: `"/other"`, Base: claimed},
	{Path: "spec.volumes[].volumeClaimName", Fate: Read, At: "spec.volumes[]", Sample: `{"mountPath":"/data","volumeClaimName":"mine"}`},
	{Path: "spec.volumes[].volumeClaim", Fate: Read, Sample: `{"accessModes":["ReadWriteMany"]}`, Base: claimed},
}

const notOfAPlace = "Berth hands out whole devices and learns which are healthy from their plugin"

var (
	reservationFields = []Field{
		{Path: "spec.template", Fate: Idle, Sample: `{"metadata":{"name":"x"},"spec":{"hostname":"h","containers":[{"name":"c","resources":{"limits":{"cpu":"1"}}}]}}`, Why: "no container of it is started"},
		{Path: "spec.template.metadata.labels", Fate: Read, Sample: `{"a":"b"}`, Whole: true},
		{Path: "spec.template.metadata.annotations", Fate: Read, Sample: `{"berth.dev/policy":"single-numa-node"}`, Whole: true},
		{Path: "spec.template.spec.containers[]", Fate: Read, Sample: `{"name":"c","resources":{"limits":{"cpu":"2"}}}`},
		{Path: "spec.template.spec.containers[].resources.claims", Fate: Refused, Sample: `[{"name":"x"}]`, Whole: true},
		{Path: "spec.template.spec.containers[].ports[].hostPort", Fate: Refused, Sample: `80`},
		{Path: "spec.template.spec.nodeName", Fate: Read, Sample: `"n"`},
		{Path: "spec.template.spec.nodeSelector", Fate: Read, Sample: `{"a":"b"}`, Whole: true},
		{Path: "spec.template.spec.affinity.nodeAffinity", Fate: Read, Sample: `{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"Exists"}]}]}}`, Whole: true},
		{Path: "spec.template.spec.affinity.podAffinity", Fate: Refused, Sample: `{}`, Whole: true},
		{Path: "spec.template.spec.affinity.podAntiAffinity", Fate: Refused, Sample: `{}`, Whole: true},
		{Path: "spec.template.spec.tolerations", Fate: Read, Sample: `[{"key":"a"}]`, Whole: true},
		{Path: "spec.template.spec.priority", Fate: Read, Sample: `7`},
		{Path: "spec.template.spec.priorityClassName", Fate: Refused, Sample: `"high"`},
		{Path: "spec.template.spec.schedulerName", Fate: Read, Sample: `"berth"`},
		{Path: "spec.template.spec.initContainers", Fate: Refused, Sample: `[{"name":"i"}]`, Whole: true},
		{Path: "spec.template.spec.volumes[].persistentVolumeClaim", Fate: Refused, Sample: `{"claimName":"x"}`},
		{Path: "spec.template.spec.volumes[].ephemeral", Fate: Refused, Sample: `{"volumeClaimTemplate":{"spec":{}}}`},
		{Path: "spec.template.spec.volumes[].csi", Fate: Refused, Sample: `{"driver":"x"}`},
		{Path: "spec.template.spec.resourceClaims", Fate: Refused, Sample: `[{"name":"x"}]`, Whole: true},
		{Path: "spec.template.spec.resources", Fate: Refused, Sample: `{"limits":{"cpu":"1"}}`, Whole: true},
		{Path: "spec.template.spec.overhead", Fate: Refused, Sample: `{"cpu":"1"}`, Whole: true},
		{Path: "spec.template.spec.runtimeClassName", Fate: Refused, Sample: `"x"`},
		{Path: "spec.template.spec.topologySpreadConstraints", Fate: Refused, Sample: `[{"maxSkew":1}]`, Whole: true},
		{Path: "spec.template.spec.schedulingGates", Fate: Refused, Sample: `[{"name":"x"}]`, Whole: true},
		{Path: "spec.template.spec.schedulingGroup", Fate: Refused, Sample: `{}`, Whole: true},
		{Path: "spec.owners[].labelSelector", Fate: Read, Sample: `{"matchLabels":{"a":"b"}}`, Whole: true},
		{Path: "spec.owners[].object.name", Fate: Read, Sample: `"q"`},
		{Path: "spec.owners[].object.namespace", Fate: Read, Sample: `"q"`},
		{Path: "spec.owners[].object.uid", Fate: Read, Sample: `"q"`},
		{Path: "spec.owners[].object.kind", Fate: Refused, Sample: `"Deployment"`},
		{Path: "spec.owners[].object.apiVersion", Fate: Refused, Sample: `"apps/v1"`},
		{Path: "spec.owners[].object.fieldPath", Fate: Refused, Sample: `"spec"`},
		{Path: "spec.owners[].object.resourceVersion", Fate: Refused, Sample: `"7"`},
		{Path: "spec.owners[].controller", Fate: Read, Sample: `{"namespace":"n","name":"c"}`, Base: controlled},
		{Path: "spec.owners[].controller.blockOwnerDeletion", Fate: Idle, Sample: `true`, Base: controlled, Why: "it says nothing about who a pod is: Koordinator does not compare it either"},
		{Path: "spec.allocateOnce", Fate: Read, Sample: `false`},
		{Path: "spec.allocatePolicy", Fate: Read, Sample: `"Restricted"`},
		{Path: "spec.ttl", Fate: Read, Sample: `"1h0m0s"`},
		{Path: "spec.expires", Fate: Read, Sample: `"2030-01-01T00:00:00Z"`},
		{Path: "spec.unschedulable", Fate: Read, Sample: `true`},
		{Path: "spec.taints", Fate: Read, Sample: `[{"key":"a","effect":"NoSchedule"}]`, Whole: true},
		{Path: "spec.preAllocation", Fate: Refused, Sample: `true`},
		{Path: "spec.preAllocationPolicy", Fate: Refused, Sample: `{"enableMultiple":true}`},
	}
	deviceFields = []Field{
		{Path: "spec.devices[].type", Fate: Read, Sample: `"rdma"`},
		{Path: "spec.devices[].id", Fate: Read, Sample: `"0000:3c:00.0"`},
		{Path: "spec.devices[].minor", Fate: Refused, Sample: `-1`},
		{Path: "spec.devices[].topology.nodeID", Fate: Read, Sample: `1`},
		{Path: "spec.devices[].topology.pcieID", Fate: Read, Sample: `"pci0000:40"`},
		{Path: "spec.devices[].topology.busID", Fate: Read, Sample: `"0000:3d:00.0"`},
		{Path: "spec.devices[].topology.socketID", Fate: Idle, Sample: `1`, Why: "the NUMA node has one"},
		{Path: "spec.devices[].vfGroups[].vfs[].busID", Fate: Read, Sample: `"0000:3b:00.3"`, Base: functions},
		{Path: "spec.devices[].vfGroups[].vfs[].minor", Fate: Idle, Sample: `1`, Base: functions, Why: "a virtual function is known by its address"},
		{Path: "spec.devices[].vfGroups[].labels", Fate: Idle, Sample: `{"a":"b"}`, Base: functions, Whole: true, Why: notOfAPlace},
		{Path: "spec.devices[].health", Fate: Idle, Sample: `false`, Why: notOfAPlace},
		{Path: "spec.devices[].labels", Fate: Idle, Sample: `{"a":"b"}`, Whole: true, Why: notOfAPlace},
		{Path: "spec.devices[].moduleID", Fate: Idle, Sample: `3`, Why: "slots are no matter of distance"},
		{Path: "spec.devices[].resources", Fate: Idle, Sample: `{"koordinator.sh/gpu-core":"100"}`, Whole: true, Why: notOfAPlace},
		{Path: "spec.devices[].conditions", Fate: Idle, Sample: `[{"type":"Healthy","status":"False","reason":"x","message":"","lastTransitionTime":"2030-01-01T00:00:00Z"}]`, Whole: true, Why: notOfAPlace},
	}
	numatopologyFields = []Field{
		{Path: "spec.policies", Fate: Read, Sample: `{"CPUManagerPolicy":"static","TopologyManagerPolicy":"restricted"}`, Whole: true},
		{Path: "spec.cpuDetail", Fate: Read, Sample: `{"0":{},"1":{"core":1},"2":{"core":2},"3":{"core":3}}`, Whole: true},
		{Path: "spec.numares", Fate: Read, Sample: `{"cpu":{"allocatable":"0,2","capacity":4}}`, Whole: true},
		{Path: "spec.numares{}.capacity", Fate: Idle, At: "spec.numares.cpu.capacity", Sample: `5`, Why: "the CPUs are counted in cpuDetail"},
		{Path: "spec.resReserved", Fate: Read, Sample: `{"cpu":"2"}`, Whole: true},
		{Path: "spec.podAllocations[].uid", Fate: Read, Sample: `"v"`},
		{Path: "spec.podAllocations[].name", Fate: Read, Sample: `"q"`, Base: named},
		{Path: "spec.podAllocations[].namespace", Fate: Read, Sample: `"q"`, Base: named},
		{Path: "spec.podAllocations[].containerAllocations[].name", Fate: Read, Sample: `"d"`},
		{Path: "spec.podAllocations[].containerAllocations[].allocations", Fate: Read, Sample: `{}`, Whole: true},
	}
)
