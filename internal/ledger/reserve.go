package ledger

import (
	"errors"
	"fmt"
	"time"

	"github.com/berth-dev/berth/placement"
)

// ErrNotReserved is the error of Post for a pod that is not reserved: Reserve has not accepted it,
// or it was forgotten.
var ErrNotReserved = errors.New("the pod is not reserved on this node")

// Reserve decides about the candidate after all pods in flight, and reserves the pod if it is
// admitted. If the pod is already reserved, Reserve decides again. d receives the decision of the
// likeliest state.
func (n *Node) Reserve(c *Candidate, d *placement.Decision) Answer {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.report == nil {
		return Answer{}
	}
	p, before := n.replace(c)
	a := n.consultBeside(c, d)
	a.Exact = a.Exact && (!c.Loose || n.decides())
	switch {
	case a.OK():
		p.grant(d, a.Exact, n.decides())
		n.reserve(p)
	case n.restore(before):
	case c.Wave == 0:
		n.answers.remember(n.keyOf(c), a, n.newest)
	}
	return a
}

// replace returns a new pod for the candidate, and removes the pod with the same UID, if there is
// one. The caller decides with the candidate's own request. The new pod has the Settled request,
// because a Keep no longer limits a pod that has a place.
func (n *Node) replace(c *Candidate) (p, before *pod) {
	p, before = newPod(c), n.pods[c.Request.UID]
	p.req = c.Request.Settled()
	if before != nil {
		p.doubt = before.doubt
		n.leave(before)
		n.changed()
	}
	return p, before
}

// restore brings back the pod that replace removed, after the new attempt was refused. It does so
// only if a Binding of that pod may still be written, and reports whether it did.
func (n *Node) restore(before *pod) bool {
	if before == nil || !before.doubted() {
		return false
	}
	n.takeBack(before)
	n.changed()
	return true
}

// Loosen makes a reserved pod Loose: the pod keeps the promise of its admission, but not of CPUs.
func (n *Node) Loosen(uid string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pods[uid]
	if p == nil || p.stage != reserved || p.loose || n.decides() {
		return
	}
	p.loose, p.promise = true, &Promise{Decision: p.promise.Decision}
	n.changed()
}

// reserve adds an admitted pod to the reserved pods.
func (n *Node) reserve(p *pod) {
	last := p.created > n.newest || p.wave > n.wave() || p.loose && n.comesLast(p)
	n.become(p, reserved)
	if n.changes.Unshown() > 0 {
		n.noteUnshown()
	}
	switch {
	case n.decides():
		n.hold(p)
	case !n.isInert(p):
		n.enqueue(p, last)
		n.stale()
	}
}

// Posting has the values that the caller writes into a Binding.
type Posting struct {
	Answer Answer
	// Turn is the Binding's position among the Bindings of the node. Each turn is larger than all
	// earlier ones.
	Turn int64
	// Report is the sequence number of the report behind the decision.
	Report int64
}

// Post decides again about a reserved pod, after the posted pods only. If the pod is still
// admitted, it gets the next turn, and the caller must write its Binding. The caller writes one
// Binding at a time. d receives the decision.
func (n *Node) Post(uid string, d *placement.Decision) (Posting, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pods[uid]
	if p == nil || p.stage != reserved {
		return Posting{}, fmt.Errorf("pod %s: %w", uid, ErrNotReserved)
	}
	if n.report == nil { // the report was withdrawn after Reserve
		return Posting{}, nil
	}
	if !n.due(p) {
		return Posting{Answer: waiting(InWaves)}, nil
	}
	a := n.decideAgain(p, d)
	if !a.OK() {
		return Posting{Answer: a}, nil
	}
	n.postNext(p, &Promise{Decision: d.Clone(), Exact: a.Exact})
	return Posting{Answer: a, Turn: p.turn, Report: n.report.Sequence}, nil
}

// postNext posts a reserved pod. If the order of all pods stays the same, full stays valid.
func (n *Node) postNext(p *pod, promise *Promise) {
	first := n.reserved[0] == p
	same := p.promise.Exact == promise.Exact && (!promise.Exact || Same(&p.promise.Decision, &promise.Decision))
	n.post(p, promise)
	switch {
	case n.decides(): // the pod keeps its allocation
	case n.isInert(p):
	case !first:
		n.changed()
	default:
		n.base = nil
		if !same {
			n.stale() // answers about other pods depend on the promise
		}
	}
}

// Reconsider decides again about a posted pod whose Binding must be written again. The pod keeps
// its decision. Answer.Exact is false if the decision is uncertain, or if a new decision would
// differ.
func (n *Node) Reconsider(uid string) Answer {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pods[uid]
	if p == nil || p.stage != posted || n.report == nil {
		return waiting(Undecided)
	}
	var d placement.Decision
	if n.decides() {
		return n.keepsHeld(p, &d)
	}
	n.leave(p)
	n.changed()
	a := n.consult(p.candidate(), false, &d)
	a.Exact = a.Exact && p.promise.Exact && Same(&d, &p.promise.Decision) && n.steady(p.req, &d)
	p.promise = &Promise{Decision: p.promise.Decision, Exact: a.Exact}
	n.become(p, posted)
	n.changed()
	return a
}

// Forget removes a reserved or posted pod whose Binding was not written. It does nothing for other
// pods, and for a pod that the API has shown as bound.
func (n *Node) Forget(uid string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.pods[uid]; p != nil && !p.shown && (p.stage == reserved || p.stage == posted) {
		n.takeBack(p)
		n.changed()
	}
}

// Doubt records that the Binding of a posted pod may or may not have been written. The pod is
// afloat until the API shows its Binding, or until ForgetGone removes the pod. until is the last
// moment at which the Binding can still be written.
func (n *Node) Doubt(uid string, until time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.pods[uid]; p != nil && p.stage == posted && !p.shown {
		n.doubtful(p, until)
		n.changed()
	}
}
