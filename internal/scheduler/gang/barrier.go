package gang

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// barrier makes the members of plans come one after another, wait for each other, and be bound in
// turn.
type barrier struct {
	*book
	// following are plans whose members have not all been sent for.
	following []*planned
	// follows: members are sent for one after another (Follow).
	follows bool
	// waves is closed at the next change of the cluster; nil while nobody waits for a wave.
	waves chan struct{}
	// again is to be called before the next cycle: at most one for each member that has failed
	// since the last one.
	again []func()
}

// allow lets the ones pass that wait in Permit.
func (b *barrier) allow(uids []types.UID) {
	for _, uid := range uids {
		if w := b.Waiting(uid); w != nil {
			w.Allow(Name)
		}
	}
}

// nowAndAgain calls do now, and again before the next cycle. A member that does not wait yet now
// waits then: the framework has it wait after its Permit has answered, within the same cycle
// (prepareForBindingCycle in pkg/scheduler/schedule_one.go). The caller holds the lock.
func (b *barrier) nowAndAgain(do func()) {
	b.again = append(b.again, do)
	go do()
}

// callAgain is called between two cycles.
func (b *barrier) callAgain() {
	if !b.any.Load() {
		return
	}
	b.mu.Lock()
	again := b.again
	b.again = nil
	b.mu.Unlock()
	for _, do := range again {
		do()
	}
}

// allowPlan lets all members of a plan pass.
func (b *barrier) allowPlan(g *group, p *planned) {
	b.mu.Lock()
	var members []types.UID
	if g.plan == p {
		members = p.members()
	}
	b.mu.Unlock()
	b.allow(members)
}

// reject ends the waiting of members in Permit.
func (b *barrier) reject(uids []types.UID, why string) {
	for _, uid := range uids {
		if w := b.Waiting(uid); w != nil {
			w.Reject(Name, "the plan of its gang was dropped: "+why)
		}
	}
}

// Name is that of the plugin, by which members wait in Permit.
const Name = "Berth"

// AwaitTurn waits until the members that come before on the same node have been dealt with: their
// nodes were asked in the order of the plan. It waits for the report of the ones that come in waves
// before, and the last one of a gang for all others.
func (b *barrier) AwaitTurn(ctx context.Context, uid types.UID) error {
	if !b.any.Load() {
		return nil
	}
	p, at := b.find(uid)
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
		if err := b.awaitWave(ctx, at, p.deadline); err != nil {
			return err
		}
	}
	return awaitMates(ctx, p, at)
}

// AwaitMates is AwaitTurn for a member for which nothing is pinned: no node was asked in any order.
func (b *barrier) AwaitMates(ctx context.Context, uid types.UID) error {
	if !b.any.Load() {
		return nil
	}
	p, at := b.find(uid)
	if at == nil {
		return nil
	}
	return awaitMates(ctx, p, at)
}

// awaitMates makes the last member of a plan wait until the others are bound, or have failed. Each
// of them is, when its Binding is.
func awaitMates(ctx context.Context, p *planned, at *place) error {
	if p.last != at {
		return nil
	}
	select {
	case <-p.alone:
	case <-at.over:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// Why a member no longer waits for its wave.
var (
	errWaveOver = errors.New("a member of the gang that had to come before it on its node has failed, or the plan was dropped")
	errWaveLate = errors.New("the node did not report in time the members of the gang that come before it")
)

// awaitWave waits until the node has reported the members that come in waves before. Nobody waits
// beyond the plan's deadline.
func (b *barrier) awaitWave(ctx context.Context, at *place, deadline time.Time) error {
	limit := b.Clock.NewTimer(max(0, deadline.Sub(b.Clock.Now())))
	defer limit.Stop()
	for {
		b.mu.Lock()
		stirred := b.nextStir()
		b.mu.Unlock()
		if at.account.Due(string(at.uid)) {
			return nil
		}
		select {
		case <-stirred:
		case <-at.over:
			return errWaveOver
		case <-limit.C():
			return errWaveLate
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// nextStir returns what is closed at the next change. The caller holds the lock.
func (b *barrier) nextStir() <-chan struct{} {
	if b.waves == nil {
		b.waves = make(chan struct{})
	}
	return b.waves
}

// stirWaves has those who wait for their waves look again. The caller holds the lock.
func (b *barrier) stirWaves() {
	if b.waves != nil {
		close(b.waves)
		b.waves = nil
	}
}

// drop gives back what a plan has reserved. The caller holds the lock.
func (b *barrier) drop(g *group, why string) {
	p := g.plan
	g.plan = nil
	b.shares.Spend(g.key.Namespace, p.took, b.Clock.Now())
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
	b.Logger.V(2).Info("Plan of a gang is dropped", "gang", g.key, "why", why)
	b.nowAndAgain(func() { b.reject(waiting, why) })
}

// nextMate returns the next member to send for; nil for none.
func (b *barrier) nextMate() *corev1.Pod {
	if !b.any.Load() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.following) > 0 {
		p := b.following[0]
		for p.group.plan == p && p.next < len(p.places) {
			at := p.places[p.next]
			p.next++
			if m := p.group.members[at.uid]; m != nil && !at.sent {
				at.sent = true
				return m.pod
			}
		}
		b.following = b.following[1:]
	}
	return nil
}
