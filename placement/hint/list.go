package hint

import "math/bits"

// Set is a set of masks. Bit m is set if it contains Mask m. It has Space.Words words.
type Set []uint64

// NewSet returns an empty set of masks.
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

// Hint is a topology hint by position. The kubelet's nil affinity is Any.
type Hint struct {
	Mask      Mask
	Any       bool
	Preferred bool
}

// ListKind tells what a List means.
type ListKind uint8

const (
	// Masks: only the sets in the list could provide the resource. The zero value.
	Masks ListKind = iota
	// NoPreference is the kubelet's nil list: any nodes are accepted.
	NoPreference
	// Impossible is the kubelet's empty list: no nodes can provide the resource.
	Impossible
)

// Want is the part of a list that its reader needs.
type Want uint8

const (
	// Preferred: only List.Preferred is read.
	Preferred Want = iota
	// Offered: List.Offered is also read.
	Offered
)

// List has the hints of one resource.
//
// If a provider is asked for Preferred, it may leave Offered empty and Kind at Masks, even if it
// offers no masks. Preferred is then empty.
type List struct {
	Kind ListKind
	// Preferred has the preferred masks, a subset of Offered.
	Preferred Set
	// Offered has all masks that can provide the resource. It is filled only if the caller wants
	// it.
	Offered Set
	// Times is the number of resources with this list: regular memory and huge pages share one. 0
	// means 1.
	Times int
}

// NewList returns an empty list with room for the space's masks.
func (s *Space) NewList() List { return List{Preferred: s.NewSet(), Offered: s.NewSet()} }

// Reset empties the list and gives it a kind.
func (l *List) Reset(k ListKind) {
	l.Kind, l.Times = k, 1
	clear(l.Preferred)
	clear(l.Offered)
}
