package ledger

import (
	"fmt"
	"testing"

	"github.com/berth-dev/berth/placement"
)

// TestATrialLeavesNoPodApart asks what would be without pods that may change places, of which there
// are so many that they could not be gone through one by one: what the node said before still
// holds.
func TestATrialLeavesNoPodApart(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	n := open(t, k)
	for i := range maxMortals + 1 { // with so many no CPUs are promised
		job := cpus(fmt.Sprint("job", i), 1)
		k.must(job)
		n.See(Sighting{UID: job.UID, Request: job, Mortal: true})
	}
	n.Accept(k.report())
	var without []string
	for i := range 5 {
		r := cpus(fmt.Sprint("r", i), 1)
		without = append(without, r.UID)
		if a := n.Reserve(&Candidate{Request: r, Created: 7}, new(placement.Decision)); !a.OK() {
			t.Fatal(a)
		}
		post(t, n, r.UID)
	}
	c := &Candidate{Request: cpus("x", 1), Created: 8, Shape: 1}
	said := n.Sample(Question{Candidate: c})
	wantOutcome(t, "before the trial", said.Answer, Admitted)
	if a := n.Ask(Question{Candidate: cand(cpus("v", 8)), Trial: &Trial{Without: without}}); a.Outcome != Waiting || a.Wait != ManyOrders {
		t.Errorf("this test means to have more orders than are gone through one by one: %v", a)
	}
	check(t, n)
	if again := n.Sample(Question{Candidate: c}); again != said {
		t.Errorf("%+v, and after the trial %+v", said, again)
	}
	wantOutcome(t, "Reserve says what the board says", n.Reserve(c, new(placement.Decision)), Admitted)
	check(t, n)
}

// TestPostLeavesNoPodApart: what is asked of pods that can end by themselves is a trial, too.
func TestPostLeavesNoPodApart(t *testing.T) {
	n := open(t, newKubelet(t, model(t, twoSockets, pinning)))
	for i := range 5 {
		c := &Candidate{Request: cpus(fmt.Sprint("p", i), 1), Created: int64(7 + i), Mortal: i < 2}
		if a := n.Reserve(c, new(placement.Decision)); !a.OK() {
			t.Fatal(i, a)
		}
		post(t, n, c.Request.UID)
	}
}
