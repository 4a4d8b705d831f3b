package ledger

import (
	"math"
	"sync"

	"github.com/berth-dev/berth/placement"
)

// Standing stands for everything that decides what a node answers to candidates that follow its pods in flight: nodes of one
// standing give the same Answer, and have the same FreeCPUs. Most nodes of a large cluster share theirs with many others, so
// that an answer of one is the answer of all. The zero Standing stands for none: ask the node.
type Standing uint32

// maxStandings bounds the table of standings; when it is full it is emptied, and those interned later get new numbers.
const maxStandings = 1 << 13

// standings interns states. Numbers are never used twice.
type standings struct {
	mu    sync.Mutex
	byKey map[standingKey]Standing
	last  Standing
	buf   []byte
}

type standingKey struct {
	model    *placement.Model
	likeness string
}

// intern returns the standing of nodes in that state.
func (t *standings) intern(m *placement.Model, s *placement.State) Standing {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = s.AppendLikeness(t.buf[:0])
	if id, ok := t.byKey[standingKey{m, string(t.buf)}]; ok {
		return id
	}
	if t.last == math.MaxUint32 {
		return 0
	}
	if t.byKey == nil || len(t.byKey) >= maxStandings {
		t.byKey = map[standingKey]Standing{}
	}
	t.last++
	t.byKey[standingKey{m, string(t.buf)}] = t.last
	return t.last
}

// Stand is where a node stands at a beat.
type Stand struct {
	Beat     uint32
	Standing Standing
	// Model is that of the state that the standing stands for.
	Model *placement.Model
}

// Stand finds out where the node stands, and lets its pulse tell.
func (n *Node) Stand() Stand {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.report == nil {
		return Stand{}
	}
	s := Stand{Model: n.report.Model}
	if s.Beat, s.Standing = n.pulse.Read(); s.Standing != 0 {
		return s
	}
	n.compute()
	if n.full.uncertain() || len(n.full.all) != 1 {
		return s
	}
	s.Standing = n.standings.intern(s.Model, n.full.all[0].state)
	n.pulse.stand(s.Beat, s.Standing)
	return s
}
