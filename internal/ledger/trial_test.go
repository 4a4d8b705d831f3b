package ledger

import (
	"fmt"
	"slices"
	"testing"

	"github.com/berth-dev/berth/placement"
)

// TestATrialLeavesNoPodApart: a trial without interchangeable pods has too many orders to try one
// by one. The node's earlier answers stay valid.
func TestATrialLeavesNoPodApart(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	n := open(t, k)
	for i := range maxMortals + 1 { // with so many pods, no CPUs are promised
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
	said := n.View().Sample(Question{Candidate: c})
	wantOutcome(t, "before the trial", said.Answer, Admitted)
	if a := n.View().Ask(Question{Candidate: cand(cpus("v", 8)), Trial: &Trial{Without: without}}); a.Outcome != Waiting || a.Wait != ManyOrders {
		t.Errorf("this test means to have more orders than are gone through one by one: %v", a)
	}
	check(t, n)
	if again := n.View().Sample(Question{Candidate: c}); again != said {
		t.Errorf("%+v, and after the trial %+v", said, again)
	}
	wantOutcome(t, "Reserve says what the board says", n.Reserve(c, new(placement.Decision)), Admitted)
	check(t, n)
}

// TestPostLeavesNoPodApart: a question about pods that can end by themselves is a trial, too.
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

// TestNominatedPodsComeFirst: a pod comes after the pods that are nominated to the node, while the
// pods that they evict still run, are ending, or have ended. NUMA nodes have 7 and 8 CPUs.
func TestNominatedPodsComeFirst(t *testing.T) {
	for _, tc := range []struct {
		name      string
		ending    []string // of the pods one, two and three, with 7, 4 and 4 CPUs
		nominated []int64
		asks      int64
		want      Outcome
	}{
		{"nobody ends yet", nil, []int64{8}, 8, Refused},
		{"the nominated one takes what becomes free", []string{"two", "three"}, []int64{8}, 8, Refused},
		{"it takes all, and half is free", []string{"two", "three"}, []int64{8}, 4, Refused},
		{"half of what it needs is known to end", []string{"two"}, []int64{8}, 4, Refused},
		{"something is left", []string{"two", "three"}, []int64{4}, 4, Waiting},
		{"two take all", []string{"two", "three"}, []int64{4, 4}, 4, Refused},
		{"nothing helps", []string{"two", "three"}, []int64{4}, 9, Refused},
	} {
		k := newKubelet(t, model(t, twoSockets, pinning))
		n := open(t, k)
		for _, r := range []*placement.Request{cpus("one", 7), cpus("two", 4), cpus("three", 4)} {
			k.must(r)
			n.See(Sighting{UID: r.UID, Request: r, Phase: endingIf(slices.Contains(tc.ending, r.UID))})
		}
		n.Accept(k.report())
		trial := &Trial{}
		for i, count := range tc.nominated {
			trial.With = append(trial.With, cpus(fmt.Sprint("nominated", i), count))
		}
		a := n.View().Ask(Question{Candidate: cand(cpus("x", tc.asks)), Trial: trial})
		if a.Outcome != tc.want || a.Outcome == Refused && (a.Verdict.OK() || (a.Verdict.Scarcity == placement.Resolvable) != (tc.asks <= 8)) {
			t.Errorf("%s: %+v, want %v", tc.name, a, tc.want)
		}
		check(t, n)
	}
}
