package ledger

import (
	"testing"
	"time"

	"github.com/berth-dev/berth/placement"
)

// TestAPodInDoubtIsAnsweredForItselfAlone: if it is unknown whether the node has a pod, the answer
// for this pod does not apply to another pod with the same request.
func TestAPodInDoubtIsAnsweredForItselfAlone(t *testing.T) {
	n := open(t, newKubelet(t, model(t, twoSockets, pinning)))
	for i, uid := range []string{"full", "x"} {
		c := &Candidate{Request: cpus(uid, 8-int64(i)), Created: int64(7 + i), Shape: Shape(1 + i)}
		if a := n.Reserve(c, new(placement.Decision)); !a.OK() {
			t.Fatal(uid, a)
		}
		post(t, n, uid)
	}
	n.Doubt("x", time.Unix(0, 0))
	itself := &Candidate{Request: cpus("x", 7), Created: 8, Shape: 2}
	other := &Candidate{Request: cpus("y", 7), Created: 9, Shape: 2}
	if n.View().Sample(Question{Candidate: itself}).Lasts {
		t.Error("the answer for a pod that the node may have is also used for other pods")
	}
	if n.View().Sample(Question{Candidate: itself, Estimate: true}).Lasts {
		t.Error("the estimate for a pod that the node may have is also used for other pods")
	}
	wantOutcome(t, "the pod in doubt", n.View().Ask(Question{Candidate: itself}), Admitted)
	wantOutcome(t, "another in its place", n.View().Ask(Question{Candidate: other}), Waiting)
	check(t, n)
}

// TestADoubtOutlivesAnotherAttempt: after another attempt on the same node, the earlier Binding may
// still be written.
func TestADoubtOutlivesAnotherAttempt(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	n := open(t, k)
	x := &Candidate{Request: cpus("x", 4), Created: 502}
	n.Reserve(x, new(placement.Decision))
	post(t, n, "x")
	n.Doubt("x", time.Unix(60, 0))
	if a := n.Reserve(x, new(placement.Decision)); !a.OK() {
		t.Fatal(a)
	}
	n.Forget("x")
	check(t, n)
	if c := n.View().Census(); c.Afloat != 1 || c.Reserved != 0 {
		t.Errorf("given up: %+v, want the pod that may be on the node", c)
	}
	k.must(cpus("one", 7))
	k.must(cpus("two", 8))
	n.Accept(k.report())
	if a := n.Reserve(x, new(placement.Decision)); a.OK() {
		t.Fatal("a full node admits it")
	}
	check(t, n)
	if c := n.View().Census(); c.Afloat != 1 {
		t.Errorf("refused: %+v, want the pod that may be on the node", c)
	}
	n.ForgetGone(time.Unix(66, 0), 5*time.Second)
	if c := n.View().Census(); c.Afloat != 0 {
		t.Errorf("%+v: want the doubt to end", c)
	}
}

// TestARefusedOwnerMayHaveItsPlace: an owner was given a part of a Reservation, and it is unknown
// whether it has this part. Its next attempt, with more CPUs, is refused. No other pod gets the
// part.
func TestARefusedOwnerMayHaveItsPlace(t *testing.T) {
	r, err := NewReport(1, model(t, "package:1 numa:1 core:6 pu:1 mem:4Gi", obeying), &placement.Snapshot{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := new(Ledger).Open(nil)
	n.Accept(r)
	hold(t, n, cpus("held", 3))
	var d placement.Decision
	if a := n.ReserveOwner(cand(share("a", 2)), "held", &d); !a.OK() {
		t.Fatal(a)
	}
	post(t, n, "a")
	n.Doubt("a", time.Unix(60, 0))
	if a := n.ReserveOwner(cand(share("a", 4)), "held", &d); a.OK() {
		t.Fatal("it gets more than is held")
	}
	check(t, n)
	if a := n.ReserveOwner(cand(share("b", 2)), "held", &d); a.OK() {
		t.Errorf("another owner gets CPUs %s, and a may have some of them", decided(&d))
	}
	n.Release("held")
	wantOutcome(t, "a stranger for 4 CPUs of 5, of which a may have 2", n.View().Ask(Question{Candidate: cand(cpus("x", 4))}), Refused)
	n.ForgetGone(time.Unix(66, 0), 5*time.Second)
	wantOutcome(t, "the same when a has not come", n.View().Ask(Question{Candidate: cand(cpus("x", 4))}), Admitted)
	check(t, n)
}

// TestTheBindingThatWasWritten: the first Binding was written, so the pod comes before the pods
// that were bound in between.
func TestTheBindingThatWasWritten(t *testing.T) {
	n := open(t, newKubelet(t, model(t, twoSockets, pinning)))
	x := &Candidate{Request: cpus("x", 4), Created: 502}
	n.Reserve(x, new(placement.Decision))
	first, _ := post(t, n, "x")
	n.Doubt("x", time.Unix(60, 0))
	n.Reserve(&Candidate{Request: cpus("between", 6), Created: 501}, new(placement.Decision))
	post(t, n, "between")
	if a := n.Reserve(x, new(placement.Decision)); !a.OK() {
		t.Fatal(a)
	}
	post(t, n, "x")
	next := &Candidate{Request: cpus("next", 4), Created: 503}
	wantOutcome(t, "x comes last and leaves room", n.View().Ask(Question{Candidate: next}), Admitted)
	if n.Glance(Glimpse{UID: "x", Ending: false, Mortal: false, Asks: asksTheSame}) {
		t.Error("the node does not need to know which Binding was written")
	}
	n.See(Sighting{UID: "x", Request: x.Request, Created: 502, Turn: first.Turn})
	check(t, n)
	if a := n.View().Ask(Question{Candidate: next}); a.OK() {
		t.Errorf("%v: x came first, and no NUMA node has 4 CPUs left", a)
	}
}
