package placement

import (
	"github.com/berth-dev/berth/placement/cpu"
	"github.com/berth-dev/berth/placement/memory"
	"github.com/berth-dev/berth/topology"
)

// TakesInAnyOrder reports whether the kubelet admits all requests in any order, each on a single
// NUMA node. If the result is true, the kubelet certainly admits them. If the result is false, the
// kubelet may still admit them, because the method only computes a bound. The requests must not
// belong to pods that the state has.
//
// Suppose that all other pods are admitted before a pod of n CPUs. The other pods block a NUMA node
// for this pod if they leave fewer than n CPUs free on the NUMA node. The pod is admitted if the
// other pods together have too few CPUs to block all NUMA nodes. The pod with the most CPUs is the
// hardest to place, so only this pod is checked. A NUMA node counts only if it has memory for all
// requests together.
func (s *State) TakesInAnyOrder(requests []*Request) bool {
	if !s.m.countable() {
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
		if s.hasRegular(n.id, bytes) {
			toBlock += max(0, n.cpus.AndLen(&free)-widest+1)
		}
	}
	return toBlock > all-widest
}

// countable reports whether n free CPUs on a NUMA node are always enough for a request for n CPUs.
func (m *Model) countable() bool {
	c := &m.cpus
	return c.hinter != nil && c.topology.Regular() && m.set.cpu == cpu.Options{Version: m.set.version} && !c.reserved.IsEmpty() && len(m.supplies) == 0
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
// them without memory of other NUMA nodes. Without the memory manager, memory does not count.
func (s *State) hasRegular(node topology.NUMAID, bytes uint64) bool {
	m := s.m.mem
	if m == nil {
		return true
	}
	k, known := m.Kind(memory.Regular)
	pos, named := s.m.space.Position(node)
	asked := []memory.Need{{Kind: k}}
	if !known || !named || m.Crashes(asked) || m.Underflows(asked) {
		return false
	}
	_, cells := s.book.Group(pos)
	return cells.Len() <= 1 && m.Free(s.book, k, pos) >= bytes
}
