package ledger

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// TestStateID: nodes with the same id give the same answers to a pod that follows all pods in
// flight, and have the same free CPUs.
func TestStateID(t *testing.T) {
	models := []*placement.Model{
		model(t, twoSockets, pinning),
		model(t, twoSockets, placement.Config{CPUManagerPolicy: "static", ReservedSystemCPUs: "0", TopologyManagerPolicy: "restricted"}),
	}
	rng, shared, own := rand.New(rand.NewPCG(3, 3)), 0, 0
	for range 40 {
		var l Ledger
		var nodes []*Node
		for range 12 {
			n := l.Open(nil)
			n.Accept(newKubelet(t, models[rng.IntN(2)]).report())
			for j := range rng.IntN(4) {
				r := cpus(fmt.Sprint("p", len(nodes), "-", j), []int64{2, 4, 4, 6}[rng.IntN(4)])
				n.Reserve(&Candidate{Request: r, Created: int64(10 + rng.IntN(3))}, new(placement.Decision))
			}
			nodes = append(nodes, n)
		}
		c := &Candidate{Request: cpus("asks", 1+rng.Int64N(8)), Shape: 1, Created: 20}
		for i, n := range nodes {
			s := n.View().Stamp()
			if s.State == 0 {
				own++
				continue
			}
			for _, o := range nodes[:i] {
				if o.View().Stamp().State != s.State {
					continue
				}
				shared++
				if a, b := n.View().Ask(Question{Candidate: c}), o.View().Ask(Question{Candidate: c}); a != b || spareCPUs(n, c, &a) != spareCPUs(o, c, &b) {
					t.Fatalf("state id %d: %+v and %+v", s.State, a, b)
				}
			}
		}
	}
	if shared < 100 || own == 0 {
		t.Errorf("%d pairs had one state id, %d nodes had none: want many, and some", shared, own)
	}
}

// TestAStateIDIsGivenUp: a node that changes gives up its state id, and gets the id again with the
// same state.
func TestAStateIDIsGivenUp(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	changes := new(ChangeCounter)
	n := new(Ledger).Open(changes)
	n.Accept(k.report())
	if s := new(Ledger).Open(nil).View().Stamp(); s.State != 0 {
		t.Errorf("without a report: %+v", s)
	}
	empty := n.View().Stamp()
	if _, s := changes.Load(); s != empty.State || s == 0 {
		t.Errorf("the counter tells %d, want %d", s, empty.State)
	}
	reserve(t, n, cpus("a", 4))
	if count, s := changes.Load(); s != 0 || count == empty.Count {
		t.Errorf("a pod is reserved, and the counter tells %d at count %d", s, count)
	}
	if s := n.View().Stamp(); s.State == empty.State {
		t.Errorf("got %+v both with and without the pod", s)
	}
	n.Forget("a")
	if s := n.View().Stamp(); s.State != empty.State {
		t.Errorf("got %+v, want %+v back", s, empty)
	}
	changes.identify(empty.Count, 99)
	if _, s := changes.Load(); s == 99 {
		t.Error("an id of the past is shown")
	}
}

func spareCPUs(n *Node, c *Candidate, a *Answer) topology.CPUSet {
	var s Spare
	n.View().Spare(c.Request, &a.Verdict, &s)
	return s.CPUs
}

// TestLongKeysAreForgotten: tenants determine the length of a key, so the table is bounded by bytes
// and by entries. No number is given twice nevertheless.
func TestLongKeysAreForgotten(t *testing.T) {
	var n numbers
	long := make([]byte, maxKeyBytes/8)
	given := map[uint64]bool{}
	for i := range 40 {
		long[0] = byte(i)
		id := n.of(nil, 1<<16, func(b []byte) []byte { return append(b, long...) })
		if given[id] {
			t.Fatalf("number %d was given twice", id)
		}
		given[id] = true
		held := 0
		for k := range n.byKey {
			held += len(k.bytes)
		}
		if held > maxKeyBytes || held != n.bytes {
			t.Fatalf("%d bytes of keys are kept, %d counted; want at most %d", held, n.bytes, maxKeyBytes)
		}
	}
}
