package wake

import (
	"maps"
	"slices"
	"time"

	"github.com/berth-dev/berth/internal/ledger"
)

// NodeChanged wakes the pods that a change of the node may help. The node may now admit these pods,
// or their CPUs may now be certain. If the node waited for a report and now refuses these pods,
// preemption may help.
func (w *Waiters) NodeChanged(n Node) { w.wake(&change{node: n, changed: true}) }

// NodeReturned is called for a node that is usable again, has become another machine, or no longer
// keeps resources for a nominated pod. It wakes pods that the node admits, and all pods that the
// node refuses but would admit after evictions. It does so whatever the node answered before, and
// whichever nodes the pods blame. If the node waits for a report, the pods now wait for that
// report.
func (w *Waiters) NodeReturned(n Node) { w.wake(&change{node: n, returned: true}) }

// WakeAll wakes every pod.
func (w *Waiters) WakeAll() {
	pods := batch{}
	w.mu.Lock()
	for _, m := range w.byClass {
		m.wakeBlaming(nil, wakeAll, pods)
	}
	w.mu.Unlock()
	w.activate(pods)
}

// WakeOne wakes a pod if it still needs a node.
func (w *Waiters) WakeOne(uid string) {
	w.mu.RLock()
	p := w.find(uid)
	w.mu.RUnlock()
	if p != nil {
		w.edge.Activate([]Pod{p.pod})
	}
}

// WakeOneAfter wakes a pod after d, if the pod then still needs a node.
func (w *Waiters) WakeOneAfter(d time.Duration, uid string) {
	w.edge.After(d, func() { w.WakeOne(uid) })
}

// follow wakes the pods that a change may help according to the node's answers. The caller holds
// the lock.
func (w *Waiters) follow(c *change, said *replies, pods batch) {
	for key, r := range said.reached {
		m := w.byClass[key]
		if m != nil && c.returned {
			m.blame(c.node)
		}
		switch {
		case m == nil || r == wakeRoom || r == wakeNobody:
		case r == wakePerhaps && len(w.byShape) <= ledger.MaxAnswers:
			said.news[key.shape] = true
		case r == wakePerhaps:
			if !said.news[key.shape] {
				w.wakeAgain(c, m, said.room[key.shape])
				said.room[key.shape] = room{} // count the room once for all classes of the shape
			}
		case r == wakeLater:
			m.waitFor(c.node, pods)
		case r == wakeWaited:
			m.wakeBlaming(c.node, r, pods)
		default:
			m.wakeBlaming(c.blamed(), r, pods)
		}
	}
	for _, shape := range w.inOrder(said.news) {
		w.wakeNext(w.beginRound(c, shape), said.room[shape], pods)
	}
}

// inOrder sorts shapes by the wake order of their most urgent pods. The caller holds the lock.
func (w *Waiters) inOrder(shapes map[ledger.Shape]bool) []ledger.Shape {
	if len(shapes) < 2 {
		return slices.Collect(maps.Keys(shapes))
	}
	first := map[ledger.Shape]*waiter{}
	for shape := range shapes {
		for _, m := range w.byShape[shape] {
			for _, p := range m.pods {
				if best := first[shape]; best == nil || wakeOrder(p, best) < 0 {
					first[shape] = p
				}
			}
		}
	}
	return slices.SortedFunc(maps.Keys(first), func(a, b ledger.Shape) int { return wakeOrder(first[a], first[b]) })
}

// replies has a node's answers about several classes.
type replies struct {
	reached map[class]reach
	// room has the node's room for pods of each shape. news has the shapes for which rounds begin:
	// shapes that the node may not have admitted before the change, or whose CPUs were not certain
	// then. After NodeReturned, news has all shapes that the node admits.
	room map[ledger.Shape]room
	news map[ledger.Shape]bool
	// woken has the moments of the pods that the change wakes.
	woken moments
}

// wake asks a changed node about the first classes of the ring, and wakes pods. The node is asked
// about the other classes later (fallBehind).
func (w *Waiters) wake(c *change) {
	c.at, c.stop = start, start
	w.mu.RLock()
	list, end := c.next(&w.ring, maxAsked)
	w.mu.RUnlock()
	said, asked := w.ask(c, list)
	closed := c.passed(list, asked, end)
	if closed && len(said.reached) == 0 {
		return
	}
	pods := batch{}
	w.mu.Lock()
	w.follow(c, &said, pods)
	if !closed {
		w.fallBehind(c)
	}
	w.mu.Unlock()
	w.activate(pods)
	w.renew()
}

// ask asks the node about the classes for at most maxAskTime, and returns the number of classes
// that it asked about. The caller does not hold the lock, because a question may take long.
func (w *Waiters) ask(c *change, list []question) (said replies, asked int) {
	begun := w.edge.Now()
	for i := range list {
		if i > 0 && w.edge.Now().Sub(begun) >= maxAskTime {
			return said, i
		}
		q := &list[i]
		r := c.reach(q.candidate)
		if r == wakeNobody && !c.returned {
			continue
		}
		if said.reached == nil {
			said = replies{map[class]reach{}, map[ledger.Shape]room{}, map[ledger.Shape]bool{}, moments{}}
		}
		said.reached[q.class] = r
		if r == wakeRoom {
			said.news[q.class.shape] = true
		}
		if _, known := said.room[q.class.shape]; (r == wakeRoom || r == wakePerhaps) && !known {
			said.room[q.class.shape] = roomFor(c.node, q.candidate, said.woken)
		}
	}
	return said, len(list)
}

// fallBehind keeps a change whose node was not yet asked about all classes. The caller holds the
// lock.
func (w *Waiters) fallBehind(c *change) {
	b := &w.behind
	if before := b.byNode[c.node]; before != nil {
		before.changed, before.returned = before.changed || c.changed, before.returned || c.returned
		before.again = true
		return
	}
	b.byNode[c.node] = c
	b.queue = append(b.queue, c)
	if !b.timed {
		b.timed = true
		w.edge.After(RoundPause, w.catchUp)
	}
}

// catchUp asks changed nodes about classes that they were not asked about yet.
func (w *Waiters) catchUp() {
	begun := w.edge.Now()
	for left := maxBehind; left > 0 && w.edge.Now().Sub(begun) < maxAskTime; {
		t, ok := w.nextBehind(min(left, maxAsked))
		if !ok {
			break
		}
		said, asked := w.ask(&t.as, t.list)
		w.caughtUp(&t, &said, asked)
		left -= asked
	}
	w.renew()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.behind.timed = len(w.behind.queue) > 0; w.behind.timed {
		w.edge.After(RoundPause, w.catchUp)
	}
}

// turn is one step in the handling of a change in behind.
type turn struct {
	of *change
	// The field `as` is a copy of the change at the start of the turn, because the node may change
	// again during the turn.
	as   change
	list []question
	// end is the second result of change.next.
	end bool
}

// nextBehind takes the first change from the queue. It returns false if there is none.
func (w *Waiters) nextBehind(limit int) (turn, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := &w.behind
	if len(b.queue) == 0 {
		return turn{}, false
	}
	t := turn{of: b.queue[0], as: *b.queue[0]}
	b.queue = b.queue[1:]
	t.list, t.end = t.of.next(&w.ring, limit)
	return t, true
}

// caughtUp wakes pods according to the node's answers. It puts the change back into the queue
// unless the node was asked about all classes.
func (w *Waiters) caughtUp(t *turn, said *replies, asked int) {
	pods := batch{}
	w.mu.Lock()
	w.follow(&t.as, said, pods)
	if t.of.passed(t.list, asked, t.end) {
		delete(w.behind.byNode, t.of.node)
	} else {
		w.behind.queue = append(w.behind.queue, t.of)
	}
	w.mu.Unlock()
	w.activate(pods)
}
