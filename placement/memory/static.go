package memory

import (
	"errors"

	"github.com/berth-dev/berth/placement/hint"
)

// Except for the last two, these are errors of the kubelet when it assigns memory to a container.
// The pod then fails with UnexpectedAdmissionError. ErrCrash and ErrNoRegular are Berth's own: the
// kubelet would crash.
var (
	// ErrNoDefault is the kubelet's "failed to get the default NUMA affinity, no NUMA nodes with
	// enough memory is available".
	ErrNoDefault = errors.New("no NUMA nodes with enough memory")
	// ErrDefaultNotPreferred is the kubelet's "failed to find the default preferred hint".
	ErrDefaultNotPreferred = errors.New("the merged hint is preferred, but no preferred set of NUMA nodes has enough memory")
	// ErrNoExtension is the kubelet's "failed to find NUMA nodes to extend the current topology
	// hint".
	ErrNoExtension = errors.New("the NUMA nodes of the hint have too little memory and no larger set has enough")
	// ErrExtensionNotPreferred is the kubelet's "failed to find the extended preferred hint".
	ErrExtensionNotPreferred = errors.New("the NUMA nodes of the hint have too little memory and larger sets are not preferred")
	// ErrGroup is the kubelet's "preferred hint violates NUMA node allocation".
	ErrGroup = errors.New("one of the NUMA nodes already provides memory in another group of NUMA nodes")
	// ErrCrash means that the kubelet would crash: it looks up a kind of memory that a NUMA node's
	// table does not have.
	ErrCrash = errors.New("the kubelet would crash: its memory table has no row for this kind of memory on one of the NUMA nodes")
	// ErrNoRegular means that the kubelet would crash, because it looks up hints for ordinary
	// memory although none is requested.
	ErrNoRegular = errors.New("the kubelet would crash: the container requests no ordinary memory")
)

// Query is the input of Hints and Choose.
type Query struct {
	Book  *Book
	Needs []Need
	// Reuse has the memory that the pod's finished init containers leave to its later containers.
	Reuse *Reuse
}

// fits reports whether the kubelet makes a hint with the mask (calculateHints).
func (m *Model) fits(q *Query, mask hint.Mask) bool {
	return m.groupAllows(q.Book, mask) && m.couldFit(mask, q.Needs) && m.hasFree(q, mask, q.Reuse)
}

func (m *Model) couldFit(mask hint.Mask, needs []Need) bool {
	for _, n := range needs {
		if m.sum(m.allocatable, mask, n.Kind) < n.Bytes {
			return false
		}
	}
	return true
}

func (m *Model) hasFree(q *Query, mask hint.Mask, r *Reuse) bool {
	for _, n := range q.Needs {
		if m.sum(q.Book.free, mask, n.Kind)+r.Bytes(mask, n.Kind) < n.Bytes {
			return false
		}
	}
	return true
}

func (m *Model) sum(table []uint64, mask hint.Mask, k Kind) uint64 {
	row := m.row(table, k)
	var sum uint64
	for w := mask; w != 0; w &= w - 1 {
		sum += row[w.Lowest()]
	}
	return sum
}

// groupAllows returns false for a single NUMA node that is in a group with others, and for a set of
// NUMA nodes that would mix groups (Mixes).
func (m *Model) groupAllows(b *Book, mask hint.Mask) bool {
	if mask&(mask-1) == 0 {
		return b.nodes[mask.Lowest()].cells.Len() <= 1
	}
	return !Mixes(b, mask)
}

// violates reproduces isAffinityViolatingNUMAAllocations. It returns false for a single NUMA node.
func violates(b *Book, mask hint.Mask) bool {
	return mask&(mask-1) != 0 && Mixes(b, mask)
}

// MinSize returns the size of the smallest set of NUMA nodes that has enough memory for the needs
// on an empty machine. If no set has enough, MinSize returns the number of all NUMA nodes.
func (m *Model) MinSize(needs []Need) int {
	for k := m.lowerBound(needs); k < m.space.Len(); k++ {
		for _, mask := range m.space.OfSize(k) {
			if m.couldFit(mask, needs) {
				return k
			}
		}
	}
	return m.space.Len()
}

// lowerBound returns a lower bound for MinSize: the largest number of NUMA nodes that a single need
// requires. If the machine has too little memory, the result exceeds the number of NUMA nodes.
func (m *Model) lowerBound(needs []Need) int {
	low := 1
	for _, n := range needs {
		most := m.most[n.Kind]
		for most != nil && low < len(most) && most[low] < n.Bytes {
			low++
		}
	}
	return low
}

// Crashes reports whether the kubelet would look up a kind of memory on a NUMA node that has no row
// for it.
func (m *Model) Crashes(needs []Need) bool {
	return !m.covers(m.space.All(), needs)
}

// covers reports whether all NUMA nodes of a mask have a row for each kind.
func (m *Model) covers(mask hint.Mask, needs []Need) bool {
	for _, n := range needs {
		if mask&^m.has[n.Kind] != 0 {
			return false
		}
	}
	return true
}

// Hints fills out with the hints that the kubelet would return (calculateHints). All needs get the
// same hints. If no mask fits, calculateHints returns an empty map, which means no preference. The
// kubelet then detects the lack of memory only in Allocate.
func (m *Model) Hints(q *Query, want hint.Want, out *hint.List) {
	out.Reset(hint.Masks)
	out.Times = len(q.Needs)
	size := m.MinSize(q.Needs)
	found := m.mark(q, size, out.Preferred)
	if want == hint.Preferred && found {
		return
	}
	copy(out.Offered, out.Preferred)
	for k := size + 1; k <= m.space.Len(); k++ {
		found = m.mark(q, k, out.Offered) || found
		if found && want == hint.Preferred {
			break
		}
	}
	if !found {
		out.Kind = hint.NoPreference
	}
}

// mark adds the masks of a size that fit, and reports whether there are any.
func (m *Model) mark(q *Query, size int, set hint.Set) (found bool) {
	var alone hint.Mask
	if size > 1 {
		alone = q.Book.alone()
	}
	for _, mask := range m.space.OfSize(size) {
		if mask&alone == 0 && m.fits(q, mask) {
			set.Add(mask)
			found = true
		}
	}
	return found
}

// alone returns the NUMA nodes that provide memory and are in no group with others. A new group
// cannot contain such a NUMA node.
func (b *Book) alone() (nodes hint.Mask) {
	for i := range b.nodes {
		if n := &b.nodes[i]; n.assignments > 0 && n.cells&(n.cells-1) == 0 {
			nodes |= 1 << i
		}
	}
	return nodes
}

// best implements findBestHint for the hints whose masks contain the NUMA nodes in holding. A hint
// is preferred if its mask has MinSize NUMA nodes.
func (m *Model) best(q *Query, holding hint.Mask) (best hint.Hint, found bool) {
	size := m.MinSize(q.Needs)
	for k := size; k <= m.space.Len(); k++ {
		for _, mask := range m.space.OfSize(k) {
			if mask&holding != holding {
				continue
			}
			if m.fits(q, mask) {
				return hint.Hint{Mask: mask, Preferred: k == size}, true
			}
		}
	}
	return hint.Hint{}, false
}

// Choose implements the first half of Allocate: it returns the NUMA nodes from which the kubelet
// takes the memory for the merged hint h. If the kubelet needs new hints, it looks up only those
// for ordinary memory. So Choose then returns an error if the needs do not include ordinary memory.
func (m *Model) Choose(q *Query, h hint.Hint) (hint.Mask, error) {
	needs := q.Needs
	crash := m.Crashes(needs)
	if h.Any {
		d, found := m.best(q, 0)
		switch {
		case crash:
			return 0, ErrCrash
		case !found || len(needs) == 0:
			return 0, ErrNoDefault
		case !m.regular(needs) && h.Preferred:
			return 0, ErrDefaultNotPreferred
		case !m.regular(needs):
			return 0, ErrNoRegular
		case !d.Preferred && h.Preferred:
			return 0, ErrDefaultNotPreferred
		}
		h = d
	}
	if !m.covers(h.Mask, needs) {
		return 0, ErrCrash
	}
	if !m.hasFree(q, h.Mask, &Reuse{}) {
		e, found := m.best(q, h.Mask)
		switch {
		case crash:
			return 0, ErrCrash
		case !found || !m.regular(needs):
			return 0, ErrNoExtension
		case !e.Preferred && h.Preferred:
			return 0, ErrExtensionNotPreferred
		}
		h = e
	}
	if violates(q.Book, h.Mask) {
		return 0, ErrGroup
	}
	return h.Mask, nil
}

func (m *Model) regular(needs []Need) bool {
	for _, n := range needs {
		if m.names[n.Kind] == Regular {
			return true
		}
	}
	return false
}

// Mixes reports whether taking memory from the mask would put a NUMA node into two groups at the
// same time. The kubelet allows this for a mask of one NUMA node, and then counts wrongly.
func Mixes(b *Book, mask hint.Mask) bool {
	for w := mask; w != 0; w &= w - 1 {
		if n := b.nodes[w.Lowest()]; n.assignments > 0 && n.cells != mask {
			return true
		}
	}
	return false
}
