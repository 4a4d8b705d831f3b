package ledger

import (
	"fmt"
	"testing"

	"github.com/berth-dev/berth/placement"
)

// TestAForkAnswersAsItsNode forks nodes in random histories. A fork gives the same answers as its
// node, and changes of the fork do not change the node.
func TestAForkAnswersAsItsNode(t *testing.T) {
	admitted, refused := 0, 0
	for seed := range uint64(60) {
		h := newHistory(t, seed)
		for range 40 {
			h.step()
		}
		before, known := h.n.View().Snapshot()
		fork := h.n.Fork()
		var asked []*Candidate
		var answers []Answer
		for range 6 {
			r := h.request()
			c := &Candidate{Request: r, Created: h.created[r.UID]}
			var d placement.Decision
			asked, answers = append(asked, c), append(answers, fork.Reserve(c, &d))
			if err := fork.View().Check(); err != nil {
				h.fail("seed %d: the fork: %v", seed, err)
			}
		}
		if err := h.n.View().Check(); err != nil {
			h.fail("seed %d: the node, after its fork changed: %v", seed, err)
		}
		if after, ok := h.n.View().Snapshot(); ok != known || len(after.Pods) != len(before.Pods) {
			h.fail("seed %d: the fork changed its node", seed)
		}
		for i, c := range asked {
			var d placement.Decision
			a := h.n.Reserve(c, &d)
			if a != answers[i] {
				h.fail("seed %d: pod %s: the fork said %+v, the node %+v", seed, c.Request.UID, answers[i], a)
			}
			if a.OK() != h.n.View().Holds(c.Request.UID) {
				h.fail("seed %d: pod %s: admitted %t, held %t", seed, c.Request.UID, a.OK(), !a.OK())
			}
			if a.OK() {
				admitted++
			} else {
				refused++
			}
		}
	}
	if admitted < 50 || refused < 50 {
		t.Errorf("%d admitted, %d not: the histories show too little", admitted, refused)
	}
}

// TestAForkIsOutlived: changes of the node do not change an existing fork.
func TestAForkIsOutlived(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	n := open(t, k)
	reserve(t, n, cpus("a", 2))
	fork := n.Fork()
	reserve(t, n, cpus("b", 4))
	one := cand(cpus("c", 1))
	if got, want := fork.View().Room(one, 20), n.View().Room(one, 20); got != want+4 {
		t.Errorf("the fork has room for %d, the node for %d: want 4 more", got, want)
	}
	if fork.View().Holds("b") || !fork.View().Holds("a") || !n.View().Holds("b") {
		t.Error("the fork also has the pod that was reserved on the node later")
	}
}

// TestAForkWithoutPodsAnswersAsATrial compares ForkWithout with Trial.Without in random histories.
func TestAForkWithoutPodsAnswersAsATrial(t *testing.T) {
	same, waited, open := 0, 0, 0
	for seed := range uint64(300) {
		h := newHistory(t, seed)
		for range 40 {
			h.step()
		}
		var away []string
		for uid := range h.n.outlook.facts.pods.byUID {
			if len(away) < 1+int(seed%3) {
				away = append(away, uid)
			}
		}
		before, known := h.n.View().Snapshot()
		fork, ok := h.n.ForkWithout(away...)
		if !ok {
			open++
			continue
		}
		if err := fork.View().Check(); err != nil {
			h.fail("seed %d: the fork: %v", seed, err)
		}
		for range 6 {
			r := h.request()
			c := &Candidate{Request: r, Created: h.created[r.UID]}
			trial := h.n.View().Ask(Question{Candidate: c, Trial: &Trial{Without: away}})
			got := fork.View().Ask(Question{Candidate: c})
			switch {
			case got.Outcome == trial.Outcome && got.Verdict.OK() == trial.Verdict.OK():
				same++
			case got.Outcome == Waiting || trial.Outcome == Waiting:
				waited++
			default:
				t.Errorf("seed %d: without %v, pod %s: the fork says %+v, the trial %+v", seed, away, r.UID, got, trial)
			}
		}
		if after, ok := h.n.View().Snapshot(); ok != known || len(after.Pods) != len(before.Pods) {
			h.fail("seed %d: the fork changed its node", seed)
		}
	}
	t.Logf("%d same, %d waited in one of them, %d nodes of which too much is open", same, waited, open)
	if same < 500 {
		t.Errorf("%d answers are the same: the histories show too little", same)
	}
}

// TestWithoutSomeTheOthersStay: a fork without some pods counts all others. If each of them counted
// as a pod that may end at any moment, nodes with many pods would be unpredictable.
func TestWithoutSomeTheOthersStay(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	for i := range 10 {
		k.must(cpus(fmt.Sprint("p", i), 1))
	}
	n := open(t, k)
	for i := range 10 {
		n.See(Sighting{UID: fmt.Sprint("p", i), Request: cpus(fmt.Sprint("p", i), 1), Turn: int64(i + 1)})
	}
	f, ok := n.ForkWithout("p1", "p2")
	if !ok {
		t.Fatal("no fork")
	}
	check(t, f)
	var d placement.Decision
	if a := f.Reserve(&Candidate{Request: cpus("x", 5), Created: 1}, &d); !a.OK() || !a.Exact {
		t.Errorf("5 CPUs beside 8 pods that stay: %+v", a)
	}
	if a := f.Reserve(&Candidate{Request: cpus("y", 3), Created: 2}, &d); a.OK() {
		t.Errorf("3 CPUs, and 2 are left: %+v", a)
	}
}
