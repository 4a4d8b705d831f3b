package scheduler

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/placement"
)

// waiters are the pods that want a node and have none, by what they ask for, so that a change of a node costs one
// question per shape and not per pod. A pod is in from its PreFilter to its Reserve: a change in the middle of its
// cycle reaches it too.
type waiters struct {
	activator fwk.PodActivator
	logger    klog.Logger

	mu      sync.RWMutex
	byShape map[ledger.Shape]*queue
	shapeOf map[types.UID]ledger.Shape
}

// queue is the pods of one shape.
type queue struct {
	request *placement.Request
	pods    map[types.UID]*corev1.Pod
}

func newWaiters(logger klog.Logger, a fwk.PodActivator) *waiters {
	return &waiters{
		activator: a, logger: logger,
		byShape: map[ledger.Shape]*queue{}, shapeOf: map[types.UID]ledger.Shape{},
	}
}

// add notes a pod that wants a node.
func (w *waiters) add(pod *corev1.Pod, shape ledger.Shape, r *placement.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if old, ok := w.shapeOf[pod.UID]; ok && old != shape {
		w.remove(pod.UID)
	}
	q := w.byShape[shape]
	if q == nil {
		q = &queue{request: r, pods: map[types.UID]*corev1.Pod{}}
		w.byShape[shape] = q
	}
	q.pods[pod.UID] = pod
	w.shapeOf[pod.UID] = shape
}

// done forgets a pod that has a node, or is gone.
func (w *waiters) done(uid types.UID) {
	w.mu.RLock()
	_, ok := w.shapeOf[uid]
	w.mu.RUnlock()
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(uid)
}

func (w *waiters) remove(uid types.UID) {
	shape, ok := w.shapeOf[uid]
	if !ok {
		return
	}
	delete(w.shapeOf, uid)
	q := w.byShape[shape]
	delete(q.pods, uid)
	if len(q.pods) == 0 {
		delete(w.byShape, shape)
	}
}

// len returns how many pods want a node.
func (w *waiters) len() int {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return len(w.shapeOf)
}

// wake activates the pods for which a change of the node could make a difference: it takes them now and did not
// before, or it refuses them now and had merely waited, so that preemption is worth a thought.
func (w *waiters) wake(n *node) {
	w.activate(func(shape ledger.Shape, q *queue) bool {
		before, now := n.Shift(shape, q.request)
		return now != before && (now == ledger.Admitted || before == ledger.Waiting)
	})
}

// wakeFor activates the pods that the node takes, whatever it answered before.
func (w *waiters) wakeFor(n *node) {
	w.activate(func(shape ledger.Shape, q *queue) bool {
		a := n.Admit(shape, q.request)
		return a.OK()
	})
}

// wakeAll activates every pod.
func (w *waiters) wakeAll() {
	w.activate(func(ledger.Shape, *queue) bool { return true })
}

func (w *waiters) activate(worth func(ledger.Shape, *queue) bool) {
	pods := map[string]*corev1.Pod{}
	w.mu.RLock()
	for shape, q := range w.byShape {
		if worth(shape, q) {
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
