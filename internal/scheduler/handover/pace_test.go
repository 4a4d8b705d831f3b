package handover

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/kubernetes/fake"
)

// TestPace: while maxUnderWay Bindings are written the next ones wait, and namespaces take turns.
func TestPace(t *testing.T) {
	p := newPace()
	for range maxUnderWay {
		if err := p.enter(t.Context(), "many"); err != nil {
			t.Fatal(err)
		}
	}
	var many []chan struct{}
	for range 3 {
		many = append(many, p.queue("many"))
	}
	few := p.queue("few")
	for i, turn := range []chan struct{}{many[0], few, many[1], many[2]} {
		select {
		case <-turn:
			t.Fatalf("%d: it is written beside %d others", i, maxUnderWay)
		default:
		}
		p.leave()
		select {
		case <-turn:
		default:
			t.Fatalf("%d: its turn has not come", i)
		}
	}
	for range maxUnderWay {
		p.leave()
	}
	if p.free != maxUnderWay || len(p.waiting)+len(p.turns) > 0 {
		t.Errorf("%d may be written, %v wait", p.free, p.turns)
	}
}

// TestPaceWithoutPatience: who no longer waits has no turn, and keeps nobody from one.
func TestPaceWithoutPatience(t *testing.T) {
	h, _, _ := successor(fake.NewClientset())
	var last func()
	for range maxUnderWay {
		last, _ = h.Pace(t.Context(), "a")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := h.Pace(ended, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it waits until it is given up", err)
	}
	if len(h.pace.waiting)+len(h.pace.turns) > 0 {
		t.Errorf("%v wait", h.pace.turns)
	}
	last()
	last() // as often as one likes
	if h.pace.free != 1 {
		t.Errorf("%d may be written, want 1", h.pace.free)
	}
}

// TestPaceAtRandom: many come at once, some give up, and no more than maxUnderWay are ever there.
func TestPaceAtRandom(t *testing.T) {
	h, _, _ := successor(fake.NewClientset())
	var there atomic.Int64
	var all sync.WaitGroup
	for i := range 50 * maxUnderWay {
		all.Go(func() {
			ctx, end := context.WithCancel(t.Context())
			if i%3 == 0 {
				go end()
			}
			defer end()
			done, err := h.Pace(ctx, fmt.Sprint(i%7))
			if err != nil {
				return
			}
			if now := there.Add(1); now > maxUnderWay {
				t.Errorf("%d are written at a time", now)
			}
			there.Add(-1)
			done()
		})
	}
	all.Wait()
	if h.pace.free != maxUnderWay || len(h.pace.waiting)+len(h.pace.turns) > 0 {
		t.Errorf("%d may be written in the end, %v wait", h.pace.free, h.pace.turns)
	}
}
