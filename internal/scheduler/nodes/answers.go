package nodes

import (
	"sync"
	"sync/atomic"

	"github.com/berth-dev/berth/internal/ledger"
)

// Answers stores the nodes' last answers. Pods with the same key, of type K, get the same answers.
type Answers[K comparable] struct {
	mu    sync.Mutex
	byKey map[K]*answerTable
}

// maxTables is the maximum number of tables. If another table is needed, all tables are dropped.
const maxTables = 64

// of returns the table of a key. It makes a new table if there is none, or if the table is too
// small for count nodes.
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

// batch identifies pods of one shape that were created in the same second and have the same value
// of ledger.Candidate.Loose. The second in which a pod was created matters, because a kubelet that
// receives several pods at once admits older pods first.
type batch struct {
	shape   ledger.Shape
	created int64
	loose   bool
}

// answerTable has the last answers of the nodes about the pods of one key. Filter and Score read it
// without a lock. Even in a large cluster, it takes only some consecutive pages of memory. An
// answer is valid until the node's ledger.ChangeCounter changes.
//
// The table also has answers by ledger.StateID. If several nodes are in the same state, only one of
// them is asked about a new shape. If there is no answer for a node's StateID, the node's own
// answer is used.
type answerTable struct {
	// byNumber is indexed by the nodes' numbers. Nodes that were added later have no entry.
	byNumber column
	// byState is a direct-mapped cache: the low bits of a StateID are the index. Its length is a
	// power of two. An entry has the StateID in the bits where an entry of byNumber has the node's
	// change count. A colliding StateID overwrites the entry.
	byState column
}

// column is an array of answers. It is allocated when the first answer is stored.
type column struct {
	count int
	once  sync.Once
	made  atomic.Pointer[[]atomic.Uint64]
}

// at returns the answer at index i, or 0.
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

const minStates = 64

func newAnswerTable(count int) *answerTable {
	states := minStates
	for states < count/2 {
		states *= 2
	}
	return &answerTable{byNumber: column{count: count + count/8}, byState: column{count: states}}
}

// ofNode returns the stored answer of the node with the given number. The answer may be outdated.
func (t *answerTable) ofNode(number int) PackedAnswer {
	if number >= t.byNumber.count {
		return 0
	}
	return t.byNumber.at(number)
}

// noteNode stores the answer of the node with the given number, unless the table has no entry for
// it.
func (t *answerTable) noteNode(number int, p PackedAnswer) {
	if number < t.byNumber.count {
		t.byNumber.note(number, p)
	}
}

// ofState returns the stored answer of nodes with the given StateID, or 0.
func (t *answerTable) ofState(id ledger.StateID) PackedAnswer {
	p := t.byState.at(int(id) & (t.byState.count - 1))
	if id == 0 || ledger.StateID(p.count()) != id {
		return 0
	}
	return p
}

func (t *answerTable) noteState(id ledger.StateID, p PackedAnswer) {
	t.byState.note(int(id)&(t.byState.count-1), p.at(uint32(id)))
}
