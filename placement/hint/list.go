package hint

import "math/bits"

// Set is a set of masks with Space.Words words. Bit m is set if the set contains Mask m.
type Set []uint64

// NewSet returns an empty set for masks of the space.
func (s *Space) NewSet() Set { return make(Set, s.Words()) }

// Add puts m into the set.
func (s Set) Add(m Mask) { s[m/64] |= 1 << (m % 64) }

// Has reports whether m is in the set.
func (s Set) Has(m Mask) bool { return s[m/64]>>(m%64)&1 == 1 }

// Len returns the number of masks.
func (s Set) Len() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// IsEmpty reports whether the set has no mask.
func (s Set) IsEmpty() bool {
	for _, w := range s {
		if w != 0 {
			return false
		}
	}
	return true
}

// Hint is the kubelet's TopologyHint. The bits of Mask are positions in a Space instead of ids of
// NUMA nodes. Any stands for a hint with a nil affinity; Mask then has no meaning.
type Hint struct {
	Mask      Mask
	Any       bool
	Preferred bool
}

// ListKind is the meaning of a List.
type ListKind uint8

const (
	// Masks, the zero value: only the masks in the list can provide the resource.
	Masks ListKind = iota
	// NoPreference is the kubelet's nil list: the resource accepts every set of NUMA nodes.
	NoPreference
	// Impossible is the kubelet's empty list: no set of NUMA nodes can provide the resource.
	Impossible
)

// Want is the part of a List that the caller of a hint provider reads.
type Want uint8

const (
	// Preferred: the caller reads only List.Preferred.
	Preferred Want = iota
	// Offered: the caller also reads List.Offered.
	Offered
)

// List has the hints of one resource.
//
// If the caller wants only Preferred, the hint provider may leave Offered empty or incomplete. If
// no mask can provide the resource, Kind may then be Masks with an empty Preferred, and not
// Impossible.
type List struct {
	Kind ListKind
	// Preferred has the preferred masks, a subset of Offered.
	Preferred Set
	// Offered has all masks that can provide the resource. It is complete only if the caller wants
	// Offered.
	Offered Set
	// Times is the number of resources that have this list. Times may be more than 1, because
	// ordinary memory and huge pages share a list. 0 means 1.
	Times int
}

// NewList returns an empty list with room for the space's masks.
func (s *Space) NewList() List { return List{Preferred: s.NewSet(), Offered: s.NewSet()} }

// Reset empties the list and sets its kind.
func (l *List) Reset(k ListKind) {
	l.Kind, l.Times = k, 1
	clear(l.Preferred)
	clear(l.Offered)
}
