package joint

import (
	"math/bits"
	"slices"

	"github.com/berth-dev/berth/placement/hint"
)

// floor computes a lower bound for the number of NUMA nodes that a request needs. parts has, for
// each NUMA node, a sum over all resources: the share of the request that the NUMA node could
// provide, in units of 1/wholeParts, rounded up. whole is the total that a set of NUMA nodes must
// reach: wholeParts for each resource.
type floor struct {
	nodes, least int
	parts        [hint.MaxNodes]uint64
	whole        uint64
}

const wholeParts = 1 << 16

// manyNodes is the smallest number of NUMA nodes for which computing parts saves time. On smaller
// machines there are few sets to try.
const manyNodes = 9

func (f *floor) add(need uint64, room func(v int) uint64) {
	if need == 0 {
		return
	}
	var rooms [hint.MaxNodes]uint64
	f.whole += wholeParts
	for v := range f.nodes {
		if rooms[v] = min(room(v), need); f.nodes < manyNodes {
			continue
		}
		hi, lo := bits.Mul64(rooms[v], wholeParts)
		part, rest := bits.Div64(hi, lo, need)
		if f.parts[v] += part; rest > 0 {
			f.parts[v]++
		}
	}
	f.least = max(f.least, atLeast(rooms[:f.nodes], need))
}

// atLeast returns the smallest number of elements of room whose sum is at least need. It sorts
// room.
func atLeast(room []uint64, need uint64) int {
	slices.Sort(room)
	n := 0
	for i := len(room) - 1; i >= 0 && need > 0; i-- {
		need -= min(need, room[i])
		n++
	}
	return max(n, 1)
}
