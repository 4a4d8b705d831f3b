package ledger

import (
	"sync"

	"github.com/berth-dev/berth/placement"
)

// numbers gives equal keys of one model the same number. Numbers are never reused, and never 0. If
// the table is full, it is emptied, and all keys get new numbers later. Caches that use the numbers
// as keys have no entries for the new ones, so this is safe.
type numbers struct {
	mu    sync.Mutex
	byKey map[numberKey]uint64
	// bytes is the total length of the keys.
	bytes int
	last  uint64
	buf   []byte
}

// maxKeyBytes limits the total length of the keys in a table, because a user can create pods with
// long keys.
const maxKeyBytes = 64 << 20

type numberKey struct {
	model *placement.Model
	bytes string
}

// of returns the number of the key that appendKey appends. The table holds at most limit keys.
func (t *numbers) of(m *placement.Model, limit int, appendKey func([]byte) []byte) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = appendKey(t.buf[:0])
	if id, ok := t.byKey[numberKey{m, string(t.buf)}]; ok {
		return id
	}
	if t.byKey == nil || len(t.byKey) >= limit || t.bytes+len(t.buf) > maxKeyBytes {
		t.byKey, t.bytes = map[numberKey]uint64{}, 0
	}
	t.last++
	t.bytes += len(t.buf)
	t.byKey[numberKey{m, string(t.buf)}] = t.last
	return t.last
}
