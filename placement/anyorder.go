package placement

import (
	"github.com/berth-dev/berth/placement/memory"
	"github.com/berth-dev/berth/topology"
)

// TakesInAnyOrder reports whether the kubelet admits all requests, each from a single NUMA node, in
// any order. The result true is certain; false is not, because the method computes a bound and
// tries no order. None of the requests may belong to a pod of the state.
//
// A NUMA node is too full for a pod of n CPUs if other pods leave fewer than n of its free CPUs.
// The pod finds a place if the other pods together have too few CPUs to fill every NUMA node in
// this way. The widest pod needs most, so only this pod is checked. A NUMA node counts only if it
// has memory for all requests together.
func (s *State) TakesInAnyOrder(requests []*Request) bool {
	if !s.m.side.countable() {
		return false
	}
	all, widest, bytes := 0, 0, uint64(0)
	for _, r := range requests {
		n, memory, ok := s.m.simpleRequest(r)
		if !ok {
			return false
		}
		all, widest, bytes = all+n, max(widest, n), bytes+memory
	}
	free, toBlock := s.FreeCPUs(), 0
	for i := range s.m.nodeCPUs {
		n := &s.m.nodeCPUs[i]
		if s.m.mem.hasRegular(s.book, n.id, bytes) {
			toBlock += max(0, n.cpus.AndLen(&free)-widest+1)
		}
	}
	return toBlock > all-widest
}

// simpleRequest returns the CPUs and the bytes of memory of a pod. It returns false if the kubelet
// does not place the pod as one unit of whole CPUs and memory.
func (m *Model) simpleRequest(r *Request) (cpus int, bytes uint64, ok bool) {
	policy := m.rulesFor(r.Rules).Policy
	if len(r.Containers) != 1 || !r.sane() || !m.pins(r) || r.PodLevel || r.Rules.Keep != nil || m.set.cannot[policy] != nil {
		return 0, 0, false
	}
	c := &r.Containers[0]
	if cpus = m.exclusiveCPUs(r, 0); cpus == 0 || c.Kind != App || len(c.Devices) > 0 {
		return 0, 0, false
	}
	switch {
	case m.mem == nil:
		return cpus, 0, policy == PolicySingleNUMANode || policy == PolicyRestricted || policy == PolicyBestEffort
	case policy != PolicySingleNUMANode || len(c.Memory) != 1 || c.fractional():
		return 0, 0, false
	}
	return cpus, c.Memory[0].Bytes, c.Memory[0].Resource == memory.Regular && c.Memory[0].Bytes > 0
}

// hasRegular reports whether a NUMA node has this many bytes of ordinary memory, and can allocate
// them without other nodes. Without the memory manager, memory does not count.
func (m *memoryModel) hasRegular(b *memory.Book, node topology.NUMAID, bytes uint64) bool {
	if m == nil {
		return true
	}
	k, known := m.Kind(memory.Regular)
	pos, named := m.layout.space.Position(node)
	asked := []memory.Need{{Kind: k}}
	if !known || !named || m.Crashes(asked) || m.Underflows(asked) {
		return false
	}
	_, cells := b.Group(pos)
	return cells.Len() <= 1 && m.Free(b, k, pos) >= bytes
}
