package ledger

import (
	"testing"
	"time"

	"github.com/berth-dev/berth/placement"
)

// TestWithdrawForgetsWhatIsGone: the next report has the resources that the kubelet still holds,
// and none of them are promised.
func TestWithdrawForgetsWhatIsGone(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	n := open(t, k)
	for _, r := range []*placement.Request{cpus("gone", 8), cpus("there", 1)} {
		k.must(r)
		n.See(Sighting{UID: r.UID, Request: r})
	}
	n.Accept(k.report())
	n.Gone("gone", time.Unix(0, 0))
	check(t, n)
	n.Withdraw()
	check(t, n)
	if len(n.outlook.facts.pods.byUID) != 1 || n.outlook.facts.pods.byUID["there"] == nil {
		t.Fatalf("%d pods are left, want the one that the API has", len(n.outlook.facts.pods.byUID))
	}
	n.Accept(k.report()) // the kubelet still has it
	check(t, n)
	wantOutcome(t, "its CPUs may be free", n.View().Ask(Question{Candidate: cand(cpus("x", 8))}), Waiting)
	wantOutcome(t, "CPUs that are free", n.View().Ask(Question{Candidate: cand(cpus("y", 2))}), Admitted)
	k.End("gone")
	k.ReleaseEnded()
	n.Accept(k.report())
	check(t, n)
	wantOutcome(t, "it has left", n.View().Ask(Question{Candidate: cand(cpus("x", 8))}), Admitted)
	n.Gone("there", time.Unix(0, 0))
	n.Withdraw()
	if !n.View().Idle() {
		t.Error("a node without a report or a pod is not idle")
	}
}

// TestGlanceSeesThatAPodHasBecomeMortal: a deadline can be given to a pod that runs.
func TestGlanceSeesThatAPodHasBecomeMortal(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	k.must(cpus("a", 2))
	n := open(t, k)
	n.See(Sighting{UID: "a", Request: cpus("a", 2)})
	n.Accept(k.report())
	if !n.Glance(Glimpse{UID: "a", Ending: false, Mortal: false, Asks: asksTheSame}) {
		t.Error("looks again at a pod that it knows")
	}
	if n.Glance(Glimpse{UID: "a", Ending: false, Mortal: true, Asks: asksTheSame}) {
		t.Error("does not look at a pod that has got a deadline")
	}
	n.See(Sighting{UID: "a", Request: cpus("a", 2), Mortal: true})
	if !n.Glance(Glimpse{UID: "a", Ending: false, Mortal: true, Asks: asksTheSame}) {
		t.Error("has not learnt of the deadline")
	}
}
