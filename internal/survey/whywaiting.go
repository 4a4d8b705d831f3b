package survey

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/wire"
)

// NothingWritten is the reason of a pod on which no scheduler has written anything.
const NothingWritten = "NothingWritten"

// WhyWaiting says in a word and in a sentence why a pod does not run: as its gang has it, where the
// whole gang waits, else as the scheduler, its gates or its kubelet have it. gang is the pod's; nil
// for none.
func WhyWaiting(p *corev1.Pod, gang *Gang) (reason, message string) {
	if wire.Refused(p) {
		return "Refused by its kubelet: " + p.Status.Reason, p.Status.Message
	}
	if len(p.Spec.SchedulingGates) > 0 {
		return corev1.PodReasonSchedulingGated, "gate " + p.Spec.SchedulingGates[0].Name
	}
	if reason, message = gang.whyWaiting(); reason != "" {
		return reason, message
	}
	if c := wire.Unscheduled(p); c.Type != "" {
		return c.Reason, WithoutPreemption(c.Message)
	}
	return NothingWritten, "its scheduler " + nameOfScheduler(p) + " has written nothing on it yet"
}

// whyWaiting is WhyWaiting of every member that waits; "" where it is not the gang that keeps them
// waiting, or there is none.
func (g *Gang) whyWaiting() (reason, message string) {
	if g == nil {
		return "", ""
	}
	switch g.State {
	case gangs.Forming, gangs.Wrong:
	case gangs.Waiting, gangs.Partial:
		if g.Why != "" {
			return gangReason(g.State), g.Why // which names the gang
		}
	default:
		return "", ""
	}
	return gangReason(g.State), strings.TrimPrefix(g.called()+": ", ": ") + cmp.Or(g.Why, "its pods are there, and no scheduler has said why they wait")
}

// gangReason is the state of a gang as the reason of its pods.
func gangReason(state gangs.Stage) string {
	return "Gang" + strings.ToUpper(string(state[:1])) + string(state[1:])
}

// called is what messages call the gang; "" of one whose name cannot be read.
func (g *Gang) called() string {
	if g.key.IsZero() {
		return ""
	}
	return g.key.String()
}
