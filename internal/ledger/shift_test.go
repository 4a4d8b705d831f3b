package ledger

import (
	"testing"

	"github.com/berth-dev/berth/placement"
)

// TestShiftForgetsWhatIsOlderThanTheLastChange: a node may not be asked between two changes,
// because the answer of an equal node is used.
func TestShiftForgetsWhatIsOlderThanTheLastChange(t *testing.T) {
	n := open(t, newKubelet(t, model(t, twoSockets, pinning)))
	c := &Candidate{Request: cpus("x", 8), Created: 1 << 40, Shape: 1}
	wantOutcome(t, "an empty node", n.View().Ask(Question{Candidate: c}), Admitted)
	if a := reserve(t, n, cpus("one", 8)); !a.OK() {
		t.Fatal(a)
	}
	if a := reserve(t, n, cpus("two", 7)); !a.OK() { // meanwhile x is not asked about
		t.Fatal(a)
	}
	n.Forget("one")
	before, now := n.Shift(c)
	wantOutcome(t, "before nobody asked", before, Unreported)
	wantOutcome(t, "one has gone", now, Admitted)
	n.Forget("two")
	before, now = n.Shift(c)
	wantOutcome(t, "as Shift found", before, Admitted)
	wantOutcome(t, "two has gone", now, Admitted)
}

// TestShiftTakesNoAnswerToAnotherQuestion: an answer for a pod that certainly follows all pods in
// flight does not apply to a pod that may come before some.
func TestShiftTakesNoAnswerToAnotherQuestion(t *testing.T) {
	n := open(t, newKubelet(t, model(t, twoSockets, pinning)))
	if a := n.Reserve(&Candidate{Request: cpus("one", 5), Created: 7}, new(placement.Decision)); !a.Exact {
		t.Fatal(a)
	}
	same, later := &Candidate{Request: cpus("x", 2), Created: 7, Shape: 1}, &Candidate{Request: cpus("y", 2), Created: 8, Shape: 1}
	wantOutcome(t, "in the same second", n.View().Ask(Question{Candidate: same}), Waiting)
	_, told := n.Shift(later)
	wantOutcome(t, "later", told, Admitted)
	for i := range MaxAnswers - 1 {
		n.View().Ask(Question{Candidate: &Candidate{Request: cpus("z", 1), Created: 8, Shape: Shape(2 + i)}})
	}
	n.outlook.changed()
	before, _ := n.Shift(same)
	wantOutcome(t, "not remembered", before, Unreported)
	before, _ = n.Shift(later)
	wantOutcome(t, "remembered", before, Admitted)
}

// TestAnswersOfANodeAreBounded: after questions about many shapes, a node remembers only the last
// few.
func TestAnswersOfANodeAreBounded(t *testing.T) {
	n := open(t, newKubelet(t, model(t, twoSockets, pinning)))
	for round := range 2 {
		for i := range 3 * MaxAnswers {
			n.Shift(&Candidate{Request: cpus("x", 1), Created: 1 << 40, Shape: Shape(i + 1)})
		}
		if held, before := len(n.outlook.answers.present.held), len(n.outlook.answers.past.held); held > MaxAnswers || before > MaxAnswers {
			t.Errorf("%d answers are remembered, and %d before the change", held, before)
		}
		if a := reserve(t, n, cpus(string(rune('a'+round)), 1)); !a.OK() {
			t.Fatal(a)
		}
	}
}
