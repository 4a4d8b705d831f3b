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
	// Refused means that the kubelet is expected to refuse the pod, which another scheduler bound
	// (Witness). No Binding has it.
	Refused bool
	// Either has alternatives if the kubelet may or may not see a pod that is leaving. The ledger
	// then expects that the kubelet refuses the pod or makes one of these decisions.
	Either []placement.Decision
}

// PromiseOutcome is the result of comparing a promise with the report that lists the pod.
type PromiseOutcome struct {
	UID string
	// Exact means that CPUs, memory and devices were promised.
	Exact bool
	// Refused means that the kubelet refused the pod.
	Refused bool
	// Foretold means that the kubelet was expected to refuse the pod.
	Foretold bool
	// Either means that several decisions were expected, including a refusal.
	Either bool
	// Kept means that the node assigned the promised resources.
	Kept bool
	// Contended means that a broken promise has a cause that the scheduler could not know. Another
	// pod, whose position in the order was not known, was in flight at the same time or became
	// known after the decision. Or a pod of the node was deleted by force, or was ending before the
	// Binding while the watch showed this later.
	Contended bool
	// Promised is the decision in the Binding, Found the allocation in the report.
	Promised placement.Decision
	Found    placement.PodAllocation
}

// Result describes in a word how a promise ended.
type Result string

const (
	// ResultKept: the node assigned the promised resources.
	ResultKept Result = "kept"
	// ResultContended: the promise was not kept, for a reason that the scheduler could not know.
	ResultContended Result = "contended"
	// ResultRefused: the kubelet refused a pod although admission was promised.
	ResultRefused Result = "refused"
	// ResultMispredicted: the node assigned other resources.
	ResultMispredicted Result = "mispredicted"
	// ResultForetold: the kubelet refused the pod, as expected.
	ResultForetold Result = "foretold"
	// ResultFalseAlarm: the kubelet admitted a pod although a refusal was expected.
	ResultFalseAlarm Result = "falseAlarm"
	// ResultEither: the kubelet made one of the expected decisions.
	ResultEither Result = "either"
)

// Results are the results that a promise in a Binding can have.
var Results = []Result{ResultKept, ResultContended, ResultRefused, ResultMispredicted}

// Result compares the promise with the node's actual decision. It is the only function that does
// so.
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

// Same reports whether two decisions assign the same CPUs, memory and devices.
func Same(a, b *placement.Decision) bool {
	return a.Whole.Same(b.Whole) && slices.EqualFunc(a.Containers, b.Containers, func(x, y placement.ContainerDecision) bool {
		return x.CPUs == y.CPUs && slices.Equal(x.Memory, y.Memory) &&
			slices.EqualFunc(x.Devices, y.Devices, sameDevices)
	})
}

func sameDevices(x, y placement.DeviceAllocation) bool {
	return x.Resource == y.Resource && slices.Equal(x.IDs, y.IDs)
}
