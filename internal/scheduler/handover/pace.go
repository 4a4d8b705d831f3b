package handover

import (
	"context"
	"slices"
	"sync"
)

// maxUnderWay bounds the Bindings that are written at a time. The API server grants a connection
// 100 requests at a time (--http2-max-streams-per-connection), and watches are some of them: with
// more Bindings client-go opens connection after connection. A server that has too much to do
// answers Bindings with "too many requests", and the pod waits for seconds. In the queue before it
// a pod loses nothing, and is decided for by what its node has reported by then.
const maxUnderWay = 64

// pace lets maxUnderWay Bindings be written at a time. Namespaces that wait take turns: one with
// many pods holds up others on the nodes alone where its pods come before theirs. A Binding that is
// written again, since the pod has changed or the answer was lost, does not count.
type pace struct {
	mu   sync.Mutex
	free int
	// waiting are closed when their turn has come, by namespace. turns are the namespaces that have
	// any, the next one first.
	waiting map[string][]chan struct{}
	turns   []string
}

func newPace() pace { return pace{free: maxUnderWay, waiting: map[string][]chan struct{}{}} }

// Pace waits until a Binding in the namespace may be written beside others. done is called, once or
// more often, when it is. The error is that of ctx.
func (h *Handover) Pace(ctx context.Context, namespace string) (done func(), err error) {
	if err := h.pace.enter(ctx, namespace); err != nil {
		return nil, err
	}
	return sync.OnceFunc(h.pace.leave), nil
}

func (p *pace) enter(ctx context.Context, namespace string) error {
	turn := p.queue(namespace)
	if turn == nil {
		return nil
	}
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	if !p.drop(namespace, turn) { // it has come all the same
		p.leave()
	}
	return ctx.Err()
}

// queue returns what to wait for; nil for nothing.
func (p *pace) queue(namespace string) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free > 0 {
		p.free--
		return nil
	}
	turn := make(chan struct{})
	if p.waiting[namespace] = append(p.waiting[namespace], turn); len(p.waiting[namespace]) == 1 {
		p.turns = append(p.turns, namespace)
	}
	return turn
}

// drop takes a turn out of the queue, and says whether it was there.
func (p *pace) drop(namespace string, turn chan struct{}) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.waiting[namespace], turn)
	if i < 0 {
		return false
	}
	p.waiting[namespace] = slices.Delete(p.waiting[namespace], i, i+1)
	if len(p.waiting[namespace]) == 0 {
		delete(p.waiting, namespace)
		p.turns = slices.DeleteFunc(p.turns, func(n string) bool { return n == namespace })
	}
	return true
}

// leave lets the next Binding be written.
func (p *pace) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.turns) == 0 {
		p.free++
		return
	}
	namespace := p.turns[0]
	p.turns = p.turns[1:]
	list := p.waiting[namespace]
	close(list[0])
	if len(list) == 1 {
		delete(p.waiting, namespace)
		return
	}
	p.waiting[namespace] = list[1:]
	p.turns = append(p.turns, namespace)
}
