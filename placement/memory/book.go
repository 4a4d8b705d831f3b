package memory

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/berth-dev/berth/placement/hint"
)

// Book has the assigned memory: the kubelet's NUMANodeMap. Create it with Model.NewBook.
type Book struct {
	nodes []node
	// free and reserved are by kind, then by NUMA node. The sum of both is Model.allocatable,
	// unless the kubelet has lost bytes.
	free, reserved []uint64
}

// node is the part of state.NUMANodeState that is not by kind of memory.
type node struct {
	assignments int32
	// cells is the group of NUMA nodes that provide memory together. If the NUMA node is in no
	// group, cells is only this NUMA node.
	cells hint.Mask
}

// NewBook returns a book in which everything is free.
func (m *Model) NewBook() *Book {
	b := &Book{nodes: make([]node, m.space.Len())}
	b.size(len(m.allocatable))
	copy(b.free, m.allocatable)
	for i := range b.nodes {
		b.nodes[i].cells = 1 << i
	}
	return b
}

// CopyFrom copies o to b. CopyFrom allocates no memory if b is a book of the same Model.
func (b *Book) CopyFrom(o *Book) {
	b.nodes = append(b.nodes[:0], o.nodes...)
	if len(b.free) != len(o.free) {
		b.size(len(o.free))
	}
	copy(b.free, o.free)
	copy(b.reserved, o.reserved)
}

// size allocates n free and n reserved amounts in one block of memory.
func (b *Book) size(n int) {
	both := make([]uint64, 2*n)
	b.free, b.reserved = both[:n:n], both[n:]
}

// Equal reports whether both books have the same groups, assignments and amounts.
func (b *Book) Equal(o *Book) bool {
	return slices.Equal(b.nodes, o.nodes) && slices.Equal(b.free, o.free) && slices.Equal(b.reserved, o.reserved)
}

// Append appends an encoding of the book to a slice. Two books of one Model have the same encoding
// only if they are equal.
func (b *Book) Append(to []byte) []byte {
	for _, n := range b.nodes {
		to = binary.AppendVarint(to, int64(n.assignments))
		to = binary.AppendUvarint(to, uint64(n.cells))
	}
	for _, amounts := range [...][]uint64{b.free, b.reserved} {
		for _, v := range amounts {
			to = binary.LittleEndian.AppendUint64(to, v)
		}
	}
	return to
}

// Group returns the number of memory assignments on the NUMA node at a position, and its group.
func (b *Book) Group(pos int) (assignments int, cells hint.Mask) {
	return int(b.nodes[pos].assignments), b.nodes[pos].cells
}

// SetGroup sets the number of memory assignments on the NUMA node at a position, and its group.
func (b *Book) SetGroup(pos, assignments int, cells hint.Mask) {
	b.nodes[pos] = node{assignments: int32(assignments), cells: cells}
}

// Free returns the free bytes of a kind on the NUMA node at a position.
func (m *Model) Free(b *Book, k Kind, pos int) uint64 { return b.free[m.at(k, pos)] }

// Reserved returns the bytes of a kind that containers hold on the NUMA node at a position.
func (m *Model) Reserved(b *Book, k Kind, pos int) uint64 { return b.reserved[m.at(k, pos)] }

// Amounts has the amounts of one kind on one NUMA node, in bytes.
type Amounts struct{ Reserved, Free uint64 }

// SetAmounts sets the amounts of a kind on the NUMA node at a position.
func (m *Model) SetAmounts(b *Book, k Kind, pos int, a Amounts) {
	b.reserved[m.at(k, pos)], b.free[m.at(k, pos)] = a.Reserved, a.Free
}

// Need is an amount of one kind of memory.
type Need struct {
	Kind  Kind
	Bytes uint64
}

// Reuse has the memory that finished init containers of a pod leave to its later containers, by
// kind and by the exact set of NUMA nodes (initContainersReusableMemory). The zero value is empty.
type Reuse struct{ entries []reuse }

type reuse struct {
	mask  hint.Mask
	kind  Kind
	bytes uint64
}

// Reset empties r and keeps its memory.
func (r *Reuse) Reset() { r.entries = r.entries[:0] }

// Bytes returns the number of bytes of a kind that may be reused on exactly the NUMA nodes of the
// mask.
func (r *Reuse) Bytes(mask hint.Mask, k Kind) uint64 {
	if e := r.find(mask, k); e != nil {
		return e.bytes
	}
	return 0
}

func (r *Reuse) find(mask hint.Mask, k Kind) *reuse {
	for i := range r.entries {
		if e := &r.entries[i]; e.mask == mask && e.kind == k {
			return e
		}
	}
	return nil
}

// Offer reproduces updatePodReusableMemory for a block of a regular init container.
func (r *Reuse) Offer(mask hint.Mask, n Need) {
	if e := r.find(mask, n.Kind); e != nil {
		e.bytes = max(e.bytes, n.Bytes)
		return
	}
	r.entries = append(r.entries, reuse{mask, n.Kind, n.Bytes})
}

// Spend reproduces updatePodReusableMemory for a block of an app container or a sidecar.
func (r *Reuse) Spend(mask hint.Mask, n Need) {
	if e := r.find(mask, n.Kind); e != nil {
		e.bytes -= min(e.bytes, n.Bytes)
	}
}

// Assign takes memory for a container from the NUMA nodes of the mask, the lowest first
// (updateMachineState). Assign does not take memory that the container reuses. Assign counts one
// assignment on every NUMA node of the mask, even if it takes 0 bytes there.
func (m *Model) Assign(b *Book, mask hint.Mask, n Need, r *Reuse) {
	m.Take(b, mask, Need{n.Kind, n.Bytes - min(n.Bytes, r.Bytes(mask, n.Kind))})
}

// Take is Assign without reuse.
func (m *Model) Take(b *Book, mask hint.Mask, n Need) {
	left := n.Bytes
	for w := mask; w != 0; w &= w - 1 {
		pos := w.Lowest()
		b.nodes[pos].assignments++
		b.nodes[pos].cells = mask
		at := m.at(n.Kind, pos)
		taken := min(left, b.free[at])
		b.free[at] -= taken
		b.reserved[at] += taken
		left -= taken
	}
}

// Release frees memory on the NUMA nodes of the mask, the lowest first (releaseMemory).
func (m *Model) Release(b *Book, mask hint.Mask, n Need) {
	left := n.Bytes
	for w := mask; w != 0; w &= w - 1 {
		pos := w.Lowest()
		if b.nodes[pos].assignments--; b.nodes[pos].assignments == 0 {
			b.nodes[pos].cells = 1 << pos
		}
		at := m.at(n.Kind, pos)
		given := min(left, b.reserved[at])
		b.reserved[at] -= given
		b.free[at] += given
		left -= given
	}
}

// Uniform reports whether the NUMA nodes of a mask have the same kinds of memory. If they do not, a
// kubelet that restarts while the mask is a group crashes: areMachineStatesEqual looks up each kind
// of a NUMA node on all NUMA nodes of its group.
func (m *Model) Uniform(mask hint.Mask) bool {
	for k := range m.has {
		if some := m.has[k] & mask; some != 0 && some != mask {
			return false
		}
	}
	return true
}

// Check returns an error if free and reserved amounts do not add up to the allocatable memory, if a
// number of assignments is negative, or if a NUMA node is not in its own group.
func (m *Model) Check(b *Book) error {
	for k := range m.names {
		for pos := range b.nodes {
			at := m.at(Kind(k), pos)
			if b.free[at]+b.reserved[at] != m.allocatable[at] {
				return fmt.Errorf("NUMA node %d: %s: %d bytes free and %d reserved: want %d in total",
					m.space.ID(pos), m.names[k], b.free[at], b.reserved[at], m.allocatable[at])
			}
		}
	}
	for pos, n := range b.nodes {
		if n.assignments < 0 {
			return fmt.Errorf("NUMA node %d: %d assignments: want 0 or more", m.space.ID(pos), n.assignments)
		}
		if !n.cells.Has(pos) {
			return fmt.Errorf("NUMA node %d: group {%s}: want a group that contains the node", m.space.ID(pos), m.space.Expand(n.cells))
		}
	}
	return nil
}
