package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
)

// SortName is the name of the plugin Sort in profiles.
const SortName = "BerthSort"

// Sort is the order in which waiting pods are tried. It is kube-scheduler's PrioritySort, except
// that pods which enter the queue in the first minute of the process are tried by age, in whole
// seconds, until each has been tried once.
//
// A starting scheduler finds all waiting pods at once, in no order. A kubelet that receives several
// pods at once admits older ones first (HandlePodAdditions of pkg/kubelet/kubelet.go). A pod that
// is tried after younger ones could therefore take CPUs that these were promised, and has to wait
// for reports. Later, pods enter the queue in the order of their creation, and a tenant gains
// nothing with old pods.
type Sort struct {
	// started is when the first minute ends.
	started time.Time
}

// starting is how long a scheduler has to find the pods that waited before it.
const starting = time.Minute

var _ fwk.QueueSortPlugin = Sort{}

// NewSort makes the plugin; it has the signature of frameworkruntime.PluginFactory. There are no
// arguments.
func NewSort(_ context.Context, obj runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
	if err := decodeArgs(obj, &struct{}{}); err != nil {
		return nil, fmt.Errorf("arguments of plugin %s: %w: want none", SortName, err)
	}
	return Sort{time.Now().Add(starting)}, nil
}

// Name implements fwk.Plugin.
func (Sort) Name() string { return SortName }

// Less implements fwk.QueueSortPlugin.
func (s Sort) Less(a, b fwk.QueuedPodInfo) bool {
	p, q := a.GetPodInfo().GetPod(), b.GetPodInfo().GetPod()
	byAge, first := 0, 0
	switch x, y := s.found(a), s.found(b); {
	case x && y:
		byAge = cmp.Compare(created(p), created(q))
	case x:
		first = -1
	case y:
		first = 1
	}
	return cmp.Or(cmp.Compare(corev1helpers.PodPriority(q), corev1helpers.PodPriority(p)), first, byAge, a.GetTimestamp().Compare(b.GetTimestamp())) < 0
}

// found reports if a pod came in the first minute and has not been tried since.
func (s Sort) found(a fwk.QueuedPodInfo) bool {
	return a.GetTimestamp().Before(s.started) && a.GetAttempts() == 0
}

func created(pod *corev1.Pod) int64 { return pod.CreationTimestamp.Unix() }
