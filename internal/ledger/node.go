package ledger

import (
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
	// promise is the decision of the Binding; nil when we made none.
	promise *Promise
}

// Promise is the decision that a Binding carried.
type Promise struct {
	Decision placement.Decision
	// Exact says that CPUs, memory and devices were promised, not only the admission.
	Exact bool
}

// Node is the ledger's account of one node. It is safe for concurrent use.
type Node struct {
	mu     sync.Mutex
	report *Report
	pods   map[string]*pod
	// posted and reserved are the pods in flight in order: posted by turn, reserved as Reserve took them.
	posted, reserved []*pod
	turn             int64

	// base holds the states after the posted pods, full those after the reserved ones too. They are functions of
	// the fields above; valid says that they have been computed since those changed.
	base, full worlds
	valid      bool
	// answers holds answers of the present, previous those before the last change.
	answers, previous map[Shape]Answer
}

// maxAnswers bounds the remembered answers of a node.
const maxAnswers = 64

// Report returns the last report, or nil.
func (n *Node) Report() *Report {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.report
}

// Admit answers whether the node takes a request, after everything in flight. Answers are remembered by shape until
// something changes; shape 0 is not remembered.
func (n *Node) Admit(shape Shape, r *placement.Request) Answer {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a, ok := n.answers[shape]; ok {
		return a
	}
	if n.report == nil {
		return Answer{}
	}
	n.compute()
	a := n.full.ask(r)
	if shape != 0 {
		n.remember(shape, a)
	}
	return a
}

func (n *Node) remember(shape Shape, a Answer) {
	if n.answers == nil || len(n.answers) >= maxAnswers {
		n.answers = make(map[Shape]Answer, 8)
	}
	n.answers[shape] = a
}

// changed forgets what was computed.
func (n *Node) changed() {
	n.valid = false
	n.base, n.full = worlds{}, worlds{}
	n.stale()
}

// stale keeps the answers as those of the past.
func (n *Node) stale() {
	if len(n.answers) > 0 {
		n.answers, n.previous = n.previous, n.answers
		clear(n.answers)
	}
}

// Shift asks again and says what the node answered before the last change; an answer nobody asked for is Unreported.
func (n *Node) Shift(shape Shape, r *placement.Request) (before, now Outcome) {
	n.mu.Lock()
	before = n.previous[shape].Outcome
	n.mu.Unlock()
	a := n.Admit(shape, r)
	return before, a.Outcome
}

// compute brings base and full up to date.
func (n *Node) compute() {
	if n.valid {
		return
	}
	n.base = n.start()
	for _, p := range n.posted {
		n.base.land(p)
	}
	n.full = n.base.clone()
	for _, p := range n.reserved {
		n.full.land(p)
	}
	n.valid = true
}

// start returns the states that follow from the report, before anything in flight.
func (n *Node) start() worlds {
	w := worlds{model: n.report.Model, pinsMemory: n.report.pinsMemory, shared: true}
	w.all = []world{{state: n.report.state}}
	var set uint32
	for _, uid := range n.report.order {
		set |= n.eventsOfReported(&w, uid)
	}
	for _, p := range n.afloat() {
		set |= w.addEvent(event{kind: admit, uid: p.uid, req: p.req, then: w.eventsAfter(p)})
	}
	w.open(set)
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

// land admits a pod in flight.
func (w *worlds) land(p *pod) { w.admit(p.req, p.ending, w.eventsAfter(p)) }

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
