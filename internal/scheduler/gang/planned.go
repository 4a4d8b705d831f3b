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

// planned is a reserved plan. The book's lock protects it.
type planned struct {
	group *group
	// places has the places of the members that are not bound yet and have not failed, in the order
	// of the plan.
	places []*place
	by     map[types.UID]*place
	// deadline is the time at which members that still wait in Permit or for their waves are
	// rejected.
	deadline time.Time
	// took is the duration of the attempt that made the plan.
	took time.Duration
	// lost means that a member has failed after all had passed Permit.
	lost bool
	// next is the index of the first place that nextMate has not returned.
	next int
	// last is the place whose member is bound after all others, so that its Binding can record that
	// the gang is whole. last may be nil. alone is closed when only one place is left.
	last  *place
	alone chan struct{}
}

// place is the planned node of a member.
type place struct {
	uid  types.UID
	task string
	node string
	// account is the ledger with the member's reservation, or nil if nothing is pinned.
	account *ledger.Node
	// sent means that nextMate has returned the member, or that the member is already in its cycle.
	sent bool
	// arrived means that the member waits in Permit or has passed it.
	arrived bool
	// wave is the member's wave on its node (ledger.Candidate.Wave).
	wave int
	// over is closed when the member is bound or has failed, when a member of an earlier wave on
	// the node has failed, or when the plan is dropped.
	over chan struct{}
	// written is closed when the member is bound or has failed, or when the plan is dropped. dealt
	// means that written is closed. turn is the field written of the previous place on the same
	// node, or nil.
	turn    <-chan struct{}
	written chan struct{}
	dealt   bool
}

// inTurn links the places of each node, so that their members are bound in the order in which the
// plan asked the node about them.
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

// closing returns a place whose member can be bound after all others, or nil. It is the last place
// on its node, and no place on the node has a later wave.
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

// deal lets the member of the next place on the node proceed to its Binding.
func (p *place) deal() {
	if !p.dealt {
		p.dealt = true
		close(p.written)
	}
}

// end makes the member stop waiting for its wave or for the other places.
func (p *place) end() {
	select {
	case <-p.over:
	default:
		close(p.over)
	}
}

// endLater ends the places of later waves on a failed member's node. A place of a later wave
// depends on the members of earlier waves, so its member is planned again together with the failed
// member.
func (p *planned) endLater(failed *place) {
	for _, at := range p.places {
		if at.node == failed.node && at.wave > failed.wave {
			at.end()
		}
	}
}

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

func (p *planned) complete() bool {
	return !slices.ContainsFunc(p.places, func(at *place) bool { return !at.arrived })
}

// enough reports whether the members of the plan, with the placed members of the group, reach the
// minimum.
func (p *planned) enough() bool {
	var there gangs.Count
	for _, at := range p.places {
		there.Add(at.task, 1)
	}
	return p.group.lacks(&p.group.done, &there) == ""
}

func (p *planned) members() (pass []types.UID) {
	for _, at := range p.places {
		pass = append(pass, at.uid)
	}
	return pass
}

// forget releases the reservations of members that have not reached Permit. Unreserve releases the
// reservations of the other members.
func (p *planned) forget() {
	for _, at := range p.places {
		if at.account != nil && !at.arrived {
			at.account.Forget(string(at.uid))
		}
	}
}

// AwaitTurn waits until the earlier members on the same node are bound or have failed, because the
// plan asked the node about the members in this order. AwaitTurn then waits until the node has
// reported the members of earlier waves. The member at planned.last waits until no other place is
// left. Other members without pinned resources do not wait.
func (gs *Groups) AwaitTurn(ctx context.Context, uid types.UID) error {
	p, at := gs.book.find(uid)
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
	select { // a place is removed when its member is bound or has failed
	case <-p.alone:
	case <-at.over:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

func (gs *Groups) allowPlan(g *group, p *planned) {
	gs.book.mu.Lock()
	var members []types.UID
	if g.plan == p {
		members = p.members()
	}
	gs.book.mu.Unlock()
	gs.barrier.allow(members)
}

// drop removes the plan of a group, releases its reservations, and rejects its members in Permit.
// The caller holds the lock.
func (gs *Groups) drop(g *group, why string) {
	p := g.plan
	g.plan = nil
	gs.book.shares.Spend(g.key.Namespace, p.took, gs.book.Clock.Now())
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
	gs.book.Logger.V(2).Info("Plan of a gang is dropped", "gang", g.key, "why", why)
	gs.barrier.nowAndAgain(func() { gs.barrier.reject(waiting, why) })
}

// nextMate returns the next planned member that Follow must take from the queue, or nil.
func (gs *Groups) nextMate() *corev1.Pod {
	if !gs.book.any.Load() {
		return nil
	}
	gs.book.mu.Lock()
	defer gs.book.mu.Unlock()
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
