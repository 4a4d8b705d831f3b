package placement

import (
	"encoding/binary"

	"github.com/berth-dev/berth/placement/hint"
)

// AppendStateKey appends to b all parts of the state on which verdicts depend. If two states of one
// Model have equal keys, they have the same SharedCPUs, and they give the same verdict to every
// request whose UID neither state has. The key does not tell which pod has a resource. It contains
// the ids of devices only if a plugin's devices are not sorted by id.
//
// The states of a thousand nodes often have only a few different keys, so one admission gives the
// verdict for many nodes.
func (s *State) AppendStateKey(b []byte) []byte {
	words := s.shared.Words()
	last := len(words)
	for last > 0 && words[last-1] == 0 {
		last--
	}
	b = append(b, byte(last))
	for _, w := range words[:last] {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	if s.book != nil {
		b = s.book.Append(b)
	}
	if s.account != nil {
		b = s.account.Append(b)
	}
	for _, n := range s.given {
		b = binary.AppendUvarint(b, n)
	}
	if s.m.guardRestarts {
		b = binary.AppendUvarint(b, uint64(widestOf(s.pods)))
	}
	b = binary.AppendUvarint(b, uint64(len(s.pools)))
	for i := range s.pools {
		b = s.pools[i].append(b)
	}
	return b
}

// AppendPoolsKey appends how many healthy devices of each resource are on each NUMA node. A device
// with several NUMA nodes counts on each of them, and a device without a NUMA node counts on none.
func (s *State) AppendPoolsKey(b []byte) []byte {
	for i := range s.pools {
		p := &s.pools[i]
		b = append(binary.AppendUvarint(b, uint64(len(p.resource))), p.resource...)
		b = append(b, flag(p.registered))
		if s.m.space == nil {
			continue
		}
		for position := range s.m.space.Len() {
			healthy, _ := p.pool.HealthyTouching(p.inUse, hint.Mask(1)<<position)
			b = binary.AppendUvarint(b, uint64(healthy))
		}
	}
	return b
}
