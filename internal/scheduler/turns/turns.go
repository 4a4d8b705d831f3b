// Package turns bounds how many writes of a kind there are at a time. Namespaces that wait take
// turns, so that one with much to write holds up no other.
package turns

import (
	"context"
	"slices"
	"sync"
)

// Turns lets so many be under way at a time. Its methods may be called from several goroutines.
type Turns struct {
	mu   sync.Mutex
	free int
	// waiting are closed when their turn has come, by namespace, and count is how many there are.
	// order has the namespaces with any, the next one first.
	waiting map[string][]chan struct{}
	count   int
	order   []string
}

// New returns Turns for most at a time.
func New(most int) *Turns { return &Turns{free: most, waiting: map[string][]chan struct{}{}} }

// Take waits until it is the namespace's turn. done is called, once or more often, when what the
// turn was for is over. The error is that of ctx.
func (t *Turns) Take(ctx context.Context, namespace string) (done func(), err error) {
	if turn := t.queue(namespace); turn != nil {
		if err := t.await(ctx, namespace, turn); err != nil {
			return nil, err
		}
	}
	return sync.OnceFunc(t.leave), nil
}

// Waiting returns how many wait for their turn.
func (t *Turns) Waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}

func (t *Turns) await(ctx context.Context, namespace string, turn chan struct{}) error {
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	if !t.drop(namespace, turn) { // it has come all the same
		t.leave()
	}
	return ctx.Err()
}

// queue returns what to wait for; nil for nothing.
func (t *Turns) queue(namespace string) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.free > 0 {
		t.free--
		return nil
	}
	turn := make(chan struct{})
	if t.waiting[namespace] = append(t.waiting[namespace], turn); len(t.waiting[namespace]) == 1 {
		t.order = append(t.order, namespace)
	}
	t.count++
	return turn
}

// drop takes a turn out of the queue, and says whether it was there.
func (t *Turns) drop(namespace string, turn chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.waiting[namespace], turn)
	if i < 0 {
		return false
	}
	t.count--
	t.waiting[namespace] = slices.Delete(t.waiting[namespace], i, i+1)
	if len(t.waiting[namespace]) == 0 {
		delete(t.waiting, namespace)
		t.order = slices.DeleteFunc(t.order, func(n string) bool { return n == namespace })
	}
	return true
}

// leave lets the next one begin.
func (t *Turns) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.order) == 0 {
		t.free++
		return
	}
	t.count--
	namespace := t.order[0]
	t.order = t.order[1:]
	list := t.waiting[namespace]
	close(list[0])
	if len(list) == 1 {
		delete(t.waiting, namespace)
		return
	}
	t.waiting[namespace] = list[1:]
	t.order = append(t.order, namespace)
}
