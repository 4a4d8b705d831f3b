package claims

import (
	"iter"
	"maps"
	"slices"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// MaxWays is the maximum number of placements on a node that are tried for a pod.
const MaxWays = 8

// Lying has the placement of a pod on a node: by container name, the NUMA nodes of the CPUs, or of
// the memory if the container has no exclusive CPUs. It omits containers that the node does not
// pin.
type Lying map[string]topology.NUMASet

// Way is one possible placement of a pod on a node, for which devices are then chosen.
type Way struct {
	Lying Lying
	// Near are the devices near which Berth placed the pod. It is nil if the placement ignores
	// claims.
	Near *placement.Claimed
}

// Ways yields possible placements of a pod on a node where Berth decides, the best first. It begins
// with placements near the devices that the function stock counts, as long as the function lie
// finds such placements. The last placement is the one in the argument first, which ignores claims,
// unless Ways has already yielded it. If the mode only prefers near devices, no container has more
// NUMA nodes in a placement near devices than in first. Before the caller continues the iteration,
// it must refute the last placement (placement.Claimed.Refute), so that lie can return another one.
func Ways(first Lying, mode Mode, stock func() *placement.Claimed, lie func(near *placement.Claimed) (Lying, bool)) iter.Seq[Way] {
	return func(yield func(Way) bool) {
		var tried []Lying
		again := func(lying Lying) bool {
			return slices.ContainsFunc(tried, func(o Lying) bool { return maps.Equal(o, lying) })
		}
		for near := stock(); near != nil; {
			lying, ok := lie(near)
			if !ok || again(lying) || mode != Required && wider(lying, first) {
				break
			}
			if tried = append(tried, lying); !yield(Way{Lying: lying, Near: near}) {
				return
			}
		}
		if !again(first) {
			yield(Way{Lying: first})
		}
	}
}

// wider reports whether some container has more NUMA nodes in lying than in other.
func wider(lying, other Lying) bool {
	for name, set := range lying {
		if set.Len() > other[name].Len() {
			return true
		}
	}
	return false
}
