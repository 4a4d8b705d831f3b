package demo

// requests are the Runner's requests to the API server, which are sent in the background. On a busy
// machine a request can take most of a second. If the Runner waited for each request, it would miss
// events of the cluster.
type requests struct {
	// The requests in creates are sent one after the other, and the requests in deletes several at
	// a time.
	creates, deletes chan request
	// underWay counts the requests whose results have not been handled yet.
	underWay int
}

// request is a request and the function that handles its error.
type request struct {
	send func() error
	then func(error) error
}

const (
	// deleters is the number of concurrent deletions.
	deleters = 8
	// maxRequests is larger than the number of pods in any workload, so that ask never blocks.
	maxRequests = 1 << 16
)

func (r *Runner) startRequests() {
	r.requests = requests{creates: make(chan request, maxRequests), deletes: make(chan request, maxRequests)}
	go r.send(r.requests.creates)
	for range deleters {
		go r.send(r.requests.deletes)
	}
}

// send sends the requests of a queue until the run ends.
func (r *Runner) send(queue <-chan request) {
	for {
		select {
		case <-r.ctx.Done():
			return
		case next := <-queue:
			err := next.send()
			r.tell(func() error {
				r.requests.underWay--
				return next.then(err)
			})
		}
	}
}

func (r *Runner) ask(queue chan<- request, next request) {
	r.requests.underWay++
	queue <- next
}
