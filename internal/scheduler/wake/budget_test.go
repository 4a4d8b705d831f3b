package wake

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/placement"
)

// askedNode counts the questions to a node, and their times. It admits every pod.
type askedNode struct {
	*ledger.Node
	asked map[ledger.Shape]time.Time // last
	count int
	edge  *playedEdge
	// slow is the time that each question takes.
	slow time.Duration
	// meanwhile is called while the node is asked; nil if there is nothing to do.
	meanwhile func()
}

func (n *askedNode) Shift(c *ledger.Candidate) (before, now ledger.Answer) {
	n.edge.now = n.edge.now.Add(n.slow)
	n.asked[c.Shape] = n.edge.now
	n.count++
	if n.meanwhile != nil {
		n.meanwhile()
	}
	return ledger.Answer{}, ledger.Answer{Outcome: ledger.Admitted}
}

func (c *cluster) askedNode() *askedNode {
	return &askedNode{Node: c.ledger.Open(nil), asked: map[ledger.Shape]time.Time{}, edge: c.edge}
}

// want adds a pod with a new shape that waits for a node.
func (c *cluster) want(namespace, name string) *pod {
	r := &placement.Request{UID: namespace + "/" + name, Containers: []placement.ContainerRequest{{
		MilliCPU: 1000, Memory: []placement.MemoryRequest{{Resource: "memory", Bytes: uint64(len(c.pods))}}}}}
	p := &pod{Pod: Pod{UID: r.UID, Namespace: namespace, Name: name}, Candidate: ledger.Candidate{Request: r, Shape: c.ledger.Shape(r), Created: 500}}
	c.pods[r.UID] = p
	c.waiters.Add(p.Pod, &p.Candidate)
	return p
}

// pause advances the clock to the next round, and returns how many questions the node was asked in
// it.
func (c *cluster) pause(n *askedNode) int {
	before := n.count
	c.edge.step(RoundPause)
	return n.count - before
}

// TestAChangeHasABudget: however many shapes of pods wait for a node, a change asks about a limited
// number of them at once. It asks about the others later, until all have been woken.
func TestAChangeHasABudget(t *testing.T) {
	c := newCluster(t)
	n := c.askedNode()
	const count = 3000
	for i := range count {
		p := c.want("b", fmt.Sprint("p", i))
		c.waiters.Blame(p.UID, nil, []Node{n})
	}
	c.waiters.NodeChanged(n)
	if n.count != maxAsked {
		t.Errorf("%d classes asked about at once, want %d", n.count, maxAsked)
	}
	for len(c.edge.timed) > 0 {
		if asked := c.pause(n); asked > maxBehind {
			t.Fatalf("%d classes asked about behind, want at most %d", asked, maxBehind)
		}
	}
	if woken := c.edge.take(); len(woken) != count {
		t.Errorf("%d of %d woken", len(woken), count)
	}
	if n.count != count {
		t.Errorf("%d questions about %d classes", n.count, count)
	}
}

// TestNamespacesTakeTurns: shapes of other namespaces are asked about first, even if a tenant has
// thousands of shapes.
func TestNamespacesTakeTurns(t *testing.T) {
	c := newCluster(t)
	n := c.askedNode()
	for i := range 3000 {
		c.want("b", fmt.Sprint("p", i))
	}
	var friends []*pod
	for i := range maxAsked / 2 {
		friends = append(friends, c.want("a", fmt.Sprint("p", i)))
	}
	c.waiters.NodeChanged(n)
	for _, p := range friends {
		if _, ok := n.asked[p.Shape]; !ok {
			t.Fatalf("%s was not asked about at once", p.UID)
		}
	}
}

// TestNobodyStarves: nodes change, and pods come and go, while classes are asked about. Each class
// that stays is asked about after the last change of each node. A class that came later need not
// be, because its pod's attempt has seen the change.
func TestNobodyStarves(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { starve(t, rand.New(rand.NewPCG(seed, 25))) })
	}
}

func starve(t *testing.T, r *rand.Rand) {
	c := newCluster(t)
	nodes := []*askedNode{c.askedNode(), c.askedNode(), c.askedNode()}
	changed := map[*askedNode]time.Time{}
	var present []*pod
	began := map[string]time.Time{}
	for i := range 1500 {
		switch k := r.IntN(100); {
		case k < 70:
			p := c.want(fmt.Sprint("ns", r.IntN(3)*r.IntN(3)), fmt.Sprint("p", i))
			present, began[p.UID] = append(present, p), c.edge.now
		case k < 90 && len(present) > 0:
			j := r.IntN(len(present))
			c.waiters.Done(present[j].UID)
			present[j] = present[len(present)-1]
			present = present[:len(present)-1]
		case k < 93:
			c.edge.step(RoundPause / 2)
		default:
			n := nodes[r.IntN(len(nodes))]
			c.edge.now = c.edge.now.Add(time.Millisecond)
			changed[n] = c.edge.now
			if before := n.count; r.IntN(2) == 0 {
				c.waiters.NodeChanged(n)
			} else if c.waiters.NodeReturned(n); n.count-before > maxAsked {
				t.Fatalf("%d questions at once", n.count-before)
			}
		}
	}
	for range 1000 {
		if len(c.edge.timed) == 0 {
			break
		}
		c.edge.step(RoundPause)
	}
	wantAsked(t, changed, present, began)
	wantNothingKept(t, c, present)
}

func wantAsked(t *testing.T, changed map[*askedNode]time.Time, present []*pod, began map[string]time.Time) {
	t.Helper()
	for n, when := range changed {
		for _, p := range present {
			if last := n.asked[p.Shape]; began[p.UID].Before(when) && last.Before(when) {
				t.Fatalf("%s was asked about at %v, and the node changed at %v", p.UID, last, when)
			}
		}
	}
}

// wantNothingKept checks that no changes and no rounds are left, and no classes without pods.
func wantNothingKept(t *testing.T, c *cluster, present []*pod) {
	t.Helper()
	w := c.waiters
	if len(c.edge.timed) > 0 || len(w.behind.queue) > 0 || len(w.behind.byNode) > 0 || len(w.rounds) > 0 {
		t.Errorf("%d calls are to come, %d changes are behind, %d rounds go on", len(c.edge.timed), len(w.behind.byNode), len(w.rounds))
	}
	for _, p := range present {
		w.Done(p.UID)
	}
	if n := len(w.again.byShape) + w.again.line.Len() + len(w.again.later) + len(w.byClass) + len(w.byShape) + len(w.classOf) + len(w.ring.sorted) + len(w.ring.lanes); n > 0 {
		t.Errorf("%d things are kept of pods that are gone", n)
	}
}

// TestANodeThatChangesAllTheTime: classes at the end of the ring are still asked about.
func TestANodeThatChangesAllTheTime(t *testing.T) {
	c := newCluster(t)
	n := c.askedNode()
	const count = 2000
	for i := range count {
		c.want("b", fmt.Sprint("p", i))
	}
	for range 2 * count / maxBehind {
		c.waiters.NodeChanged(n)
		c.edge.step(RoundPause)
	}
	if len(n.asked) != count {
		t.Errorf("%d of %d classes have been asked about", len(n.asked), count)
	}
}

// TestASlowNodeIsPutOff: a node's report may make each question about it slow.
func TestASlowNodeIsPutOff(t *testing.T) {
	c := newCluster(t)
	n, quick := c.askedNode(), c.askedNode()
	n.slow = maxAskTime / 2
	for i := range 50 {
		c.want("b", fmt.Sprint("p", i))
	}
	if c.waiters.NodeChanged(n); n.count != 2 {
		t.Errorf("%d slow questions at once, want 2", n.count)
	}
	if c.waiters.NodeChanged(quick); len(quick.asked) != 50 {
		t.Errorf("the other node was asked about %d classes of 50", len(quick.asked))
	}
	for range 100 {
		c.edge.step(RoundPause)
	}
	if len(n.asked) != 50 {
		t.Errorf("%d classes of 50 have been asked about", len(n.asked))
	}
}

// TestQuestionsHoldNobodyUp: an attempt can begin while a node is asked.
func TestQuestionsHoldNobodyUp(t *testing.T) {
	c := newCluster(t)
	n := c.askedNode()
	for i := range 2 * maxAsked {
		c.want("b", fmt.Sprint("p", i))
	}
	held := 0
	n.meanwhile = func() {
		if !c.waiters.mu.TryLock() {
			held++
			return
		}
		c.waiters.mu.Unlock()
	}
	c.waiters.NodeChanged(n)
	c.edge.step(RoundPause)
	if held > 0 {
		t.Errorf("the lock was held during %d of %d questions", held, n.count)
	}
}
