package wake

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/placement"
)

// crowd returns a node on which one pod has ended, and count equal pods that wait for its place.
// Each was created later seconds after the one before.
func crowd(t *testing.T, count int, later int64) (*cluster, *ledger.Node) {
	c := newCluster(t)
	n := c.addNode("n", twoSockets)
	_, two := c.fill(n)
	for i := range count {
		p := c.addPod(fmt.Sprintf("p%03d", i), 4, 500+int64(i)*later)
		if a := n.View().Ask(ledger.Question{Candidate: &p.Candidate}); a.Outcome != ledger.Refused {
			t.Fatalf("a full node says %v", a.Outcome)
		}
		c.fail(n, p)
	}
	c.end(n, two)
	c.report(n)
	return c, n
}

func TestAReportWakesAsManyAsThereIsRoomFor(t *testing.T) {
	c, n := crowd(t, 500, 1)
	first := c.edge.take() // 8 CPUs are free
	if len(first) != 2 {
		t.Fatalf("%d pods woken, want 2", len(first))
	}
	for _, name := range first {
		c.place(n, c.pods[name])
	}
	c.edge.step(RoundPause)
	if next := c.edge.take(); len(next) > 0 {
		t.Errorf("%v woken although the room is taken", next)
	}
}

// TestOneOfASecondIsWoken: a node that promises CPUs to a pod refuses others of the same second
// until a report, so that it wakes one pod of each second. It also wakes pods of other namespaces.
func TestOneOfASecondIsWoken(t *testing.T) {
	c, n := crowd(t, 500, 0)
	later := c.addPod("later", 4, 501)
	c.fail(n, later)
	other := c.addPod("other", 4, 500)
	other.Namespace = "other"
	c.fail(n, other)
	c.edge.step(RoundPause)
	woken := c.edge.take()
	if !slices.Equal(woken, []string{"p000", "later", "other"}) { // one at once, and two after a pause
		t.Fatalf("%v woken", woken)
	}
	c.waiters.Done(later.UID)
	c.place(n, other)
	c.edge.step(RoundPause)
	if next := c.edge.take(); len(next) > 0 {
		t.Errorf("%v woken although they are kept off by one of their second", next)
	}
}

// TestOneOfASecondTakesNoPlace: when the pod was tried and did not take the room, the others of its
// second are woken.
func TestOneOfASecondTakesNoPlace(t *testing.T) {
	c, n := crowd(t, 500, 0)
	for i, want := range []int{1, 2, 2} {
		woken := c.edge.take()
		if len(woken) != want {
			t.Errorf("round %d: %v woken, want %d", i, woken, want)
		}
		for _, name := range woken {
			c.fail(n, c.pods[name]) // another plugin refuses the node
		}
		c.edge.step(RoundPause)
	}
}

// TestOneOfASecondIsWokenOfAllShapes: pods of different shapes block each other, too. The pod with
// the highest priority is woken first, and those of other shapes if it does not take the room.
func TestOneOfASecondIsWokenOfAllShapes(t *testing.T) {
	c := newCluster(t)
	n := c.addNode("n", twoSockets)
	_, two := c.fill(n)
	for i, name := range []string{"low", "middle", "high"} {
		p := c.addPod(name, int64(4-i), 600)
		p.Priority = int32(i)
		c.fail(n, p)
	}
	c.end(n, two)
	c.report(n)
	if woken := c.edge.take(); !slices.Equal(woken, []string{"high"}) {
		t.Errorf("%v woken by the report, want the one of the highest priority", woken)
	}
	c.edge.step(RoundPause)
	woken := c.edge.take()
	if slices.Sort(woken); !slices.Equal(woken, []string{"low", "middle"}) {
		t.Errorf("%v woken after the pause, want the others", woken)
	}
}

// place reserves the node for the pod.
func (c *cluster) place(n *ledger.Node, p *pod) {
	c.Helper()
	c.waiters.Add(p.Pod, &p.Candidate)
	if a := n.Reserve(&p.Candidate, new(placement.Decision)); !a.OK() {
		c.Fatalf("%s: %v", p.Name, a)
	}
	c.waiters.Done(p.UID)
}

func TestNoWakeUpIsLost(t *testing.T) {
	const count = 31
	c, n := crowd(t, count, 1)
	seen := map[string]int{}
	for len(seen) < count {
		names := c.edge.take()
		for _, name := range names {
			seen[name]++
			c.fail(n, c.pods[name]) // another plugin refuses the node
		}
		if len(names) > 2 {
			t.Fatalf("%d pods woken at once, want 2", len(names))
		}
		if len(c.edge.timed) == 0 && len(seen) < count {
			t.Fatalf("%d of %d pods woken, and nothing is to come", len(seen), count)
		}
		c.edge.step(RoundPause)
	}
	for name, n := range seen {
		if n != 1 {
			t.Errorf("%s was woken %d times for one change", name, n)
		}
	}
	if len(c.edge.timed) > 0 {
		t.Error("it goes on although all have been woken")
	}
}

func TestUrgentPodsAreWokenFirst(t *testing.T) {
	c, n := crowd(t, 20, 1)
	c.edge.take()
	urgent := c.addPod("urgent", 4, 600)
	urgent.Priority = 7
	c.fail(n, urgent)
	c.edge.step(RoundPause)
	if next := c.edge.take(); len(next) != 2 || !slices.Contains(next, "urgent") {
		t.Errorf("%v woken, want the urgent one among them", next)
	}
}

// TestManyPodsOfOneNamespace do not delay those of another namespace, however long they have
// waited.
func TestManyPodsOfOneNamespace(t *testing.T) {
	c, n := crowd(t, 500, 1)
	c.edge.take()
	late := c.addPod("late", 4, 2000)
	late.Namespace = "few"
	c.fail(n, late)
	c.edge.step(RoundPause)
	if next := c.edge.take(); !slices.Contains(next, "late") {
		t.Errorf("%v woken, want the only pod of the other namespace among them", next)
	}
}

func TestNobodyIsKeptFromPreemptingForEver(t *testing.T) {
	c := newCluster(t)
	n, m := c.addNode("n", twoSockets), c.addNode("m", twoSockets)
	p := c.addPod("x", 4, 500)
	begun := c.waiters.Add(p.Pod, &p.Candidate)
	for range 3 { // with the nodes swapped each time
		if since := c.waiters.Blame(p.UID, []Node{n}, []Node{m}); !since.Equal(begun) {
			t.Fatalf("waits since %v, want %v", since, begun)
		}
		n, m = m, n
		c.edge.step(ReportLimit / 3)
		c.waiters.Add(p.Pod, &p.Candidate)
	}
	if since := c.waiters.Blame(p.UID, []Node{n}, nil); c.edge.now.Sub(since) < ReportLimit {
		t.Errorf("%v of waiting forgotten", c.edge.now.Sub(begun))
	}
	c.waiters.Blame(p.UID, nil, []Node{n})
	if since := c.waiters.Blame(p.UID, []Node{n}, nil); !since.Equal(c.edge.now) {
		t.Errorf("waits since %v although nothing did in between", since)
	}
}

// TestPatienceWithReportsBeginsAnew when it has run out and the pod may have preempted, because the
// reports about its victims are still to come.
func TestPatienceWithReportsBeginsAnew(t *testing.T) {
	c := newCluster(t)
	n, p := c.addNode("n", twoSockets), c.addPod("x", 4, 500)
	c.waiters.Add(p.Pod, &p.Candidate)
	for _, step := range []struct{ pass, want time.Duration }{{0, 0}, {ReportLimit, ReportLimit}, {time.Second, time.Second}} {
		c.edge.step(step.pass)
		if waited := c.edge.now.Sub(c.waiters.Blame(p.UID, []Node{n}, nil)); waited != step.want {
			t.Errorf("waited %v, want %v", waited, step.want)
		}
	}
}

// TestAWakeUpThatComesLate: before a change is handled, other pods may ask the node, and take some
// of the room.
func TestAWakeUpThatComesLate(t *testing.T) {
	c := newCluster(t)
	n := c.addNode("n", twoSockets)
	_, two := c.fill(n)
	pod, fast := c.addPod("x", 4, 501), c.addPod("fast", 4, 500)
	c.fail(n, pod)
	c.end(n, two)
	c.accept(n)
	n.View().Ask(ledger.Question{Candidate: &fast.Candidate})
	if a := n.Reserve(&fast.Candidate, new(placement.Decision)); !a.OK() {
		t.Fatal(a)
	}
	c.edge.take()
	c.waiters.NodeChanged(n)
	if woken := c.edge.take(); len(woken) != 1 {
		t.Errorf("%v woken although n has room", woken)
	}
}

// TestManyThatAreBlamed: it is not known which nodes refused the pod, so that each node wakes it.
func TestManyThatAreBlamed(t *testing.T) {
	c := newCluster(t)
	n := c.addNode("n", twoSockets)
	c.accept(n)
	p := c.addPod("x", 4, 500)
	for _, count := range []int{maxBlamed, maxBlamed + 1} {
		others := make([]Node, count)
		for i := range others {
			others[i] = c.ledger.Open(new(ledger.ChangeCounter))
		}
		c.waiters.Add(p.Pod, &p.Candidate)
		c.waiters.Blame(p.UID, nil, others)
		c.edge.take()
		c.waiters.NodeChanged(n)
		if woken := c.edge.take(); len(woken) != count-maxBlamed {
			t.Errorf("%v woken by a node that is not among the %d blamed", woken, count)
		}
	}
}

// TestWhoIsDone is never woken.
func TestWhoIsDone(t *testing.T) {
	c := newCluster(t)
	p, q := c.addPod("x", 4, 500), c.addPod("y", 4, 500)
	c.waiters.Add(p.Pod, &p.Candidate)
	c.waiters.Add(q.Pod, &q.Candidate)
	c.waiters.Done(p.UID)
	c.waiters.Done(p.UID)
	c.waiters.WakeAll()
	c.waiters.WakeOne(p.UID)
	if woken := c.edge.take(); !slices.Equal(woken, []string{"y"}) || c.waiters.Len() != 1 {
		t.Errorf("%v woken, %d left; want y", woken, c.waiters.Len())
	}
	if c.waiters.byClass[class{"default", q.Shape, q.Created}].candidate.Request != q.Request {
		t.Error("the class still asks with the pod that is done")
	}
}

// TestAPodThatWaitedIsWokenToPreempt: the node's earlier answers are forgotten, but not the answer
// that the pod got.
func TestAPodThatWaitedIsWokenToPreempt(t *testing.T) {
	c := newCluster(t)
	n := c.addNode("n", twoSockets)
	c.fill(n)
	p := c.addPod("x", 4, 500)
	c.waiters.Add(p.Pod, &p.Candidate)
	c.waiters.Blame(p.UID, []Node{n}, nil)
	c.report(n)
	if woken := c.edge.take(); !slices.Equal(woken, []string{"x"}) {
		t.Errorf("%v woken when the node it waited for refused it", woken)
	}
}
