package ledger

import (
	"sync"

	"github.com/berth-dev/berth/placement"
)

// numbers gives equal keys of one model the same number. No number is given twice, and 0 never.
// When the table is full it is emptied, and later keys get new numbers: what was cached under an
// old one is merely unused.
type numbers struct {
	mu    sync.Mutex
	byKey map[numberKey]uint64
	last  uint64
	buf   []byte
}

type numberKey struct {
	model *placement.Model
	bytes string
}

// of returns the number of the key that appendKey appends. The table holds at most limit of them.
func (t *numbers) of(m *placement.Model, limit int, appendKey func([]byte) []byte) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = appendKey(t.buf[:0])
	if id, ok := t.byKey[numberKey{m, string(t.buf)}]; ok {
		return id
	}
	if t.byKey == nil || len(t.byKey) >= limit {
		t.byKey = map[numberKey]uint64{}
	}
	t.last++
	t.byKey[numberKey{m, string(t.buf)}] = t.last
	return t.last
}
