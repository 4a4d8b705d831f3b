package ledger

import (
	"slices"

	"github.com/berth-dev/berth/placement"
)

// Candidate is a pod that needs a node.
type Candidate struct {
	Request *placement.Request
	// Shape is Ledger.Shape of the request; 0 keeps answers from being remembered.
	Shape Shape
	// Created is the second of the pod's creation (metadata.creationTimestamp, Unix time): it
	// decides in what order a kubelet admits pods that it hears of all at once.
	Created int64
	// Mortal means that the pod can end by itself.
	Mortal bool
	// Loose promises the pod its admission but no certain CPUs. Then the scheduler can also place
	// pods that the kubelet may admit before it.
	Loose bool
	// Wave is for pods that are reserved together, and some of them would be refused in any other
	// order. Those of a later wave are posted only when everything of the waves before has been
	// admitted, and a report says so (Node.Due). Meanwhile the node takes nobody else. 0 is for
	// pods that need no such order.
	Wave int
}

// Question asks a node if it would admit the candidate after everything in flight.
type Question struct {
	Candidate *Candidate
	// Trial is what is assumed; nil for nothing.
	Trial *Trial
	// Estimate means that the order of Reserve is enough. The kubelet may admit the candidate
	// before pods in flight that were created in the same second, or later; Sample does not go
	// through these orders then.
	Estimate bool
}

// Sample is an answer and its validity.
type Sample struct {
	Answer Answer
	// Count is that of the node's changes when the answer was given.
	Count uint32
	// Repeats means that the answer is one to every candidate of the same shape and second of
	// creation that is Loose if this one is, until the next change.
	Repeats bool
	// Lasts means that the answer is one to every later candidate of the same shape that follows
	// the pods in flight, until the next change.
	Lasts bool
	// Estimated means that orders were left out. The answer is an admission, and Reserve has the
	// last word.
	Estimated bool
}

// Ask returns the complete answer. It remembers answers until the node changes, except answers
// under a Trial.
func (v View) Ask(q Question) Answer {
	n := v.n
	n.mu.Lock()
	defer n.mu.Unlock()
	if q.Trial.IsZero() {
		return n.admit(q.Candidate)
	}
	return n.suppose(q.Trial, q.Candidate)
}

// Sample is like Ask, for callers that remember the answer or need only an estimate.
func (v View) Sample(q Question) Sample {
	n := v.n
	n.mu.Lock()
	defer n.mu.Unlock()
	c := q.Candidate
	if !q.Trial.IsZero() {
		return Sample{Answer: n.suppose(q.Trial, c), Count: n.changes.Count()}
	}
	if q.Estimate {
		if a, ok := n.firstOrder(c); ok {
			return Sample{Answer: a, Count: n.changes.Count(), Estimated: true}
		}
	}
	a := n.admit(c)
	repeats := n.keyOf(c).shape != 0
	return Sample{Answer: a, Count: n.changes.Count(), Repeats: repeats, Lasts: repeats && c.Created > n.newest}
}

// Shift asks again, and also returns the answer before the last change. before is Unreported if it
// is not remembered, or if it was an admission that Shift did not return: a pod that waits for the
// node must be woken again. Other callers may have asked after the change, and changed the node
// since. If UnshownCPUs is not 0, pods may have to wait for these CPUs (Unshown) whatever the
// answer is, and are woken again after the next change.
func (n *Node) Shift(c *Candidate) (before, now Answer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a := n.answers.past.find(c.key(n.answers.past.newest)); a != nil {
		before = *a
	}
	now = n.admit(c)
	if n.changes.Unshown() == 0 {
		n.answers.present.tell(n.keyOf(c))
	}
	return before, now
}

// answerKey is what an answer depends on, given the node.
type answerKey struct {
	shape Shape
	// created is that of the candidate, or afterAll when it is later than that of every pod in
	// flight.
	created int64
	// loose is that of the candidate, if it may be admitted before pods in flight.
	loose bool
}

// keyOf returns the key under which the answer to a candidate is remembered. If the node already
// has the pod, for example because its Binding is in doubt, the answer is valid for this pod only.
func (n *Node) keyOf(c *Candidate) answerKey {
	if n.pods[c.Request.UID] != nil {
		return answerKey{}
	}
	return c.key(n.newest)
}

// key is that of the candidate on a node where the newest pod in flight is of that second.
func (c *Candidate) key(newest int64) answerKey {
	if c.Created > newest {
		return answerKey{shape: c.Shape, created: afterAll}
	}
	return answerKey{c.Shape, c.Created, c.Loose}
}

func (n *Node) admit(c *Candidate) Answer {
	if a := n.answers.present.find(n.keyOf(c)); a != nil {
		return *a
	}
	if n.report == nil {
		return Answer{}
	}
	a := n.consultBeside(c, nil)
	n.answers.remember(n.keyOf(c), a, n.newest)
	return a
}

// firstOrder answers for the order of Reserve, if there are others and nobody has gone through
// them. A loose candidate that asks for the same as all pods in flight, or for which there is room
// whatever their order, is told the whole answer.
func (n *Node) firstOrder(c *Candidate) (a Answer, ok bool) {
	if n.report == nil || len(n.holdings) > 0 || n.answers.present.find(n.keyOf(c)) != nil {
		return Answer{}, false
	}
	n.compute()
	if c.Created > n.newest || n.wave() > 0 || c.Loose && (n.comesLast(newPod(c)) || n.hasRoom(n.line, c.Request)) {
		return Answer{}, false
	}
	full := n.afterReserved()
	if full.uncertain() {
		return Answer{}, false
	}
	k := answerKey{shape: n.keyOf(c).shape}
	if known := n.answers.estimates.find(k); known != nil {
		return *known, known.OK()
	}
	a = full.ask(c.Request)
	a.Certain, a.Exact, a.Amounts = false, false, n.report.Amounts
	if k.shape != 0 {
		n.answers.estimates.put(k, a)
	}
	return a, a.OK()
}

// answerCache remembers what a node has answered.
type answerCache struct {
	// present holds answers of the present, past those before the last change, if there were any.
	present, past memory
	// estimates holds answers of the present for the order of Reserve alone.
	estimates memory
}

// remember keeps an answer. newest is the second in which the newest pod in flight was created when
// the node gave it.
func (m *answerCache) remember(k answerKey, a Answer, newest int64) {
	if k.shape != 0 {
		m.present.put(k, a)
		m.present.newest = newest // the same until they are forgotten
	}
}

// stale keeps the answers as those of the past. If nobody has asked since the change before, as
// when another node with the same StateID answered, nothing is known about the past: what was true
// before that change need not be true since.
func (m *answerCache) stale() {
	m.estimates.clear()
	m.present.dropUntold()
	m.present, m.past = m.past, m.present
	m.present.clear()
}

// memory holds the last answers of a node, in no order. A handful: looking through them costs less
// than hashing.
type memory struct {
	held []remembered
	next int // to be overwritten next, once there are MaxAnswers
	// newest is that of the node when they were given: it decides which key a candidate asks under.
	newest int64
}

type remembered struct {
	key answerKey
	a   Answer
	// told: Shift has given it.
	told bool
}

// MaxAnswers bounds the remembered answers of a node.
const MaxAnswers = 16

func (m *memory) find(k answerKey) *Answer {
	for i := range m.held {
		if m.held[i].key == k {
			return &m.held[i].a
		}
	}
	return nil
}

// tell notes that Shift has given an answer.
func (m *memory) tell(k answerKey) {
	for i := range m.held {
		m.held[i].told = m.held[i].told || m.held[i].key == k
	}
}

// dropUntold forgets admissions that Shift has not given.
func (m *memory) dropUntold() {
	m.held = slices.DeleteFunc(m.held, func(r remembered) bool { return r.a.OK() && !r.told })
}

func (m *memory) put(k answerKey, a Answer) {
	switch old := m.find(k); {
	case old != nil:
		*old = a
	case len(m.held) < MaxAnswers:
		m.held = append(m.held, remembered{key: k, a: a})
	default:
		m.held[m.next] = remembered{key: k, a: a}
		m.next = (m.next + 1) % MaxAnswers
	}
}

func (m *memory) clear() { m.held, m.next = m.held[:0], 0 }
