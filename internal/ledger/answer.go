package ledger

import (
	"slices"
	"sync"

	"github.com/berth-dev/berth/placement"
)

// Outcome is what a node answers to a request.
type Outcome uint8

const (
	// Unreported: the node has no report, so nothing is known.
	Unreported Outcome = iota
	// Admitted: every state that the node may be in admits the request.
	Admitted
	// Refused: no state that the node may be in admits the request.
	Refused
	// Waiting: some states admit the request and some do not, or there are too many of them: the next report tells.
	Waiting
)

// String returns the outcome in lower case.
func (o Outcome) String() string {
	switch o {
	case Unreported:
		return "unreported"
	case Admitted:
		return "admitted"
	case Refused:
		return "refused"
	case Waiting:
		return "waiting"
	}
	return "outcome(?)"
}

// Answer is what a node says to a request. It is comparable.
type Answer struct {
	Outcome Outcome
	// Wait says why, where the outcome is Waiting.
	Wait Wait
	// Verdict is that of the likeliest state; where an outcome is Refused and removing pods could help in any state,
	// its Scarcity says Resolvable.
	Verdict placement.Verdict
	// Certain says that there is but one state that the node may be in.
	Certain bool
	// Exact says that every state gives the same CPUs, memory and devices. Pods that can end by themselves are only
	// considered by Post.
	Exact bool
}

func waiting(why Wait) Answer { return Answer{Outcome: Waiting, Wait: why} }

// OK says whether the request is admitted.
func (a *Answer) OK() bool { return a.Outcome == Admitted }

var decisions = sync.Pool{New: func() any { return new(placement.Decision) }}

// consult asks for the candidate after the posted pods, and where asked for after the reserved ones too. With d it also
// finds out whether the decision is exact; d receives that of the likeliest state. The caller holds the lock, and there
// is a report.
func (n *Node) consult(c *Candidate, reserved bool, d *placement.Decision) Answer {
	n.compute()
	flight := n.flight(reserved)
	if c.Created <= newestOf(flight) && !inert(n.report.Model, c.Request) {
		return n.consultInAnyOrder(c, flight, d)
	}
	w := &n.base
	if reserved {
		w = &n.full
	}
	switch {
	case w.uncertain():
		return waiting(w.why)
	case d != nil:
		return w.decideAll(c.Request, d)
	case len(w.all) == 1:
		return w.ask(c.Request)
	default:
		d = decisions.Get().(*placement.Decision)
		defer decisions.Put(d)
		return w.decideAll(c.Request, d)
	}
}

func (w *worlds) decideAll(r *placement.Request, d *placement.Decision) Answer {
	t := tally{}
	w.decide(&t, r, d)
	return t.result()
}

// consultInAnyOrder is for a candidate that the kubelet may admit before pods that are in flight. It is admitted only if
// none of these loses what it was promised.
func (n *Node) consultInAnyOrder(c *Candidate, flight []*pod, d *placement.Decision) Answer {
	x := &pod{uid: c.Request.UID, req: c.Request, created: c.Created, apart: true}
	orders := landingOrders(append(slices.Clip(flight), x), (*pod).alikeInDebt)
	if orders == nil {
		return waiting(ManyOrders)
	}
	if d == nil {
		d = decisions.Get().(*placement.Decision)
		defer decisions.Put(d)
	}
	t := tally{}
	for _, order := range orders {
		as := agreement(order, flight)
		w := n.after(flight, as).clone()
		if why := w.play(order[as:], x, &t, d); why != WaitsForNothing {
			return Answer{Outcome: Waiting, Wait: why, Verdict: t.answer.Verdict}
		}
	}
	return t.result()
}

// agreement is how many pods come first in both orders.
func agreement(a, b []*pod) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// play admits pods in the order given, asking for x on the way. It says why x has to wait, as when another one does not get what it was
// promised.
func (w *worlds) play(order []*pod, x *pod, t *tally, d *placement.Decision) Wait {
	for i, p := range order {
		if w.uncertain() {
			return w.why
		}
		if p == x {
			w.decide(t, x.req, d)
		} else if !w.keeps(p) {
			return PromiseAtRisk
		}
		if i < len(order)-1 {
			w.land(p)
		}
	}
	return w.why
}

// after returns the states after the first pods of the flight. They are the node's: the caller clones them.
func (n *Node) after(flight []*pod, count int) *worlds {
	if len(n.steps) == 0 {
		n.steps = append(n.steps, n.first.clone())
	}
	for len(n.steps) <= count {
		last := len(n.steps) - 1
		w := n.steps[last].clone()
		w.land(flight[last])
		n.steps = append(n.steps, w)
	}
	return &n.steps[count]
}

// keeps says whether every world admits a pod that is in flight, and gives it what it was promised.
func (w *worlds) keeps(p *pod) bool {
	d := decisions.Get().(*placement.Decision)
	defer decisions.Put(d)
	for i := range w.all {
		v := placement.Decide(w.all[i].state, p.req, d)
		if !v.OK() || p.promise != nil && p.promise.Exact && !Same(&p.promise.Decision, d) {
			return false
		}
	}
	return true
}

// ask asks every world for its verdict.
func (w *worlds) ask(r *placement.Request) Answer {
	if w.uncertain() {
		return waiting(w.why)
	}
	t := tally{}
	for i := range w.all {
		v := placement.Admit(w.all[i].state, r)
		t.count(&v)
	}
	return t.result()
}

// decide asks every world for its decision; d is, or becomes, that of the first world ever asked.
func (w *worlds) decide(t *tally, r *placement.Request, d *placement.Decision) {
	other := decisions.Get().(*placement.Decision)
	defer decisions.Put(other)
	for i := range w.all {
		into := other
		if t.first() {
			into = d
		}
		v := placement.Decide(w.all[i].state, r, into)
		t.differ = t.differ || v.Random || into == other && v.OK() && !Same(d, other)
		t.decided = true
		t.count(&v)
	}
}

// tally counts verdicts, the likeliest first.
type tally struct {
	answer   Answer
	yes, no  int
	scarcity placement.Scarcity
	// decided: decisions were compared; differ: some were not the same.
	decided, differ bool
}

func (t *tally) first() bool { return t.yes+t.no == 0 }

func (t *tally) count(v *placement.Verdict) {
	if t.first() {
		t.answer.Verdict = *v
	}
	if v.OK() {
		t.yes++
		return
	}
	t.no++
	if t.scarcity != placement.Resolvable {
		t.scarcity = v.Scarcity
	}
}

func (t *tally) result() Answer {
	a := t.answer
	a.Certain = t.yes+t.no == 1
	switch {
	case t.no == 0:
		a.Outcome = Admitted
		a.Exact = !t.differ && (t.decided || a.Certain) && !a.Verdict.Random
	case t.yes == 0:
		a.Outcome = Refused
		a.Verdict.Scarcity = t.scarcity
	default:
		a.Outcome, a.Wait = Waiting, Undecided
	}
	return a
}

// Same says whether two decisions hand out the same CPUs, memory and devices.
func Same(a, b *placement.Decision) bool {
	return slices.EqualFunc(a.Containers, b.Containers, func(x, y placement.ContainerDecision) bool {
		return x.CPUs == y.CPUs && slices.Equal(x.Memory, y.Memory) &&
			slices.EqualFunc(x.Devices, y.Devices, sameDevices)
	})
}

func sameDevices(x, y placement.DeviceAllocation) bool {
	return x.Resource == y.Resource && slices.Equal(x.IDs, y.IDs)
}
