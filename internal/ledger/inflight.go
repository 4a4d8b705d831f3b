package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-dev/berth/placement"
)

// ErrNotReserved is returned by Post for a pod that Reserve has not taken, or that was forgotten since.
var ErrNotReserved = errors.New("the pod is not reserved on this node")

// Reserve decides for the candidate after everything in flight and, when it is admitted, takes it in. Repeated for the
// same pod it starts anew. d receives the decision of the likeliest state.
func (n *Node) Reserve(c *Candidate, d *placement.Decision) Answer {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.report == nil {
		return Answer{}
	}
	before := n.pods[c.Request.UID]
	n.forget(c.Request.UID)
	a := n.consult(c, true, d)
	if !a.OK() {
		if !n.refloat(before) {
			n.remember(n.questionOf(c), a)
		}
		return a
	}
	p := &pod{uid: c.Request.UID, req: c.Request, created: c.Created, mortal: c.Mortal, stage: reservedStage}
	p.promise = &Promise{Decision: copyDecision(d), Exact: a.Exact} // for those who come after it
	if before != nil {
		p.doubt = before.doubt
	}
	n.pods[p.uid] = p
	n.reserved = append(n.reserved, p)
	switch {
	case n.isInert(p):
	case p.created > n.newest:
		n.full.land(p)
		n.setNewest(p.created)
		n.stale()
	default:
		n.changed()
	}
	return a
}

// maxMortals is how many pods that can end by themselves are taken into account.
const maxMortals = 3

// steady says whether the decision stays the same whichever of the pods that can end by themselves have ended by the
// time that the kubelet admits the pod.
func (n *Node) steady(r *placement.Request, d *placement.Decision) bool {
	mortals := n.mortals()
	if len(mortals) == 0 {
		return true
	}
	if len(mortals) > maxMortals {
		return false
	}
	base := n.supposing(mortals, false)
	for set := 1; set < 1<<len(mortals); set++ {
		var ended []string
		for i, uid := range mortals {
			if set>>i&1 == 1 {
				ended = append(ended, uid)
			}
		}
		w := base.clone()
		w.without(ended)
		if a, same := w.sameAs(r, d); !same || !a.Exact {
			return false
		}
	}
	return true
}

// sameAs says whether the decision of the likeliest world is d.
func (w *worlds) sameAs(r *placement.Request, d *placement.Decision) (Answer, bool) {
	other := decisions.Get().(*placement.Decision)
	defer decisions.Put(other)
	return w.decideAll(r, other), Same(d, other)
}

// mortals returns the pods that hold something, can end by themselves and are not known to be ending.
func (n *Node) mortals() []string {
	var list []string
	for uid, p := range n.pods {
		if p.mortal && !p.ending && (p.stage == postedStage || n.report.pods[uid].holds) {
			list = append(list, uid)
		}
	}
	return list
}

// Posting is what a Binding is to carry.
type Posting struct {
	Answer Answer
	// Turn is the Binding's place among the Bindings of the node; it grows.
	Turn int64
	// Report is the sequence number of the report that was decided on.
	Report int64
}

// Post decides again for a reserved pod, after the pods whose Bindings were written before and no others, and when
// it is still admitted gives it the next turn: from now on its Binding may have been written. The caller writes one
// Binding at a time. d receives the decision, which stays d's.
func (n *Node) Post(uid string, d *placement.Decision) (Posting, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pods[uid]
	if p == nil || p.stage != reservedStage {
		return Posting{}, fmt.Errorf("pod %s: %w", uid, ErrNotReserved)
	}
	if n.report == nil { // withdrawn since Reserve
		return Posting{}, nil
	}
	a := n.consult(&Candidate{Request: p.req, Created: p.created}, false, d)
	if !a.OK() {
		return Posting{Answer: a}, nil
	}
	a.Exact = a.Exact && n.steady(p.req, d)
	n.post(p, &Promise{Decision: copyDecision(d), Exact: a.Exact})
	return Posting{Answer: a, Turn: p.turn, Report: n.report.Sequence}, nil
}

// post moves a pod from the reserved to the posted ones.
func (n *Node) post(p *pod, promise *Promise) {
	n.turn++
	first, newest := n.reserved[0] == p, newestOf(n.flight(false))
	n.dropReserved(p)
	kept := p.promise.Exact == promise.Exact && Same(&p.promise.Decision, &promise.Decision)
	p.stage, p.turn, p.promise, p.contended = postedStage, n.turn, promise, !p.doubt.IsZero()
	n.posted = append(n.posted, p)
	switch {
	case n.isInert(p):
	case !first || p.created <= newest:
		n.changed() // the order is another one
	default:
		n.base.land(p) // the order is the same, and so is full
		if !kept {
			n.stale() // others are answered by what it is promised
		}
	}
}

// Reconsider decides once more for a posted pod whose Binding has to be written again, with what is known by now. The
// decision stays; where it is no longer certain, or no longer the one that would be made, it is no longer exact.
func (n *Node) Reconsider(uid string) Answer {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pods[uid]
	if p == nil || p.stage != postedStage || n.report == nil {
		return waiting(Undecided)
	}
	n.dropPosted(p)
	n.changed()
	var d placement.Decision
	a := n.consult(&Candidate{Request: p.req, Created: p.created}, false, &d)
	a.Exact = a.Exact && p.promise.Exact && Same(&d, &p.promise.Decision) && n.steady(p.req, &d)
	p.promise = &Promise{Decision: p.promise.Decision, Exact: a.Exact}
	n.insertPosted(p)
	n.changed()
	return a
}

// Forget takes a pod back whose Binding was not written. A pod that is not there, or that the API has shown bound, is
// left alone.
func (n *Node) Forget(uid string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.pods[uid]; p != nil && !p.seen && (p.stage == reservedStage || p.stage == postedStage) {
		n.forget(uid)
		n.refloat(p)
	}
}

// refloat has a pod be afloat that was taken back while an earlier Binding of it may be written yet, and says whether it is so.
func (n *Node) refloat(p *pod) bool {
	if p == nil || !p.doubted() {
		return false
	}
	p.excuse()
	p.stage, p.gone, p.goneAt = afloatStage, true, p.doubt
	n.pods[p.uid] = p
	n.changed()
	return true
}

// Doubt says that nobody knows whether the Binding of a posted pod was written: it is afloat until the API tells, or
// until ForgetGone forgets it, which counts from the moment given: the last at which the Binding can still be written.
func (n *Node) Doubt(uid string, until time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.pods[uid]; p != nil && p.stage == postedStage && !p.seen {
		n.dropPosted(p)
		p.stage = afloatStage
		p.gone, p.goneAt, p.doubt = true, until, until
		n.changed()
	}
}

// Sighting is what the API says of a pod bound to the node.
type Sighting struct {
	UID     string
	Request *placement.Request
	// Created is as in Candidate.
	Created int64
	// Promise is the decision that its Binding carried; nil when there was none.
	Promise *Promise
	// Turn is its Binding's place in the order, from its annotation; 0 when it has none.
	Turn int64
	// Ending says that it is being deleted or has ended.
	Ending bool
	// Mortal says that it can end by itself.
	Mortal bool
	// Inherited says that it was bound before anyone here began to watch: others may have been bound before it, and have left
	// since, that nobody knows of. Until a report lists it, other pods wait.
	Inherited bool
}

// See takes in what the API says of a pod bound to the node. It says whether anything changed, and how its promise turned out
// if that was known but for this.
func (n *Node) See(s Sighting) (changed bool, settled *PromiseOutcome) {
	n.mu.Lock()
	defer n.mu.Unlock()
	settled = n.settled(s.UID)
	return n.see(s), settled
}

func (n *Node) see(s Sighting) bool {
	p := n.pods[s.UID]
	if s.Ending && (p == nil || !p.ending) {
		n.late(s.UID)
	}
	switch {
	case p == nil:
		n.meet(s)
	case p.stage == reservedStage || s.Turn > 0 && (p.stage == afloatStage && !p.listed || p.isOther(s.Turn)):
		// The Binding was written after all, in the order that it says.
		n.forget(s.UID)
		n.meet(s)
	case p.ending == s.Ending && !p.gone:
		p.seen, p.mortal = true, s.Mortal
		return false
	default:
		p.seen, p.ending, p.gone = true, s.Ending, false
		n.changed()
	}
	return true
}

// isOther says whether a Binding with that turn is another than the one that was sent last.
func (p *pod) isOther(turn int64) bool {
	return p.stage == postedStage && p.doubted() && p.turn != turn
}

// doubted says whether another Binding of the pod to this node may be written.
func (p *pod) doubted() bool { return !p.doubt.IsZero() && !p.seen }

// late excuses the promises whose Bindings the API has not shown yet, when it shows that another pod is ending: it tells in
// order, so that one was ending before those were bound, and the decisions did not know.
func (n *Node) late(ending string) {
	for uid, p := range n.pods {
		if !p.seen && uid != ending {
			p.excuse()
		}
	}
}

// settled returns the broken promise of a pod that the API shows now.
func (n *Node) settled(uid string) (l *PromiseOutcome) {
	if p := n.pods[uid]; p != nil {
		l, p.suspect = p.suspect, nil
	}
	return l
}

// meet takes in a pod that the ledger has not met.
func (n *Node) meet(s Sighting) {
	p := &pod{uid: s.UID, req: s.Request, created: s.Created, promise: s.Promise, turn: s.Turn, ending: s.Ending, mortal: s.Mortal, inherited: s.Inherited, seen: true}
	n.pods[s.UID] = p
	n.turn = max(n.turn, s.Turn)
	switch {
	case n.report.Has(s.UID):
		p.stage, p.promise, p.listed = landedStage, nil, true
	case s.Turn > 0:
		p.stage = postedStage
		n.insertPosted(p)
	default:
		p.stage = afloatStage
		n.contend()
	}
	n.changed()
}

// contend marks what has been promised: a pod has turned up that was not counted with.
func (n *Node) contend() {
	for _, p := range n.pods {
		p.excuse()
	}
}

// excuse notes that what was promised the pod may be broken by nobody's mistake.
func (p *pod) excuse() {
	p.contended = p.contended || p.promise != nil
	if p.suspect != nil {
		p.suspect.Contended = true
	}
}

// insertPosted puts p among the posted pods by its turn.
func (n *Node) insertPosted(p *pod) {
	at, _ := slices.BinarySearchFunc(n.posted, p.turn, func(q *pod, turn int64) int { return cmp.Compare(q.turn, turn) })
	n.posted = slices.Insert(n.posted, at, p)
}

// Gone says that the API does not have the pod any more, as of now. What the node holds for it stays held until a
// report drops it; a pod that no report has listed is forgotten as ForgetGone says. It returns what See does.
func (n *Node) Gone(uid string, now time.Time) (settled *PromiseOutcome) {
	n.mu.Lock()
	defer n.mu.Unlock()
	settled = n.settled(uid)
	p := n.pods[uid]
	if p == nil || p.gone {
		return settled
	}
	if !p.ending {
		n.late(uid)
	}
	if p.stage == landedStage && !n.report.Has(uid) {
		n.forget(uid)
		return settled
	}
	p.gone, p.goneAt, p.ending = true, now, true
	n.changed()
	return settled
}

// ForgetGone says that the agent gave a sign of life now. Pods that are gone from the API for longer than settle, and
// that the agent nevertheless does not list, never reached the kubelet or have left it: they are forgotten. It says
// whether anything changed.
func (n *Node) ForgetGone(now time.Time, settle time.Duration) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dropGone(now, settle)
}

// Expire forgets pods that the API has not had for that long, unless there is a report: without one there may be no agent either
// that ForgetGone would tell of. It is for times after which no kubelet comes upon a pod: its watch has told it, or was broken and
// begun anew.
func (n *Node) Expire(now time.Time, after time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.report == nil {
		n.dropGone(now, after)
	}
}

// dropGone forgets pods in flight that have been gone for that long, and says whether there were any.
func (n *Node) dropGone(now time.Time, after time.Duration) bool {
	var drop []string
	for uid, p := range n.pods {
		if p.gone && p.stage != landedStage && now.Sub(p.goneAt) >= after {
			drop = append(drop, uid)
		}
	}
	for _, uid := range drop {
		n.forget(uid)
	}
	return len(drop) > 0
}

func (n *Node) forget(uid string) {
	p := n.pods[uid]
	if p == nil {
		return
	}
	delete(n.pods, uid)
	switch p.stage {
	case reservedStage:
		n.dropReserved(p)
	case postedStage:
		n.dropPosted(p)
	}
	n.changed()
}

func (n *Node) dropReserved(p *pod) {
	n.reserved = slices.DeleteFunc(n.reserved, func(q *pod) bool { return q == p })
}

func (n *Node) dropPosted(p *pod) {
	n.posted = slices.DeleteFunc(n.posted, func(q *pod) bool { return q == p })
}

// copyDecision returns a copy that shares nothing which the next Decide reuses.
func copyDecision(d *placement.Decision) placement.Decision {
	c := placement.Decision{UID: d.UID, Containers: slices.Clone(d.Containers)}
	for i := range c.Containers {
		c.Containers[i].Memory = slices.Clone(c.Containers[i].Memory)
		c.Containers[i].Devices = slices.Clone(c.Containers[i].Devices)
		for j := range c.Containers[i].Devices {
			c.Containers[i].Devices[j].IDs = slices.Clone(c.Containers[i].Devices[j].IDs)
		}
	}
	return c
}

// Glance is See for a pod that the ledger knows well: it says true when there is nothing to be learned.
func (n *Node) Glance(uid string, ending, mortal bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pods[uid]
	if p == nil || p.ending != ending || p.mortal != mortal || p.gone || p.suspect != nil || p.doubted() || p.stage != landedStage && p.stage != postedStage {
		return false
	}
	p.seen = true
	return true
}

// Dismiss forgets a pod that is afloat: the API has shown that it is not on this node.
func (n *Node) Dismiss(uid string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.pods[uid]; p != nil && p.stage == afloatStage {
		n.forget(uid)
	}
}
