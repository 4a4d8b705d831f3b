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
	// bytes is how long the keys are together.
	bytes int
	last  uint64
	buf   []byte
}

// maxKeyBytes bounds the keys of one table: a tenant chooses how long that of a shape is, up to the
// size of a pod.
const maxKeyBytes = 64 << 20

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
	if t.byKey == nil || len(t.byKey) >= limit || t.bytes+len(t.buf) > maxKeyBytes {
		t.byKey, t.bytes = map[numberKey]uint64{}, 0
	}
	t.last++
	t.bytes += len(t.buf)
	t.byKey[numberKey{m, string(t.buf)}] = t.last
	return t.last
}
