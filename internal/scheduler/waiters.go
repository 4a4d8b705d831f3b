package scheduler

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/placement"
)

// waiters are the pods that want a node and have none, by what they ask for, so that a change of a node costs one
// question per sort of pod and not per pod. A pod is in from its PreFilter to its Reserve: a change in the middle of its
// cycle reaches it too.
type waiters struct {
	activator fwk.PodActivator
	logger    klog.Logger
	clock     clock.WithDelayedExecution

	mu     sync.RWMutex
	bySort map[sort]*queue
	sortOf map[types.UID]sort
}

// sort is what pods have in common that get the same answers.
type sort struct {
	shape   ledger.Shape
	created int64
}

// queue is the pods of one sort.
type queue struct {
	// candidate is that of one of the pods: a node that has it in flight would take it for the pod itself.
	candidate *ledger.Candidate
	pods      map[types.UID]*waiter
}

// waiter is a pod that wants a node.
type waiter struct {
	pod       *corev1.Pod
	candidate ledger.Candidate
	since     time.Time
	// blamed are the nodes that only this plugin kept the pod from, true for those that merely waited; nil stands for any.
	blamed map[*node]bool
	// waitsFrom is since when some node waited whenever the pod was tried; zero: none did the last time.
	waitsFrom time.Time
	// trying: its cycle has not come to an end that we know of.
	trying bool
	// called: it has been activated and not been tried since.
	called bool
}

// blames says whether the node can be what keeps the pod; nil stands for any node.
func (w *waiter) blames(n *node) bool {
	if n == nil || w.blamed == nil {
		return true
	}
	_, ok := w.blamed[n]
	return ok
}

// maxBlamed bounds how many nodes are remembered for one pod.
const maxBlamed = 128

func newWaiters(logger klog.Logger, a fwk.PodActivator, c clock.WithDelayedExecution) *waiters {
	return &waiters{activator: a, logger: logger, clock: c, bySort: map[sort]*queue{}, sortOf: map[types.UID]sort{}}
}

// add notes a pod that wants a node, and returns since when it does.
func (w *waiters) add(pod *corev1.Pod, c *ledger.Candidate, now time.Time) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := sort{c.Shape, c.Created}
	if old, ok := w.sortOf[pod.UID]; ok {
		if known := w.bySort[old].pods[pod.UID]; old == key {
			known.blamed, known.trying, known.called = nil, true, false
			return known.since
		}
		w.remove(pod.UID)
	}
	q := w.bySort[key]
	if q == nil {
		q = &queue{pods: map[types.UID]*waiter{}}
		w.bySort[key] = q
	}
	p := &waiter{pod: pod, candidate: *c, since: now, trying: true}
	q.pods[pod.UID] = p
	if q.candidate == nil {
		q.candidate = &p.candidate
	}
	w.sortOf[pod.UID] = key
	return now
}

// blame notes the nodes that only this plugin kept the pod from, those that wait for a report and those that refuse:
// changes of others do not concern it. It returns since when some node waited each time.
func (w *waiters) blame(uid types.UID, waiting, refusing []*node) time.Time {
	now := w.clock.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	key, ok := w.sortOf[uid]
	if !ok {
		return now
	}
	p := w.bySort[key].pods[uid]
	p.trying = false
	if len(waiting) == 0 {
		p.waitsFrom = time.Time{}
	} else if p.waitsFrom.IsZero() {
		p.waitsFrom = now
	}
	since := p.waitsFrom
	if len(waiting) > 0 && now.Sub(since) >= reportLimit {
		p.waitsFrom = now // it may preempt, this once: victims have left the API long before a report says so
	}
	if len(waiting)+len(refusing) > maxBlamed {
		return since
	}
	p.blamed = make(map[*node]bool, len(waiting)+len(refusing))
	for _, n := range refusing {
		p.blamed[n] = false
	}
	for _, n := range waiting {
		p.blamed[n] = true
	}
	return since
}

// blameToo notes that a node which refuses the pod merely waits where it is asked what evictions would
// do. It wakes the pod once it has made up its mind.
func (w *waiters) blameToo(uid types.UID, n *node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key, ok := w.sortOf[uid]
	if !ok {
		return
	}
	if p := w.bySort[key].pods[uid]; p.blamed != nil {
		p.blamed[n] = true
	}
}

// tried notes that the pod's cycle has ended, and that any node may help it.
func (w *waiters) tried(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if key, ok := w.sortOf[uid]; ok {
		w.bySort[key].pods[uid].trying = false
	}
}

// done forgets a pod that has a node, or is gone.
func (w *waiters) done(uid types.UID) {
	w.mu.RLock()
	_, ok := w.sortOf[uid]
	w.mu.RUnlock()
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(uid)
}

func (w *waiters) remove(uid types.UID) {
	key, ok := w.sortOf[uid]
	if !ok {
		return
	}
	delete(w.sortOf, uid)
	q := w.bySort[key]
	left := q.pods[uid]
	delete(q.pods, uid)
	if len(q.pods) == 0 {
		delete(w.bySort, key)
	}
	if q.candidate != &left.candidate {
		return
	}
	for _, p := range q.pods {
		q.candidate = &p.candidate
		return
	}
}

// len returns how many pods want a node.
func (w *waiters) len() int {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return len(w.sortOf)
}

// wake activates pods for which a change of the node could make a difference: it takes them now and did not before, it
// is certain now what they would get, or it refuses them now and had merely waited, so that preemption is worth a thought.
func (w *waiters) wake(n *node) {
	w.activate(n, n, func(c *ledger.Candidate) call {
		before, now := n.Shift(c)
		switch {
		case now.Outcome == ledger.Admitted && (!before.OK() || now.Exact && !before.Exact):
			return callRoom
		case now.Outcome == ledger.Admitted || now.Outcome == ledger.Waiting:
			return callNobody
		case before.Outcome == ledger.Waiting:
			return callAll
		default:
			return callWaited
		}
	})
}

// wakeFor is for a node that can be relied on again, or is another than it was. It activates pods that it takes, whatever it answered
// before, also those that have never asked it; and all that it refuses though the removal of others would help. Where it waits for a report,
// so do they from now on.
func (w *waiters) wakeFor(n *node) {
	w.activate(n, nil, func(c *ledger.Candidate) call {
		_, a := n.Shift(c)
		switch {
		case a.OK():
			return callRoom
		case a.Outcome == ledger.Waiting:
			return callLater
		case a.Outcome == ledger.Refused && a.Verdict.Scarcity == placement.Resolvable:
			return callAll
		default:
			return callNobody
		}
	})
}

// wakeAll activates every pod.
func (w *waiters) wakeAll() {
	w.activate(nil, nil, func(*ledger.Candidate) call { return callAll })
}

// wakeOne activates a pod if it still wants a node.
func (w *waiters) wakeOne(pod *corev1.Pod) {
	w.mu.RLock()
	_, ok := w.sortOf[pod.UID]
	w.mu.RUnlock()
	if ok {
		w.activator.Activate(w.logger, map[string]*corev1.Pod{pod.Namespace + "/" + pod.Name: pod})
	}
}
