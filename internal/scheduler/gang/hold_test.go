package gang

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// TestANamespaceThatHadItsShareIsHeld: if a namespace has used its share of the scheduler's time,
// its gangs wait for the next period. So do pods that come after their gang and have a request
// about its members. Meanwhile they are not tried repeatedly, and other namespaces do not wait.
func TestANamespaceThatHadItsShareIsHeld(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		spend := func() {
			w.groups.book.mu.Lock()
			defer w.groups.book.mu.Unlock()
			w.groups.book.shares.Spend("default", (30*time.Second+gangs.Credit)/gangs.Rarely, time.Now())
			w.tried = 0
		}
		spend()
		w.add("a", 2, 2, 3)
		for i := range 2 {
			other := podOf("b", fmt.Sprint("b-", i), 2, 3)
			other.Namespace = "other"
			w.create(other)
		}
		w.run(29 * time.Second)
		if a, b := w.bound("a"), w.bound("b"); a != 0 || b != 2 || w.tried > 5 {
			t.Fatalf("%d and %d members are bound after %d attempts: want none, and both of the other namespace", a, b, w.tried)
		}
		w.run(2 * time.Second)
		w.want("a", 2, 4)
		spend()
		w.create(podOf("a", "a-8", 2, 1)) // is placed without a plan
		w.create(asking("a-9", 1, wire.OtherNUMAAnnotation, "a-0"))
		w.run(29 * time.Second)
		if a := w.bound("a"); a != 3 || w.tried > 3 {
			t.Fatalf("%d members are bound after %d attempts: want three", a, w.tried)
		}
		w.run(2 * time.Second)
		w.want("a", 4, 6)
	})
}

// TestANodeThatChangedIsAskedAgainSoon: no member has failed, so the gang does not back off.
func TestANodeThatChangedIsAskedAgainSoon(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.add("a", 2, 2, 3)
		gs, profile := w.groups, w.profile()
		gs.book.mu.Lock()
		_, a := gs.turn(gs.book.of["a-0"].leader().pod)
		gs.book.mu.Unlock()
		r := a.job.try(t.Context(), profile)
		other, err := profile.Candidate(podOf("x", "x-0", 1, 4))
		w.must(err)
		if got := w.accounts["n0"].Reserve(other, new(placement.Decision)); !got.OK() {
			t.Fatal(got)
		}
		o := a.outcome(r)
		if o.failed != failedChanged {
			t.Fatalf("%+v", o)
		}
		gs.book.mu.Lock()
		gs.conclude(a, o)
		wait := a.group.NotBefore.Sub(gs.book.Clock.Now())
		gs.book.mu.Unlock()
		if wait <= 0 || wait >= time.Second {
			t.Errorf("the gang waits %v", wait)
		}
	})
}
