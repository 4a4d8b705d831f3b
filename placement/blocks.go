package placement

import (
	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/placement/memory"
)

// need returns the block as a Need of the memory manager, and its NUMA nodes. It returns false if
// the memory manager does not know this kind of memory.
func (b *MemoryBlock) need(m *Model) (n memory.Need, on hint.Mask, ok bool) {
	if m.mem == nil {
		return n, 0, false
	}
	k, ok := m.mem.Kind(b.Resource)
	return memory.Need{Kind: k, Bytes: b.Bytes}, m.compact(b.NUMA), ok
}

func (b *MemoryBlock) take(m *Model, book *memory.Book) {
	if n, on, ok := b.need(m); ok {
		m.mem.Take(book, on, n)
	}
}

func (b *MemoryBlock) release(m *Model, book *memory.Book) {
	if n, on, ok := b.need(m); ok {
		m.mem.Release(book, on, n)
	}
}

func releaseBlocks(m *Model, book *memory.Book, blocks []MemoryBlock) {
	for i := range blocks {
		blocks[i].release(m, book)
	}
}

// reuseBlocks implements updatePodReusableMemory for the blocks of a container of this kind.
func reuseBlocks(m *Model, r *memory.Reuse, kind ContainerKind, blocks []MemoryBlock) {
	for i := range blocks {
		n, on, ok := blocks[i].need(m)
		switch {
		case !ok:
		case kind == Init:
			r.Offer(on, n)
		default:
			r.Spend(on, n)
		}
	}
}
