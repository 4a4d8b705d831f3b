package wake

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/berth-dev/berth/internal/ledger"
)

// reach says which pods of a class a change of a node wakes.
type reach uint8

const (
	wakeNobody reach = iota
	// wakePerhaps: as wakeRoom, as the budget allows: the node may have taken them before.
	wakePerhaps
	// wakeRoom: as many as the node has room for, and the others while these leave some.
	wakeRoom
	// wakeWaited: the ones that the node had kept waiting.
	wakeWaited
	// wakeLater: those on trial, which may not know of the node; the others once the node has made
	// up its mind.
	wakeLater
	// wakeAll: all.
	wakeAll
)

const (
	// maxRoom bounds how many pods of one shape are woken at a time for the room on one node.
	maxRoom = 8
	// RoundPause lies between two rounds: then it shows whether the pods that were woken have left
	// room for others.
	RoundPause = 200 * time.Millisecond
)

// NodeChanged wakes the pods for which a change of the node could make a difference. The node takes
// them now and did not before, it is certain now of what they would get, or it refuses them now and
// had merely waited, so that preemption is worth a thought.
func (w *Waiters) NodeChanged(n Node) { w.wake(&change{node: n, changed: true}) }

// NodeReturned is for a node that can be relied on again, is another machine than it was, or is no
// longer kept for somebody. It wakes pods that the node takes, whatever it answered before and
// whomever they blame, and all that it refuses though evictions would help. Where the node waits
// for a report, so do the pods from now on.
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

// WakeOne wakes a pod if it still wants a node.
func (w *Waiters) WakeOne(uid string) {
	w.mu.RLock()
	p := w.find(uid)
	w.mu.RUnlock()
	if p != nil {
		w.edge.Activate([]Pod{p.pod})
	}
}

// WakeOneAfter wakes a pod when d has passed, if it still wants a node then.
func (w *Waiters) WakeOneAfter(d time.Duration, uid string) {
	w.edge.After(d, func() { w.WakeOne(uid) })
}

// follow wakes the pods that a change concerns, by what the node has said. The caller holds the
// lock.
func (w *Waiters) follow(c *change, said *replies, pods batch) {
	for key, r := range said.reached {
		switch m := w.byClass[key]; {
		case m == nil || r == wakeRoom:
		case r == wakePerhaps && len(w.byShape) <= ledger.MaxAnswers:
			said.news[key.shape] = true
		case r == wakePerhaps:
			if !said.news[key.shape] {
				w.wakeAgain(c, m, said.room[key.shape])
				said.room[key.shape] = 0 // once for all of its classes
			}
		case r == wakeLater:
			m.waitFor(c.node, pods)
		case r == wakeWaited:
			m.wakeBlaming(c.node, r, pods)
		default:
			m.wakeBlaming(c.blamed(), r, pods)
		}
	}
	for shape := range said.news {
		w.wakeNext(w.beginRound(c, shape), said.room[shape], pods)
	}
}

// wakeBlaming wakes the members that blame the node; with wakeWaited only the ones that it had kept
// waiting.
func (m *members) wakeBlaming(n Node, r reach, pods batch) {
	for _, p := range m.pods {
		if p.blames(n) && (r == wakeAll || p.blamed[n]) {
			pods.add(p)
		}
	}
}

// waitFor makes the members wait for the node too. It wakes those on trial.
func (m *members) waitFor(n Node, pods batch) {
	for _, p := range m.pods {
		switch {
		case p.trying:
			pods.add(p)
		case p.blamed != nil:
			p.blamed[n] = true
		}
	}
}

// batch holds pods that are woken together, by UID.
type batch map[string]Pod

func (b batch) add(w *waiter) {
	w.woken = true
	b[w.pod.UID] = w.pod
}

// wakeRound is one change of a node, and the pods of a shape that have been woken for it.
type wakeRound struct {
	roundKey
	// blamed is the node that pods must blame; nil: whichever.
	blamed Node
	woken  map[string]bool // by UID
}

// roundKey says which round takes the place of another.
type roundKey struct {
	node  Node
	shape ledger.Shape
}

// beginRound begins a round, in place of the one before: what that had to do the new one does. The
// caller holds the lock.
func (w *Waiters) beginRound(c *change, shape ledger.Shape) *wakeRound {
	r := &wakeRound{roundKey: roundKey{c.node, shape}, blamed: c.blamed(), woken: map[string]bool{}}
	if before := w.rounds[r.roundKey]; before != nil && before.blamed == nil {
		r.blamed = nil
	}
	w.rounds[r.roundKey] = r
	return r
}

// wakeNext wakes count pods of the round that it has not woken yet: first the ones that nobody has
// woken, then by priority, then by how long they have waited. Pods on trial are woken too, and do
// not count. If pods are left, the round goes on after a pause: a pod that was woken may be placed
// elsewhere, or be kept off by others. The caller holds the lock.
func (w *Waiters) wakeNext(r *wakeRound, count int, pods batch) {
	if w.wakeSome(r.shape, r.blamed, r.woken, count, pods) <= count {
		delete(w.rounds, r.roundKey)
		return
	}
	w.edge.After(RoundPause, func() { w.goOn(r) })
}

// wakeSome wakes the first count pods of a shape, and all that are on trial, except for the ones
// that have been woken already or blame another node. It returns how many of them are not on trial.
// The caller holds the lock.
func (w *Waiters) wakeSome(shape ledger.Shape, blamed Node, woken map[string]bool, count int, pods batch) int {
	var left []*waiter
	for _, m := range w.byShape[shape] {
		for uid, p := range m.pods {
			switch {
			case woken[uid] || !p.blames(blamed):
			case p.trying:
				woken[uid] = true
				pods.add(p)
			default:
				left = append(left, p)
			}
		}
	}
	slices.SortFunc(left, wakeOrder)
	for _, p := range left[:min(count, len(left))] {
		woken[p.pod.UID] = true
		pods.add(p)
	}
	return len(left)
}

// wakeOrder sorts waiters by who is woken first.
func wakeOrder(a, b *waiter) int {
	switch {
	case a.woken != b.woken && a.woken:
		return 1
	case a.woken != b.woken:
		return -1
	}
	return cmp.Or(cmp.Compare(b.pod.Priority, a.pod.Priority), a.since.Compare(b.since), cmp.Compare(a.pod.UID, b.pod.UID))
}

// goOn continues a round if the node still has room. If it has none, the change that makes some
// begins another round.
func (w *Waiters) goOn(r *wakeRound) {
	room := w.roomOf(r)
	pods := batch{}
	w.mu.Lock()
	switch {
	case w.rounds[r.roundKey] != r: // another one has taken its place
	case room == 0:
		delete(w.rounds, r.roundKey)
	default:
		w.wakeNext(r, room, pods)
	}
	w.mu.Unlock()
	w.activate(pods)
}

// roomOf asks how many pods of a round's shape the node takes. Among classes of one shape those of
// pods that were created later are asked first: the node answers them alike.
func (w *Waiters) roomOf(r *wakeRound) int {
	for _, c := range w.latest(r.shape) {
		if a := r.node.View().Ask(ledger.Question{Candidate: c}); a.OK() {
			return max(1, r.node.View().Room(c, maxRoom))
		}
	}
	return 0
}

// latest returns candidates of a shape, at most maxAsked, the classes that came last first.
func (w *Waiters) latest(shape ledger.Shape) (out []*ledger.Candidate) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, m := range slices.Backward(w.byShape[shape]) {
		if len(out) == maxAsked {
			break
		}
		out = append(out, m.candidate)
	}
	return out
}

func (w *Waiters) activate(pods batch) {
	if len(pods) > 0 {
		w.edge.Activate(slices.SortedFunc(maps.Values(pods), func(a, b Pod) int { return cmp.Compare(a.UID, b.UID) }))
	}
}
