package scheduler

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/topology"
)

// What is wrong with most of the nodes that cannot be relied on. The texts are constant, so that
// equal ones add up in an event.
var (
	unreported = nodestate.NotReported()
	silent     = nodestate.FellSilent()
)

// node is what the plugin keeps of one node.
type node struct {
	front
	name string
	*ledger.Node
	gate turnstile
	// object is the node's Node object as the scheduler's snapshot held it last.
	object atomic.Pointer[corev1.Node]

	mu sync.RWMutex
	// trouble says why the node's report cannot be relied on; nil when it can.
	trouble *nodestate.Unusable
	// newest is the last report that was taken in, accepted the last of these that could be relied
	// on.
	newest, accepted nodestate.Mark
	// kind is that of the last report of which it could be read; nil before.
	kind *nodestate.Kind
	// restored is a report that is older than the newest; nil where there is none.
	restored *nodestate.Reading
	// renewed is the newest heartbeat's time, by the agent's clock.
	renewed time.Time
}

// nodes is every node that has been heard of. The zero value is empty and ready.
//
// Filter and Score look nodes up thousands of times per pod, from many goroutines, and new nodes
// are rare. A plain map that is never changed is found through with half the visits to memory that
// sync.Map makes.
type nodes struct {
	ledger ledger.Ledger
	kinds  nodestate.Kinds

	seats   seats
	settled atomic.Pointer[map[string]*node] // never changed
	// count is how many numbers have been given to nodes.
	count atomic.Int64

	mu     sync.Mutex
	fresh  map[string]*node // not settled yet
	misses int              // lookups of fresh nodes since they were last settled
	vacant []place          // of nodes that are no more
}

// get returns the named node, making one if there is none.
func (n *nodes) get(name string) *node {
	if m := n.settled.Load(); m != nil {
		if found, ok := (*m)[name]; ok {
			return found
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if m := n.settled.Load(); m != nil {
		if found, ok := (*m)[name]; ok {
			return found
		}
	}
	found, ok := n.fresh[name]
	if !ok {
		found = n.open(name)
		if n.fresh == nil {
			n.fresh = map[string]*node{}
		}
		n.fresh[name] = found
	}
	if n.misses++; n.misses > len(n.fresh) {
		n.settle()
	}
	return found
}

// open makes a node. The caller holds the lock.
func (n *nodes) open(name string) *node {
	made := &node{name: name, trouble: unreported}
	if last := len(n.vacant) - 1; last >= 0 {
		made.number = n.vacant[last].number
		made.StartAt(n.vacant[last].beat + 1)
		n.vacant = n.vacant[:last]
	} else {
		made.number = int(n.count.Add(1)) - 1
	}
	made.troubled.Store(true)
	made.Node = n.ledger.Open(&made.ChangeCounter)
	return made
}

// settle moves the fresh nodes over. The caller holds the lock.
func (n *nodes) settle() {
	next := make(map[string]*node, len(n.fresh))
	if m := n.settled.Load(); m != nil {
		maps.Copy(next, *m)
	}
	maps.Copy(next, n.fresh)
	n.settled.Store(&next)
	n.fresh, n.misses = nil, 0
}

// all yields every node.
func (n *nodes) all(yield func(*node) bool) {
	n.mu.Lock()
	if len(n.fresh) > 0 {
		n.settle()
	}
	m := n.settled.Load()
	n.mu.Unlock()
	if m == nil {
		return
	}
	for _, each := range *m {
		if !yield(each) {
			return
		}
	}
}

// unusable says why the node cannot be predicted now; nil when it can.
func (n *node) unusable(now time.Time, staleAfter time.Duration) *nodestate.Unusable {
	if n.trusted(since(now), staleAfter) {
		return nil
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.trouble != nil {
		return n.trouble
	}
	return silent
}

// machine returns the node's hardware; nil when it is not known.
func (n *node) machine() *topology.Machine {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.kind == nil {
		return nil
	}
	return n.kind.Spec.Machine
}

// still reports whether the node is unchanged since s was taken.
func (n *node) still(s *ledger.Stamp) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return s.State != 0 && n.kind != nil && n.kind.Model == s.Model && n.Count() == s.Count
}

// hear notes a sign of life.
func (n *node) hear(now time.Time) { n.heard.Store(int64(since(now))) }

// doubtSilent is for the start: what was there then was heard of at that moment, whenever its agent
// last lived. Where the newest heartbeat is older than staleAfter it counts from its own time,
// which is by the agent's clock; an agent that lives, and whose clock is behind, is heard again
// shortly.
func (n *nodes) doubtSilent(now time.Time, staleAfter time.Duration) {
	for each := range n.all {
		each.mu.RLock()
		renewed := each.renewed
		each.mu.RUnlock()
		if !renewed.IsZero() && now.Sub(renewed) > staleAfter {
			each.hear(renewed)
		}
	}
}

// silence is how long the agent has given no sign of life.
func (n *node) silence(now time.Time) time.Duration {
	return since(now) - time.Duration(n.heard.Load())
}

// distrust notes why the node cannot be predicted, and says whether that is news.
func (n *node) distrust(why *nodestate.Unusable) bool {
	why = shortened(why)
	n.mu.Lock()
	defer n.mu.Unlock()
	news := n.trouble == nil || n.trouble.Text != why.Text
	n.trouble = why
	n.troubled.Store(true)
	n.Bump()
	return news
}

// shortened cuts the text to what a person will read in the events of a pod.
func shortened(u *nodestate.Unusable) *nodestate.Unusable {
	const limit = 200
	if len(u.Text) <= limit {
		return u
	}
	short := *u
	short.Text = u.Text[:limit] + "..."
	return &short
}

// lastKind returns the kind of the last report that could be read; nil for none.
func (n *node) lastKind() *nodestate.Kind {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.kind
}

// accept takes a report in, and says how the promises turned out that it settles. The error says
// what is wrong with it; the node is then not to be trusted. That it is no older than the one
// before has been judged: the ledger ignores it only where it is the accepted one again.
func (n *node) accept(r *nodestate.Reading) ([]ledger.PromiseOutcome, *nodestate.Unusable) {
	take := n.Replace
	if n.goesOn(r) {
		take = n.Accept
	}
	if r.Unusable != nil {
		return nil, r.Unusable
	}
	landings := take(r.State)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.trouble, n.accepted = nil, n.newest
	n.troubled.Store(false) // not before: nobody is to decide by the report before
	return landings, nil
}

// goesOn notes the newest report, and says whether it is the accepted one again.
func (n *node) goesOn(r *nodestate.Reading) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.restored = nil
	if r.Mark != (nodestate.Mark{}) {
		n.newest = r.Mark
	}
	same := n.newest == n.accepted && n.kind == r.Kind
	n.kind = r.Kind
	return same
}

// older says what is wrong with a report that is older than the newest, or another of its number,
// and puts it aside; nil where it is not. The API server does not let a report go back, but the
// whole of its data can.
func (n *node) older(r *nodestate.Reading) *nodestate.Unusable {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.restored = nil
	wrong := r.WentBack(n.newest)
	if wrong != nil {
		n.restored = r
	}
	return wrong
}

// confirmed returns the report that was put aside if this heartbeat vouches for it; else nil. A
// heartbeat that was restored as well does not: it is older than one that was seen.
func (n *node) confirmed(b *nodestate.Heartbeat) *nodestate.Reading {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !b.Renewed.After(n.renewed) {
		return nil
	}
	n.renewed = b.Renewed
	if n.restored == nil || n.restored.Mark.Sequence() != b.Sequence {
		return nil
	}
	return n.restored
}

// refused says whether the newest report has that number and could not be relied on.
func (n *node) refused(sequence int64) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.newest.Sequence() == sequence && n.newest != n.accepted
}

// lose notes that the node has no report any more.
func (n *node) lose() {
	n.mu.Lock()
	n.restored, n.accepted = nil, nodestate.Mark{}
	n.mu.Unlock()
	n.distrust(unreported)
	n.Withdraw()
}
