package ledger

import (
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Spare is what surrounds a pod that a node would admit, in the node's likeliest state.
type Spare struct {
	// Reach is the NUMA nodes over which the pod would be spread (placement.Model.Reach).
	Reach topology.NUMASet
	// CPUs are those that the node could give away exclusively, before the pod.
	CPUs topology.CPUSet
	// Devices is how many free devices of these NUMA nodes the pod would leave over.
	Devices int
	// Strictness is the node's for the pod.
	Strictness placement.Strictness
}

// Spare says what would surround a pod that was admitted with the verdict. It returns false where
// the state is not known: the Spare is zero then.
func (v View) Spare(r *placement.Request, verdict *placement.Verdict) (Spare, bool) {
	v.n.mu.Lock()
	defer v.n.mu.Unlock()
	state := v.n.likeliest()
	if state == nil {
		return Spare{}, false
	}
	m := v.n.full.model
	s := Spare{Reach: m.Reach(r, verdict), Strictness: m.Strictness(r)}
	shared, reserved := state.SharedCPUs(), m.ReservedCPUs()
	s.CPUs = shared.AndNot(&reserved)
	s.Devices = state.SpareDevices(r, s.Reach)
	return s, true
}
