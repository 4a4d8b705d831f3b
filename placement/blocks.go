package placement

import (
	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/placement/memory"
)

// need returns a block as a Need of the memory manager, and its NUMA nodes. It returns false if the
// memory manager does not know this kind of memory.
func (m *Model) need(b *MemoryBlock) (n memory.Need, on hint.Mask, ok bool) {
	if m.mem == nil {
		return n, 0, false
	}
	k, ok := m.mem.Kind(b.Resource)
	return memory.Need{Kind: k, Bytes: b.Bytes}, m.compact(b.NUMA), ok
}

func (m *Model) takeBlock(book *memory.Book, b *MemoryBlock) {
	if n, on, ok := m.need(b); ok {
		m.mem.Take(book, on, n)
	}
}

func (m *Model) releaseBlock(book *memory.Book, b *MemoryBlock) {
	if n, on, ok := m.need(b); ok {
		m.mem.Release(book, on, n)
	}
}

func (m *Model) releaseBlocks(book *memory.Book, blocks []MemoryBlock) {
	for i := range blocks {
		m.releaseBlock(book, &blocks[i])
	}
}

// reuseBlocks implements updatePodReusableMemory for the blocks of a container of this kind.
func (m *Model) reuseBlocks(r *memory.Reuse, kind ContainerKind, blocks []MemoryBlock) {
	for i := range blocks {
		n, on, ok := m.need(&blocks[i])
		switch {
		case !ok:
		case kind == Init:
			r.Offer(on, n)
		default:
			r.Spend(on, n)
		}
	}
}
