package scheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// tellIgnored writes events about annotations and labels of the pod that have no effect, and about
// annotations for devices if the pod requests none. If no node has authority berth, it also writes
// an event about exclusive CPUs or memory that the pod requests but that no kubelet would give it.
// tellIgnored writes events only in the first attempt, before the pod has the condition that a
// failed attempt leaves.
func (c *core) tellIgnored(pod *corev1.Pod) {
	if attempted(pod) || wire.OfReservation(pod) {
		return
	}
	warnings := wire.IgnoredKeys(pod, pod.Spec.SchedulerName)
	if w, shares := wire.CPUsShared(pod); shares && !c.table.Obeying() {
		warnings = append(warnings, w)
	}
	if w, none := wire.NoDevices(pod); none {
		warnings = append(warnings, w)
	}
	for _, w := range warnings {
		// The action differs because a second event with equal reason and action would only
		// increase the count of the first.
		c.events.Eventf(pod, nil, corev1.EventTypeWarning, w.Reason, "Scheduling"+w.Of, "%s", w.Text)
	}
}

// tellShared writes an event if the pod requests exclusive CPUs or memory but will share them,
// because a kubelet decides on the chosen node. It writes the event only if other nodes have
// authority berth.
func (c *core) tellShared(pod *corev1.Pod, nodeName string) {
	n := c.table.Named(nodeName)
	if !c.table.Obeying() || wire.OfReservation(pod) || n.Obeys() {
		return
	}
	if w, shares := wire.CPUsShared(pod); shares {
		if ask, err := wire.ReadPod(pod); err == nil && n.GivesWhole(&ask.Request) {
			return
		}
		c.events.Eventf(pod, nil, corev1.EventTypeWarning, w.Reason, "Binding", "%s decides itself: %s", nodeName, w.Text)
	}
}

// tellRepeats writes an event if the kubelet places the pod as a whole (by spec.resources). The
// event warns that a restarted kubelet would place the pod again (placement.DefectRestartRepeats).
func (c *core) tellRepeats(pod *corev1.Pod, nodeName string, d *placement.Decision) {
	if d.Whole != nil {
		why := placement.DefectRestartRepeats
		c.events.Eventf(pod, nil, corev1.EventTypeWarning, why.String(), "Binding", "%s: %s; %s", nodeName, why.Text(), why.Advice())
	}
}

// attempted reports whether a scheduler has tried the pod before. It ignores a condition that only
// reports a scheduling gate.
func attempted(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Reason != corev1.PodReasonSchedulingGated
	})
}
