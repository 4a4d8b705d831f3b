package turns

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// most is the number of turns at a time in these tests.
const most = 8

// TestOrder: while most turns are taken, the next ones wait, and namespaces take turns.
func TestOrder(t *testing.T) {
	turns := New(most)
	for range most {
		if _, err := turns.Take(t.Context(), "many"); err != nil {
			t.Fatal(err)
		}
	}
	var many []chan struct{}
	for range 3 {
		many = append(many, turns.queue("many"))
	}
	few := turns.queue("few")
	for i, turn := range []chan struct{}{many[0], few, many[1], many[2]} {
		select {
		case <-turn:
			t.Fatalf("%d: it has begun beside %d others", i, most)
		default:
		}
		turns.leave("many")
		select {
		case <-turn:
		default:
			t.Fatalf("%d: its turn has not come", i)
		}
	}
	turns.leave("few")
	for range most - 1 {
		turns.leave("many")
	}
	turns.wantEmpty(t, most)
	if len(turns.waiting.lanes) > 0 {
		t.Errorf("namespaces of which nothing is under way are remembered: %v", turns.waiting.lanes)
	}
}

func (t *Turns) wantEmpty(test *testing.T, free int) {
	test.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.free != free || t.waiting.Len()+len(t.waiting.order) > 0 {
		test.Errorf("%d may begin, want %d; %v wait", t.free, free, t.waiting.order)
	}
}

// TestWithoutPatience: a caller that has stopped waiting gets no turn, and delays no others.
func TestWithoutPatience(t *testing.T) {
	turns := New(most)
	var last func()
	for range most {
		last, _ = turns.Take(t.Context(), "a")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := turns.Take(ended, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it waits until it is given up", err)
	}
	turns.wantEmpty(t, 0)
	last()
	last() // may be called more than once
	turns.wantEmpty(t, 1)
}

// TestAtRandom: many callers come at once, and some give up. There are never more than most at a
// time.
func TestAtRandom(t *testing.T) {
	turns := New(most)
	var there atomic.Int64
	var all sync.WaitGroup
	for i := range 400 * most {
		all.Go(func() {
			ctx, end := context.WithCancel(t.Context())
			if i%3 == 0 {
				go end()
			}
			defer end()
			done, err := turns.Take(ctx, fmt.Sprint(i%7))
			if err != nil {
				return
			}
			if now := there.Add(1); now > most {
				t.Errorf("%d are under way at a time", now)
			}
			runtime.Gosched()
			there.Add(-1)
			done()
		})
	}
	all.Wait()
	turns.wantEmpty(t, most)
}
