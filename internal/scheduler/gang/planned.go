package gang

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/ledger"
)

// planned is a plan that was reserved. The book's lock protects it.
type planned struct {
	group *group
	// places has one place for each member, in the order of the plan.
	places []*place
	by     map[types.UID]*place
	// deadline is the time when members that wait in Permit are rejected.
	deadline time.Time
	// took is the time that the plan took.
	took time.Duration
	// lost means that a member has failed since all have passed Permit.
	lost bool
	// next is the first place whose member has not been sent for.
	next int
	// last is bound after all others, so that its Binding can record that the gang is whole; it may
	// be nil. alone is closed when no other place is left.
	last  *place
	alone chan struct{}
}

// place is the node that a member is to get.
type place struct {
	uid  types.UID
	task string
	node string
	// account holds the member's reservation; nil if nothing is pinned.
	account *ledger.Node
	// sent: the member was sent for, or is in its cycle.
	sent bool
	// arrived: the member waits in Permit, or has passed.
	arrived bool
	// wave is the member's on its node (ledger.Candidate).
	wave int
	// over is closed when the place is finished.
	over chan struct{}
	// turn is closed when the previous place on the same node is finished; written when this one
	// is.
	turn    <-chan struct{}
	written chan struct{}
	dealt   bool
}

// inTurn binds the members of one node in the order of the plan, because their nodes were asked in
// this order.
func inTurn(places []*place) {
	last := map[string]*place{}
	for _, p := range places {
		if p.account == nil {
			continue
		}
		if before := last[p.node]; before != nil {
			p.turn = before.written
		}
		last[p.node] = p
	}
}

// closing returns the place that no other place waits for, or nil: the last one of its node, in its
// last wave.
func closing(places []*place) *place {
	for i, p := range slices.Backward(places) {
		waitedFor := slices.ContainsFunc(places[i+1:], func(o *place) bool { return o.node == p.node }) ||
			slices.ContainsFunc(places, func(o *place) bool { return o.node == p.node && o.wave > p.wave })
		if !waitedFor {
			return p
		}
	}
	return nil
}

// deal gives the next place on the node its turn.
func (p *place) deal() {
	if !p.dealt {
		p.dealt = true
		close(p.written)
	}
}

// end ends the waiting of a member for its wave.
func (p *place) end() {
	select {
	case <-p.over:
	default:
		close(p.over)
	}
}

// endLater ends the waiting of the members in waves after a failed one. Their places were found for
// the time after it, so they are planned again together.
func (p *planned) endLater(failed *place) {
	for _, at := range p.places {
		if at.node == failed.node && at.wave > failed.wave {
			at.end()
		}
	}
}

// remove takes a place out of the plan.
func (p *planned) remove(at *place) {
	at.deal()
	at.end()
	delete(p.by, at.uid)
	i := slices.Index(p.places, at)
	if i < 0 {
		return
	}
	p.places = slices.Delete(p.places, i, i+1)
	if i < p.next {
		p.next--
	}
	if len(p.places) == 1 {
		close(p.alone)
	}
}

// complete reports whether every member of the plan has arrived.
func (p *planned) complete() bool {
	return !slices.ContainsFunc(p.places, func(at *place) bool { return !at.arrived })
}

// enough reports whether the plan reaches what the group still needs.
func (p *planned) enough() bool {
	var there gangs.Count
	for _, at := range p.places {
		there.Add(at.task, 1)
	}
	return p.group.lacks(&p.group.done, &there) == ""
}

// members are the members that are left in a plan.
func (p *planned) members() (pass []types.UID) {
	for _, at := range p.places {
		pass = append(pass, at.uid)
	}
	return pass
}

// forget releases the reservations of members that have not reached Permit. Unreserve releases the
// others.
func (p *planned) forget() {
	for _, at := range p.places {
		if at.account != nil && !at.arrived {
			at.account.Forget(string(at.uid))
		}
	}
}

// AwaitTurn waits until the earlier members on the same node are finished, because their nodes were
// asked in the order of the plan. It waits for the report of members in earlier waves. The last
// member of a gang waits for all others. If a node pins nothing for the member, it does not wait
// there.
func (gs *Groups) AwaitTurn(ctx context.Context, uid types.UID) error {
	p, at := gs.find(uid)
	if at == nil {
		return nil
	}
	if at.turn != nil {
		select {
		case <-at.turn:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if at.wave > 0 {
		if err := gs.barrier.awaitWave(ctx, at, p.deadline); err != nil {
			return err
		}
	}
	if p.last != at {
		return nil
	}
	select { // each of the others is bound when its Binding is, or has failed
	case <-p.alone:
	case <-at.over:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// allowPlan lets all members of a plan pass.
func (gs *Groups) allowPlan(g *group, p *planned) {
	gs.mu.Lock()
	var members []types.UID
	if g.plan == p {
		members = p.members()
	}
	gs.mu.Unlock()
	gs.barrier.allow(members)
}

// drop releases the reservations of a plan. The caller holds the lock.
func (gs *Groups) drop(g *group, why string) {
	p := g.plan
	g.plan = nil
	gs.shares.Spend(g.key.Namespace, p.took, gs.Clock.Now())
	p.forget()
	var waiting []types.UID
	for _, at := range p.places {
		at.deal()
		at.end()
		if at.arrived {
			waiting = append(waiting, at.uid)
		}
	}
	plansDropped.WithLabelValues(failedMember).Inc()
	gs.Logger.V(2).Info("Plan of a gang is dropped", "gang", g.key, "why", why)
	gs.barrier.nowAndAgain(func() { gs.barrier.reject(waiting, why) })
}

// nextMate returns the next member to send for; nil for none.
func (gs *Groups) nextMate() *corev1.Pod {
	if !gs.any.Load() {
		return nil
	}
	gs.mu.Lock()
	defer gs.mu.Unlock()
	for len(gs.following) > 0 {
		p := gs.following[0]
		for p.group.plan == p && p.next < len(p.places) {
			at := p.places[p.next]
			p.next++
			if m := p.group.members[at.uid]; m != nil && !at.sent {
				at.sent = true
				return m.pod
			}
		}
		gs.following = gs.following[1:]
	}
	return nil
}
