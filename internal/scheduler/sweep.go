package scheduler

import (
	"context"
	"maps"
	"time"
)

// sweepEvery is how often nodes that are no more are looked for. One is forgotten when it is found
// twice.
const sweepEvery = 10 * time.Minute

// sweep forgets nodes that are no more, until ctx ends: a cluster that grows and shrinks gives
// every machine a new name.
func (c *core) sweep(ctx context.Context, exists func(name string) bool) {
	found := map[*node]bool{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.clock.After(sweepEvery):
		}
		c.nodes.expire(c.clock.Now())
		c.feed.reports.Lock() // a report is taken in by a node that stays
		found = c.nodes.sweep(found, exists)
		c.feed.reports.Unlock()
	}
}

// expire forgets pods that are gone from nodes without a report: of a node that is no more, or that
// has no agent, nobody tells what has become of them.
func (n *nodes) expire(now time.Time) {
	for each := range n.all {
		if each.View().Report() == nil {
			each.ForgetGone(now, sweepEvery)
		}
	}
}

// sweep forgets the nodes that are no more and were none the last time either, and returns those
// found for the first time. Nothing can refer to a node that has been idle from one sweep to the
// next: a pod that is on its way to it, or that a report or the API knows there, keeps it.
func (n *nodes) sweep(before map[*node]bool, exists func(name string) bool) map[*node]bool {
	now, drop := map[*node]bool{}, map[string]bool{}
	for each := range n.all {
		switch {
		case !each.View().Idle() || exists(each.name):
		case before[each]:
			drop[each.name] = true
		default:
			now[each] = true
		}
	}
	if len(drop) > 0 {
		n.drop(drop)
	}
	return now
}

// drop forgets nodes.
func (n *nodes) drop(names map[string]bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.settle()
	left := maps.Clone(*n.settled.Load())
	for name := range names {
		gone := left[name]
		if !gone.View().Idle() {
			continue // it has come back meanwhile
		}
		delete(left, name)
		gone.object.Store(nil)
		n.vacant = append(n.vacant, place{gone.number, gone.Count()})
	}
	n.settled.Store(&left)
}

// place is a number on the boards, with the last beat of the node that had it: words of that node
// may still be there.
type place struct {
	number int
	beat   uint32
}
