package nodes

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/demand"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/scheduler/later"
)

// FollowDemand works for at most about 1/demandShare of the time. After demandLate, it updates the
// demand for the nodes even if no demand level has changed, because nodes and their labels may have
// changed.
const (
	demandShare = 100
	demandLate  = 30 * time.Second
)

// FollowDemand updates the demand for each node until ctx ends. The function objectOf returns the
// Node object of a name, or nil.
func (t *Table) FollowDemand(ctx context.Context, objectOf func(name string) *corev1.Node) {
	d := &t.Demand
	levels := d.Levels()
	for {
		begun := t.clock.Now()
		t.noteDemand(levels, objectOf)
		if !later.Wait(ctx, t.clock, demandShare*t.clock.Since(begun)) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-d.Changed():
			if d.Due() {
				levels = d.Levels()
			}
		case <-t.clock.After(demandLate):
		}
	}
}

func (t *Table) noteDemand(levels *nodestate.Levels, objectOf func(name string) *corev1.Node) {
	for n := range t.All {
		level := levels.Of(objectOf(n.name), n.account.View())
		n.hot.traits.set(uint32(demand.MostDemand), uint32(level))
	}
}
