package placement

import "encoding/binary"

// AppendStateKey appends to b everything that a verdict depends on. Two states of one Model with
// equal keys give the same verdict to every request whose UID neither of them knows, and have the
// same SharedCPUs. Which pod holds what is not part of it, nor are the names of devices, except for
// their order.
//
// The states of a thousand nodes have few keys, so that most nodes need not be asked.
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

// append adds what a verdict depends on.
func (p *devicePool) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(p.resource)))
	b = append(b, p.resource...)
	b = append(b, flag(p.registered), byte(p.source.Preference))
	ordered := p.ordered()
	b = append(b, flag(ordered))
	b = binary.AppendUvarint(b, uint64(len(p.source.Devices)))
	for i := range p.source.Devices {
		d := &p.source.Devices[i]
		b = append(b, flag(d.HasTopology)|flag(d.Unhealthy)<<1)
		b = binary.LittleEndian.AppendUint64(b, uint64(d.NUMA))
		if !ordered {
			b = binary.AppendUvarint(b, uint64(len(d.ID)))
			b = append(b, d.ID...)
		}
	}
	b = p.pool.AppendChips(b)
	for _, w := range p.inUse {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// ordered says whether the devices are listed in the order of their ids, each once.
func (p *devicePool) ordered() bool {
	for i := 1; i < len(p.source.Devices); i++ {
		if p.source.Devices[i].ID <= p.source.Devices[i-1].ID {
			return false
		}
	}
	return true
}

func flag(v bool) byte {
	if v {
		return 1
	}
	return 0
}
