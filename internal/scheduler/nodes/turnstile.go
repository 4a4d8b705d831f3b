package nodes

import (
	"context"
	"slices"
	"sync"
)

// turnstile lets one caller pass at a time. If several callers wait, the caller with the lowest
// number comes first. The zero value lets the first caller pass.
type turnstile struct {
	mu    sync.Mutex
	busy  bool
	queue []waitingTurn // ascending by number
}

type waitingTurn struct {
	number uint64
	open   chan struct{}
}

// enter waits until the caller may pass. It returns the error of ctx if ctx ends first.
func (t *turnstile) enter(ctx context.Context, number uint64) error {
	t.mu.Lock()
	if !t.busy {
		t.busy = true
		t.mu.Unlock()
		return nil
	}
	w := waitingTurn{number, make(chan struct{})}
	at, _ := slices.BinarySearchFunc(t.queue, number, func(q waitingTurn, n uint64) int {
		if q.number <= n {
			return -1
		}
		return 1
	})
	t.queue = slices.Insert(t.queue, at, w)
	t.mu.Unlock()
	select {
	case <-w.open:
		return nil
	case <-ctx.Done():
		t.giveUp(w)
		return ctx.Err()
	}
}

// giveUp removes w from the queue. If w's turn has come at the same moment, giveUp passes the turn
// on to the next caller.
func (t *turnstile) giveUp(w waitingTurn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.queue {
		if t.queue[i].open == w.open {
			t.queue = slices.Delete(t.queue, i, i+1)
			return
		}
	}
	t.next()
}

func (t *turnstile) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next()
}

func (t *turnstile) next() {
	if len(t.queue) == 0 {
		t.busy = false
		return
	}
	close(t.queue[0].open)
	t.queue = slices.Delete(t.queue, 0, 1)
}
