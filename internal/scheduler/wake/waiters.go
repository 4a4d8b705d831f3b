package wake

import (
	"slices"
	"sync"
	"time"

	"github.com/berth-dev/berth/internal/ledger"
)

// Edge gives Waiters a clock and access to the scheduling queue.
type Edge interface {
	Now() time.Time
	// After calls the function do when d has passed. It holds no lock during the call.
	After(d time.Duration, do func())
	// Activate moves pods to the active queue. It is called without a lock.
	Activate(pods []Pod)
}

// ReportLimit is the maximum time for which a pod does not preempt because some node must report
// first. The time is limited because, in a large cluster, some node may always have to report
// first.
const ReportLimit = 30 * time.Second

// maxBlamed is the maximum number of nodes that are stored for one pod. A pod that blames more
// nodes counts as blaming all nodes.
const maxBlamed = 128

// Waiters tracks the pods that need a node. They are grouped by class, so a change of a node costs
// one question per class, not per pod. A pod is included from the start of its attempt, so a change
// during the attempt also wakes it. Waiters is safe for concurrent use.
type Waiters struct {
	edge Edge

	mu      sync.RWMutex
	byClass map[class]*members
	byShape map[ledger.Shape][]*members
	classOf map[string]class // by UID
	// ring has all classes, in the order in which nodes are asked about them.
	ring   ring
	behind behind
	rounds map[roundKey]*wakeRound
	again  again
}

// New returns Waiters without pods.
func New(edge Edge) *Waiters {
	return &Waiters{
		edge: edge, byClass: map[class]*members{}, byShape: map[ledger.Shape][]*members{}, classOf: map[string]class{},
		ring: ring{lanes: map[string]*lanes{}}, behind: behind{byNode: map[Node]*change{}}, rounds: map[roundKey]*wakeRound{},
		again: again{byShape: map[ledger.Shape]*renewal{}},
	}
}

// Add records the start of an attempt to place a pod. It returns the time since which the pod has
// needed a node.
func (w *Waiters) Add(pod Pod, c *ledger.Candidate) time.Time {
	now := w.edge.Now()
	latest := *c
	w.mu.Lock()
	defer w.mu.Unlock()
	key := class{pod.Namespace, c.Shape, c.Created}
	if old, ok := w.classOf[pod.UID]; ok {
		if m := w.byClass[old]; old == key {
			known := m.pods[pod.UID]
			known.candidate, m.candidate = &latest, &latest
			known.blamed, known.trying, known.woken = nil, true, false
			return known.since
		}
		w.remove(pod.UID)
	}
	m := w.membersOf(key)
	m.pods[pod.UID] = &waiter{pod: pod, candidate: &latest, since: now, trying: true}
	m.candidate = &latest
	w.classOf[pod.UID] = key
	return now
}

// membersOf returns the members of the class, and creates the class if necessary. The caller holds
// the lock.
func (w *Waiters) membersOf(key class) *members {
	m := w.byClass[key]
	if m == nil {
		m = &members{class: key, pods: map[string]*waiter{}}
		w.byClass[key] = m
		w.byShape[key.shape] = append(w.byShape[key.shape], m)
		w.ring.add(m)
	}
	return m
}

// forget removes a class without pods. The caller holds the lock.
func (w *Waiters) forget(m *members) {
	delete(w.byClass, m.class)
	w.again.remove(m)
	w.ring.remove(m)
	shape := m.class.shape
	w.byShape[shape] = slices.DeleteFunc(w.byShape[shape], func(other *members) bool { return other == m })
	switch {
	case len(w.byShape[shape]) == 0:
		delete(w.byShape, shape)
		delete(w.again.byShape, shape)
	case w.again.byShape[shape] != nil: // another class takes over the shape's turn
		w.again.add(w.byShape[shape][0])
	}
}

// Blame records that an attempt has failed. The list waiting has the nodes that must report first,
// and the list refusing has the nodes that refuse the pod. After Blame, NodeChanged for other nodes
// does not wake the pod, unless the two lists have more than maxBlamed nodes together. Blame
// returns the time since which every attempt has found a waiting node, or zero if this attempt has
// found none. If the returned time is at least ReportLimit ago, later attempts count from now. If
// the pod is not among the Waiters, Blame returns the current time.
func (w *Waiters) Blame(uid string, waiting, refusing []Node) time.Time {
	now := w.edge.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.find(uid)
	if p == nil {
		return now
	}
	p.trying = false
	if len(waiting) == 0 {
		p.waitsFrom = time.Time{}
	} else if p.waitsFrom.IsZero() {
		p.waitsFrom = now
	}
	since := p.waitsFrom
	if len(waiting) > 0 && now.Sub(since) >= ReportLimit {
		// Start the wait again, so that the pod may preempt only in this attempt: victims leave the
		// API long before a report shows the room.
		p.waitsFrom = now
	}
	if len(waiting)+len(refusing) > maxBlamed {
		return since
	}
	p.blamed = make(map[Node]bool, len(waiting)+len(refusing))
	for _, n := range refusing {
		p.blamed[n] = false
	}
	for _, n := range waiting {
		p.blamed[n] = true
	}
	return since
}

// Tempted records that a pod may wait although a node admits it, because a better node must report
// first. It returns the time of the pod's first such record, or the current time if the pod no
// longer needs a node.
func (w *Waiters) Tempted(uid string) time.Time {
	now := w.edge.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.find(uid)
	if p == nil {
		return now
	}
	if p.temptedFrom.IsZero() {
		p.temptedFrom = now
	}
	return p.temptedFrom
}

// BlameToo records that the pod also waits for the report of node n, so that the node's change
// wakes the pod. Call it for a node that refuses the pod if only the node's next report will show
// whether evictions would help.
func (w *Waiters) BlameToo(uid string, n Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.find(uid); p != nil && p.blamed != nil {
		p.blamed[n] = true
	}
}

// Tried records that an attempt has ended without Blame. The pod then blames every node.
func (w *Waiters) Tried(uid string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.find(uid); p != nil {
		p.trying = false
	}
}

// Done forgets a pod that has a node or is gone.
func (w *Waiters) Done(uid string) {
	if !w.has(uid) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(uid)
}

func (w *Waiters) has(uid string) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	_, ok := w.classOf[uid]
	return ok
}

// find returns the pod, or nil if it is not among the Waiters. The caller holds the lock.
func (w *Waiters) find(uid string) *waiter {
	key, ok := w.classOf[uid]
	if !ok {
		return nil
	}
	return w.byClass[key].pods[uid]
}

func (w *Waiters) remove(uid string) {
	key, ok := w.classOf[uid]
	if !ok {
		return
	}
	delete(w.classOf, uid)
	m := w.byClass[key]
	left := m.pods[uid]
	delete(m.pods, uid)
	if len(m.pods) == 0 {
		w.forget(m)
	}
	if m.candidate != left.candidate {
		return
	}
	for _, p := range m.pods {
		m.candidate = p.candidate
		return
	}
}

// Len returns the number of waiting pods.
func (w *Waiters) Len() int {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return len(w.classOf)
}

// wakeRound is the process that wakes pods of a shape, in several steps, after one change of a
// node.
type wakeRound struct {
	roundKey
	// blamed is the node that pods must blame to be woken, or nil if pods are woken whichever nodes
	// they blame.
	blamed Node
	woken  map[string]bool // by UID
}

func newRound(c *change, shape ledger.Shape) wakeRound {
	return wakeRound{roundKey: roundKey{c.node, shape}, blamed: c.blamed(), woken: map[string]bool{}}
}

// roundKey identifies a round: a new round with the same key replaces the old one.
type roundKey struct {
	node  Node
	shape ledger.Shape
}
