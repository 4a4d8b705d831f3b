package nodes

import (
	"context"
	"time"

	"github.com/berth-dev/berth/internal/demand"
	"github.com/berth-dev/berth/internal/nodestate"
)

// The demand for nodes is noted when new levels are due, but for no more
// than one part in demandShare of the time; and every demandLate, since their labels may have
// changed.
const (
	demandShare = 100
	demandLate  = 30 * time.Second
)

// FollowDemand notes how much demand there is for each node, until ctx ends.
func (t *Table) FollowDemand(ctx context.Context) {
	d := &t.Demand
	levels := d.Levels()
	for {
		begun := t.clock.Now()
		t.noteDemand(levels)
		select {
		case <-ctx.Done():
			return
		case <-t.clock.After(demandShare * t.clock.Since(begun)):
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

func (t *Table) noteDemand(levels *nodestate.Levels) {
	for n := range t.All {
		level := levels.Of(n.hot.object.Load(), n.account.View())
		n.hot.liking.set(uint32(demand.MostDemand), uint32(level))
	}
}
