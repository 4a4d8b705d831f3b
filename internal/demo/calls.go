package demo

import "context"

// calls sends requests to the API server in the background. On a busy machine a request can take
// most of a second. If the Runner waited for each request, it would miss events of the cluster.
type calls struct {
	ctx     context.Context
	results chan result
	// The requests in creates are sent one after the other, and the requests in deletes several at
	// a time.
	creates, deletes chan call
	// underWay counts the requests whose results are not handled yet.
	underWay int
}

// call is a request and the function that handles its error.
type call struct {
	send func() error
	then func(error) error
}

type result struct {
	then func(error) error
	err  error
}

const (
	// deleters is the number of concurrent deletions.
	deleters = 8
	// maxCalls is larger than the number of pods in any workload.
	maxCalls = 1 << 16
)

func newCalls(ctx context.Context) *calls {
	c := &calls{ctx: ctx, results: make(chan result), creates: make(chan call, maxCalls), deletes: make(chan call, maxCalls)}
	go c.work(c.creates)
	for range deleters {
		go c.work(c.deletes)
	}
	return c
}

// work sends requests of the queue until the context ends.
func (c *calls) work(queue <-chan call) {
	for {
		select {
		case <-c.ctx.Done():
			return
		case next := <-queue:
			err := next.send()
			select {
			case c.results <- result{next.then, err}:
			case <-c.ctx.Done():
				return
			}
		}
	}
}

// ask puts a request into a queue.
func (c *calls) ask(queue chan<- call, next call) {
	c.underWay++
	queue <- next
}

// take records a result.
func (c *calls) take(r result) error {
	c.underWay--
	return r.then(r.err)
}
