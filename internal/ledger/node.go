package ledger

import (
	"slices"
	"sync"

	"github.com/berth-dev/berth/placement"
)

// Node is the ledger's account of one node. It is safe for concurrent use.
//
//	the scheduler      Reserve, Post, Reconsider: decide. Forget: it was not written. Doubt: was it?
//	the API tells      See, Glance, Gone
//	the agent tells    Accept, Withdraw, and ForgetGone at each sign of life
//	all that wait      Shift: did the answer change?
//	everybody          View: what would it answer, and why?
type Node struct {
	mu sync.Mutex
	// newest is the latest second of creation among the pods in flight. It and answers stay beside
	// mu: on a large cluster a remembered answer costs little more than the visits to memory.
	newest int64
	// changes shows newest, and that something has changed, to those who do not want to wait for
	// mu.
	changes *ChangeCounter
	// answers holds answers of the present, previous those before the last change, if there were
	// any.
	answers, previous memory
	// estimates holds answers of the present for the order of Reserve alone.
	estimates memory

	report    *Report
	lingerers lingerers
	lives
	// holdings are the places that are held for pods to come, by UID.
	holdings []*holding
	// begun: a report has been accepted, ever.
	begun    bool
	stateIDs *numbers

	// first holds the states before the pods in flight, base those after the posted ones, full
	// those after the reserved ones too. They are functions of the fields above; valid says that
	// they have been computed since those changed.
	first, base, full worlds
	valid             bool
	// steps holds the states after none, one, two ... of the pods in flight, as far as anyone has
	// asked for them.
	steps []worlds
}

// changed forgets what was computed.
func (n *Node) changed() {
	n.valid = false
	n.first, n.base, n.full, n.steps = worlds{}, worlds{}, worlds{}, nil
	n.setNewest(afterAll, n.changes.InFlight()) // nothing that is remembered fits
	n.stale()
}

// compute brings first, base, full and newest up to date.
func (n *Node) compute() {
	switch {
	case n.valid:
		return
	case n.decides():
		n.computeHeld()
		return
	}
	n.first = n.initial(interchangeable)
	posted, all := n.flight(false), n.flight(true)
	n.base = n.afterAll(&n.first, posted, interchangeable)
	if len(all) == len(posted) {
		n.full = n.base.clone()
	} else {
		n.full = n.afterAll(&n.first, all, interchangeable)
	}
	n.setNewest(newestOf(all), len(all))
	n.valid = true
}

// afterAll returns the states after the pods in flight. Of a report that tells amounts alone there
// is one: each pod is charged, in the order in which the pods are known.
func (n *Node) afterAll(first *worlds, flight []*pod, same sameness) worlds {
	if n.report.Amounts {
		return first.charge(flight)
	}
	return first.admitAll(flight, same)
}

// setNewest notes the latest second of creation among the pods in flight, and how many they are.
func (n *Node) setNewest(second int64, flight int) {
	n.newest = second
	n.changes.newest.Store(second)
	n.changes.flight.Store(int32(flight))
}

// likeliest returns the likeliest state after everything in flight; nil where there is none to
// speak of.
func (n *Node) likeliest() *placement.State {
	if n.report == nil {
		return nil
	}
	n.compute()
	if n.full.uncertain() {
		return nil
	}
	return n.full.all[0].state
}

// initial returns the states that follow from the report, before anything in flight.
func (n *Node) initial(mayChange sameness) worlds {
	w := worlds{model: n.report.Model, pinsMemory: n.report.pinsMemory, shared: true}
	w.all = []world{{state: n.report.state}}
	if n.report.Amounts { // nobody tells when what ends is given back, but the next report
		w.pinsMemory = false
		return w
	}
	var set uint32
	for _, uid := range n.report.order {
		set |= n.eventsOfReported(&w, uid)
	}
	n.lingerIn(&w, set)
	w.enable(set | w.addArrivals(n.afloat(), mayChange))
	return w
}

// lingerIn tells the worlds of the pods that an admission which has begun may have seen; events are
// those of the report.
func (n *Node) lingerIn(w *worlds, events uint32) {
	l := &n.lingerers
	if l.held == nil && !l.lost || !slices.ContainsFunc(n.posted, func(p *pod) bool { return p.underway }) {
		return
	}
	if len(n.afloat()) > 0 || l.lost {
		w.giveUp(ManyStates)
		return
	}
	w.lingering = &lingering{from: world{state: l.held, open: events}, uids: l.uids}
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

// flight returns the pods in flight that matter: the posted ones, and where asked for the reserved
// ones after them. Where the report tells amounts alone the ones that are afloat come first.
func (n *Node) flight(withReserved bool) []*pod {
	var out []*pod
	if n.decides() {
		return nil // they hold what they were promised
	}
	if n.report.Amounts {
		out = slices.DeleteFunc(n.afloat(), n.isInert)
	}
	for _, p := range n.posted {
		if !n.isInert(p) {
			out = append(out, p)
		}
	}
	if withReserved {
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
		if !c.CPUs.IsEmpty() || len(c.Memory) > 0 || len(c.Devices) > 0 || len(c.Provided) > 0 {
			return false
		}
	}
	return true
}

// after returns the states after the first pods of the flight. They are the node's: the caller
// clones them.
func (n *Node) after(flight []*pod, count int) *worlds {
	if len(n.steps) == 0 {
		n.steps = append(n.steps, n.first.clone())
	}
	for len(n.steps) <= count {
		last := len(n.steps) - 1
		w := n.steps[last].clone()
		w.admitNext(flight[last])
		n.steps = append(n.steps, w)
	}
	return &n.steps[count]
}

// supposing returns the states from which to ask what would be without these pods. They come after
// the posted pods and, if asked for, the reserved ones. Pods that could change places are told
// apart here. The caller owns the result.
func (n *Node) supposing(uids []string, withReserved bool) worlds {
	n.compute()
	if n.decides() {
		return n.full.clone()
	}
	apart := n.exchangeable(uids)
	switch {
	case len(apart) > 0 && !n.report.Amounts:
		same := sameness(interchangeable).except(apart...)
		first := n.initial(same)
		return first.admitAll(n.flight(withReserved), same)
	case withReserved:
		return n.full.clone()
	default:
		return n.base.clone()
	}
}

// exchangeable returns those of the pods that can change places with another one.
func (n *Node) exchangeable(uids []string) []*pod {
	var list []*pod
	for _, uid := range uids {
		if p := n.pods[uid]; p != nil && n.hasTwin(p) {
			list = append(list, p)
		}
	}
	return list
}

func (n *Node) hasTwin(p *pod) bool {
	if p.stage == reported {
		return false
	}
	for _, q := range n.pods {
		if q != p && q.stage != reported && interchangeable(q, p) {
			return true
		}
	}
	return false
}
