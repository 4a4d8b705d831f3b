package ledger

import (
	"slices"

	"github.com/berth-dev/berth/placement"
)

// Promise is the decision in a Binding.
type Promise struct {
	Decision placement.Decision
	// Exact means that CPUs, memory and devices were promised, not only the admission.
	Exact bool
	// Refused says that the kubelet is expected to refuse the pod, which somebody else bound
	// (Witness). No Binding carries that.
	Refused bool
	// Either is not empty if a witness expects that the kubelet refuses the pod or gives it one of
	// these, by what has happened until then: a pod that is leaving may be there or gone.
	Either []placement.Decision
}

// PromiseOutcome is the result of comparing a promise with the report that lists the pod.
type PromiseOutcome struct {
	UID string
	// Exact means that CPUs, memory and devices were promised.
	Exact bool
	// Refused means that the kubelet refused the pod.
	Refused bool
	// Foretold says that the kubelet was expected to refuse it.
	Foretold bool
	// Either says that it was expected to refuse the pod, or to give it one of several things.
	Either bool
	// Kept says that the node handed out what was promised.
	Kept bool
	// Contended means that the promise was broken without a wrong decision. A pod whose place in
	// the order was not known was on its way at the same time, or turned up after the decision. Or
	// a pod of the node was ending before the Binding, and the watch showed that after, or was
	// deleted by force.
	Contended bool
	// Promised and Found are the two sides.
	Promised placement.Decision
	Found    placement.PodAllocation
}

// Result says in a word how a promise turned out.
type Result string

const (
	// ResultKept: the node handed out what was promised.
	ResultKept Result = "kept"
	// ResultContended: it was not kept, and that is nobody's mistake.
	ResultContended Result = "contended"
	// ResultRefused: the kubelet refused a pod that it was to admit.
	ResultRefused Result = "refused"
	// ResultMispredicted: the node handed out something else.
	ResultMispredicted Result = "mispredicted"
	// ResultForetold: the kubelet refused the pod, as was expected of it.
	ResultForetold Result = "foretold"
	// ResultFalseAlarm: the kubelet admitted a pod that it was expected to refuse.
	ResultFalseAlarm Result = "falseAlarm"
	// ResultEither: the kubelet did one of the things that were expected of it.
	ResultEither Result = "either"
)

// Results are the results that a promise in a Binding can have.
var Results = []Result{ResultKept, ResultContended, ResultRefused, ResultMispredicted}

// Result compares what was promised with what the node did. It is the only place that does.
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

// Same reports whether two decisions hand out the same CPUs, memory and devices.
func Same(a, b *placement.Decision) bool {
	return a.Whole.Same(b.Whole) && slices.EqualFunc(a.Containers, b.Containers, func(x, y placement.ContainerDecision) bool {
		return x.CPUs == y.CPUs && slices.Equal(x.Memory, y.Memory) &&
			slices.EqualFunc(x.Devices, y.Devices, sameDevices)
	})
}

func sameDevices(x, y placement.DeviceAllocation) bool {
	return x.Resource == y.Resource && slices.Equal(x.IDs, y.IDs)
}
