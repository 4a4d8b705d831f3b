package nodes

import (
	"context"
	"maps"
	"time"

	"github.com/berth-dev/berth/internal/scheduler/later"
)

// sweepEvery is the interval at which Sweep looks for nodes that are gone. A node is removed at the
// second sweep at the earliest (Table.sweep).
const sweepEvery = 10 * time.Minute

// Sweep regularly forgets nodes that are gone, until ctx ends. A cluster that grows and shrinks may
// give every machine a new name.
func (f *Feed) Sweep(ctx context.Context) {
	found := map[*Node]bool{}
	for later.Wait(ctx, f.Table.clock, sweepEvery) {
		f.Table.expire(f.Table.clock.Now())
		f.reports.Lock() // no node is removed while it accepts a report
		found = f.Table.sweep(found, f.Exists)
		f.reports.Unlock()
	}
}

// expire forgets deleted pods on nodes without an agent's report, because no report will ever show
// that they left. Feed.forgetOfLost forgets the pods of deleted nodes earlier.
func (t *Table) expire(now time.Time) {
	for each := range t.All {
		if each.account.View().Report() == nil || each.amounts.inUse.Load() {
			each.account.ForgetGone(now, sweepEvery)
		}
	}
}

// sweep removes the nodes that are idle in two sweeps in a row and have no Node object. The
// parameter before has the result of the last sweep: the nodes that were idle for the first time. A
// node is idle if it has no report, and the account has no pods and no Reservations on it. If a
// node was idle in both sweeps but still has a Node object, sweep does not remove it, but no longer
// counts it as a node on which Berth decides.
func (t *Table) sweep(before map[*Node]bool, exists func(name string) bool) map[*Node]bool {
	now, drop := map[*Node]bool{}, map[string]bool{}
	for each := range t.All {
		switch {
		case !each.account.View().Idle() || !each.amounts.none():
		case !before[each]:
			now[each] = true
		default:
			each.hot.obeys.Store(false)
			t.countObeying(each)
			drop[each.name] = !exists(each.name)
		}
	}
	maps.DeleteFunc(drop, func(_ string, gone bool) bool { return !gone })
	if len(drop) > 0 {
		t.drop(drop)
	}
	return now
}

// drop removes the named nodes from the table, except nodes that are in use again.
func (t *Table) drop(names map[string]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name := range names {
		gone := t.byName[name]
		if !gone.account.View().Idle() {
			continue // the node is in use again
		}
		delete(t.byName, name)
		if gone.unproven {
			t.unproven--
		}
		gone.hot.object.Store(nil)
		t.vacant = append(t.vacant, place{gone.Number(), gone.hot.changes.Count()})
	}
}
