package survey

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// source is the data source of a Cluster: an API server, or a file with its data at one moment.
type source interface {
	// now returns the cluster's time.
	now() time.Time
	// facts returns the facts about one node, or about all nodes if only is "".
	facts(ctx context.Context, only string) (*facts, error)
	nodeNames(ctx context.Context) ([]string, error)
	namespaces(ctx context.Context) ([]string, error)
	// podsIn returns the pods of a namespace, bound or not. If only is set, it returns only the pod
	// of that name.
	podsIn(ctx context.Context, namespace, only string) ([]corev1.Pod, error)
	// pod returns one pod, or nil if there is none.
	pod(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	// groupsIn returns the objects of a namespace that declare gangs. A kind that is not served has
	// no objects. The notes name kinds that may not be read.
	groupsIn(ctx context.Context, namespace string) (*groupObjects, error)
	// budgets returns the PodDisruptionBudgets of all namespaces.
	budgets(ctx context.Context) ([]policyv1.PodDisruptionBudget, error)
	// priorityClasses returns all PriorityClasses. It fails with errNoClasses for a snapshot.
	priorityClasses(ctx context.Context) ([]priorityClass, error)
	// deviceClasses returns the extended resources of device classes. A class has a default name,
	// and may set another one; the result has both. The notes name missing permissions.
	deviceClasses(ctx context.Context) (classes map[corev1.ResourceName]bool, notes []string, err error)
	// handedOut returns the devices of Dynamic Resource Allocation, and the claims that pods of a
	// namespace depend on.
	handedOut(ctx context.Context, namespace string) (*handedOut, error)
	// claimTemplates returns the ResourceClaimTemplates of a namespace. The notes name missing
	// permissions.
	claimTemplates(ctx context.Context, namespace string) (all []*resourcev1.ResourceClaimTemplate, notes []string, err error)
}

// errNoClasses is the error of reading PriorityClasses from a snapshot.
var errNoClasses = errors.New("a snapshot has no PriorityClasses")

// priorityClass has the fields of a PriorityClass that determine a pod's priority.
type priorityClass struct {
	Metadata      metav1.ObjectMeta `json:"metadata"`
	Value         int32             `json:"value"`
	GlobalDefault bool              `json:"globalDefault"`
}
