package ledger

import (
	"cmp"
	"slices"

	"github.com/berth-dev/berth/placement"
)

// Expectation is how a kubelet is expected to answer a pod that another scheduler bound.
type Expectation struct {
	// Answer is the node's answer after all earlier Bindings: Admitted, Refused, Waiting if the
	// kubelet's answer cannot be predicted, or Unreported if there is no report.
	Answer Answer
	// Decision is the pod's allocation in the likeliest state, and Spare the node's Spare for the
	// pod. Both are empty unless the pod is admitted.
	Decision placement.Decision
	Spare    Spare
	// Either has the possible decisions if Answer.Wait is Undecided; see Promise.Either.
	Either []placement.Decision
}

// promise returns the expectation as a Promise, or nil if nothing can be expected.
func (e *Expectation) promise() *Promise {
	switch e.Answer.Outcome {
	case Admitted:
		return &Promise{Decision: e.Decision, Exact: e.Answer.Exact}
	case Refused:
		return &Promise{Refused: true}
	case Waiting:
		if len(e.Either) > 0 {
			return &Promise{Either: e.Either}
		}
	}
	return nil
}

// Witness records the Binding of a pod that another scheduler placed, and returns the expected
// answer of the kubelet. Call it when the API first shows the Binding. The API shows Bindings in
// the order in which the kubelet receives them, so the pod gets the next turn. If the node already
// knows the pod, the kubelet may have answered before. Witness then changes nothing and returns
// false.
func (n *Node) Witness(s *Sighting) (e Expectation, first bool) {
	o := n.lock()
	defer n.mu.Unlock()
	f := &o.facts
	if f.pods.byUID[s.UID] != nil || f.report.Has(s.UID) {
		return e, false
	}
	asks := *s.Request
	asks.Rules = placement.Rules{} // the kubelet does not know Berth's rules
	p := &pod{uid: s.UID, asked: asked{req: asks.Settled()}, created: s.Created, turn: f.pods.turn + 1, underway: !s.After, fresh: s.After}
	p.sight = sight{shown: true, phase: s.Phase, mortal: s.Mortal}
	if f.report != nil {
		if s.After {
			o.forgetLeft()
		}
		e = o.expect(p)
	}
	f.witnessing = true
	f.pods.become(p, posted)
	o.changed()
	return e, true
}

// Foreseen is an expectation that became possible only after the pod was bound.
type Foreseen struct {
	UID string
	Expectation
}

// Foresee returns expectations for bound pods for which none was possible before the last report.
// It leaves out pods whose answer from the kubelet is already known.
func (n *Node) Foresee() (out []Foreseen) {
	o := n.lock()
	defer n.mu.Unlock()
	f := &o.facts
	if !f.witnessing || f.report == nil {
		return nil
	}
	if len(f.pods.posted) > 0 && !slices.ContainsFunc(f.pods.posted, func(p *pod) bool { return !p.fresh }) {
		o.forgetLeft() // an admission that may still count these pods has them as lingering pods
	}
	for _, p := range f.pods.posted {
		if p.promise != nil || p.answered || p.passed {
			continue
		}
		if e := o.expect(p); p.promise != nil {
			out = append(out, Foreseen{p.uid, e})
		}
	}
	return out
}

// expect returns how the kubelet is expected to answer the pod, after all pods that were bound
// before it. If it can predict the answer, it records the answer as the pod's promise. The caller
// must check that there is a report.
func (o *outlook) expect(p *pod) (e Expectation) {
	switch {
	case o.facts.decides(): // such a node gives no resources to a pod without a decision
		e.Answer = waiting(Undecided)
		return e
	case p.underway && o.facts.ahead(): // the report may list pods that the kubelet admitted after this pod
		e.Answer = waiting(Unshown)
		return e
	}
	o.compute()
	w := o.before(p)
	if w.uncertain() {
		e.Answer = waiting(w.why)
		return e
	}
	if p.underway && w.lingering != nil && w.lingering.minds(w, p.req) {
		e.Answer = waiting(ManyStates)
		return e
	}
	var d placement.Decision
	e.Answer = o.facts.asFarAsKnown(w.decideAll(p.req, &d))
	switch reason := e.Answer.Verdict.Reason; {
	case e.Answer.Outcome == Refused && (reason > placement.PodLevelResourcesNotSupported): // no kubelet gives this reason
		e.Answer = waiting(Unpredictable)
	case e.Answer.Wait == Undecided:
		e.Either = w.decisions(p.req)
	case e.Answer.OK():
		e.Decision = d.Clone()
		e.Answer.Exact = e.Answer.Exact && o.steady(p.req, &e.Decision)
		e.Spare.Fill(o.facts.report.Model, w.all[0].state, p.req, &e.Answer.Verdict)
	}
	p.promise = e.promise()
	p.contended = p.promise != nil && p.promise.Refused && o.mayMakeRoom(p.req, w)
	return e
}

// before returns the states before the admission of a pod. The caller owns them.
func (o *outlook) before(p *pod) *worlds {
	at, _ := slices.BinarySearchFunc(o.line, p.turn, func(q *pod, turn int64) int { return cmp.Compare(q.turn, turn) })
	w := o.after(o.line, at).clone()
	w.end(o.facts.pods.endedBefore(p))
	return &w
}

// decisions returns the decisions of the worlds that admit the request.
func (w *worlds) decisions(r *placement.Request) (out []placement.Decision) {
	var d placement.Decision
	for i := range w.all {
		if v := placement.Decide(w.all[i].state, r, &d); v.OK() && !slices.ContainsFunc(out, func(o placement.Decision) bool { return Same(&o, &d) }) {
			out = append(out, d.Clone())
		}
	}
	return out
}

// forgetLeft removes ending pods that the report no longer lists. The removed pods left before
// every Binding that is later than the report.
func (o *outlook) forgetLeft() {
	for _, p := range o.facts.pods.byUID {
		if p.stage == afloat && p.listed && p.ending() {
			o.facts.pods.leave(p)
			o.changed()
		}
	}
}

// ahead reports whether the report lists pods with resources that the API has not shown yet.
func (f *facts) ahead() bool {
	if f.pods.strangers != f.report.Sequence {
		return false
	}
	for uid := range f.report.pods {
		if f.report.pods[uid].holds && f.pods.byUID[uid] == nil {
			return true
		}
	}
	return false
}

// mayMakeRoom reports whether the kubelet might admit the pod if all pods that can end by
// themselves had ended. The API may show such an end only after the kubelet's answer.
func (o *outlook) mayMakeRoom(r *placement.Request, before *worlds) bool {
	mortals := o.facts.mortals()
	if len(mortals) == 0 {
		return false
	}
	w := before.clone()
	w.without(mortals)
	a := w.ask(r)
	return a.Outcome != Refused
}

// Answered records that the kubelet has admitted or refused a pod, as the API shows. If the answer
// settles the pod's promise, Answered returns the outcome, otherwise nil. An admission settles only
// an expected refusal, because only a report shows the pod's resources.
func (n *Node) Answered(uid string, admitted bool) (outcome *PromiseOutcome) {
	o := n.lock()
	defer n.mu.Unlock()
	p := o.facts.pods.byUID[uid]
	if p == nil {
		return nil
	}
	p.answered = true
	if admitted && (p.promise == nil || !p.promise.Refused) {
		return nil
	}
	if p.promise != nil {
		outcome = p.outcomeOf(p.promise)
		outcome.Refused = !admitted
		p.promise = nil
	}
	if !admitted {
		o.facts.pods.leave(p)
		o.changed()
	}
	return outcome
}

// outcomeOf returns an outcome with only the promise filled in.
func (p *pod) outcomeOf(promise *Promise) *PromiseOutcome {
	return &PromiseOutcome{UID: p.uid, Exact: promise.Exact, Foretold: promise.Refused, Either: len(promise.Either) > 0, Contended: p.contended, Promised: promise.Decision}
}
