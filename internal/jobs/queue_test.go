package jobs

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func request(namespace string, n int) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: fmt.Sprint("job", n)}}
}

// theQueue returns the controller's queue.
func theQueue(workers int) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	o := (&Options{Workers: workers}).controller()
	return o.NewQueue("", o.RateLimiter)
}

// TestManyJobsDelayNoOtherNamespace: at most half as many Jobs of another namespace as there are
// workers come before a Job. It gets a worker even while these Jobs take long.
func TestManyJobsDelayNoOtherNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := theQueue(4)
		defer q.ShutDown()
		for n := range 10_000 {
			q.Add(request("tenant", n))
		}
		q.Add(request("friend", 0))
		for n := range 2 {
			if got, _ := q.Get(); got != request("tenant", n) {
				t.Fatalf("got %v, want the tenant's first Jobs in their order", got)
			}
		}
		if got, _ := q.Get(); got != request("friend", 0) {
			t.Fatalf("got %v, want the friend's", got)
		}
		var got reconcile.Request
		go func() { got, _ = q.Get() }()
		synctest.Wait()
		if got != (reconcile.Request{}) {
			t.Fatalf("got %v for the fourth worker: want it left to others, as the tenant has two", got)
		}
		q.Add(request("friend", 1))
		synctest.Wait()
		if got != request("friend", 1) {
			t.Fatalf("got %v, want the friend's second", got)
		}
		if want := 10_000 - 2; q.Len() != want {
			t.Errorf("%d are left, want %d", q.Len(), want)
		}
		q.Done(request("tenant", 0))
		if got, _ := q.Get(); got != request("tenant", 2) {
			t.Errorf("got %v when one of the tenant's is done, want its third", got)
		}
	})
}

// TestOneWorkerServesAllNamespaces: a single worker takes them in turn.
func TestOneWorkerServesAllNamespaces(t *testing.T) {
	q := theQueue(1)
	defer q.ShutDown()
	for _, namespace := range []string{"a", "b"} {
		for n := range 2 {
			q.Add(request(namespace, n))
		}
	}
	for _, want := range []reconcile.Request{request("a", 0), request("b", 0), request("a", 1), request("b", 1)} {
		got, _ := q.Get()
		if got != want {
			t.Fatalf("got %v, want %v", got, want)
		}
		q.Done(got)
	}
}

// TestQueueLosesNothing: everything that was added is handed out afterwards, to one worker at a
// time. When all is done, no data is left.
func TestQueueLosesNothing(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		fair := newFairQueue("", 1+r.IntN(3))
		due, working := map[reconcile.Request]bool{}, map[reconcile.Request]bool{}
		take := func() {
			got, _ := fair.Get()
			if working[got] {
				t.Fatalf("seed %d: two workers have %v", seed, got)
			}
			if !due[got] {
				t.Fatalf("seed %d: %v came, and nobody had added it since it came last", seed, got)
			}
			working[got] = true
			delete(due, got)
		}
		finish := func() {
			for one := range working {
				delete(working, one)
				fair.Done(one)
				return
			}
		}
		for range 300 {
			switch n := r.IntN(4); {
			case n < 2:
				one := request([]string{"a", "b"}[r.IntN(2)], r.IntN(4))
				due[one] = true
				fair.Add(one)
			case n == 2 && fair.TypedInterface.Len() > 0:
				take()
			case n == 3:
				finish()
			}
		}
		for len(working) > 0 || fair.Len() > 0 {
			if fair.TypedInterface.Len() > 0 {
				take()
			}
			finish()
		}
		if len(due) > 0 || len(fair.of) > 0 {
			t.Fatalf("seed %d: %d were never handed out, and of %d requests something is left", seed, len(due), len(fair.of))
		}
		fair.ShutDown()
	}
}
