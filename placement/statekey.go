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
