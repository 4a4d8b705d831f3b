package ledger

import (
	"math"
	"sync"

	"github.com/berth-dev/berth/placement"
)

// StateID is a number for everything that decides what a node answers to candidates that follow its pods in flight.
// Nodes with one StateID give the same Answer, and have the same FreeCPUs. Most nodes of a large cluster share theirs
// with many others, so the answer of one is the answer of all. Zero is none: ask the node.
type StateID uint32

// maxStateIDs bounds the table of ids. When it is full it is emptied; those interned later get new numbers.
const maxStateIDs = 1 << 13

// stateIDs interns states. Numbers are never used twice.
type stateIDs struct {
	mu    sync.Mutex
	byKey map[stateIDKey]StateID
	last  StateID
	buf   []byte
}

type stateIDKey struct {
	model    *placement.Model
	stateKey string
}

// intern returns the state id of nodes in that state.
func (t *stateIDs) intern(m *placement.Model, s *placement.State) StateID {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = s.AppendStateKey(t.buf[:0])
	if id, ok := t.byKey[stateIDKey{m, string(t.buf)}]; ok {
		return id
	}
	if t.last == math.MaxUint32 {
		return 0
	}
	if t.byKey == nil || len(t.byKey) >= maxStateIDs {
		t.byKey = map[stateIDKey]StateID{}
	}
	t.last++
	t.byKey[stateIDKey{m, string(t.buf)}] = t.last
	return t.last
}

// Stamp is the state of a node at one count of its changes.
type Stamp struct {
	Count uint32
	State StateID
	// Model is that of the state.
	Model *placement.Model
}

// Stamp finds out the state of the node, and shows it in its ChangeCounter.
func (n *Node) Stamp() Stamp {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.report == nil {
		return Stamp{}
	}
	s := Stamp{Model: n.report.Model}
	if s.Count, s.State = n.changes.Load(); s.State != 0 {
		return s
	}
	n.compute()
	if n.full.uncertain() || len(n.full.all) != 1 {
		return s
	}
	s.State = n.stateIDs.intern(s.Model, n.full.all[0].state)
	n.changes.identify(s.Count, s.State)
	return s
}
