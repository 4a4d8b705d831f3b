package scheduler

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/ledger"
)

// waiters are the pods that want a node and have none, by what they ask for, so that a change of a node costs one
// question per sort of pod and not per pod. A pod is in from its PreFilter to its Reserve: a change in the middle of its
// cycle reaches it too.
type waiters struct {
	activator fwk.PodActivator
	logger    klog.Logger

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
	candidate *ledger.Candidate
	pods      map[types.UID]*corev1.Pod
}

func newWaiters(logger klog.Logger, a fwk.PodActivator) *waiters {
	return &waiters{activator: a, logger: logger, bySort: map[sort]*queue{}, sortOf: map[types.UID]sort{}}
}

// add notes a pod that wants a node.
func (w *waiters) add(pod *corev1.Pod, c *ledger.Candidate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := sort{c.Shape, c.Created}
	if old, ok := w.sortOf[pod.UID]; ok && old != key {
		w.remove(pod.UID)
	}
	q := w.bySort[key]
	if q == nil {
		q = &queue{candidate: c, pods: map[types.UID]*corev1.Pod{}}
		w.bySort[key] = q
	}
	q.pods[pod.UID] = pod
	w.sortOf[pod.UID] = key
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
	delete(q.pods, uid)
	if len(q.pods) == 0 {
		delete(w.bySort, key)
	}
}

// len returns how many pods want a node.
func (w *waiters) len() int {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return len(w.sortOf)
}

// wake activates the pods for which a change of the node could make a difference: it takes them now and did not
// before, or it refuses them now and had merely waited, so that preemption is worth a thought.
func (w *waiters) wake(n *node) {
	w.activate(func(c *ledger.Candidate) bool {
		before, now := n.Shift(c)
		return now != before && (now == ledger.Admitted || before == ledger.Waiting)
	})
}

// wakeFor activates the pods that the node takes, whatever it answered before.
func (w *waiters) wakeFor(n *node) {
	w.activate(func(c *ledger.Candidate) bool {
		a := n.Admit(c)
		return a.OK()
	})
}

// wakeAll activates every pod.
func (w *waiters) wakeAll() {
	w.activate(func(*ledger.Candidate) bool { return true })
}

func (w *waiters) activate(worth func(*ledger.Candidate) bool) {
	pods := map[string]*corev1.Pod{}
	w.mu.RLock()
	for _, q := range w.bySort {
		if worth(q.candidate) {
			for _, p := range q.pods {
				pods[p.Namespace+"/"+p.Name] = p
			}
		}
	}
	w.mu.RUnlock()
	if len(pods) > 0 {
		w.activator.Activate(w.logger, pods)
	}
}
