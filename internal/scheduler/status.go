package scheduler

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// waitCertainty is the message for a node that certainly admits the pod, but may give it other CPUs
// than predicted.
const waitCertainty = "waiting a moment until the CPUs are certain"

// waitBetter is the message for a node that admits the pod while a better node, with fewer NUMA
// nodes for the pod or fewer stranded devices, must report first.
const waitBetter = "waiting a moment for a node that would take the pod on fewer NUMA nodes, or strand fewer devices"

// keptByReservation is the message for a node that would admit the pod if it held no resources for
// a Reservation.
const keptByReservation = "a Reservation holds the resources that the pod would use"

// waitTexts lists the reasons why a pod waits for a node's next report, by ledger.Wait. They are
// constant, so that an event can group nodes with equal texts.
var waitTexts = func() (out [256]string) {
	for i := range out {
		out[i] = wire.WaitsForReport
	}
	for w := range ledger.Waits {
		out[w] += ": " + w.Text()
	}
	return out
}()

// waitStatuses has the statuses of nodes that wait, by ledger.Wait. Many nodes share a status: do
// not change it.
var waitStatuses = func() (out [256]*fwk.Status) {
	for i, text := range waitTexts {
		out[i] = fwk.NewStatus(fwk.Pending, text).WithPlugin(Name)
	}
	return out
}()

// status returns a node's answer as a status of the framework. The message uses the annotation keys
// that the pod itself uses.
func (c *cycle) status(a nodes.PackedAnswer, patient bool) *fwk.Status {
	s := statusOf(a, patient)
	if s == nil || c.ask.Said == (wire.Said{}) {
		return s
	}
	return fwk.NewStatus(s.Code(), c.ask.Said.In(s.Message()))
}

// statusOf returns an answer as a status of the framework, or nil for an admission. The parameter
// patient means that the pod waits until its CPUs are certain. Equal causes have equal messages.
func statusOf(a nodes.PackedAnswer, patient bool) *fwk.Status {
	switch a.Kind() {
	case nodes.Takes:
		return nil
	case nodes.TakesRoughly:
		if patient {
			return fwk.NewStatus(fwk.Pending, waitCertainty)
		}
		return nil
	case nodes.Waits:
		return fwk.NewStatus(fwk.Pending, waitTexts[a.Wait()])
	case nodes.Refuses:
		return fwk.NewStatus(fwk.Unschedulable, wire.OfNodes(refusal(a)))
	case nodes.KeepsOff:
		return fwk.NewStatus(fwk.Unschedulable, wire.OfNodes(keptByReservation))
	case nodes.RefusesEmpty:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, wire.OfNodes(refusal(a))+", even when empty")
	default:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, wire.NoReport)
	}
}

func unreadable(err error) *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Berth cannot read the pod: "+err.Error())
}

// refusal describes who would refuse the pod, the kubelet or Berth, and why.
func refusal(a nodes.PackedAnswer) string {
	switch reason, detail := a.Why(); reason {
	case placement.NoBerth:
		return "Berth has no place for the pod: " + detail.Text()
	case placement.InvalidRequest, placement.KubeletDefect:
		return "Berth refuses the pod: " + reason.String() + ": " + detail.Text()
	default:
		return "the kubelet would refuse the pod: " + reason.String() + ": " + detail.Text()
	}
}

// reasonOf returns the value of the label reason for an answer.
func reasonOf(a *ledger.Answer) string {
	switch {
	case a.Outcome == ledger.Waiting:
		return a.Wait.String()
	case a.Held:
		return "Held"
	}
	return a.Verdict.Reason.String()
}
