package ledger

import (
	"cmp"
	"slices"

	"github.com/berth-dev/berth/placement"
)

// consult answers whether the node admits the candidate in addition to the posted pods and, if
// withReserved is set, the reserved pods. If d is not nil, consult also determines whether the
// decision is exact, and fills d with the decision of the likeliest state. The caller must hold the
// lock and have checked that there is a report.
func (o *outlook) consult(c *Candidate, withReserved bool, d *placement.Decision) Answer {
	return o.facts.asFarAsKnown(o.consultStates(c, withReserved, d))
}

// consultBeside is consult for a pod that owns no Holding. It counts all pods in flight, and
// refuses the pod if a Holding would lose its room.
func (o *outlook) consultBeside(c *Candidate, d *placement.Decision) Answer {
	a := o.consult(c, true, d)
	if len(o.facts.holdings) == 0 {
		return a
	}
	return o.besideHoldings(a, c.Request, "", o.afterReserved())
}

// consultStates is consult without asFarAsKnown.
func (o *outlook) consultStates(c *Candidate, withReserved bool, d *placement.Decision) Answer {
	o.compute()
	flight := o.line
	if !withReserved {
		flight = o.facts.flight(false)
	}
	if waveOf(flight) > c.Wave && !inert(o.facts.report.Model, c.Request) {
		return waiting(InWaves)
	}
	switch {
	case c.Loose && o.hasRoom(flight, c.Request):
		return o.consultLast(c, flight, d)
	case !o.facts.report.Amounts && !c.follows(flight) && !inert(o.facts.report.Model, c.Request):
		return o.consultInAnyOrder(c, flight, d)
	}
	w := o.afterPosted()
	if withReserved {
		w = o.afterReserved()
	}
	switch {
	case w.uncertain():
		return waiting(w.why)
	case d == nil && len(w.all) == 1:
		return w.ask(c.Request)
	default:
		return w.decideAll(c.Request, d)
	}
}

// hasRoom reports whether the node admits all pods in the list flight, and the further requests, in
// every order. If hasRoom returns true, the caller need not try the orders; false means only that
// hasRoom cannot tell. It returns false, for example, if one of these pods is promised its CPUs,
// because it could get other CPUs in another order.
func (o *outlook) hasRoom(flight []*pod, more ...*placement.Request) bool {
	w := &o.first
	if o.forked || o.facts.decides() || o.facts.report.Amounts || len(w.all) != 1 || w.all[0].open != 0 || w.lingering != nil || len(flight) == 0 {
		return false
	}
	requests := make([]*placement.Request, 0, len(flight)+len(more))
	for _, p := range flight {
		if p.inherited || p.resized || p.ending() || p.promisedExact() || slices.ContainsFunc(more, func(r *placement.Request) bool { return r.UID == p.uid }) {
			return false
		}
		requests = append(requests, p.req)
	}
	return w.all[0].state.TakesInAnyOrder(append(requests, more...))
}

// consultLast answers for a candidate that hasRoom accepts. d receives the decision for the case
// that the candidate comes last. The answer is not exact if other orders are possible.
func (o *outlook) consultLast(c *Candidate, flight []*pod, d *placement.Decision) Answer {
	a := o.after(flight, len(flight)).decideAll(c.Request, d)
	same := inOneOrder(append(slices.Clip(flight), newPod(c)), interchangeableInDebt)
	a.Certain, a.Exact = a.Certain && same, a.Exact && same
	return a
}

// consultInAnyOrder answers for a candidate that the kubelet may admit before pods in flight. The
// candidate is admitted only if no pod in flight loses its promise.
func (o *outlook) consultInAnyOrder(c *Candidate, flight []*pod, d *placement.Decision) Answer {
	x := newPod(c)
	same := sameness(interchangeableInDebt)
	if !c.Loose { // compare the candidate's decisions in all orders
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
		w := o.after(flight, as).clone()
		if why := w.play(order[as:], x, &t, d); why != WaitsForNothing {
			return Answer{Outcome: Waiting, Wait: why, Verdict: t.answer.Verdict}
		}
	}
	return t.result()
}

// decideAgain decides again about a pod. Of the other pods in flight, it counts only the posted
// ones. Answer.Exact also considers the pods that can end by themselves (steady). If Berth decides,
// the pod keeps its decision.
func (o *outlook) decideAgain(p *pod, d *placement.Decision) Answer {
	if o.facts.decides() {
		return o.keepsHeld(p, d)
	}
	a := o.consult(p.candidate(), false, d)
	if a.OK() {
		a.Exact = a.Exact && !p.loose && o.steady(p.req, d)
	}
	return a
}

// keepsHeld answers for a pod with a decision. The pod keeps its allocation, unless another pod has
// a part of it. d receives the decision.
func (o *outlook) keepsHeld(p *pod, d *placement.Decision) Answer {
	o.compute()
	if p.held == nil || p.displaced != "" {
		return waiting(Undecided)
	}
	return o.afterReserved().decideAll(p.req, d)
}

// If at most maxMortals pods can end by themselves, steady tries every set of them. If there are
// more, no decision counts as steady.
const maxMortals = 3

// steady reports whether the pod gets the same decision whichever pods end by themselves before the
// kubelet admits it.
func (o *outlook) steady(r *placement.Request, d *placement.Decision) bool {
	mortals := o.facts.mortals()
	if len(mortals) == 0 {
		return true
	}
	if len(mortals) > maxMortals {
		return false
	}
	other := decisions.Get().(*placement.Decision)
	defer decisions.Put(other)
	base := o.supposing(mortals, false)
	for set := 1; set < 1<<len(mortals); set++ {
		w := base.clone()
		w.without(subset(mortals, set))
		if a := w.decideAll(r, other); !a.Exact || !Same(d, other) {
			return false
		}
	}
	return true
}

func subset[T any](list []T, set int) []T {
	var out []T
	for i := range list {
		if set>>i&1 == 1 {
			out = append(out, list[i])
		}
	}
	return out
}

// besideHoldings refuses a pod if the node could then no longer admit the requests of its Holdings,
// except the Holding with this UID. w has the states before the pod is admitted. If Berth decides,
// besideHoldings checks nothing, because held resources are not free.
func (o *outlook) besideHoldings(a Answer, r *placement.Request, but string, w *worlds) Answer {
	if len(o.facts.holdings) == 0 || !a.OK() || o.facts.decides() {
		return a
	}
	var held []*placement.Request
	for _, h := range o.facts.holdings {
		if h.UID != but && h.UID != r.UID && h.Request != nil {
			held = append(held, h.Request)
		}
	}
	after, before := w.clone(), w.clone()
	if after.uncertain() || !after.with(r) { // the states after the pod are not known
		if len(held) == 0 || o.hasRoom(o.line, append(held, r)...) {
			return a
		}
		return waiting(cmp.Or(after.why, Undecided))
	}
	for _, request := range held {
		left, had := after.clone(), before.clone()
		keeps := left.with(request)
		if !had.with(request) {
			continue // the Holding has no room even without the pod
		}
		if !keeps {
			return Answer{Outcome: Refused, Verdict: placement.Verdict{Scarcity: placement.Resolvable}, Held: true, Certain: a.Certain, Amounts: a.Amounts}
		}
		before, after = had, left
	}
	return a
}

func (o *outlook) consultOwner(c *Candidate, h *holding, d *placement.Decision) Answer {
	if d == nil {
		d = decisions.Get().(*placement.Decision)
		defer decisions.Put(d)
	}
	if !o.facts.decides() {
		return o.besideHoldings(o.consult(c, true, d), c.Request, h.UID, o.afterReserved())
	}
	if h.Held == nil {
		return Answer{Outcome: Refused, Verdict: placement.Verdict{Reason: placement.NoBerth, Detail: placement.NoRoom, Scarcity: placement.Resolvable}}
	}
	var v placement.Verdict
	if state := o.afterReserved().all[0].state; h.More {
		v = placement.DecideBeyond(state, h.Held, h.Once, c.Request, d)
	} else {
		v = placement.DecideWithin(state, h.Held, c.Request, d)
	}
	t := tally{decided: true}
	t.count(&v)
	return t.result()
}

// Trial changes a question: the node answers as if some pods were removed and others were added.
// The zero value changes nothing. A Trial does not change the Node.
type Trial struct {
	// Without has the UIDs of pods to remove. If it is not empty, pods that the API no longer has
	// are removed too, because the kubelet will release them anyway. Afloat pods stay, because they
	// may never have been bound.
	Without []string
	// With lists requests that the kubelet admits before the candidate, in this order.
	With []*placement.Request
}

// IsZero reports whether the trial changes nothing.
func (t *Trial) IsZero() bool { return t == nil || len(t.Without) == 0 && len(t.With) == 0 }

// suppose answers under the trial's assumptions. It admits the requests of With first, and asks
// only the states that admit them. If some states refuse these requests, the answer Waiting
// replaces Admitted. If all states refuse them, the answer is Waiting, unless a state refuses the
// candidate even without them.
func (o *outlook) suppose(t *Trial, c *Candidate) Answer {
	if o.facts.report == nil {
		return Answer{}
	}
	if o.facts.wave() > 0 && !inert(o.facts.report.Model, c.Request) {
		return waiting(InWaves)
	}
	away := t.Without
	if len(away) > 0 {
		away = append(slices.Clip(away), o.facts.pods.departed()...)
	}
	w := o.supposing(away, true)
	w.without(away)
	after := w.clone()
	after.keepWith(t.With)
	if len(after.all) == 0 && !after.uncertain() {
		return w.behind(c.Request)
	}
	a := o.facts.asFarAsKnown(after.ask(c.Request))
	if len(after.all) < len(w.all) && a.Outcome == Admitted {
		return waiting(AfterOthers)
	}
	return o.besideHoldings(a, c.Request, "", &after)
}
