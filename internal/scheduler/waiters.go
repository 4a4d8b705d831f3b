package scheduler

import (
	"sync"
	"time"

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
	pods      map[types.UID]*waiter
}

// waiter is a pod that wants a node.
type waiter struct {
	pod   *corev1.Pod
	since time.Time
	// blamed are the nodes that only this plugin kept the pod from; nil stands for any.
	blamed map[*node]bool
}

// maxBlamed bounds how many nodes are remembered for one pod.
const maxBlamed = 128

func newWaiters(logger klog.Logger, a fwk.PodActivator) *waiters {
	return &waiters{activator: a, logger: logger, bySort: map[sort]*queue{}, sortOf: map[types.UID]sort{}}
}

// add notes a pod that wants a node, and returns since when it does.
func (w *waiters) add(pod *corev1.Pod, c *ledger.Candidate, now time.Time) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := sort{c.Shape, c.Created}
	if old, ok := w.sortOf[pod.UID]; ok {
		if known := w.bySort[old].pods[pod.UID]; old == key {
			known.blamed = nil
			return known.since
		}
		w.remove(pod.UID)
	}
	q := w.bySort[key]
	if q == nil {
		q = &queue{candidate: c, pods: map[types.UID]*waiter{}}
		w.bySort[key] = q
	}
	q.pods[pod.UID] = &waiter{pod: pod, since: now}
	w.sortOf[pod.UID] = key
	return now
}

// blame notes the nodes that only this plugin kept the pod from: changes of others do not concern it.
func (w *waiters) blame(uid types.UID, nodes []*node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key, ok := w.sortOf[uid]
	if !ok || len(nodes) > maxBlamed {
		return
	}
	blamed := make(map[*node]bool, len(nodes))
	for _, n := range nodes {
		blamed[n] = true
	}
	w.bySort[key].pods[uid].blamed = blamed
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
// before, it is certain now what they would get, or it refuses them now and had merely waited, so that preemption is
// worth a thought.
func (w *waiters) wake(n *node) {
	w.activate(n, func(c *ledger.Candidate) bool {
		before, now := n.Shift(c)
		switch {
		case now.Outcome == ledger.Admitted:
			return !before.OK() || now.Exact && !before.Exact
		default:
			return before.Outcome == ledger.Waiting && now.Outcome != ledger.Waiting
		}
	})
}

// wakeFor activates the pods that the node takes, whatever it answered before.
func (w *waiters) wakeFor(n *node) {
	w.activate(n, func(c *ledger.Candidate) bool {
		a := n.Admit(c)
		return a.OK()
	})
}

// wakeAll activates every pod.
func (w *waiters) wakeAll() {
	w.activate(nil, func(*ledger.Candidate) bool { return true })
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

// activate activates the pods of the sorts that are worth it, where the node is to blame; nil stands for any node.
func (w *waiters) activate(n *node, worth func(*ledger.Candidate) bool) {
	pods := map[string]*corev1.Pod{}
	w.mu.RLock()
	for _, q := range w.bySort {
		if !worth(q.candidate) {
			continue
		}
		for _, p := range q.pods {
			if n == nil || p.blamed == nil || p.blamed[n] {
				pods[p.pod.Namespace+"/"+p.pod.Name] = p.pod
			}
		}
	}
	w.mu.RUnlock()
	if len(pods) > 0 {
		w.activator.Activate(w.logger, pods)
	}
}
