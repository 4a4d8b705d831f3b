package ledger

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/placement"
)

// Holding is a place that is held on a node for pods to come, its owners (a Reservation of
// Koordinator's).
//
// Where Berth decides, the place is CPUs and amounts on NUMA nodes. Others do not get what owners
// have taken from it until the owners have left. So nothing counts down: what is left follows from
// the place and the owners.
//
// Where a kubelet decides nobody can hold CPUs. There a pod is taken only if what is left for the
// owners would still be admitted after it.
type Holding struct {
	// UID is that of the object, and of no pod.
	UID string
	// Request is what owners to come may ask for, all at once, where a kubelet decides; nil for
	// nothing.
	Request *placement.Request
	// Held is the place as it was when nobody had anything of it, where Berth decides; nil for
	// none.
	Held *placement.PodAllocation
	// Owners are the pods that have something of it, and the ones that had, by UID.
	Owners []string
	// More: an owner may have of the node what the place lacks. Once: the place ends with its first
	// owner. Both matter where Berth decides.
	More, Once bool
}

// holding is a Holding on its node.
type holding struct {
	Holding
	// displaced says why it does not hold all of its place; "" where it does.
	displaced string
}

// Hold takes a place in, or what is known about it now. A pod with its UID that was reserved, to
// find the place, is gone.
func (n *Node) Hold(h Holding) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.pods[h.UID]; p != nil {
		n.leave(p)
	}
	h.Owners = slices.Clone(h.Owners)
	if h.Held != nil {
		h.Held = &placement.PodAllocation{UID: h.UID, Containers: h.Held.Containers}
	}
	at, there := n.findHolding(h.UID)
	if there {
		n.holdings[at] = &holding{Holding: h}
	} else {
		n.holdings = slices.Insert(n.holdings, at, &holding{Holding: h})
	}
	n.changed()
}

// Release ends a Holding, or takes the pod back that was looking for its place. It says whether
// there was one.
func (n *Node) Release(uid string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	at, there := n.findHolding(uid)
	if there {
		n.holdings = slices.Delete(n.holdings, at, at+1)
	}
	p := n.pods[uid]
	if p != nil {
		n.leave(p)
	}
	if there || p != nil {
		n.changed()
	}
	return there || p != nil
}

func (n *Node) findHolding(uid string) (int, bool) {
	return slices.BinarySearchFunc(n.holdings, uid, func(h *holding, uid string) int { return strings.Compare(h.UID, uid) })
}

func (n *Node) holding(uid string) *holding {
	if at, ok := n.findHolding(uid); ok {
		return n.holdings[at]
	}
	return nil
}

// Promised returns what a reserved pod was promised; false where there is none.
func (n *Node) Promised(uid string) (placement.Decision, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pods[uid]
	if p == nil || p.promise == nil {
		return placement.Decision{}, false
	}
	return copyDecision(&p.promise.Decision), true
}

// ReserveOwner is Reserve for an owner, of what is held. Where Berth decides it gets that, or that
// and the rest from the node (placement.DecideWithin, DecideBeyond), or nothing.
func (n *Node) ReserveOwner(c *Candidate, held string, d *placement.Decision) Answer {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.holding(held)
	if n.report == nil || h == nil {
		return Answer{}
	}
	p := &pod{uid: c.Request.UID, req: c.Request, created: c.Created, mortal: c.Mortal, loose: c.Loose}
	if before := n.pods[p.uid]; before != nil {
		p.doubt = before.doubt
		n.leave(before)
		n.changed()
	}
	a := n.consultOwner(c, h, d)
	if !a.OK() {
		if p.doubted() {
			n.doubtful(p, p.doubt)
			n.changed()
		}
		return a
	}
	p.promise = &Promise{Decision: copyDecision(d), Exact: a.Exact}
	if n.decides() {
		p.held = p.promise.Decision.Held()
	}
	if !slices.Contains(h.Owners, p.uid) {
		h.Owners = append(h.Owners, p.uid)
	}
	n.become(p, reserved)
	n.changed()
	return a
}

// consultOwner answers for an owner.
func (n *Node) consultOwner(c *Candidate, h *holding, d *placement.Decision) Answer {
	if d == nil {
		d = decisions.Get().(*placement.Decision)
		defer decisions.Put(d)
	}
	if !n.decides() {
		return n.besideHoldings(n.consult(c, true, d), c.Request, h.UID, &n.full)
	}
	if h.Held == nil {
		return Answer{Outcome: Refused, Verdict: placement.Verdict{Reason: placement.NoBerth, Detail: placement.NoRoom, Scarcity: placement.Resolvable}}
	}
	n.compute()
	var v placement.Verdict
	if state := n.full.all[0].state; h.More {
		v = placement.DecideBeyond(state, h.Held, h.Once, c.Request, d)
	} else {
		v = placement.DecideWithin(state, h.Held, c.Request, d)
	}
	t := tally{decided: true}
	t.count(&v)
	return t.result()
}

// AskOwner answers for an owner: may it have its place of what is held?
func (v View) AskOwner(c *Candidate, held string) Answer {
	n := v.n
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.holding(held)
	if n.report == nil || h == nil {
		return Answer{}
	}
	return n.consultOwner(c, h, nil)
}

// Displaced says why a Holding does not have all of its place, "" where it does, and whether there
// is a report to say it by.
func (v View) Displaced(uid string) (why string, known bool) {
	n := v.n
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.holding(uid)
	if n.report == nil || h == nil {
		return "", false
	}
	n.compute()
	return h.displaced, true
}

// Knows says whether the pod is on its way to the node, or there: nobody else has anything of a
// Holding.
func (v View) Knows(uid string) bool {
	n := v.n
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pods[uid] != nil || n.report != nil && n.report.Has(uid)
}

// Holdings returns what is left for owners to come, in the order of the UIDs.
func (v View) Holdings() []Holding {
	n := v.n
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make([]Holding, 0, len(n.holdings))
	for _, h := range n.holdings {
		left := h.Holding
		if n.decides() && h.Held != nil {
			left.Held = n.rest(h)
		}
		out = append(out, left)
	}
	return out
}

// holdRests writes down what is left of each place. Everybody who has something of it was written
// down before.
func (n *Node) holdRests(s *placement.State) {
	for _, h := range n.holdings {
		h.displaced = ""
		if h.Held != nil {
			h.displaced = s.Hold(n.rest(h))
		}
	}
}

// rest is what is left of a place. A pod that had something of it has it until it has left. A pod
// that the report lists, and that the API does not have or has not shown yet, may be one of them.
func (n *Node) rest(h *holding) *placement.PodAllocation {
	var taken []*placement.PodAllocation
	for _, uid := range n.report.order {
		if p := n.pods[uid]; (p == nil || p.gone) && !slices.Contains(h.Owners, uid) {
			listed := n.report.pods[uid]
			taken = append(taken, &listed.alloc)
		}
	}
	for _, uid := range h.Owners {
		listed, shown := n.report.pods[uid], n.report.Has(uid)
		switch p := n.pods[uid]; {
		case p != nil && p.held != nil && shown:
			taken = append(taken, withShown(p.held, &listed.alloc))
		case p != nil && p.held != nil:
			taken = append(taken, p.held)
		case shown:
			taken = append(taken, &listed.alloc)
		}
	}
	return placement.Rest(h.Held, taken)
}

// besideHoldings turns an admission down where, after the pod, what is held for others would not be
// admitted any more, and without it would. The pod comes after the states of w. Where Berth decides
// there is nothing to ask: what is held is not free.
func (n *Node) besideHoldings(a Answer, r *placement.Request, but string, w *worlds) Answer {
	if len(n.holdings) == 0 || !a.OK() || n.decides() {
		return a
	}
	after := w.clone()
	if after.uncertain() || !after.with(r) {
		return a // in another order than that of the worlds: nobody knows who is in whose way
	}
	before := w.clone()
	for _, h := range n.holdings {
		if h.UID == but || h.UID == r.UID || h.Request == nil {
			continue
		}
		left, had := after.clone(), before.clone()
		keeps := left.with(h.Request)
		if !had.with(h.Request) {
			continue // somebody else is in its way
		}
		if !keeps {
			return Answer{Outcome: Refused, Verdict: placement.Verdict{Scarcity: placement.Resolvable}, Held: true, Certain: a.Certain, Amounts: a.Amounts}
		}
		before, after = had, left
	}
	return a
}
