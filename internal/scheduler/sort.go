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

// Sort is the order in which waiting pods are tried: that of kube-scheduler's PrioritySort, except
// that among pods which came into the queue in the same second those created in an earlier one come
// first.
//
// A scheduler that begins to lead finds all waiting pods at once, in no order. A kubelet that hears
// of several pods at once admits the ones created first before the others (pod_workers and
// kubelet.go sort them by creationTimestamp). So a pod that is tried after younger ones could take
// the CPUs that these were promised, and has to wait for reports.
type Sort struct{}

var _ fwk.QueueSortPlugin = Sort{}

// NewSort makes the plugin; it has the signature of frameworkruntime.PluginFactory. There are no
// arguments.
func NewSort(_ context.Context, obj runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
	if err := decodeArgs(obj, &struct{}{}); err != nil {
		return nil, fmt.Errorf("arguments of plugin %s: %w: want none", SortName, err)
	}
	return Sort{}, nil
}

// Name implements fwk.Plugin.
func (Sort) Name() string { return SortName }

// Less implements fwk.QueueSortPlugin.
func (Sort) Less(a, b fwk.QueuedPodInfo) bool {
	p, q := a.GetPodInfo().GetPod(), b.GetPodInfo().GetPod()
	s, t := a.GetTimestamp(), b.GetTimestamp()
	return cmp.Or(
		cmp.Compare(corev1helpers.PodPriority(q), corev1helpers.PodPriority(p)),
		s.Truncate(time.Second).Compare(t.Truncate(time.Second)),
		cmp.Compare(created(p), created(q)),
		s.Compare(t),
	) < 0
}

func created(pod *corev1.Pod) int64 { return pod.CreationTimestamp.Unix() }
