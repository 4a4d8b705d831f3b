// Package turns shares work fairly among namespaces. Waiting namespaces take turns, so that a
// namespace with many items does not delay the others. Turns makes callers wait for their turn, a
// Line does the same for items in a queue, and Sort sorts a list.
package turns

import (
	"context"
	"sync"
)

// Turns limits the number of callers that proceed at a time. It is safe for concurrent use.
type Turns struct {
	mu   sync.Mutex
	free int
	// waiting are the callers whose turn has not come yet. The channel of a caller is closed when
	// the caller's turn comes.
	waiting Line[chan struct{}]
}

// New returns Turns that let up to the given number of callers proceed at a time.
func New(most int) *Turns { return &Turns{free: most} }

// Take waits until it is the namespace's turn. If ctx ends first, Take returns the error of ctx.
// The caller must call done at the end of its turn; further calls do nothing.
func (t *Turns) Take(ctx context.Context, namespace string) (done func(), err error) {
	if come := t.queue(namespace); come != nil {
		if err := t.await(ctx, namespace, come); err != nil {
			return nil, err
		}
	}
	return sync.OnceFunc(func() { t.leave(namespace) }), nil
}

func (t *Turns) await(ctx context.Context, namespace string, come chan struct{}) error {
	select {
	case <-come:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	dropped := t.waiting.Drop(namespace, come)
	t.mu.Unlock()
	if !dropped { // the turn came before the drop
		t.leave(namespace)
	}
	return ctx.Err()
}

// queue returns a channel that is closed when the caller's turn comes. It returns nil if the caller
// may begin at once.
func (t *Turns) queue(namespace string) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	come := make(chan struct{})
	t.waiting.Push(namespace, come)
	if t.free == 0 {
		return come
	}
	t.free--
	t.waiting.Pop()
	return nil
}

// leave ends a turn of the namespace, and lets the next waiting caller begin.
func (t *Turns) leave(namespace string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting.Done(namespace)
	if _, come, ok := t.waiting.Pop(); ok {
		close(come)
	} else {
		t.free++
	}
}
