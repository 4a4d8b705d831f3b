package ledger

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-dev/berth/placement"
)

// ErrNotReserved is returned by Post for a pod that Reserve has not taken, or that was forgotten
// since.
var ErrNotReserved = errors.New("the pod is not reserved on this node")

// Reserve decides for the candidate after everything in flight and takes it in if it is admitted.
// Repeated for the same pod it starts again. d receives the decision of the likeliest state.
func (n *Node) Reserve(c *Candidate, d *placement.Decision) Answer {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.report == nil {
		return Answer{}
	}
	p := &pod{uid: c.Request.UID, req: c.Request, created: c.Created, wave: c.Wave, mortal: c.Mortal, loose: c.Loose}
	before := n.pods[p.uid]
	if before != nil {
		p.doubt = before.doubt
		n.leave(before)
		n.changed()
	}
	a := n.consultBeside(c, d)
	a.Exact = a.Exact && (!c.Loose || n.decides())
	switch {
	case a.OK():
		p.promise = &Promise{Decision: copyDecision(d), Exact: a.Exact}
		if n.decides() {
			p.held = p.promise.Decision.Held()
		}
		n.reserve(p)
	case before != nil && before.doubted():
		n.takeBack(before)
		n.changed()
	case c.Wave == 0:
		n.remember(n.keyOf(c), a)
	}
	return a
}

// Loosen promises no CPUs to a reserved pod, as if it had been reserved as Loose.
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

// reserve takes an admitted pod in.
func (n *Node) reserve(p *pod) {
	last := n.valid && (p.wave > n.wave() || p.loose && n.comesLast(p))
	n.become(p, reserved)
	switch {
	case n.decides():
		n.hold(p)
	case n.isInert(p):
	case p.created > n.newest || last:
		n.full.admitNext(p)
		n.setNewest(max(n.newest, p.created), n.changes.InFlight()+1)
		n.stale()
	default:
		n.changed()
	}
}

// comesLast says whether it makes no difference when the kubelet admits the pod among those in
// flight.
func (n *Node) comesLast(p *pod) bool {
	return len(arrivalOrders(append(n.flight(true), p), interchangeable)) == 1
}

// Posting is what a Binding is to carry.
type Posting struct {
	Answer Answer
	// Turn is the Binding's place among the Bindings of the node; it grows.
	Turn int64
	// Report is the sequence number of the report that was decided on.
	Report int64
}

// Post decides again for a reserved pod, after the pods whose Bindings were written before and no
// others. If it is still admitted it gets the next turn: from now on its Binding may have been
// written. The caller writes one Binding at a time. d receives the decision and keeps it.
func (n *Node) Post(uid string, d *placement.Decision) (Posting, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pods[uid]
	if p == nil || p.stage != reserved {
		return Posting{}, fmt.Errorf("pod %s: %w", uid, ErrNotReserved)
	}
	if n.report == nil { // withdrawn since Reserve
		return Posting{}, nil
	}
	if !n.due(p) {
		return Posting{Answer: waiting(InWaves)}, nil
	}
	a := n.decideAgain(p, d)
	if !a.OK() {
		return Posting{Answer: a}, nil
	}
	n.postNext(p, &Promise{Decision: copyDecision(d), Exact: a.Exact})
	return Posting{Answer: a, Turn: p.turn, Report: n.report.Sequence}, nil
}

// decideAgain decides for a reserved pod after the posted ones, and says whether it is exact. Where
// Berth decides, the decision stands.
func (n *Node) decideAgain(p *pod, d *placement.Decision) Answer {
	if n.decides() {
		return n.keepsHeld(p, d)
	}
	a := n.consult(&Candidate{Request: p.req, Created: p.created, Wave: p.wave}, false, d)
	if a.OK() {
		a.Exact = a.Exact && !p.loose && n.steady(p.req, d)
	}
	return a
}

// postNext posts a reserved pod. Where the order stays the same, so does full.
func (n *Node) postNext(p *pod, promise *Promise) {
	first, newest := n.reserved[0] == p, newestOf(n.flight(false))
	same := Same(&p.promise.Decision, &promise.Decision) && p.promise.Exact == promise.Exact
	n.post(p, promise)
	switch {
	case n.decides(): // it holds what it held
	case n.isInert(p):
	case !first || p.created <= newest:
		n.changed()
	default:
		n.base.admitNext(p)
		if !same {
			n.stale() // others are answered by what it is promised
		}
	}
}

// Reconsider decides once more for a posted pod whose Binding has to be written again, with what is
// known by now. The decision stays. It is no longer exact where it is not certain, or another would
// be made now.
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
	a := n.consult(&Candidate{Request: p.req, Created: p.created, Wave: p.wave}, false, &d)
	a.Exact = a.Exact && p.promise.Exact && Same(&d, &p.promise.Decision) && n.steady(p.req, &d)
	p.promise = &Promise{Decision: p.promise.Decision, Exact: a.Exact}
	n.become(p, posted)
	n.changed()
	return a
}

// Forget takes a pod back whose Binding was not written. A pod that is not there, or that the API
// has shown bound, is left alone.
func (n *Node) Forget(uid string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.pods[uid]; p != nil && !p.shown && (p.stage == reserved || p.stage == posted) {
		n.takeBack(p)
		n.changed()
	}
}

// Doubt says that nobody knows whether the Binding of a posted pod was written. The pod is afloat
// until the API tells, or ForgetGone forgets it, which counts from the moment given: the last at
// which the Binding can still be written.
func (n *Node) Doubt(uid string, until time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.pods[uid]; p != nil && p.stage == posted && !p.shown {
		n.doubtful(p, until)
		n.changed()
	}
}

// maxMortals is how many pods that can end by themselves are taken into account.
const maxMortals = 3

// steady says whether the decision stays the same whichever of the pods that can end by themselves
// have ended by the time that the kubelet admits the pod.
func (n *Node) steady(r *placement.Request, d *placement.Decision) bool {
	mortals := n.mortals()
	if len(mortals) == 0 {
		return true
	}
	if len(mortals) > maxMortals {
		return false
	}
	other := decisions.Get().(*placement.Decision)
	defer decisions.Put(other)
	base := n.supposing(mortals, false)
	for set := 1; set < 1<<len(mortals); set++ {
		w := base.clone()
		w.without(subset(mortals, set))
		if a := w.decideAll(r, other); !a.Exact || !Same(d, other) {
			return false
		}
	}
	return true
}

// subset returns the elements whose bits are set.
func subset(list []string, set int) []string {
	var out []string
	for i := range list {
		if set>>i&1 == 1 {
			out = append(out, list[i])
		}
	}
	return out
}

// mortals returns the pods that hold something, can end by themselves and are not known to be
// ending.
func (n *Node) mortals() []string {
	var list []string
	for uid, p := range n.pods {
		if p.mortal && !p.ending && (p.stage == posted || n.report.pods[uid].holds) {
			list = append(list, uid)
		}
	}
	return list
}

// copyDecision returns a copy that shares nothing which the next Decide reuses.
func copyDecision(d *placement.Decision) placement.Decision {
	c := placement.Decision{UID: d.UID, Containers: slices.Clone(d.Containers)}
	for i := range c.Containers {
		c.Containers[i].Memory = slices.Clone(c.Containers[i].Memory)
		c.Containers[i].Shares = slices.Clone(c.Containers[i].Shares)
		c.Containers[i].Provided = slices.Clone(c.Containers[i].Provided)
		c.Containers[i].Devices = slices.Clone(c.Containers[i].Devices)
		for j := range c.Containers[i].Devices {
			c.Containers[i].Devices[j].IDs = slices.Clone(c.Containers[i].Devices[j].IDs)
		}
	}
	return c
}
