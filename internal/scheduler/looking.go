package scheduler

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/wire"
)

// Look returns the percentage of all nodes that the scheduler compares for a pod. set is the
// profile's percentageOfNodesToScore; 0 means kube-scheduler's own choice. The result is never less
// than kube-scheduler's.
type Look func(pod *corev1.Pod, all int, set int32) int32

// MightPin reports whether a kubelet could pin anything for the pod.
func MightPin(pod *corev1.Pod) bool { return wire.MightPin(pod) }

// LookFurther returns the Look of a scheduler. For a pod that could be pinned, it looks at all
// nodes, up to Args.MaxNodes of the profile. kube-scheduler itself looks at 10 percent of 5,000
// nodes, which may not include the best node.
func (p Parts) LookFurther() Look { return p.core.look }

func (c *core) look(pod *corev1.Pod, all int, set int32) int32 {
	maxNodes, ours := c.profiles.maxNodes.Load(pod.Spec.SchedulerName)
	if !ours || all == 0 || !wire.MightPin(pod) {
		return set
	}
	further := int32(min(100, int64(maxNodes.(int))*100/int64(all)))
	if further <= usual(all, set) {
		return set
	}
	return further
}

// usual returns the percentage that kube-scheduler uses with a setting (numFeasibleNodesToFind).
// Its own choice is between 50 and 5 percent, by the number of nodes.
func usual(all int, set int32) int32 {
	if set != 0 {
		return set
	}
	return int32(max(5, 50-all/125))
}
