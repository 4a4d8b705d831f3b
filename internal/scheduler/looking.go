package scheduler

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/wire"
)

// Look returns the percentageOfNodesToScore for a pod: the search for nodes ends when this
// percentage of all nodes has been found feasible. The parameter all is the number of nodes. The
// parameter set is the profile's setting; 0 means kube-scheduler's own choice. The result never
// ends the search with fewer feasible nodes than set does.
type Look func(pod *corev1.Pod, all int, set int32) int32

// MightPin reports whether a kubelet could pin anything for the pod.
func MightPin(pod *corev1.Pod) bool { return wire.MightPin(pod) }

// LookFurther returns the Look of a scheduler. For a pod that could be pinned, the search ends only
// after about Args.MaxNodes feasible nodes. In a cluster of 5,000 nodes, kube-scheduler's own
// search would end after 500 feasible nodes, and so might miss the best node.
func (p Parts) LookFurther() Look { return p.core.look }

func (c *core) look(pod *corev1.Pod, all int, set int32) int32 {
	profile, ours := c.profiles.of(pod.Spec.SchedulerName)
	if !ours || all == 0 || !wire.MightPin(pod) {
		return set
	}
	further := int32(min(100, int64(profile.maxNodes)*100/int64(all)))
	if further <= usual(all, set) {
		return set
	}
	return further
}

// usual returns the percentage that kube-scheduler uses with this setting (numFeasibleNodesToFind).
// For 0, it is between 50 and 5 percent, depending on the number of nodes.
func usual(all int, set int32) int32 {
	if set != 0 {
		return set
	}
	return int32(max(5, 50-all/125))
}
