package wake

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/placement"
)

// reach says which pods of a class a change of a node wakes.
type reach uint8

const (
	wakeNobody reach = iota
	// wakeRoom: as many as the node has room for, and the others while these leave some.
	wakeRoom
	// wakeWaited: those that the node had kept waiting.
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
func (w *Waiters) NodeChanged(n Node) {
	w.wake(n, n, func(c *ledger.Candidate) reach {
		before, now := n.Shift(c)
		switch {
		case now.Outcome == ledger.Admitted && (!before.OK() || now.Exact && !before.Exact):
			return wakeRoom
		case now.Outcome == ledger.Admitted || now.Outcome == ledger.Waiting:
			return wakeNobody
		case before.Outcome == ledger.Waiting:
			return wakeAll
		default:
			return wakeWaited
		}
	})
}

// NodeReturned is for a node that can be relied on again, is another machine than it was, or is no
// longer kept for somebody. It wakes pods that the node takes, whatever it answered before and
// whomever they blame, and all that it refuses though evictions would help. Where the node waits
// for a report, so do the pods from now on.
func (w *Waiters) NodeReturned(n Node) {
	w.wake(n, nil, func(c *ledger.Candidate) reach {
		_, a := n.Shift(c)
		switch {
		case a.OK():
			return wakeRoom
		case a.Outcome == ledger.Waiting:
			return wakeLater
		case a.Outcome == ledger.Refused && a.Verdict.Scarcity == placement.Resolvable:
			return wakeAll
		default:
			return wakeNobody
		}
	})
}

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

// wake wakes pods after the node changed has changed. Only pods that were kept off by blamed count
// (nil: by whichever).
func (w *Waiters) wake(changed, blamed Node, judge func(*ledger.Candidate) reach) {
	reached, room := w.judgeAll(changed, judge)
	if len(reached) == 0 {
		return
	}
	pods := batch{}
	w.mu.Lock()
	for key, r := range reached {
		switch m := w.byClass[key]; {
		case m == nil || r == wakeRoom:
		case r == wakeLater:
			m.waitFor(changed, pods)
		default:
			m.wakeBlaming(blamed, r, pods)
		}
	}
	for shape, count := range room {
		w.wakeNext(&wakeRound{node: changed, blamed: blamed, shape: shape, woken: map[string]bool{}}, count, pods)
	}
	w.mu.Unlock()
	w.activate(pods)
}

// judgeAll asks about every class, and how many pods of a shape the node has room for.
func (w *Waiters) judgeAll(n Node, judge func(*ledger.Candidate) reach) (reached map[class]reach, room map[ledger.Shape]int) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for key, m := range w.byClass {
		r := judge(m.candidate)
		if r == wakeNobody {
			continue
		}
		if reached == nil {
			reached, room = map[class]reach{}, map[ledger.Shape]int{}
		}
		reached[key] = r
		if _, known := room[key.shape]; r == wakeRoom && !known {
			room[key.shape] = max(1, n.View().Room(m.candidate, maxRoom))
		}
	}
	return reached, room
}

// wakeBlaming wakes the members that blame the node; with wakeWaited only those that it had kept
// waiting.
func (m *members) wakeBlaming(n Node, r reach, pods batch) {
	for _, p := range m.pods {
		if p.blames(n) && (r == wakeAll || p.blamed[n]) {
			pods.add(p)
		}
	}
}

// waitFor has the members wait for the node too. It wakes those on trial.
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
	node  Node
	shape ledger.Shape
	// blamed is the node that pods must blame; nil: whichever.
	blamed Node
	woken  map[string]bool // by UID
}

// wakeNext wakes count pods of the round that it has not woken yet: first those that nobody has
// woken, then by priority, then by how long they have waited. Pods on trial are woken too, and do
// not count. If pods are left, the round goes on after a pause: whoever was woken may be placed
// elsewhere, or be kept off by others. The caller holds the lock.
func (w *Waiters) wakeNext(r *wakeRound, count int, pods batch) {
	var left []*waiter
	for key, m := range w.byClass {
		if key.shape != r.shape {
			continue
		}
		for uid, p := range m.pods {
			switch {
			case r.woken[uid] || !p.blames(r.blamed):
			case p.trying:
				r.woken[uid] = true
				pods.add(p)
			default:
				left = append(left, p)
			}
		}
	}
	slices.SortFunc(left, wakeOrder)
	for _, p := range left[:min(count, len(left))] {
		r.woken[p.pod.UID] = true
		pods.add(p)
	}
	if len(left) > count {
		w.edge.After(RoundPause, func() { w.goOn(r) })
	}
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
	if room == 0 {
		return
	}
	pods := batch{}
	w.mu.Lock()
	w.wakeNext(r, room, pods)
	w.mu.Unlock()
	w.activate(pods)
}

func (w *Waiters) roomOf(r *wakeRound) int {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for key, m := range w.byClass {
		if key.shape != r.shape {
			continue
		}
		if a := r.node.View().Ask(ledger.Question{Candidate: m.candidate}); a.OK() {
			return max(1, r.node.View().Room(m.candidate, maxRoom))
		}
	}
	return 0
}

func (w *Waiters) activate(pods batch) {
	if len(pods) > 0 {
		w.edge.Activate(slices.SortedFunc(maps.Values(pods), func(a, b Pod) int { return cmp.Compare(a.UID, b.UID) }))
	}
}
