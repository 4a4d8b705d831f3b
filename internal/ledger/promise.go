package ledger

import (
	"slices"

	"github.com/berth-dev/berth/placement"
)

// Promise is the decision in a Binding.
type Promise struct {
	Decision placement.Decision
	// Exact means that the decision promises CPUs, memory and devices, and not only the admission.
	Exact bool
	// Refused means that Witness expects the kubelet to refuse the pod, which another scheduler
	// bound. It is never set for a Binding of Berth.
	Refused bool
	// Either has the possible decisions if it is not known whether the kubelet still counts a pod
	// that is leaving. The ledger then expects one of these decisions, or a refusal.
	Either []placement.Decision
}

// PromiseOutcome is the result of comparing a promise with the kubelet's answer or the node's
// report.
type PromiseOutcome struct {
	UID string
	// Exact is Promise.Exact.
	Exact bool
	// Refused means that the kubelet refused the pod.
	Refused bool
	// Foretold means that the ledger expected the kubelet to refuse the pod.
	Foretold bool
	// Either means that the ledger expected one of several decisions, or a refusal.
	Either bool
	// Kept means that the node assigned the promised resources.
	Kept bool
	// Contended means that, if the promise was broken, the cause may be one that the scheduler
	// could not know. For example, a pod with an unknown position in the order was in flight at the
	// same time. Or a pod of the node was deleted by force, or had begun to end before the Binding,
	// but the watch showed this only later.
	Contended bool
	// Promised is the decision in the Binding, Found the allocation in the report.
	Promised placement.Decision
	Found    placement.PodAllocation
}

// Result is how a promise ended, in one word.
type Result string

const (
	// ResultKept: the node assigned the promised resources, or only admission was promised and the
	// kubelet admitted the pod.
	ResultKept Result = "kept"
	// ResultContended: the promise was not kept, possibly for a reason that the scheduler could not
	// know.
	ResultContended Result = "contended"
	// ResultRefused: the kubelet refused a pod although admission was promised.
	ResultRefused Result = "refused"
	// ResultMispredicted: the node assigned resources that differ from the promise.
	ResultMispredicted Result = "mispredicted"
	// ResultForetold: the kubelet refused the pod, as expected.
	ResultForetold Result = "foretold"
	// ResultFalseAlarm: the kubelet admitted a pod although a refusal was expected.
	ResultFalseAlarm Result = "falseAlarm"
	// ResultEither: the kubelet made one of the expected decisions, or refused the pod, which was
	// also expected (Promise.Either).
	ResultEither Result = "either"
)

// Results are the results that a promise in a Binding of Berth can have.
var Results = []Result{ResultKept, ResultContended, ResultRefused, ResultMispredicted}

// Result returns how the promise ended.
func (o *PromiseOutcome) Result() Result {
	switch {
	case o.Either && (o.Refused || o.Kept):
		return ResultEither
	case o.Foretold && o.Refused:
		return ResultForetold
	case !o.Foretold && !o.Refused && (o.Kept || !o.Exact && !o.Either):
		return ResultKept
	case o.Contended:
		return ResultContended
	case o.Refused:
		return ResultRefused
	case o.Foretold:
		return ResultFalseAlarm
	default:
		return ResultMispredicted
	}
}

// Same reports whether two decisions assign equal CPUs, memory and devices.
func Same(a, b *placement.Decision) bool {
	return a.Whole.Same(b.Whole) && slices.EqualFunc(a.Containers, b.Containers, func(x, y placement.ContainerDecision) bool {
		return x.CPUs == y.CPUs && slices.Equal(x.Memory, y.Memory) &&
			slices.EqualFunc(x.Devices, y.Devices, sameDevices)
	})
}

func sameDevices(x, y placement.DeviceAllocation) bool {
	return x.Resource == y.Resource && slices.Equal(x.IDs, y.IDs)
}
