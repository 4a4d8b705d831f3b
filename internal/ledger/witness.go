package ledger

import (
	"cmp"
	"slices"

	"github.com/berth-dev/berth/placement"
)

// Expectation is how a kubelet is expected to answer a pod that another scheduler bound.
type Expectation struct {
	// Answer is the node's answer after all earlier Bindings: Admitted, Refused, Waiting if the
	// possible states differ, or Unreported if there is no report.
	Answer Answer
	// Decision is the pod's allocation in the likeliest state, and Spare the Spare of the node.
	// Both are empty unless the pod is admitted.
	Decision placement.Decision
	Spare    Spare
	// Either is as in Promise, for an Undecided answer.
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
// the order in which the kubelet receives them, so the pod gets the next turn. It returns false,
// and changes nothing, if the node already knows the pod, because the kubelet may have answered
// before.
func (n *Node) Witness(s *Sighting) (e Expectation, first bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pods[s.UID] != nil || n.report.Has(s.UID) {
		return e, false
	}
	asks := *s.Request
	asks.Rules = placement.Rules{} // the kubelet does not know Berth's rules
	p := &pod{uid: s.UID, asked: asked{req: asks.Settled()}, created: s.Created, turn: n.turn + 1, underway: !s.After, fresh: s.After}
	p.sight = sight{shown: true, phase: s.Phase, mortal: s.Mortal}
	if n.report != nil {
		if s.After {
			n.forgetLeft()
		}
		e = n.expect(p)
	}
	n.witnessing = true
	n.become(p, posted)
	n.changed()
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
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.witnessing || n.report == nil {
		return nil
	}
	if len(n.posted) > 0 && !slices.ContainsFunc(n.posted, func(p *pod) bool { return !p.fresh }) {
		n.forgetLeft() // an admission that may still count these pods has them as lingering pods
	}
	for _, p := range n.posted {
		if p.promise != nil || p.answered || p.passed {
			continue
		}
		if e := n.expect(p); p.promise != nil {
			out = append(out, Foreseen{p.uid, e})
		}
	}
	return out
}

// expect returns the expectation for a pod that the kubelet admits after the pods that were bound
// before it, and records it as a promise. The caller must check that there is a report.
func (n *Node) expect(p *pod) (e Expectation) {
	switch {
	case n.decides(): // without a decision, such a node gives a pod no resources
		e.Answer = waiting(Undecided)
		return e
	case p.underway && n.ahead(): // the report may list pods that came after the kubelet's answer
		e.Answer = waiting(Unshown)
		return e
	}
	n.compute()
	w := n.before(p)
	if w.uncertain() {
		e.Answer = waiting(w.why)
		return e
	}
	if p.underway && w.lingering != nil && w.lingering.minds(w, p.req) {
		e.Answer = waiting(ManyStates)
		return e
	}
	var d placement.Decision
	e.Answer = n.asFarAsKnown(w.decideAll(p.req, &d))
	switch reason := e.Answer.Verdict.Reason; {
	case e.Answer.Outcome == Refused && (reason > placement.PodLevelResourcesNotSupported): // no kubelet gives this reason
		e.Answer = waiting(Unpredictable)
	case e.Answer.Wait == Undecided:
		e.Either = w.decisions(p.req)
	case e.Answer.OK():
		e.Decision = d.Clone()
		e.Answer.Exact = e.Answer.Exact && n.steady(p.req, &e.Decision)
		e.Spare.Fill(n.report.Model, w.all[0].state, p.req, &e.Answer.Verdict)
	}
	p.promise = e.promise()
	p.contended = p.promise != nil && p.promise.Refused && n.mayMakeRoom(p.req, w)
	return e
}

// before returns the states before the admission of a pod. The caller owns them.
func (n *Node) before(p *pod) *worlds {
	at, _ := slices.BinarySearchFunc(n.line, p.turn, func(q *pod, turn int64) int { return cmp.Compare(q.turn, turn) })
	w := n.after(n.line, at).clone()
	w.end(n.endedBefore(p))
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

// forgetLeft removes ending pods that the report no longer lists. They left before every Binding
// that is later than the report.
func (n *Node) forgetLeft() {
	for _, p := range n.pods {
		if p.stage == afloat && p.listed && p.ending() {
			n.leave(p)
			n.changed()
		}
	}
}

// ahead reports whether the report has changes that the API has not shown yet.
func (n *Node) ahead() bool {
	if n.strangers != n.report.Sequence {
		return false
	}
	for uid := range n.report.pods {
		if n.report.pods[uid].holds && n.pods[uid] == nil {
			return true
		}
	}
	return false
}

// mayMakeRoom reports whether the kubelet might admit the pod if pods that can end by themselves
// had ended. The API may show such an end only after the kubelet's answer.
func (n *Node) mayMakeRoom(r *placement.Request, before *worlds) bool {
	mortals := n.mortals()
	if len(mortals) == 0 {
		return false
	}
	w := before.clone()
	w.without(mortals)
	a := w.ask(r)
	return a.Outcome != Refused
}

// Answered records that the kubelet has admitted or refused a pod, as the API shows, and returns
// the outcome of the promise if this settles it. An admission settles only an expected refusal,
// because only a report shows the pod's resources.
func (n *Node) Answered(uid string, admitted bool) (outcome *PromiseOutcome) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pods[uid]
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
		n.leave(p)
		n.changed()
	}
	return outcome
}

// outcomeOf returns an outcome with only the promise filled in.
func (p *pod) outcomeOf(promise *Promise) *PromiseOutcome {
	return &PromiseOutcome{UID: p.uid, Exact: promise.Exact, Foretold: promise.Refused, Either: len(promise.Either) > 0, Contended: p.contended, Promised: promise.Decision}
}
