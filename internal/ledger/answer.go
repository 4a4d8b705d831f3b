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
	// Waiting: some states admit the request and some do not, or there are too many of them: the
	// next report tells.
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
	// Verdict is that of the likeliest state. Where the outcome is Refused and removing pods could
	// help in any state, its Scarcity says Resolvable.
	Verdict placement.Verdict
	// Certain says that there is but one state that the node may be in.
	Certain bool
	// Exact says that every state gives the same CPUs, memory and devices. Pods that can end by
	// themselves are only considered by Post.
	Exact bool
	// Amounts says that the node's report tells amounts alone: no answer of it is ever exact.
	Amounts bool
	// Held says that the request is refused for what is held for others (Holding).
	Held bool
}

func waiting(why Wait) Answer { return Answer{Outcome: Waiting, Wait: why} }

// OK says whether the request is admitted.
func (a *Answer) OK() bool { return a.Outcome == Admitted }

var decisions = sync.Pool{New: func() any { return new(placement.Decision) }}

// consult asks for the candidate after the posted pods and, if asked for, the reserved ones. With d
// it also finds out whether the decision is exact; d receives that of the likeliest state. The
// caller holds the lock, and there is a report.
func (n *Node) consult(c *Candidate, withReserved bool, d *placement.Decision) Answer {
	return n.asFarAsKnown(n.consultStates(c, withReserved, d))
}

// consultBeside is consult for a pod that is no owner of what is held on the node.
func (n *Node) consultBeside(c *Candidate, d *placement.Decision) Answer {
	return n.besideHoldings(n.consult(c, true, d), c.Request, "", &n.full)
}

// asFarAsKnown takes from an answer what the report cannot tell.
func (n *Node) asFarAsKnown(a Answer) Answer {
	if n.report.Amounts {
		a.Exact, a.Amounts = false, true
	}
	return a
}

// consultStates is consult as if every report told what is free.
func (n *Node) consultStates(c *Candidate, withReserved bool, d *placement.Decision) Answer {
	n.compute()
	flight := n.flight(withReserved)
	if waveOf(flight) > c.Wave && !inert(n.report.Model, c.Request) {
		return waiting(InWaves)
	}
	if !n.report.Amounts && !c.follows(flight) && !inert(n.report.Model, c.Request) {
		return n.consultInAnyOrder(c, flight, d)
	}
	w := &n.base
	if withReserved {
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

// consultInAnyOrder is for a candidate that the kubelet may admit before pods that are in flight.
// It is admitted only if none of these loses what it was promised.
func (n *Node) consultInAnyOrder(c *Candidate, flight []*pod, d *placement.Decision) Answer {
	x := &pod{uid: c.Request.UID, req: c.Request, created: c.Created, wave: c.Wave}
	same := sameness(interchangeableInDebt)
	if !c.Loose { // its own decision is compared from order to order
		same = same.except(x)
	}
	orders := arrivalOrders(append(slices.Clip(flight), x), same)
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
