package jobs

import (
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berth-dev/berth/internal/turns"
)

// fairQueue is a work queue that one namespace cannot fill. At most `share` requests of a namespace
// are in the inner queue or with a worker at a time. The other requests of the namespace wait in
// the fairQueue. So a request waits behind at most `share` requests of each other namespace, and a
// namespace uses at most `share` workers.
//
// A request is in one of these states:
//
//   - unknown: the initial state. Add makes the request wait.
//   - waiting: Add changes nothing. The request is admitted when its namespace has fewer than
//     `share` admitted requests, and when its turn comes.
//   - admitted: the request is in the inner queue or with a worker. Add marks it to be worked on
//     again. Get clears the mark, because the worker then reads the newest state. Done makes a
//     marked request wait again, and any other request unknown.
type fairQueue struct {
	// TypedInterface has the admitted requests.
	workqueue.TypedInterface[reconcile.Request]

	mu   sync.Mutex
	line turns.Line[reconcile.Request]
	of   map[reconcile.Request]standing
}

// standing is the state of a known request.
type standing int

const (
	waits standing = iota
	admitted
	comesAgain // admitted, and must be reconciled again
)

// newQueue returns the queue of a controller with that number of workers. A namespace's share is
// half of the workers.
func newQueue(name string, workers int, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	fair := newFairQueue(name, max(1, workers/2))
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{Name: name, Queue: fair})
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Name: name, DelayingQueue: delaying})
}

func newFairQueue(name string, share int) *fairQueue {
	admitted := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name})
	return &fairQueue{TypedInterface: admitted, line: turns.Line[reconcile.Request]{Each: share}, of: map[reconcile.Request]standing{}}
}

// Add implements workqueue.TypedInterface.
func (q *fairQueue) Add(r reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch state, known := q.of[r]; {
	case !known:
		q.wait(r)
		q.admit()
	case state == admitted:
		q.of[r] = comesAgain
	}
}

// wait makes a request wait. The caller holds mu.
func (q *fairQueue) wait(r reconcile.Request) {
	q.of[r] = waits
	q.line.Push(r.Namespace, r)
}

// admit admits waiting requests, in the order of q.line, while their namespaces may have more. The
// caller holds mu.
func (q *fairQueue) admit() {
	for {
		_, r, ok := q.line.Pop()
		if !ok {
			return
		}
		q.of[r] = admitted
		q.TypedInterface.Add(r)
	}
}

// Get implements workqueue.TypedInterface.
func (q *fairQueue) Get() (r reconcile.Request, shutdown bool) {
	r, shutdown = q.TypedInterface.Get()
	q.mu.Lock()
	defer q.mu.Unlock()
	if !shutdown {
		q.of[r] = admitted
	}
	return r, shutdown
}

// Done implements workqueue.TypedInterface.
func (q *fairQueue) Done(r reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.TypedInterface.Done(r)
	again := q.of[r] == comesAgain
	if delete(q.of, r); again {
		q.wait(r)
	}
	q.line.Done(r.Namespace)
	q.admit()
}

// Len implements workqueue.TypedInterface.
func (q *fairQueue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.TypedInterface.Len() + q.line.Len()
}
