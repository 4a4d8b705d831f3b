package nodes

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
)

// waitingIn returns the number of waiting goroutines.
func waitingIn(t *turnstile) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.queue)
}

func TestTurnstileKeepsOrder(t *testing.T) {
	var gate turnstile
	if err := gate.enter(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var got []uint64
	var wg sync.WaitGroup
	for i, number := range []uint64{5, 3, 9, 1} {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := gate.enter(t.Context(), number); err != nil {
				t.Error(err)
			}
			mu.Lock()
			got = append(got, number)
			mu.Unlock()
			gate.leave()
		}()
		for waitingIn(&gate) != i+1 { // until the goroutine is in the queue
		}
	}
	gate.leave()
	wg.Wait()
	if !slices.Equal(got, []uint64{1, 3, 5, 9}) {
		t.Errorf("order %v", got)
	}
	if err := gate.enter(t.Context(), 2); err != nil {
		t.Errorf("not free in the end: %v", err)
	}
}

func TestTurnstileLetsGo(t *testing.T) {
	var gate turnstile
	if err := gate.enter(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- gate.enter(ctx, 1) }()
	for waitingIn(&gate) != 1 {
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || waitingIn(&gate) != 0 {
		t.Fatalf("%v, %d waiting", err, waitingIn(&gate))
	}
	gate.leave()
	if err := gate.enter(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
}
