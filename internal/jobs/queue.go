package jobs

import (
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// fairQueue is a work queue that no namespace fills. At most share requests of a namespace are in
// the queue behind it or with a worker at a time; the others of the namespace wait here. So a
// request stands behind at most share of each other namespace, and a namespace has at most share
// workers, however many Jobs it has and however long these take.
//
// A request is in one of three states:
//
//   - unknown: Add makes it wait.
//   - waiting, in namespaceQueue.waiting: Add changes nothing. It is admitted when its turn comes
//     and there is room.
//   - admitted, in namespaceQueue.admitted, in the queue or with a worker: Add notes that it has
//     to come again. Get forgets that, since the worker reads the newest state. After Done it
//     waits if it has to come again, and is unknown if not.
type fairQueue struct {
	// TypedInterface has what is admitted.
	workqueue.TypedInterface[reconcile.Request]
	share int

	mu         sync.Mutex
	namespaces map[string]*namespaceQueue
}

// namespaceQueue is what a namespace has in a fairQueue.
type namespaceQueue struct {
	waiting []reconcile.Request
	waits   map[reconcile.Request]bool // those of waiting
	// admitted says whether requests that are queued or with a worker should come again.
	admitted map[reconcile.Request]bool
}

// newQueue is the queue of a controller with so many workers: half of them are a namespace's share.
func newQueue(name string, workers int, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	fair := newFairQueue(name, max(1, workers/2))
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{Name: name, Queue: fair})
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Name: name, DelayingQueue: delaying})
}

func newFairQueue(name string, share int) *fairQueue {
	admitted := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name})
	return &fairQueue{TypedInterface: admitted, share: share, namespaces: map[string]*namespaceQueue{}}
}

// Add implements workqueue.TypedInterface.
func (q *fairQueue) Add(r reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.namespaces[r.Namespace]
	if n == nil {
		n = &namespaceQueue{waits: map[reconcile.Request]bool{}, admitted: map[reconcile.Request]bool{}}
		q.namespaces[r.Namespace] = n
	}
	if _, is := n.admitted[r]; is {
		n.admitted[r] = true
		return
	}
	n.wait(r)
	q.admit(n)
}

func (n *namespaceQueue) wait(r reconcile.Request) {
	if !n.waits[r] {
		n.waits[r] = true
		n.waiting = append(n.waiting, r)
	}
}

// admit lets in who waits longest, while there is room. The caller holds mu.
func (q *fairQueue) admit(n *namespaceQueue) {
	for len(n.waiting) > 0 && len(n.admitted) < q.share {
		r := n.waiting[0]
		n.waiting = n.waiting[1:]
		delete(n.waits, r)
		n.admitted[r] = false
		q.TypedInterface.Add(r)
	}
}

// Get implements workqueue.TypedInterface.
func (q *fairQueue) Get() (r reconcile.Request, shutdown bool) {
	r, shutdown = q.TypedInterface.Get()
	q.mu.Lock()
	defer q.mu.Unlock()
	if !shutdown {
		q.namespaces[r.Namespace].admitted[r] = false
	}
	return r, shutdown
}

// Done implements workqueue.TypedInterface.
func (q *fairQueue) Done(r reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.TypedInterface.Done(r)
	n := q.namespaces[r.Namespace]
	again := n.admitted[r]
	delete(n.admitted, r)
	if again {
		n.wait(r)
	}
	if q.admit(n); len(n.admitted) == 0 {
		delete(q.namespaces, r.Namespace)
	}
}

// Len implements workqueue.TypedInterface.
func (q *fairQueue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.TypedInterface.Len()
	for _, n := range q.namespaces {
		all += len(n.waiting)
	}
	return all
}
