package nodes

import (
	"sync"
	"sync/atomic"

	"github.com/berth-dev/berth/internal/ledger"
)

// Answers stores the nodes' answers to the most recent pods. K is the key that these pods have in
// common.
type Answers[K comparable] struct {
	mu    sync.Mutex
	byKey map[K]*answerTable
}

// maxTables is the maximum number of tables. If there are more, all are emptied.
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

// batch has the pods of one shape that were created in the same second and are either all loose or
// all not. The kubelet may admit them in any order among the pods in flight.
type batch struct {
	shape   ledger.Shape
	created int64
	loose   bool
}

// answerTable has the last answers of the nodes to the pods of one key. Filter and Score of a large
// cluster read a few consecutive pages of memory, without a lock. An answer is valid until the
// node's counter changes.
//
// In addition it has the answers of nodes by StateID, so that only a few nodes are asked about a
// new shape. A node whose StateID has no answer, or that has none, has its own answer.
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

// ofNode returns the answer of the node with that number, at any count.
func (t *answerTable) ofNode(number int) PackedAnswer {
	if number >= t.byNumber.count {
		return 0
	}
	return t.byNumber.at(number)
}

// noteNode stores the answer of the node with that number.
func (t *answerTable) noteNode(number int, p PackedAnswer) {
	if number < t.byNumber.count {
		t.byNumber.note(number, p)
	}
}

// ofState returns the answer of nodes in that state, or none.
func (t *answerTable) ofState(id ledger.StateID) PackedAnswer {
	p := t.byState.at(int(id) & (t.byState.count - 1))
	if id == 0 || ledger.StateID(p.count()) != id {
		return 0
	}
	return p
}

// noteState stores the answer of nodes in that state.
func (t *answerTable) noteState(id ledger.StateID, p PackedAnswer) {
	t.byState.note(int(id)&(t.byState.count-1), p.at(uint32(id)))
}
