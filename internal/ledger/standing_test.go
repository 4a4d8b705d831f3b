package ledger

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/berth-dev/berth/placement"
)

// TestStanding: nodes of one standing give the same answers to whoever follows what is in flight, and have the same CPUs free.
func TestStanding(t *testing.T) {
	models := []*placement.Model{
		model(t, twoSockets, pinning),
		model(t, twoSockets, placement.Config{CPUManagerPolicy: "static", ReservedSystemCPUs: "0", TopologyManagerPolicy: "restricted"}),
	}
	rng, shared, own := rand.New(rand.NewPCG(3, 3)), 0, 0
	for range 40 {
		var l Ledger
		var nodes []*Node
		for i := range 12 {
			n := l.Node(fmt.Sprint("n", i))
			n.Accept(newKubelet(t, models[rng.IntN(2)]).report())
			for j := range rng.IntN(4) {
				r := cpus(fmt.Sprint("p", i, "-", j), []int64{2, 4, 4, 6}[rng.IntN(4)])
				n.Reserve(&Candidate{Request: r, Created: int64(10 + rng.IntN(3))}, new(placement.Decision))
			}
			nodes = append(nodes, n)
		}
		c := &Candidate{Request: cpus("asks", 1+rng.Int64N(8)), Shape: 1, Created: 20}
		for i, n := range nodes {
			s := n.Stand()
			if s.Standing == 0 {
				own++
				continue
			}
			for _, o := range nodes[:i] {
				if o.Stand().Standing != s.Standing {
					continue
				}
				shared++
				if a, b := n.Admit(c), o.Admit(c); a != b || n.FreeCPUs() != o.FreeCPUs() {
					t.Fatalf("standing %d: %+v and %+v", s.Standing, a, b)
				}
			}
		}
	}
	if shared < 100 || own == 0 {
		t.Errorf("%d pairs had one standing, %d nodes had none: want many, and some", shared, own)
	}
}

// TestStandingMovesOn: a node that changes gives up its standing, and gets it back with its state.
func TestStandingMovesOn(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	n := open(t, k)
	pulse := new(Pulse)
	n.Keep(pulse)
	if s := new(Ledger).Node("n").Stand(); s.Standing != 0 {
		t.Errorf("without a report: %+v", s)
	}
	empty := n.Stand()
	if _, s := pulse.Read(); s != empty.Standing || s == 0 {
		t.Errorf("the pulse tells %d, want %d", s, empty.Standing)
	}
	reserve(t, n, cpus("a", 4))
	if beat, s := pulse.Read(); s != 0 || beat == empty.Beat {
		t.Errorf("a pod is reserved, and the pulse tells %d at beat %d", s, beat)
	}
	if s := n.Stand(); s.Standing == empty.Standing {
		t.Errorf("got %+v both with and without the pod", s)
	}
	n.Forget("a")
	if s := n.Stand(); s.Standing != empty.Standing {
		t.Errorf("got %+v, want %+v back", s, empty)
	}
	pulse.stand(empty.Beat, 99)
	if _, s := pulse.Read(); s == 99 {
		t.Error("a standing of the past is told")
	}
}
