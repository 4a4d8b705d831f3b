package ledger

import (
	"errors"
	"fmt"
	"time"

	"github.com/berth-dev/berth/placement"
)

// ErrNotReserved is the error of Post for a pod that is not reserved: Reserve has not accepted it,
// it was forgotten, or it is already posted.
var ErrNotReserved = errors.New("nothing is reserved for the pod on this node")

// Reserve decides whether the node admits the candidate in addition to all pods in flight, and if
// so, reserves the pod. If the pod is already reserved, Reserve decides again, and a refusal ends
// the reservation. d receives the decision of the likeliest state.
func (n *Node) Reserve(c *Candidate, d *placement.Decision) Answer {
	o := n.lock()
	defer n.mu.Unlock()
	if o.facts.report == nil {
		return Answer{}
	}
	p, before := o.replace(c)
	a := o.consultBeside(c, d)
	a.Exact = a.Exact && (!c.Loose || o.facts.decides())
	switch {
	case a.OK():
		p.grant(d, a.Exact, o.facts.decides())
		o.reserve(p)
	case o.restore(before):
	case c.Wave == 0:
		o.answers.remember(o.keyOf(c), a, o.changes.newest.Load())
	}
	return a
}

// replace returns a new pod for the candidate, and removes the pod with the same UID, if there is
// one. The caller decides with the candidate's own request. The request of the new pod is Settled,
// because a Keep (Rules.Keep) does not limit a pod that has a place.
func (o *outlook) replace(c *Candidate) (p, before *pod) {
	p, before = newPod(c), o.facts.pods.byUID[c.Request.UID]
	p.req = c.Request.Settled()
	if before != nil {
		p.doubt = before.doubt
		o.facts.pods.leave(before)
		o.changed()
	}
	return p, before
}

// restore brings back the pod that replace removed, after the new attempt was refused. It does so
// only if a Binding of that pod may still be written, and reports whether it did.
func (o *outlook) restore(before *pod) bool {
	if before == nil || !before.doubted() {
		return false
	}
	o.facts.pods.takeBack(before)
	o.changed()
	return true
}

// Loosen makes a reserved pod Loose: the pod keeps the promise of its admission, and loses the
// promise of particular CPUs.
func (n *Node) Loosen(uid string) {
	o := n.lock()
	defer n.mu.Unlock()
	p := o.facts.pods.byUID[uid]
	if p == nil || p.stage != reserved || p.loose || o.facts.decides() {
		return
	}
	p.loose, p.promise = true, &Promise{Decision: p.promise.Decision}
	o.changed()
}

func (o *outlook) reserve(p *pod) {
	last := p.created > o.changes.newest.Load() || p.wave > o.facts.wave() || p.loose && o.comesLast(p)
	o.facts.pods.become(p, reserved)
	if o.changes.Unshown() > 0 {
		o.noteUnshown()
	}
	switch {
	case o.facts.decides():
		o.hold(p)
	case !o.facts.isInert(p):
		o.enqueue(p, last)
		o.stale()
	}
}

// Posting has the values that the caller writes into a Binding.
type Posting struct {
	Answer Answer
	// Turn is the Binding's position among the Bindings of the node. Each turn is larger than all
	// earlier ones.
	Turn int64
	// Report is the sequence number of the report on which the decision is based.
	Report int64
}

// Post decides again about a reserved pod. Of the other pods in flight, it counts only the posted
// ones. If the pod is still admitted, it gets the next turn, and the caller must write its Binding.
// The caller writes one Binding at a time. d receives the decision.
func (n *Node) Post(uid string, d *placement.Decision) (Posting, error) {
	o := n.lock()
	defer n.mu.Unlock()
	f := &o.facts
	p := f.pods.byUID[uid]
	if p == nil || p.stage != reserved {
		return Posting{}, fmt.Errorf("pod %s: %w", uid, ErrNotReserved)
	}
	if f.report == nil { // the report was withdrawn after Reserve
		return Posting{}, nil
	}
	if !f.due(p) {
		return Posting{Answer: waiting(InWaves)}, nil
	}
	a := o.decideAgain(p, d)
	if !a.OK() {
		return Posting{Answer: a}, nil
	}
	o.postNext(p, &Promise{Decision: d.Clone(), Exact: a.Exact})
	return Posting{Answer: a, Turn: p.turn, Report: f.report.Sequence}, nil
}

// postNext posts a reserved pod. If the order of all pods stays the same, o.full stays valid.
func (o *outlook) postNext(p *pod, promise *Promise) {
	first := o.facts.pods.reserved[0] == p
	same := p.promise.Exact == promise.Exact && (!promise.Exact || Same(&p.promise.Decision, &promise.Decision))
	o.facts.pods.post(p, promise)
	switch {
	case o.facts.decides(): // the pod keeps its allocation
	case o.facts.isInert(p):
	case !first:
		o.changed()
	default:
		o.base = nil
		if !same {
			o.stale() // answers about other pods depend on the promise
		}
	}
}

// Reconsider decides again about a posted pod whose Binding must be written again. The pod keeps
// its decision. Answer.Exact is false if the decision is uncertain, or if a new decision would
// differ.
func (n *Node) Reconsider(uid string) Answer {
	o := n.lock()
	defer n.mu.Unlock()
	f := &o.facts
	p := f.pods.byUID[uid]
	if p == nil || p.stage != posted || f.report == nil {
		return waiting(Undecided)
	}
	var d placement.Decision
	if f.decides() {
		return o.keepsHeld(p, &d)
	}
	f.pods.leave(p)
	o.changed()
	a := o.decideAgain(p, &d)
	a.Exact = a.Exact && p.promise.Exact && Same(&d, &p.promise.Decision)
	p.promise = &Promise{Decision: p.promise.Decision, Exact: a.Exact}
	f.pods.become(p, posted)
	o.changed()
	return a
}

// Forget removes a reserved or posted pod whose Binding was not written. It does nothing for other
// pods, and for a pod that the API has shown as bound.
func (n *Node) Forget(uid string) {
	o := n.lock()
	defer n.mu.Unlock()
	if p := o.facts.pods.byUID[uid]; p != nil && !p.shown && (p.stage == reserved || p.stage == posted) {
		o.facts.pods.takeBack(p)
		o.changed()
	}
}

// Doubt records that the Binding of a posted pod may or may not have been written. The pod is
// afloat until the API shows its Binding, or until ForgetGone removes the pod. until is the last
// moment at which the Binding can still be written.
func (n *Node) Doubt(uid string, until time.Time) {
	o := n.lock()
	defer n.mu.Unlock()
	if p := o.facts.pods.byUID[uid]; p != nil && p.stage == posted && !p.shown {
		o.facts.pods.doubtful(p, until)
		o.changed()
	}
}
