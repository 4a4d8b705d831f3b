package reservation

import (
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// Phases lists the phases that this scheduler writes into Reservations.
var Phases = []koordinator.ReservationPhase{
	koordinator.ReservationPending, koordinator.ReservationAvailable, koordinator.ReservationSucceeded, koordinator.ReservationFailed,
}

// Census counts the Reservations by phase, and their unused resources by the authority of the node.
type Census struct {
	Phases map[koordinator.ReservationPhase]int
	Held   map[placement.Authority]Unused
}

// Unused counts the resources that Reservations hold and no owner uses, on the nodes of one
// authority.
type Unused struct {
	// Places counts the Reservations with a place on these nodes. It includes places that owners
	// use completely.
	Places int
	// MilliCPU is in thousandths of a CPU.
	MilliCPU int64
	// Bytes is the amount of memory.
	Bytes int64
	// Devices counts devices by resource.
	Devices map[corev1.ResourceName]int64
}

// Count returns the current census.
func (rs *Reservations) Count() Census {
	out := Census{Phases: map[koordinator.ReservationPhase]int{}, Held: map[placement.Authority]Unused{}}
	if !rs.any.Load() {
		return out
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, it := range rs.all {
		out.Phases[it.says.Phase]++
		if it.stage != placed {
			continue
		}
		authority := placement.AuthorityKubelet
		if it.decision != nil {
			authority = placement.AuthorityBerth
		}
		held := out.Held[authority]
		held.add(it.cached)
		out.Held[authority] = held
	}
	return out
}

// add adds a place. The parameter rest is the pod in the scheduler's cache that stands for the
// unused part of the place, or nil if owners use the whole place.
func (h *Unused) add(rest *corev1.Pod) {
	h.Places++
	if rest == nil {
		return
	}
	if h.Devices == nil {
		h.Devices = map[corev1.ResourceName]int64{}
	}
	for name, q := range resourcehelper.PodRequests(rest, resourcehelper.PodResourcesOptions{}) {
		switch {
		case name == corev1.ResourceCPU:
			h.MilliCPU += q.MilliValue()
		case name == corev1.ResourceMemory:
			h.Bytes += q.Value()
		case wire.IsExtended(name):
			h.Devices[name] += q.Value()
		}
	}
}
