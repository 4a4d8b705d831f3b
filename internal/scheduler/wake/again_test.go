package wake

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/ledger"
)

// refusedByOthers adds count pods of different shapes that wait for a node, although no node
// refused them.
func (c *cluster) refusedByOthers(namespace string, count int) (all []*pod) {
	for i := range count {
		p := c.want(namespace, fmt.Sprint("p", i))
		c.waiters.Tried(p.UID)
		all = append(all, p)
	}
	return all
}

// TestWakingAgainHasABudget: a node keeps its answers for a few shapes only. For other shapes, each
// report looks like new room. Between two pauses, only a limited number of pods is woken for this,
// but every pod is woken in the end, and a pod of a namespace with few pods soon.
func TestWakingAgainHasABudget(t *testing.T) {
	c := newCluster(t)
	nodes := []*askedNode{c.askedNode(), c.askedNode()}
	const count = 3000
	flood, friend := c.refusedByOthers("b", count), c.refusedByOthers("a", 1)[0]
	woken, pauses := map[string]bool{}, 0
	for len(woken) <= count {
		if pauses++; pauses > 3*count/maxAgain {
			t.Fatalf("after %d pauses %d pods have been woken of %d", pauses, len(woken), count+1)
		}
		some, soon := 0, false
		look := func() {
			for _, p := range c.edge.woken {
				woken[p.UID], soon = true, soon || p.UID == friend.UID
				c.waiters.Add(p, &c.pods[p.UID].Candidate)
				c.waiters.Tried(p.UID)
			}
			some += len(c.edge.take())
		}
		c.edge.step(RoundPause)
		look()
		for i := range 4 { // four reports
			c.waiters.NodeChanged(nodes[i%2])
			look()
		}
		if some > maxAgain {
			t.Fatalf("%d pods are woken between two pauses, want at most %d", some, maxAgain)
		}
		if !soon {
			t.Errorf("pause %d: the other namespace's only pod was not woken", pauses)
		}
	}
	for len(c.edge.timed) > 0 {
		c.edge.step(RoundPause)
	}
	wantNothingKept(t, c, append(flood, friend))
}

// TestAFewShapesAreWokenOnce: if a node has admitted a shape before, the next report does not wake
// its pods again, for as many shapes as the node keeps answers for.
func TestAFewShapesAreWokenOnce(t *testing.T) {
	c := newCluster(t)
	n := c.addNode("n", twoSockets)
	c.accept(n)
	for i := range int64(3) {
		p := c.addPod(fmt.Sprint("p", i), i+1, 500+i)
		c.waiters.Add(p.Pod, &p.Candidate)
		c.waiters.Tried(p.UID)
	}
	c.report(n)
	if woken := c.edge.take(); len(woken) != 3 {
		t.Errorf("%v woken by the first report", woken)
	}
	for range 5 {
		c.edge.step(RoundPause)
		c.report(n)
	}
	if woken := c.edge.take(); len(woken) != 0 {
		t.Errorf("%v woken by reports that say nothing new", woken)
	}
}

// TestWhoIsLeftIsWokenLater: if a shape has more pods than a node has room for, the others are
// woken after a pause, even if the class of the first pod is gone by then.
func TestWhoIsLeftIsWokenLater(t *testing.T) {
	c := newCluster(t)
	n := c.addNode("n", twoSockets)
	c.accept(n)
	others := c.refusedByOthers("others", ledger.MaxAnswers)
	pods := map[string]bool{}
	for i := range 5 {
		p := c.addPod(fmt.Sprint("one of many ", i), 8, int64(500+i)) // each in its own class
		c.waiters.Add(p.Pod, &p.Candidate)
		c.waiters.Tried(p.UID)
		pods[p.UID] = true
	}
	c.report(n)
	for range len(pods) {
		woken := slices.DeleteFunc(c.edge.woken, func(p Pod) bool { return !pods[p.UID] })
		if len(woken) > 1 {
			t.Errorf("%v woken, and there is room for one", woken)
		}
		for _, p := range woken {
			delete(pods, p.UID)
			c.waiters.Done(p.UID)
		}
		c.edge.take()
		c.edge.step(RoundPause)
	}
	if len(pods) > 0 {
		t.Errorf("%v have not been woken", pods)
	}
	wantNothingKept(t, c, others)
}

// TestOneOfASecondIsWokenAgain: if no answers of nodes are kept, pods of the same second still
// block each other.
func TestOneOfASecondIsWokenAgain(t *testing.T) {
	c := newCluster(t)
	n := c.addNode("n", twoSockets)
	c.accept(n)
	c.refusedByOthers("others", ledger.MaxAnswers)
	for i := range 6 {
		p := c.addPod(fmt.Sprint("one of a second ", i), 2, int64(500+i%2)) // two classes
		c.waiters.Add(p.Pod, &p.Candidate)
		c.waiters.Tried(p.UID)
	}
	c.report(n)
	count := 0
	for _, name := range c.edge.take() {
		if strings.HasPrefix(name, "one of a second") {
			count++
		}
	}
	if count != 2 {
		t.Errorf("%d pods of two seconds are woken at once, want one of each", count)
	}
}
