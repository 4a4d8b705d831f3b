package claims

import (
	"iter"
	"maps"
	"slices"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// MaxWays bounds the ways of lying on a node that are tried for a pod.
const MaxWays = 8

// Lying is where the containers of a pod lie on a node, by name: the NUMA nodes of their CPUs, or
// of their memory without exclusive CPUs. It omits containers that the node does not pin.
type Lying map[string]topology.NUMASet

// Way is one way for a pod to lie on a node.
type Way struct {
	Lying Lying
	// Near are the devices that Berth followed. It is nil if the pod lies so without claims.
	Near *placement.Claimed
}

// Ways yields the ways for a pod to lie on a node where Berth decides, the best first. It follows
// the devices that stock counts, while lie finds room near them, and comes to the way without
// claims last. Devices that are only preferred get the pod no more NUMA nodes. A way that is
// refuted (placement.Claimed) does not come again.
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

// wider reports whether some container has more NUMA nodes than in the other way to lie.
func wider(lying, other Lying) bool {
	for name, set := range lying {
		if set.Len() > other[name].Len() {
			return true
		}
	}
	return false
}
