package ledger

import (
	"testing"
	"time"

	"github.com/berth-dev/berth/placement"
)

// TestAPodInDoubtIsAnsweredForItselfAlone: that the node takes the pod which it may have says nothing of another that asks for the same.
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
	if _, _, lasting := n.Sample(itself); lasting {
		t.Error("an answer to a pod that the node may have is told to others")
	}
	if _, _, lasting, _ := n.Estimate(itself); lasting {
		t.Error("an estimate for a pod that the node may have is told to others")
	}
	wantOutcome(t, "the pod in doubt", n.Admit(itself), Admitted)
	wantOutcome(t, "another in its place", n.Admit(other), Waiting)
	check(t, n)
}
