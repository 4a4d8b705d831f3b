package scheduler

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/ledger"
)

// call says which pods of a sort a change of a node concerns.
type call uint8

const (
	callNobody call = iota
	// callRoom: as many as the node has room for; the others when these have left some.
	callRoom
	// callWaited: those for which the node had merely waited.
	callWaited
	// callLater: those that are being tried and may not know of the node; the others when it has made up its mind.
	callLater
	// callAll: all.
	callAll
)

const (
	// maxCalled bounds how many pods of one shape are activated at a time for the room on one node.
	maxCalled = 8
	// callAgainAfter is when it is looked whether those who were activated have left room for others.
	callAgainAfter = 200 * time.Millisecond
)

// series is one change of a node, and the pods of a shape that have been activated for it.
type series struct {
	node  *node
	shape ledger.Shape
	// of is the node that pods have to blame; nil where it does not matter whom they blame.
	of     *node
	called map[types.UID]bool
}

// activate activates the pods that a change of node n concerns, nil standing for all nodes: of those that blame the node of, where
// nil stands for any.
func (w *waiters) activate(n, of *node, judge func(*ledger.Candidate) call) {
	calls, room := w.judgeAll(n, judge)
	if len(calls) == 0 {
		return
	}
	pods := map[string]*corev1.Pod{}
	w.mu.Lock()
	for key, c := range calls {
		switch q := w.bySort[key]; {
		case q == nil || c == callRoom:
		case c == callLater:
			q.callLater(n, pods)
		default:
			q.callAll(of, c, pods)
		}
	}
	for shape, count := range room {
		w.callUp(&series{node: n, shape: shape, of: of, called: map[types.UID]bool{}}, count, pods)
	}
	w.mu.Unlock()
	w.send(pods)
}

// judgeAll asks about every sort of pods, and how many of a shape there is room for.
func (w *waiters) judgeAll(n *node, judge func(*ledger.Candidate) call) (calls map[sort]call, room map[ledger.Shape]int) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for key, q := range w.bySort {
		c := judge(q.candidate)
		if c == callNobody {
			continue
		}
		if calls == nil {
			calls, room = map[sort]call{}, map[ledger.Shape]int{}
		}
		calls[key] = c
		if _, known := room[key.shape]; c == callRoom && !known {
			room[key.shape] = max(1, n.View().Room(q.candidate, maxCalled))
		}
	}
	return calls, room
}

// callAll adds the pods of the queue, with callWaited only those for which the node had waited.
func (q *queue) callAll(n *node, c call, pods map[string]*corev1.Pod) {
	for _, p := range q.pods {
		if p.blames(n) && (c == callAll || p.blamed[n]) {
			p.callTo(pods)
		}
	}
}

// callLater has the pods of the queue wait for the node too.
func (q *queue) callLater(n *node, pods map[string]*corev1.Pod) {
	for _, p := range q.pods {
		switch {
		case p.trying:
			p.callTo(pods)
		case p.blamed != nil:
			p.blamed[n] = true
		}
	}
}

func (w *waiter) callTo(pods map[string]*corev1.Pod) {
	w.called = true
	pods[w.pod.Namespace+"/"+w.pod.Name] = w.pod
}

// callUp adds count pods of the series' shape that have not been called in it, those first that nobody has called, then by
// priority and by how long they have been waiting. Pods that are being tried are added too, and do not count. Where pods are left
// it is looked again a little later: whoever was called may be placed elsewhere, or be kept away by others. The caller
// holds the lock.
func (w *waiters) callUp(s *series, count int, pods map[string]*corev1.Pod) {
	var left []*waiter
	for key, q := range w.bySort {
		if key.shape != s.shape {
			continue
		}
		for uid, p := range q.pods {
			switch {
			case s.called[uid] || !p.blames(s.of):
			case p.trying:
				s.called[uid] = true
				p.callTo(pods)
			default:
				left = append(left, p)
			}
		}
	}
	slices.SortFunc(left, before)
	for _, p := range left[:min(count, len(left))] {
		s.called[p.pod.UID] = true
		p.callTo(pods)
	}
	if len(left) > count {
		w.clock.AfterFunc(callAgainAfter, func() { go w.callAgain(s) })
	}
}

// before orders waiters by who is activated first.
func before(a, b *waiter) int {
	switch {
	case a.called != b.called && a.called:
		return 1
	case a.called != b.called:
		return -1
	}
	return cmp.Or(cmp.Compare(priorityOf(b.pod), priorityOf(a.pod)), a.since.Compare(b.since), cmp.Compare(a.pod.UID, b.pod.UID))
}

func priorityOf(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// callAgain goes on with a series if there is room. Where there is none any more, the change that makes some begins a series
// of its own.
func (w *waiters) callAgain(s *series) {
	room := w.roomOf(s)
	if room == 0 {
		return
	}
	pods := map[string]*corev1.Pod{}
	w.mu.Lock()
	w.callUp(s, room, pods)
	w.mu.Unlock()
	w.send(pods)
}

func (w *waiters) roomOf(s *series) int {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for key, q := range w.bySort {
		if key.shape != s.shape {
			continue
		}
		if a := s.node.Ask(ledger.Question{Candidate: q.candidate}); a.OK() {
			return max(1, s.node.View().Room(q.candidate, maxCalled))
		}
	}
	return 0
}

func (w *waiters) send(pods map[string]*corev1.Pod) {
	if len(pods) > 0 {
		w.activator.Activate(w.logger, pods)
	}
}
