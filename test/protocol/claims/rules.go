package claims

import "github.com/berth-dev/berth/test/protocol/explore"

// Rule is one behaviour of Berth about claims. Each rule can be switched off separately.
type Rule = explore.Rules[ruleNames]

// The rules.
const (
	// ReserveJudges: the devices are compared with the CPUs when Reserve shows them. Off: only
	// Filter checks, whether some device would suffice.
	ReserveJudges Rule = 1 << iota
	// Steer: the allocator is shown only devices on the NUMA node of the CPUs. Off: all devices.
	Steer
	// ExcludeRefused: a node that Reserve refused is not tried again for the pod.
	ExcludeRefused
	// DevicesWake: a refused node is tried again when its devices change. Off: such a change is
	// ignored.
	DevicesWake
	// CPUsWake: a refused node is tried again when its CPUs change. Off: such a change is ignored.
	CPUsWake
	// JudgeAllocated: Filter compares a claim that is already allocated, and a mismatching claim is
	// deallocated. Off: only the pod's Reserve checks it.
	JudgeAllocated
	// Deallocate: a failed attempt removes the allocation that it has written. Off: only the
	// reservation for the pod, as upstream.
	Deallocate
	// OneWrite: allocation and reservation are removed in one write. Off: the reservation first.
	OneWrite
	// OnlyUnused: a claim that another pod uses is not deallocated.
	OnlyUnused
	// TurnAfterWait: the pod blocks other Bindings to the node from the moment when the device is
	// ready. Off: from the write of the allocation.
	TurnAfterWait
	// JudgeAgain: Bind compares the devices with the CPUs once more.
	JudgeAgain
	// CPUsFollow: where Berth decides, a pod gets the CPU near a device. Off: the lowest one.
	CPUsFollow

	endOfRules
)

// AllRules are the rules that Berth must keep.
const AllRules Rule = endOfRules - 1

type ruleNames struct{}

func (ruleNames) Names() []string {
	return []string{
		"reserve-judges", "steer", "exclude-refused", "devices-wake", "cpus-wake", "judge-allocated", "deallocate", "one-write",
		"only-unused", "turn-after-wait", "claims-judge-again", "cpus-follow",
	}
}
