package ledger

import (
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/berth-dev/berth/placement"
)

// stage says how far a pod has come on its way to a node.
type stage uint8

const (
	// reservedStage: Reserve has taken it, its Binding is not written.
	reservedStage stage = iota
	// postedStage: its Binding is written, in order.
	postedStage
	// afloatStage: it is bound, or may be, at a place in the order that is not known.
	afloatStage
	// landedStage: a report lists it.
	landedStage
)

// pod is what the ledger knows of a pod beside the report.
type pod struct {
	uid   string
	req   *placement.Request
	stage stage
	// created is the second of its creation.
	created int64
	// inertOn is the model on which inert was found out; inert pods have nothing pinned whatever the state.
	inertOn *placement.Model
	inert   bool
	// shape is requestKey of req, once somebody asked; apart: the pod changes places with no other, as long as it is asked what
	// would be without it.
	shape string
	apart bool
	// turn orders posted pods.
	turn int64
	// ending: the API says that it is being deleted, has ended or is gone.
	ending bool
	// mortal: it can end by itself.
	mortal bool
	// gone: the API does not have it any more, since goneAt.
	gone   bool
	goneAt time.Time
	// seen: the API has shown it bound to this node, so that nothing can take it back.
	seen bool
	// inherited: as in Sighting.
	inherited bool
	// listed: some report has listed it, so that its promise is settled.
	listed bool
	// promise is the decision of the Binding; nil when we made none.
	promise *Promise
	// owed is a promise that a report has contradicted by listing the pod with nothing, or with part of it: the next one decides.
	owed *Promise
	// contended: since the decision, a pod has turned up of which nobody knows whether it comes before or after, or news have
	// come that are older than the Binding.
	contended bool
	// doubt is until when another Binding of the pod to this node may be written, of which nobody knows whether it was; zero: there is none.
	doubt time.Time
	// suspect is a promise that was not kept, until the API has shown the Binding: older news may be on their way.
	suspect *PromiseOutcome
}

// Promise is the decision that a Binding carried.
type Promise struct {
	Decision placement.Decision
	// Exact says that CPUs, memory and devices were promised, not only the admission.
	Exact bool
}

// Node is the ledger's account of one node. It is safe for concurrent use.
type Node struct {
	mu sync.Mutex
	// newest is the latest second of creation among the pods in flight. It and answers stay beside mu: on a large cluster a
	// remembered answer costs little more than the visits to memory.
	newest int64
	// changes shows newest, and that something has changed, to those who do not want to wait for mu.
	changes *ChangeCounter
	// answers holds answers of the present, previous those before the last change, if there were any.
	answers, previous memory
	// estimates holds answers of the present for the order of Reserve alone.
	estimates memory

	report   *Report
	pods     map[string]*pod
	stateIDs *stateIDs
	// posted and reserved are the pods in flight in order: posted by turn, reserved as Reserve took them.
	posted, reserved []*pod
	turn             int64
	// begun: a report has been accepted, ever.
	begun bool

	// first holds the states before the pods in flight, base those after the posted ones, full those after the reserved
	// ones too. They are functions of the fields above; valid says that they have been computed since those changed.
	first, base, full worlds
	valid             bool
	// steps holds the states after none, one, two ... of the pods in flight, as far as anyone has asked for them.
	steps []worlds
}

// Candidate is a pod that wants a node.
type Candidate struct {
	Request *placement.Request
	// Shape is Ledger.Shape of the request; 0 keeps answers from being remembered.
	Shape Shape
	// Created is the second of the pod's creation (metadata.creationTimestamp, Unix time): it decides in what order a
	// kubelet admits pods that it hears of all at once.
	Created int64
	// Mortal says that the pod can end by itself.
	Mortal bool
}

// question is what an answer depends on, given the node.
type question struct {
	shape Shape
	// created is that of the candidate, or late when it is later than that of every pod in flight.
	created int64
}

// late stands for any second after those of the pods in flight.
const late = math.MaxInt64

// memory holds the last answers that a node gave, in no order. A handful: looking through them costs less than hashing.
type memory struct {
	held []remembered
	next int // to be overwritten next, once there are maxAnswers
	// newest is that of the node when they were given: it decides which question a candidate asks.
	newest int64
}

type remembered struct {
	q question
	a Answer
	// told: Shift has given it.
	told bool
}

// maxAnswers bounds the remembered answers of a node.
const maxAnswers = 16

func (m *memory) find(q question) *Answer {
	for i := range m.held {
		if m.held[i].q == q {
			return &m.held[i].a
		}
	}
	return nil
}

// tell notes that Shift has given an answer.
func (m *memory) tell(q question) {
	for i := range m.held {
		m.held[i].told = m.held[i].told || m.held[i].q == q
	}
}

// dropUntold forgets admissions that Shift has not given.
func (m *memory) dropUntold() {
	m.held = slices.DeleteFunc(m.held, func(r remembered) bool { return r.a.OK() && !r.told })
}

func (m *memory) put(q question, a Answer) {
	switch old := m.find(q); {
	case old != nil:
		*old = a
	case len(m.held) < maxAnswers:
		m.held = append(m.held, remembered{q: q, a: a})
	default:
		m.held[m.next] = remembered{q: q, a: a}
		m.next = (m.next + 1) % maxAnswers
	}
}

func (m *memory) clear() { m.held, m.next = m.held[:0], 0 }

// Report returns the last report, or nil.
func (n *Node) Report() *Report {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.report
}

// Admit answers whether the node takes the candidate, after everything in flight. Answers are remembered until
// something changes.
func (n *Node) Admit(c *Candidate) Answer {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.admit(c)
}

// questionOf returns under what the answer to a candidate is remembered. A pod that the node has already, as one whose Binding is in
// doubt, is answered for itself alone: no other has its place.
func (n *Node) questionOf(c *Candidate) question {
	if n.pods[c.Request.UID] != nil {
		return question{}
	}
	return c.question(n.newest)
}

// question is what the candidate asks of a node where the newest pod in flight is of that second.
func (c *Candidate) question(newest int64) question {
	if c.Created > newest {
		return question{c.Shape, late}
	}
	return question{c.Shape, c.Created}
}

func (n *Node) admit(c *Candidate) Answer {
	q := n.questionOf(c)
	if a := n.answers.find(q); a != nil {
		return *a
	}
	if n.report == nil {
		return Answer{}
	}
	a := n.consult(c, true, nil)
	n.remember(n.questionOf(c), a)
	return a
}

func (n *Node) remember(q question, a Answer) {
	if q.shape != 0 {
		n.answers.put(q, a)
		n.answers.newest = n.newest // the same until they are forgotten
	}
}

// changed forgets what was computed.
func (n *Node) changed() {
	n.valid = false
	n.first, n.base, n.full, n.steps = worlds{}, worlds{}, worlds{}, nil
	n.setNewest(late) // nothing that is remembered fits
	n.stale()
}

// stale keeps the answers as those of the past. Where nobody has asked since the change before, as when another node of the
// same state id answered for this one, nothing is known of the past: what was true before that change need not have been
// true since.
func (n *Node) stale() {
	n.changes.Bump()
	n.estimates.clear()
	n.answers.dropUntold()
	n.answers, n.previous = n.previous, n.answers
	n.answers.clear()
}

// Shift asks again and says what the node answered before the last change. An answer that nobody asked for, or that is not
// remembered, is Unreported: whoever waits for the node to take it has to be told again. So is an admission that Shift did not give: others may
// have asked between the change that brought it about and the Shift that was to tell of it, and changed the node since.
func (n *Node) Shift(c *Candidate) (before, now Answer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a := n.previous.find(c.question(n.previous.newest)); a != nil {
		before = *a
	}
	now = n.admit(c)
	n.answers.tell(n.questionOf(c))
	return before, now
}

// compute brings base, full and newest up to date.
func (n *Node) compute() {
	if n.valid {
		return
	}
	n.first = n.start()
	posted, reserved := n.flight(false), n.flight(true)
	n.base = n.first.landAll(posted)
	if len(reserved) == len(posted) {
		n.full = n.base.clone()
	} else {
		n.full = n.first.landAll(reserved)
	}
	n.setNewest(newestOf(reserved))
	n.valid = true
}

// flight returns the pods in flight that matter: the posted ones, and where asked for the reserved ones after them.
func (n *Node) flight(reserved bool) []*pod {
	var out []*pod
	for _, p := range n.posted {
		if !n.isInert(p) {
			out = append(out, p)
		}
	}
	if reserved {
		for _, p := range n.reserved {
			if !n.isInert(p) {
				out = append(out, p)
			}
		}
	}
	return out
}

// isInert says whether the node's kubelet never pins anything for the pod.
func (n *Node) isInert(p *pod) bool {
	if p.inertOn != n.report.Model {
		p.inert, p.inertOn = inert(n.report.Model, p.req), n.report.Model
	}
	return p.inert
}

// inert asks an empty node: what a kubelet looks at does not depend on what it has handed out.
func inert(m *placement.Model, r *placement.Request) bool {
	d := decisions.Get().(*placement.Decision)
	defer decisions.Put(d)
	if v := placement.Decide(m.NewState(), r, d); !v.OK() {
		return false
	}
	for i := range d.Containers {
		c := &d.Containers[i]
		if !c.CPUs.IsEmpty() || len(c.Memory) > 0 || len(c.Devices) > 0 {
			return false
		}
	}
	return true
}

// newestOf returns the latest second of creation.
func newestOf(flight []*pod) int64 {
	newest := int64(math.MinInt64)
	for _, p := range flight {
		newest = max(newest, p.created)
	}
	return newest
}

// start returns the states that follow from the report, before anything in flight.
func (n *Node) start() worlds {
	w := worlds{model: n.report.Model, pinsMemory: n.report.pinsMemory, shared: true}
	w.all = []world{{state: n.report.state}}
	var set uint32
	for _, uid := range n.report.order {
		set |= n.eventsOfReported(&w, uid)
	}
	w.open(set | w.addArrivals(n.afloat()))
	return w
}

// eventsOfReported adds the events of a pod in the report.
func (n *Node) eventsOfReported(w *worlds, uid string) uint32 {
	r := n.report.pods[uid]
	if !r.holds {
		return 0
	}
	set := w.addStarts(uid, starts(&r.alloc))
	if p := n.pods[uid]; p == nil || p.ending {
		set |= w.addEvent(event{kind: release, uid: uid})
	}
	return set
}

// addStarts adds the starts of a pod's containers, each after the one before, and returns the first.
func (w *worlds) addStarts(uid string, containers []string) uint32 {
	var next uint32
	for _, c := range slices.Backward(containers) {
		next = w.addEvent(event{kind: start, uid: uid, container: c, then: next})
	}
	return next
}

// afloat returns the pods whose place in the order is not known, by UID.
func (n *Node) afloat() []*pod {
	var list []*pod
	for _, p := range n.pods {
		if p.stage == afloatStage {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *pod) int { return compareText(a.uid, b.uid) })
	return list
}

// land admits a pod in flight. Where an inherited one lands is not known.
func (w *worlds) land(p *pod) {
	if p.inherited {
		w.giveUp(Inherited)
		return
	}
	w.admit(p.req, p.ending, w.expect(p))
}

// expect makes the events known that are possible once the pod is admitted.
func (w *worlds) expect(p *pod) uint32 {
	if set, ok := w.after[p.uid]; ok {
		return set
	}
	set := w.eventsAfter(p)
	w.after = maps.Clone(w.after)
	if w.after == nil {
		w.after = map[string]uint32{}
	}
	w.after[p.uid] = set
	return set
}

// landAll admits the pods in every order that is possible, and returns all states that can come of it.
func (w *worlds) landAll(flight []*pod) worlds {
	orders := landingOrders(flight, (*pod).alike)
	out := w.clone()
	for _, p := range flight {
		out.expect(p) // the same events in every order
	}
	if orders == nil {
		out.giveUp(ManyOrders)
		return out
	}
	begin := out
	for i, order := range orders {
		one := begin.clone()
		for _, p := range order {
			one.land(p)
		}
		if i == 0 {
			out = one
			continue
		}
		out.join(&one)
	}
	return out
}

// join adds the worlds of another order.
func (w *worlds) join(o *worlds) {
	if o.uncertain() {
		w.giveUp(o.why)
	}
	for _, v := range o.all {
		w.add(v)
	}
}

// eventsAfter adds the events that are possible once a pod in flight is admitted.
func (w *worlds) eventsAfter(p *pod) uint32 {
	var set uint32
	if w.pinsMemory {
		set = w.addStarts(p.uid, requestedStarts(p.req))
	}
	if p.ending {
		set |= w.addEvent(event{kind: release, uid: p.uid})
	}
	return set
}

// requestedStarts is starts for a pod that is not admitted yet.
func requestedStarts(r *placement.Request) []string {
	var names []string
	held := false
	for i := range r.Containers {
		c := &r.Containers[i]
		if held {
			names = append(names, c.Name)
			held = false
		}
		held = held || c.Kind == placement.Init && r.Guaranteed && len(c.Memory) > 0
	}
	return names
}

func compareText(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
