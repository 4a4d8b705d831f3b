package nodes

import (
	"sync"
	"sync/atomic"

	"github.com/berth-dev/berth/internal/ledger"
)

// Answers remembers what nodes answered to the pods that were asked about last: K is what they have
// in common.
type Answers[K comparable] struct {
	mu    sync.Mutex
	byKey map[K]*answerTable
}

// maxTables bounds how many tables there are. With more, all begin again.
const maxTables = 64

// of returns the table of a key, with room for count nodes.
func (a *Answers[K]) of(key K, count int) *answerTable {
	a.mu.Lock()
	defer a.mu.Unlock()
	if found := a.byKey[key]; found != nil && found.byNumber.count >= count {
		return found
	}
	if a.byKey == nil || len(a.byKey) >= maxTables {
		a.byKey = map[K]*answerTable{}
	}
	made := newAnswerTable(count)
	a.byKey[key] = made
	return made
}

// batch is the pods of one shape that were created in one second, and are all loose, or none is:
// the kubelet may admit them in any order among the pods in flight.
type batch struct {
	shape   ledger.Shape
	created int64
	loose   bool
}

// answerTable is what the nodes last answered to the pods of one key, so that Filter and Score of a
// large cluster read along a few pages of memory, without a lock. An answer holds while the node's
// counter has not moved on.
//
// Before that it holds what one of the nodes with the same StateID answered, so that a shape that
// is new is put to a few nodes only. A node whose StateID is not there, or that has none, keeps an
// answer of its own.
type answerTable struct {
	// byNumber is by the nodes' numbers. Nodes that came later have no place.
	byNumber column
	// byState is a direct-mapped cache. The slot is the low bits of the StateID; the entry holds
	// the id if others hold the count. Its length is a power of two, and a collision overwrites.
	byState column
}

// column holds answers. It takes no memory until the first is noted.
type column struct {
	count int
	once  sync.Once
	made  atomic.Pointer[[]atomic.Uint64]
}

// at returns the answer in a slot.
func (c *column) at(i int) PackedAnswer {
	made := c.made.Load()
	if made == nil {
		return 0
	}
	return PackedAnswer((*made)[i].Load())
}

func (c *column) note(i int, p PackedAnswer) {
	c.once.Do(func() {
		made := make([]atomic.Uint64, c.count)
		c.made.Store(&made)
	})
	(*c.made.Load())[i].Store(uint64(p))
}

// minStates is the least number of places for StateIDs.
const minStates = 64

func newAnswerTable(count int) *answerTable {
	states := minStates
	for states < count/2 {
		states *= 2
	}
	return &answerTable{byNumber: column{count: count + count/8}, byState: column{count: states}}
}

// ofNode returns what the node of that number answered, at whatever count.
func (t *answerTable) ofNode(number int) PackedAnswer {
	if number >= t.byNumber.count {
		return 0
	}
	return t.byNumber.at(number)
}

// noteNode notes what the node of that number answers.
func (t *answerTable) noteNode(number int, p PackedAnswer) {
	if number < t.byNumber.count {
		t.byNumber.note(number, p)
	}
}

// ofState returns what nodes in that state answer; nothing for none.
func (t *answerTable) ofState(id ledger.StateID) PackedAnswer {
	p := t.byState.at(int(id) & (t.byState.count - 1))
	if id == 0 || ledger.StateID(p.count()) != id {
		return 0
	}
	return p
}

// noteState notes what nodes in that state answer.
func (t *answerTable) noteState(id ledger.StateID, p PackedAnswer) {
	t.byState.note(int(id)&(t.byState.count-1), p.at(uint32(id)))
}
