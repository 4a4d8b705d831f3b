// Package hint has the types that hint providers and the merger exchange: sets of NUMA nodes by
// position, and for every resource a list of the sets that can serve a request. The lists are the
// kubelet's map[string][]TopologyHint (pkg/kubelet/cm/topologymanager) as bitmaps. With bitmaps,
// merging needs no cross product and allocates no memory.
package hint

import (
	"cmp"
	"fmt"
	"iter"
	"math/bits"
	"slices"

	"github.com/berth-dev/berth/topology"
)

// MaxNodes is the maximum number of NUMA nodes over which hints are computed. The kubelet itself
// accepts at most 8 NUMA nodes, unless its option max-allowable-numa-nodes is higher. The kubelet
// tries all 2^n sets of n NUMA nodes for each resource and container. With 16 NUMA nodes and two
// resources, its merge would try 2^32 combinations, which takes more than ten minutes.
//
// On a machine with more NUMA nodes, one position of the space stands for all NUMA nodes that no
// hint names (NewSpaceBeside).
const MaxNodes = 16

// Mask is a set of NUMA nodes by position. Bit i stands for the NUMA node at position i of a Space.
// Positions ascend with the ids of the NUMA nodes, so the numeric order of masks is the order that
// the kubelet uses as its last tie-break.
type Mask uint16

// Len returns the number of NUMA nodes in the mask.
func (m Mask) Len() int { return bits.OnesCount16(uint16(m)) }

// Has reports whether position i is in the mask.
func (m Mask) Has(i int) bool { return m>>i&1 == 1 }

// Lowest returns the lowest position. The mask must not be empty.
func (m Mask) Lowest() int { return bits.TrailingZeros16(uint16(m)) }

// All yields the positions in ascending order.
func (m Mask) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for w := m; w != 0; w &= w - 1 {
			if !yield(w.Lowest()) {
				return
			}
		}
	}
}

// Space numbers the NUMA nodes of one machine in ascending order of id, and lists all their
// subsets. It is immutable.
type Space struct {
	n     int
	ids   []topology.NUMAID // by position; the last position has no id if others is not empty
	dense bool              // the ids are 0..n-1: positions and ids are the same
	// others are the NUMA nodes that the last position stands for, or empty. No hint contains this
	// position, so no hint contains all NUMA nodes.
	others topology.NUMASet
	order  []Mask
	start  []int // order[start[k]:start[k+1]] are the masks with k NUMA nodes
}

// NewSpace returns the space over the given NUMA nodes. It fails if there are none, or more than
// MaxNodes.
func NewSpace(nodes topology.NUMASet) (*Space, error) {
	n := nodes.Len()
	if n == 0 || n > MaxNodes {
		return nil, fmt.Errorf("%d NUMA nodes: want 1 to %d", n, MaxNodes)
	}
	return newSpace(nodes, n, 0), nil
}

// NewSpaceBeside returns the space over the NUMA nodes that hints can name. One further position
// stands for all NUMA nodes in others.
func NewSpaceBeside(nodes, others topology.NUMASet) (*Space, error) {
	n := nodes.Len() + 1
	if n == 1 || n > MaxNodes || others == 0 || nodes&others != 0 {
		return nil, fmt.Errorf("%d NUMA nodes and %d others: want 1 to %d NUMA nodes, and at least one other node that is not among them", n-1, others.Len(), MaxNodes-1)
	}
	return newSpace(nodes, n, others), nil
}

func newSpace(nodes topology.NUMASet, n int, others topology.NUMASet) *Space {
	s := &Space{n: n, dense: others == 0 && nodes == 1<<n-1, others: others}
	for id := range nodes.All() {
		s.ids = append(s.ids, id)
	}
	s.order = make([]Mask, 1<<n)
	for i := range s.order {
		s.order[i] = Mask(i)
	}
	slices.SortFunc(s.order, func(a, b Mask) int {
		return cmp.Or(cmp.Compare(a.Len(), b.Len()), cmp.Compare(a, b))
	})
	for i, m := range s.order {
		if m.Len() == len(s.start) {
			s.start = append(s.start, i)
		}
	}
	s.start = append(s.start, len(s.order))
	return s
}

// Len returns the number of positions.
func (s *Space) Len() int { return s.n }

// All returns the mask of all positions.
func (s *Space) All() Mask { return Mask(1<<s.n - 1) }

// ID returns the operating system's id of the NUMA node at position i. For the position that stands
// for other NUMA nodes, ID returns their lowest id.
func (s *Space) ID(i int) topology.NUMAID {
	if i == len(s.ids) {
		return s.others.Lowest()
	}
	return s.ids[i]
}

// Others returns the NUMA nodes that have no position of their own, because no hint names them.
func (s *Space) Others() topology.NUMASet { return s.others }

// Position returns the position of a NUMA node, and reports whether it has a position of its own.
func (s *Space) Position(id topology.NUMAID) (int, bool) { return slices.BinarySearch(s.ids, id) }

// OfSize returns the masks with k NUMA nodes in ascending order, or nil if k is out of range. The
// caller must not change the slice.
func (s *Space) OfSize(k int) []Mask {
	if k < 0 || k > s.n {
		return nil
	}
	return s.order[s.start[k]:s.start[k+1]]
}

// BySize returns all masks except the empty one, by size and then in ascending order. The caller
// must not change the slice.
func (s *Space) BySize() []Mask { return s.order[1:] }

// Expand translates positions to the operating system's ids of NUMA nodes.
func (s *Space) Expand(m Mask) topology.NUMASet {
	if s.dense {
		return topology.NUMASet(m)
	}
	var set topology.NUMASet
	for w := m; w != 0; w &= w - 1 {
		if i := w.Lowest(); i < len(s.ids) {
			set |= 1 << s.ids[i]
		} else {
			set |= s.others
		}
	}
	return set
}

// Compact translates the operating system's ids of NUMA nodes to positions. It omits NUMA nodes
// without a position of their own.
func (s *Space) Compact(set topology.NUMASet) Mask {
	if s.dense {
		return Mask(set) & s.All()
	}
	var m Mask
	for i, id := range s.ids {
		if set.Has(id) {
			m |= 1 << i
		}
	}
	return m
}

// Words returns the number of words that a Set over this space needs.
func (s *Space) Words() int { return (1<<s.n + 63) / 64 }
