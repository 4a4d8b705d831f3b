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
	// waiting are those whose turn has not come, by namespace. order has the namespaces with any,
	// the next one first.
	waiting map[string][]*turn
	order   []string
}

// turn is what waits. begin is called once, under Turns' lock, when it has come.
type turn struct{ begin func() }

// New returns Turns for most at a time.
func New(most int) *Turns { return &Turns{free: most, waiting: map[string][]*turn{}} }

// Take waits until it is the namespace's turn. done is called, once or more often, when what the
// turn was for is over. The error is that of ctx.
func (t *Turns) Take(ctx context.Context, namespace string) (done func(), err error) {
	come := make(chan struct{})
	if waits := t.queue(namespace, func() { close(come) }); waits != nil {
		if err := t.await(ctx, namespace, waits, come); err != nil {
			return nil, err
		}
	}
	return sync.OnceFunc(t.leave), nil
}

func (t *Turns) await(ctx context.Context, namespace string, waits *turn, come <-chan struct{}) error {
	select {
	case <-come:
		return nil
	case <-ctx.Done():
	}
	if !t.drop(namespace, waits) { // it has come all the same
		t.leave()
	}
	return ctx.Err()
}

// queue has begin called when the namespace's turn comes, and returns what waits; nil where the
// turn has come already, and begin is the caller's to call.
func (t *Turns) queue(namespace string, begin func()) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.free > 0 {
		t.free--
		return nil
	}
	waits := &turn{begin}
	if t.waiting[namespace] = append(t.waiting[namespace], waits); len(t.waiting[namespace]) == 1 {
		t.order = append(t.order, namespace)
	}
	return waits
}

// drop takes a turn out of the queue, and says whether it was there.
func (t *Turns) drop(namespace string, waits *turn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.waiting[namespace], waits)
	if i < 0 {
		return false
	}
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
	namespace := t.order[0]
	t.order = t.order[1:]
	list := t.waiting[namespace]
	list[0].begin()
	list[0] = nil // what is behind it is kept no longer
	if len(list) == 1 {
		delete(t.waiting, namespace)
		return
	}
	t.waiting[namespace] = list[1:]
	t.order = append(t.order, namespace)
}
