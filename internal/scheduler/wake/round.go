package wake

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/berth-dev/berth/internal/ledger"
)

const (
	// maxRoom is the maximum number of pods of one shape that are woken at a time for the room on
	// one node.
	maxRoom = 8
	// RoundPause is the time between two rounds. After it, it is known if the woken pods have left
	// room for others.
	RoundPause = 200 * time.Millisecond
)

// Limits for the cost of a change, whatever the number of waiting classes, and however expensive a
// malicious report makes a question.
const (
	// maxAsked is the maximum number of classes that are asked about a change at once. For each
	// shape that the node now takes, its room is counted as well, which needs maxRoom more
	// questions.
	maxAsked = 128
	// maxBehind bounds the classes that are asked about behind, in all, after each RoundPause.
	maxBehind = 4 * maxAsked
	// maxAskTime ends a change's first questions, and the later ones after a RoundPause. Together
	// they take at most a twentieth of one CPU, plus the length of one question.
	maxAskTime = RoundPause / 20
)

// beginRound begins a round that replaces the previous one and takes over its work. The caller
// holds the lock.
func (w *Waiters) beginRound(c *change, shape ledger.Shape) *wakeRound {
	r := &wakeRound{roundKey: roundKey{c.node, shape}, blamed: c.blamed(), woken: map[string]bool{}}
	if before := w.rounds[r.roundKey]; before != nil && before.blamed == nil {
		r.blamed = nil
	}
	w.rounds[r.roundKey] = r
	return r
}

// room tells which pods of a shape are woken at once for a node's room.
type room struct {
	// pods is the maximum number of pods.
	pods int
	// apart has the moment of each woken pod. No second pod of a moment is woken. It is nil if pods
	// of one second do not exclude each other from the node.
	apart moments
}

// moments is a set of moments.
type moments map[moment]bool

// moment is a second in which pods of a namespace were created. It includes the namespace, so that
// no tenant's pod is woken in place of another tenant's.
type moment struct {
	namespace string
	created   int64 // in Unix time
}

// roomFor asks a node that takes the candidate how many such pods it takes. Pods of all shapes that
// are woken for one change share woken.
func roomFor(n Node, c *ledger.Candidate, woken moments) room {
	v := n.View()
	r := room{pods: max(1, v.Room(c, maxRoom))}
	if v.Apart(c) {
		r.apart = woken
	}
	return r
}

// wakeNext wakes pods of the round that it has not woken yet, as many as there is room for. Pods
// that no change has woken come first, then pods of higher priority, then by waiting time with the
// namespaces in turn. Pods on trial are woken too, and do not count. If pods are left, the round
// continues after a pause, because a woken pod may be placed elsewhere or be refused by other
// plugins. The caller holds the lock.
func (w *Waiters) wakeNext(r *wakeRound, free room, pods batch) {
	if _, left := w.wakeSome(r.shape, r.blamed, r.woken, free, pods); left == 0 {
		delete(w.rounds, r.roundKey)
		return
	}
	w.edge.After(RoundPause, func() { w.goOn(r) })
}

// wakeSome wakes the first pods of a shape for which there is room, and all pods on trial. It skips
// pods that have already been woken or blame another node. It returns how many of those not on
// trial it has woken, and how many are left. The caller holds the lock.
func (w *Waiters) wakeSome(shape ledger.Shape, blamed Node, woken map[string]bool, free room, pods batch) (some, left int) {
	var rest []*waiter
	for _, m := range w.byShape[shape] {
		for uid, p := range m.pods {
			switch {
			case woken[uid] || !p.blames(blamed):
			case p.trying:
				woken[uid] = true
				pods.add(p)
			default:
				rest = append(rest, p)
			}
		}
	}
	sortByTurns(rest)
	for _, p := range rest {
		of := moment{p.pod.Namespace, p.candidate.Created}
		if some == free.pods || free.apart[of] {
			continue
		}
		if free.apart != nil {
			free.apart[of] = true
		}
		woken[p.pod.UID] = true
		pods.add(p)
		some++
	}
	return some, len(rest) - some
}

// sortByTurns moves the waiters that are woken first to the front. If waiters are equally urgent,
// their namespaces take turns, so one with many pods delays no other.
func sortByTurns(list []*waiter) {
	slices.SortFunc(list, wakeOrder)
	if !slices.ContainsFunc(list, func(p *waiter) bool { return p.pod.Namespace != list[0].pod.Namespace }) {
		return
	}
	type lane struct {
		namespace string
		priority  int32
		woken     bool
	}
	next, turn := make(map[lane]int), make(map[*waiter]int, len(list))
	for _, p := range list {
		in := lane{p.pod.Namespace, p.pod.Priority, p.woken}
		turn[p] = next[in]
		next[in]++
	}
	slices.SortStableFunc(list, func(a, b *waiter) int { return cmp.Or(byUrgency(a, b), cmp.Compare(turn[a], turn[b])) })
}

// wakeOrder orders waiters for waking, without turns.
func wakeOrder(a, b *waiter) int {
	return cmp.Or(byUrgency(a, b), a.since.Compare(b.since), cmp.Compare(a.pod.UID, b.pod.UID))
}

// byUrgency sorts waiters: first those that no change has woken, then by priority.
func byUrgency(a, b *waiter) int {
	switch {
	case a.woken != b.woken && a.woken:
		return 1
	case a.woken != b.woken:
		return -1
	}
	return cmp.Compare(b.pod.Priority, a.pod.Priority)
}

// goOn continues a round if the node still has room. If it has none, the next change that makes
// room begins another round.
func (w *Waiters) goOn(r *wakeRound) {
	free := w.roomOf(r)
	pods := batch{}
	w.mu.Lock()
	switch {
	case w.rounds[r.roundKey] != r: // another one has taken its place
	case free.pods == 0:
		delete(w.rounds, r.roundKey)
	default:
		if w.tried(r) { // the node still takes such pods: no promise keeps them off
			free.apart = nil
		}
		w.wakeNext(r, free, pods)
	}
	w.mu.Unlock()
	w.activate(pods)
}

// tried reports whether all that the round has woken have been tried since. The caller holds the
// lock.
func (w *Waiters) tried(r *wakeRound) bool {
	for uid := range r.woken {
		if p := w.find(uid); p != nil && p.woken {
			return false
		}
	}
	return true
}

// roomOf asks how many pods of a round's shape the node takes. Among classes of one shape it asks
// those with later pods first. The node gives the same answers to them.
func (w *Waiters) roomOf(r *wakeRound) room {
	for _, c := range w.latest(r.shape) {
		if a := r.node.View().Ask(ledger.Question{Candidate: c}); a.OK() {
			return roomFor(r.node, c, moments{})
		}
	}
	return room{}
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
