package ledger

import (
	"testing"

	"github.com/berth-dev/berth/placement"
)

// inWave returns a request for CPUs on twoSockets, whose NUMA nodes have 7 and 8 CPUs for pods.
func inWave(uid string, n int64, wave int) *Candidate {
	return &Candidate{Request: cpus(uid, n), Created: 100, Wave: wave}
}

// TestAWaveFollowsAnother: pods of one second that fit in only one order are admitted if waves keep
// this order. They are posted when a report lists the pods before them.
func TestAWaveFollowsAnother(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning)) // 7 and 8 CPUs
	n := open(t, k)
	var d placement.Decision
	for _, c := range []*Candidate{inWave("a", 7, 0), inWave("b", 4, 0)} {
		c.Loose = true
		if a := n.Fork().Reserve(c, &d); !a.OK() {
			t.Fatalf("%s: %+v", c.Request.UID, a)
		}
	}
	free := n.Fork()
	free.Reserve(&Candidate{Request: cpus("a", 7), Created: 100, Loose: true}, &d)
	if a := free.Reserve(&Candidate{Request: cpus("b", 4), Created: 100, Loose: true}, &d); a.OK() {
		if a := free.Reserve(&Candidate{Request: cpus("c", 4), Created: 100, Loose: true}, &d); a.OK() {
			t.Fatal("7, 4 and 4 CPUs of one second fit in every order: the test shows nothing")
		}
	}

	for wave, c := range []*Candidate{inWave("a", 7, 1), inWave("b", 4, 2), inWave("c", 4, 2)} {
		c.Loose = wave > 0
		if a := n.Reserve(c, &d); !a.OK() {
			t.Fatalf("%s in waves: %+v", c.Request.UID, a)
		}
	}
	check(t, n)
	if n.View().Due("b") || !n.View().Due("a") {
		t.Errorf("due: a %t, b %t; want a alone", n.View().Due("a"), n.View().Due("b"))
	}
	if p, err := n.Post("b", &d); err != nil || p.Answer.Wait != InWaves {
		t.Errorf("b is posted before a: %+v, %v", p, err)
	}
	post(t, n, "a")
	if n.View().Due("b") {
		t.Error("b is due although no report lists a")
	}
	wantWait(t, "somebody else, with room for one", n.View().Ask(Question{Candidate: &Candidate{Request: cpus("x", 1), Created: 200}}), InWaves)
	wantWait(t, "somebody else, if a were away", n.View().Ask(Question{Candidate: &Candidate{Request: cpus("x", 1), Created: 200}, Trial: &Trial{Without: []string{"a"}}}), InWaves)
	k.must(cpus("a", 7))
	n.Accept(k.report())
	if !n.View().Due("b") || !n.View().Due("c") {
		t.Error("b and c are not due, though a is listed")
	}
	post(t, n, "c")
	post(t, n, "b")
	check(t, n)
	k.must(cpus("b", 4)) // its watch broke
	k.must(cpus("c", 4))
	n.Accept(k.report())
	if a := n.View().Ask(Question{Candidate: &Candidate{Request: cpus("x", 1), Created: 200}}); a.Wait == InWaves {
		t.Errorf("the waves are over: %+v", a)
	}
	check(t, n)
}

// TestAWaveGoesOnWithoutTheOneBefore: a pod that was given up blocks no other pod.
func TestAWaveGoesOnWithoutTheOneBefore(t *testing.T) {
	n := open(t, newKubelet(t, model(t, twoSockets, pinning)))
	var d placement.Decision
	n.Reserve(inWave("a", 2, 1), &d)
	n.Reserve(inWave("b", 2, 2), &d)
	n.Forget("a")
	if !n.View().Due("b") {
		t.Error("b waits for a, which was taken back")
	}
	post(t, n, "b")
	check(t, n)
}
