package reservation

import (
	"testing"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// TestAffinity: a pod with an affinity uses only Reservations that match it, even if it is an owner
// of others. It is tried when such a Reservation comes, even during its cycle.
func TestAffinity(t *testing.T) {
	w := newWorld(t)
	picky := ownerOf("picky", "any", 2)
	picky.Annotations = map[string]string{wire.ReservationAffinityAnnotation: `{"name":"second"}`}
	if _, sent := w.take(picky); sent {
		t.Fatal("there is no Reservation at all")
	}
	same := func(o *koordinator.Reservation) { o.Spec.Owners[0].LabelSelector.MatchLabels["of"] = "any" }
	first := w.reservation("first", 2, same)
	if err := w.cycle(first); err != nil {
		t.Fatal(err)
	}
	if _, sent := w.take(picky); sent {
		t.Error("it is sent to another one")
	}
	select {
	case name := <-w.activated:
		t.Errorf("%s is tried for another one", name)
	default:
	}
	second := w.reservation("second", 2, same)
	w.rs.Between()
	delete(w.queued, second)
	w.rs.Begins(picky) // in its cycle when the place is written
	w.placed(second)
	if name := <-w.activated; name != "ns/picky" {
		t.Errorf("%s is tried", name)
	}
	w.rs.Between() // it is back in the queue
	if name := <-w.activated; name != "ns/picky" {
		t.Errorf("%s is tried", name)
	}
	if cpus, sent := w.take(picky); !sent || cpus.Len() != 2 || w.phase(second) != koordinator.ReservationSucceeded || w.phase(first) != koordinator.ReservationAvailable {
		t.Errorf("it has %s, %t", cpus, sent)
	}
	wrong := ownerOf("wrong", "any", 2)
	wrong.Annotations = map[string]string{wire.ReservationAffinityAnnotation: `{"nam":"first"}`}
	if _, sent := w.take(wrong); sent {
		t.Error("an affinity that cannot be read sends nobody")
	}
}

// TestWhyInVain: while the pod is tried without the Reservation, the reason why it could not use it
// is known.
func TestWhyInVain(t *testing.T) {
	w := newWorld(t)
	uid := w.reservation("r", 2)
	if err := w.cycle(uid); err != nil {
		t.Fatal(err)
	}
	owner := ownerOf("owner", "r", 2)
	w.rs.Begins(owner)
	w.rs.InVain(owner, string(uid), "it waits")
	w.rs.Between()
	w.rs.Begins(owner)
	if got, want := w.rs.WhyInVain(owner), "Reservation r on node n: it waits"; got != want {
		t.Errorf("while it is tried without: %q, want %q", got, want)
	}
	w.rs.Between()
	if got := w.rs.WhyInVain(owner); got != "" {
		t.Errorf("once it was tried without: %q, want nothing", got)
	}
}

// TestANodeThatChangesBetweenTwoAttempts: the owner does not wait yet. It is woken when its attempt
// without the Reservation has ended. Changes by its own attempts wake no pod.
func TestANodeThatChangesBetweenTwoAttempts(t *testing.T) {
	for _, changes := range []bool{true, false} {
		w := newWorld(t)
		uid := w.reservation("r", 2)
		if err := w.cycle(uid); err != nil {
			t.Fatal(err)
		}
		owner := ownerOf("owner", "r", 2)
		w.rs.Between()
		w.rs.Begins(owner)
		w.rs.InVain(owner, string(uid), "it waits")
		w.rs.Between()
		if changes {
			w.account.Reserve(candidate(t, ownerOf("another", "", 1)), new(placement.Decision))
		}
		w.rs.Stir()
		w.rs.Begins(owner)
		w.rs.Between()
		if got := w.rs.all[uid].hungry; got == changes {
			t.Errorf("the node has changed: %t; the owner still waits for that: %t", changes, got)
		}
		if changes {
			if got := <-w.activated; got != "ns/owner" {
				t.Errorf("woken is %s", got)
			}
		}
	}
}
