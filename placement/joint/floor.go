package joint

import (
	"math/bits"
	"slices"

	"github.com/berth-dev/berth/placement/hint"
)

// floor adds up resources. parts are each node's part of the request, rounded up, in wholeParts for
// each resource.
type floor struct {
	nodes, least int
	parts        [hint.MaxNodes]uint64
	whole        uint64
}

const wholeParts = 1 << 16

// manyNodes is the number of NUMA nodes from which computing parts saves time. Fewer nodes have few
// sets.
const manyNodes = 9

// add enters a resource.
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

// atLeast returns how many of the largest numbers add up to need. It sorts them.
func atLeast(room []uint64, need uint64) int {
	slices.Sort(room)
	n := 0
	for i := len(room) - 1; i >= 0 && need > 0; i-- {
		need -= min(need, room[i])
		n++
	}
	return max(n, 1)
}
