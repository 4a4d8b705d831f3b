package ledger

import (
	"slices"

	"github.com/berth-dev/berth/placement"
)

// Candidate is a pod that needs a node.
type Candidate struct {
	Request *placement.Request
	// Shape is the result of Ledger.Shape for the request. If it is 0, the node does not store its
	// answers.
	Shape Shape
	// Created is the second in which the pod was created (metadata.creationTimestamp, Unix time).
	// If a kubelet receives several pods at once, it admits the oldest first.
	Created int64
	// Mortal means that the pod can end by itself.
	Mortal bool
	// Loose means that the scheduler promises the pod only its admission, and no particular CPUs.
	// The node can then also take pods that the kubelet may admit before this pod.
	Loose bool
	// Wave orders pods that are reserved together if the kubelet would refuse some of them in
	// another order. A pod may be posted only after a report shows that all pods of earlier waves
	// were admitted (View.Due). Until the pods of all waves are admitted, the node accepts no other
	// pods that could be pinned. 0 means that no order is needed.
	Wave int
}

// Near returns a copy of the candidate that must be placed near the devices.
func (c *Candidate) Near(devices *placement.Claimed) *Candidate {
	request, out := *c.Request, *c
	request.Rules.Claimed = devices
	out.Request, out.Shape = &request, 0
	return &out
}

// Question is the input of Ask and Sample: would the node admit the candidate in addition to all
// pods in flight?
type Question struct {
	Candidate *Candidate
	// Trial has pods to add or remove for this question, or is nil.
	Trial *Trial
	// Estimate means that the caller needs an answer only for the case that the kubelet admits the
	// candidate last. If pods in flight were created in the same second or later, the kubelet may
	// admit the candidate before them. With Estimate, Sample does not try these orders.
	Estimate bool
}

// Sample is an answer, with the candidates for which it is valid, and until when. Estimated marks
// an answer that is only an estimate.
type Sample struct {
	Answer Answer
	// Count is ChangeCounter.Count at the time of the answer.
	Count uint32
	// Repeats means that, until the next change, the answer is also valid for other candidates with
	// the same Shape, Created and Loose.
	Repeats bool
	// Lasts means that, until the next change, the answer is also valid for every candidate of the
	// same shape that comes after the pods in flight (ChangeCounter.Follows).
	Lasts bool
	// Estimated means that not all orders were tried. The answer is then Admitted, but Reserve may
	// still refuse.
	Estimated bool
}

// Ask answers the question, and ignores Question.Estimate. It stores answers until the node
// changes, except answers under a Trial.
func (v View) Ask(q Question) Answer {
	o := v.n.lock()
	defer v.n.mu.Unlock()
	if q.Trial.IsZero() {
		return o.admit(q.Candidate)
	}
	return o.suppose(q.Trial, q.Candidate)
}

// Sample answers as Ask does, and also tells how long the answer is valid and for which candidates.
// If Question.Estimate is set, the answer can be an estimate.
func (v View) Sample(q Question) Sample {
	o := v.n.lock()
	defer v.n.mu.Unlock()
	c := q.Candidate
	if !q.Trial.IsZero() {
		return Sample{Answer: o.suppose(q.Trial, c), Count: o.changes.Count()}
	}
	if q.Estimate {
		if a, ok := o.firstOrder(c); ok {
			return Sample{Answer: a, Count: o.changes.Count(), Estimated: true}
		}
	}
	a := o.admit(c)
	repeats := o.keyOf(c).shape != 0
	return Sample{Answer: a, Count: o.changes.Count(), Repeats: repeats, Lasts: repeats && c.Created > o.changes.newest.Load()}
}

// Shift returns the answer before the last change, and the answer now. If they differ, the caller
// must wake the pods that wait for the node. before is Unreported if the earlier answer is not
// stored. before is also Unreported if the earlier answer was an admission that Shift never
// returned, because then the caller woke no pod for it. An admission that Shift returned while
// UnshownCPUs was not 0 counts as never returned, because the caller may have made the pod wait
// nevertheless (Unshown).
func (n *Node) Shift(c *Candidate) (before, now Answer) {
	o := n.lock()
	defer n.mu.Unlock()
	if a := o.answers.past.find(c.key(o.answers.past.newest)); a != nil {
		before = *a
	}
	now = o.admit(c)
	if o.changes.Unshown() == 0 {
		o.answers.present.tell(o.keyOf(c))
	}
	return before, now
}

// answerKey has all properties of a candidate on which an answer of the node depends.
type answerKey struct {
	shape Shape
	// created is the second in which the candidate was created, or afterAll if every pod in flight
	// was created in an earlier second.
	created int64
	// loose is the candidate's Loose. It is set only if the kubelet may admit the candidate before
	// pods in flight.
	loose bool
}

// keyOf returns the key for the answer to a candidate. If the ledger already has the pod on this
// node, for example because its Binding is in doubt, the answer is valid only for this pod. The key
// is then zero, and the answer is not stored.
func (o *outlook) keyOf(c *Candidate) answerKey {
	if o.facts.pods.byUID[c.Request.UID] != nil {
		return answerKey{}
	}
	return c.key(o.changes.newest.Load())
}

// key returns the key of the candidate. newest is the time, in Unix seconds, at which the node's
// newest pod in flight was created.
func (c *Candidate) key(newest int64) answerKey {
	if c.Created > newest {
		return answerKey{shape: c.Shape, created: afterAll}
	}
	return answerKey{c.Shape, c.Created, c.Loose}
}

func (o *outlook) admit(c *Candidate) Answer {
	if a := o.answers.present.find(o.keyOf(c)); a != nil {
		return *a
	}
	if o.facts.report == nil {
		return Answer{}
	}
	a := o.consultBeside(c, nil)
	o.answers.remember(o.keyOf(c), a, o.changes.newest.Load())
	return a
}

// firstOrder answers for the order in which the kubelet admits the candidate last. It returns false
// if the node refuses the candidate in that order, or if no estimate is possible or needed. For
// example, none is needed if the complete answer is stored, or can be computed without other
// orders.
func (o *outlook) firstOrder(c *Candidate) (a Answer, ok bool) {
	if o.facts.report == nil || len(o.facts.holdings) > 0 || o.answers.present.find(o.keyOf(c)) != nil {
		return Answer{}, false
	}
	o.compute()
	if c.Created > o.changes.newest.Load() || o.facts.wave() > 0 || c.Loose && (o.comesLast(newPod(c)) || o.hasRoom(o.line, c.Request)) {
		return Answer{}, false
	}
	full := o.afterReserved()
	if full.uncertain() {
		return Answer{}, false
	}
	k := answerKey{shape: o.keyOf(c).shape}
	if known := o.answers.estimates.find(k); known != nil {
		return *known, known.OK()
	}
	a = full.ask(c.Request)
	a.Certain, a.Exact, a.Amounts = false, false, o.facts.report.Amounts
	if k.shape != 0 {
		o.answers.estimates.put(k, a)
	}
	return a, a.OK()
}

type answerCache struct {
	// present has the current answers, and past the answers before the last change.
	present, past memory
	// estimates has the current answers of firstOrder.
	estimates memory
}

// remember stores an answer. newest is the second in which the newest pod in flight was created.
func (m *answerCache) remember(k answerKey, a Answer, newest int64) {
	if k.shape != 0 {
		m.present.put(k, a)
		m.present.newest = newest // the same for all stored answers
	}
}

// stale moves the present answers to past, except admissions that Shift has not returned. If the
// node has given no answer since the last change, for example because another node with the same
// StateID answered all questions, past is then empty.
func (m *answerCache) stale() {
	m.estimates.clear()
	m.present.dropUntold()
	m.present, m.past = m.past, m.present
	m.present.clear()
}

// memory has up to MaxAnswers answers of a node, in no particular order. A search through them is
// faster than hashing.
type memory struct {
	held []remembered
	next int // the answer to overwrite next, once there are MaxAnswers
	// newest is the value of ChangeCounter.newest when the answers were stored. The keys of the
	// answers depend on it (Candidate.key).
	newest int64
}

type remembered struct {
	key answerKey
	a   Answer
	// told means that Shift has returned the answer.
	told bool
}

// MaxAnswers is the maximum number of answers in a memory.
const MaxAnswers = 16

func (m *memory) find(k answerKey) *Answer {
	for i := range m.held {
		if m.held[i].key == k {
			return &m.held[i].a
		}
	}
	return nil
}

func (m *memory) tell(k answerKey) {
	for i := range m.held {
		m.held[i].told = m.held[i].told || m.held[i].key == k
	}
}

// dropUntold removes admissions that Shift has not returned.
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
