package placement

import "github.com/berth-dev/berth/placement/memory"

// memoryModel is the static memory manager, with the NUMA nodes of the machine.
type memoryModel struct {
	*memory.Model
	*layout
}

// kindOf returns the index of a resource in the memory manager's tables, or false if they do not
// have the resource.
func (m *memoryModel) kindOf(resource string) (memory.Kind, bool) {
	if m == nil {
		return 0, false
	}
	return m.Kind(resource)
}

func (m *memoryModel) release(b *memory.Book, blocks []MemoryBlock) {
	for i := range blocks {
		if k, ok := m.Kind(blocks[i].Resource); ok {
			m.Release(b, m.compact(blocks[i].NUMA), memory.Need{Kind: k, Bytes: blocks[i].Bytes})
		}
	}
}

func (m *memoryModel) reuse(r *memory.Reuse, kind ContainerKind, blocks []MemoryBlock) {
	for i := range blocks {
		k, ok := m.Kind(blocks[i].Resource)
		if !ok {
			continue
		}
		n, mask := memory.Need{Kind: k, Bytes: blocks[i].Bytes}, m.compact(blocks[i].NUMA)
		if kind == Init {
			r.Offer(mask, n)
		} else {
			r.Spend(mask, n)
		}
	}
}
