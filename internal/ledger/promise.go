package ledger

import (
	"slices"

	"github.com/berth-dev/berth/placement"
)

// Promise is the decision in a Binding.
type Promise struct {
	Decision placement.Decision
	// Exact says that CPUs, memory and devices were promised, not only the admission.
	Exact bool
}

// PromiseOutcome is the result of comparing a promise with the report that lists the pod.
type PromiseOutcome struct {
	UID string
	// Exact says that CPUs, memory and devices were promised.
	Exact bool
	// Refused says that the kubelet refused the pod.
	Refused bool
	// Kept says that the node handed out what was promised.
	Kept bool
	// Contended says that a broken promise is nobody's mistake. A pod whose place in the order was
	// not known was on its way at the same time, or turned up after the decision. Or a pod of the
	// node was ending before the Binding, and the watch showed that after, or was deleted by force.
	Contended bool
	// Promised and Found are the two sides.
	Promised placement.Decision
	Found    placement.PodAllocation
}

// Same reports whether two decisions hand out the same CPUs, memory and devices.
func Same(a, b *placement.Decision) bool {
	return slices.EqualFunc(a.Containers, b.Containers, func(x, y placement.ContainerDecision) bool {
		return x.CPUs == y.CPUs && slices.Equal(x.Memory, y.Memory) &&
			slices.EqualFunc(x.Devices, y.Devices, sameDevices)
	})
}

func sameDevices(x, y placement.DeviceAllocation) bool {
	return x.Resource == y.Resource && slices.Equal(x.IDs, y.IDs)
}
