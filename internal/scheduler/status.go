package scheduler

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// waitCertainty is said by a node that takes the pod for certain, but not with certain CPUs.
const waitCertainty = "waiting a moment to be certain of the CPUs"

// waitTexts say why a pod waits for a node's next report, by ledger.Wait. They are constant, so
// that the nodes of an event add up.
var waitTexts = func() (out [256]string) {
	for i := range out {
		out[i] = wire.WaitsForReport
	}
	for w := range ledger.Waits {
		out[w] += ": " + w.Text()
	}
	return out
}()

// waits is the status of a node that answers Waiting.
func waits(why ledger.Wait) *fwk.Status { return fwk.NewStatus(fwk.Pending, waitTexts[why]) }

// refuses is the status of a node whose kubelet would refuse the pod; never says that it would even
// when the node is empty. Nodes with the same cause say the same.
func refuses(reason placement.Reason, detail placement.Detail, never bool) *fwk.Status {
	text := "its kubelet would refuse the pod: " + reason.String() + ": " + detail.Text()
	if never {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, text+", even when empty")
	}
	return fwk.NewStatus(fwk.Unschedulable, text)
}

// statusOf says an answer in the framework's words; nil for an admission.
func statusOf(a *ledger.Answer) *fwk.Status {
	switch a.Outcome {
	case ledger.Admitted:
		return nil
	case ledger.Waiting:
		return waits(a.Wait)
	case ledger.Refused:
		return refuses(a.Verdict.Reason, a.Verdict.Detail, a.Verdict.Scarcity == placement.Unresolvable)
	default:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, unreported.Text)
	}
}

// reasonOf is the label of an answer in a metric.
func reasonOf(a *ledger.Answer) string {
	if a.Outcome == ledger.Waiting {
		return a.Wait.String()
	}
	return a.Verdict.Reason.String()
}
