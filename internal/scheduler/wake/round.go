package wake

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/turns"
)

const (
	// maxRoom is the maximum number of pods of one shape that are woken at a time because one node
	// has room.
	maxRoom = 8
	// RoundPause is the time between two steps of a round. By then, the scheduler has usually tried
	// the woken pods, and the remaining room is known.
	RoundPause = 200 * time.Millisecond
)

// These limits bound the cost of a change even if very many classes wait, or if a malicious report
// makes questions expensive.
const (
	// maxAsked is the maximum number of classes that a node is asked about at a change. In
	// addition, up to maxRoom questions count the room for each shape that the node now admits.
	maxAsked = 128
	// maxBehind is the maximum number of questions about classes, to all nodes in Waiters.behind
	// together, after each RoundPause.
	maxBehind = 4 * maxAsked
	// maxAskTime limits the time of the questions at a change, and of the later questions after a
	// RoundPause. The later questions take at most a twentieth of one CPU, plus the length of one
	// question.
	maxAskTime = RoundPause / 20
)

// beginRound begins a round for a node and a shape, which replaces the previous round. If the
// previous round ignored which nodes the pods blame, the new round ignores it too. The caller holds
// the lock.
func (w *Waiters) beginRound(c *change, shape ledger.Shape) *wakeRound {
	r := newRound(c, shape)
	if before := w.rounds[r.roundKey]; before != nil && before.blamed == nil {
		r.blamed = nil
	}
	w.rounds[r.roundKey] = &r
	return &r
}

// room limits the pods of a shape that are woken at once for a node.
type room struct {
	pods int
	// apart has the moments of the woken pods. Only one pod of each moment is woken, because the
	// node's promise to one pod can exclude other pods that were created in the same second. apart
	// is nil if pods of one second do not exclude each other.
	apart moments
}

type moments map[moment]bool

// moment is a second in which pods of one namespace were created. It includes the namespace, so
// that a tenant's pod does not keep another tenant's pod from being woken.
type moment struct {
	namespace string
	created   int64 // in seconds since 1970
}

// roomFor returns the room of node n for pods like the candidate c, which n admits. The parameter
// woken has the moments of all pods, of any shape, that one change wakes.
func roomFor(n Node, c *ledger.Candidate, woken moments) room {
	v := n.View()
	r := room{pods: max(1, v.Room(c, maxRoom))}
	if v.Apart(c) {
		r.apart = woken
	}
	return r
}

// wakeNext wakes pods that the round has not woken yet, as many as there is room for. Pods that
// were not woken since their last attempt come first, then pods of higher priority, then pods that
// have waited longer; namespaces take turns. It also wakes pods that are being tried, but does not
// count them. If pods are left, the round continues after a pause, because a woken pod may be
// placed on another node or refused by other plugins. The caller holds the lock.
func (w *Waiters) wakeNext(r *wakeRound, free room, pods batch) {
	if _, left := w.wakeSome(r, free, pods); left == 0 {
		delete(w.rounds, r.roundKey)
		return
	}
	w.edge.After(RoundPause, func() { w.goOn(r) })
}

// wakeSome wakes all pods of a round that are being tried, and the first of the other pods, as many
// as there is room for. It returns how many of the other pods it has woken, and how many are left.
// It skips pods that this round has already woken, or that blame only other nodes. The caller holds
// the lock.
func (w *Waiters) wakeSome(r *wakeRound, free room, pods batch) (some, left int) {
	var rest []*waiter
	for _, m := range w.byShape[r.shape] {
		for uid, p := range m.pods {
			switch {
			case r.woken[uid] || !p.blames(r.blamed):
			case p.trying:
				r.woken[uid] = true
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
		r.woken[p.pod.UID] = true
		pods.add(p)
		some++
	}
	return some, len(rest) - some
}

// sortByTurns sorts waiters into the order in which they are woken. Among equally urgent waiters,
// namespaces take turns, so that a namespace with many pods does not delay other namespaces.
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
	turns.Sort(list, func(p *waiter) lane { return lane{p.pod.Namespace, p.pod.Priority, p.woken} })
	slices.SortStableFunc(list, byUrgency)
}

// wakeOrder compares waiters by urgency and then by waiting time. It ignores namespaces.
func wakeOrder(a, b *waiter) int {
	return cmp.Or(byUrgency(a, b), a.since.Compare(b.since), cmp.Compare(a.pod.UID, b.pod.UID))
}

// byUrgency orders waiters that were not woken since their last attempt before all others, and then
// by priority, the highest first.
func byUrgency(a, b *waiter) int {
	switch {
	case a.woken != b.woken && a.woken:
		return 1
	case a.woken != b.woken:
		return -1
	}
	return cmp.Compare(b.pod.Priority, a.pod.Priority)
}

// goOn continues a round if the node still has room, and otherwise ends it. The next change that
// makes room begins another round.
func (w *Waiters) goOn(r *wakeRound) {
	free := w.roomOf(r.roundKey)
	pods := batch{}
	w.mu.Lock()
	switch {
	case w.rounds[r.roundKey] != r: // another round has replaced it
	case free.pods == 0:
		delete(w.rounds, r.roundKey)
	default:
		if w.tried(r) { // the node still admits these pods, so no promise excludes them
			free.apart = nil
		}
		w.wakeNext(r, free, pods)
	}
	w.mu.Unlock()
	w.activate(pods)
}

// tried reports whether all pods that the round has woken have been tried since. The caller holds
// the lock.
func (w *Waiters) tried(r *wakeRound) bool {
	for uid := range r.woken {
		if p := w.find(uid); p != nil && p.woken {
			return false
		}
	}
	return true
}

// roomOf returns the node's room for the shape. It asks the node about the classes of the
// shape, the newest first, until the node admits a class.
func (w *Waiters) roomOf(r roundKey) room {
	for _, c := range w.latest(r.shape) {
		if a := r.node.View().Ask(ledger.Question{Candidate: c}); a.OK() {
			return roomFor(r.node, c, moments{})
		}
	}
	return room{}
}

// latest returns at most maxAsked candidates of a shape. The newest classes come first.
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
