package topology

import (
	"fmt"
	"iter"
	"math/bits"
	"strconv"
	"strings"
)

// MaxNUMANodes is the number of NUMA nodes that a NUMASet can hold: ids 0 to 63, the limit of the
// kubelet's bit mask (pkg/kubelet/cm/topologymanager/bitmask).
const MaxNUMANodes = 64

// NUMASet is a set of NUMA nodes. Bit i is set if the node with the operating system's number i is
// in the set. Among hints that are otherwise equal, the kubelet prefers the numerically lowest set.
type NUMASet uint64

// NewNUMASet returns the set of the given nodes. It panics if an id is not below MaxNUMANodes.
func NewNUMASet(ids ...NUMAID) NUMASet {
	var s NUMASet
	for _, id := range ids {
		s = s.With(id)
	}
	return s
}

// With returns the set with id added. It panics if id is not below MaxNUMANodes.
func (s NUMASet) With(id NUMAID) NUMASet {
	if id >= MaxNUMANodes {
		panic("topology: NUMA id " + strconv.Itoa(int(id)) + " does not fit a NUMASet")
	}
	return s | 1<<id
}

// Has reports whether id is in the set.
func (s NUMASet) Has(id NUMAID) bool { return id < MaxNUMANodes && s>>id&1 == 1 }

// Len returns the number of nodes in the set.
func (s NUMASet) Len() int { return bits.OnesCount64(uint64(s)) }

// Lowest returns the lowest node of the set; the set must not be empty.
func (s NUMASet) Lowest() NUMAID { return NUMAID(bits.TrailingZeros64(uint64(s))) }

// All yields the nodes in ascending order.
func (s NUMASet) All() iter.Seq[NUMAID] {
	return func(yield func(NUMAID) bool) {
		for w := s; w != 0; w &= w - 1 {
			if !yield(w.Lowest()) {
				return
			}
		}
	}
}

// String prints the set as a list ("0-1,3"); the empty set prints as "". It allocates.
func (s NUMASet) String() string { return s.cpus().String() }

// cpus returns the set as a CPUSet, for its list format.
func (s NUMASet) cpus() CPUSet {
	var c CPUSet
	c.w[0] = uint64(s)
	return c
}

// ParseNUMAList reads a list in the format of NUMASet.String. The error names the wrong item.
func ParseNUMAList(list string) (NUMASet, error) {
	c, err := ParseCPUList(list)
	if err != nil {
		return 0, fmt.Errorf("NUMA list: %s", strings.TrimPrefix(err.Error(), "CPU list "))
	}
	for _, w := range c.w[1:] {
		if w != 0 {
			return 0, fmt.Errorf("NUMA list %.80q: ids must be below %d", list, MaxNUMANodes)
		}
	}
	return NUMASet(c.w[0]), nil
}
