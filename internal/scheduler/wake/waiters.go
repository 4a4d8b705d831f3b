package wake

import (
	"slices"
	"sync"
	"time"

	"github.com/berth-dev/berth/internal/ledger"
)

// Edge is the environment of Waiters: clock and scheduling queue.
type Edge interface {
	Now() time.Time
	// After calls do when d has passed, holding no lock.
	After(d time.Duration, do func())
	// Activate sends the pods to be tried at once. It is called without a lock.
	Activate(pods []Pod)
}

// ReportLimit is the time for which a pod may find nodes that only wait for a report. After that it
// may preempt, because in a large cluster some node may always be waiting.
const ReportLimit = 30 * time.Second

// maxBlamed is the maximum number of nodes that are stored for one pod. A pod that blames more
// counts as blaming any.
const maxBlamed = 128

// Waiters are the pods without a node. They are grouped by class, so that a change of a node costs
// one question per class, not per pod. A pod is included from the start of its attempt until it has
// a node, so that a change during the attempt also reaches it. Waiters are safe for concurrent use.
type Waiters struct {
	edge Edge

	mu      sync.RWMutex
	byClass map[class]*members
	byShape map[ledger.Shape][]*members
	classOf map[string]class // by UID
	// ring has every class, in the order in which nodes are asked about them.
	ring ring
	// behind has the changes about which some classes have not been asked yet.
	behind behind
	// rounds are the running rounds, by node and shape.
	rounds map[roundKey]*wakeRound
	// again are shapes that some node takes, and may have taken before.
	again again
}

// New returns Waiters without pods.
func New(edge Edge) *Waiters {
	return &Waiters{
		edge: edge, byClass: map[class]*members{}, byShape: map[ledger.Shape][]*members{}, classOf: map[string]class{},
		ring: ring{lanes: map[string]*lanes{}}, behind: behind{byNode: map[Node]*change{}}, rounds: map[roundKey]*wakeRound{},
		again: again{byShape: map[ledger.Shape]*renewal{}, at: start},
	}
}

// Add records the start of an attempt to place a pod, and returns since when the pod needs a node.
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

// membersOf returns the class, making it if there is none. The caller holds the lock.
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

// forget forgets a class without pods. The caller holds the lock.
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
	case w.again.byShape[shape] != nil: // another class has the shape's turn
		w.again.add(w.byShape[shape][0])
	}
}

// Blame records that an attempt has failed because of these nodes: some wait for a report, and some
// refuse. Changes of other nodes do not wake the pod. It returns the time since when every attempt
// has found a waiting node.
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
		// It may preempt this once, because victims leave the API long before a report shows it.
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

// Tempted records that a pod could skip a node that admits it for a better one that waits, and
// returns the time since when this is so. For a pod that no longer needs a node it returns the
// present time.
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

// BlameToo records that a refusing node must report before it can answer what evictions would
// change. The node wakes the pod when it has an answer.
func (w *Waiters) BlameToo(uid string, n Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.find(uid); p != nil && p.blamed != nil {
		p.blamed[n] = true
	}
}

// Tried records that an attempt has ended, and that any node may help the pod.
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

// find returns the pod, or nil if it wants no node. The caller holds the lock.
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

// wakeRound is one change of a node, and the pods of a shape that have been woken for it.
type wakeRound struct {
	roundKey
	// blamed is the node that pods must blame; nil: whichever.
	blamed Node
	woken  map[string]bool // by UID
}

// roundKey is which round takes the place of another.
type roundKey struct {
	node  Node
	shape ledger.Shape
}
