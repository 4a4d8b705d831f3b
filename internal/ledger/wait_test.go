package ledger

import (
	"fmt"
	"testing"

	"github.com/berth-dev/berth/placement"
)

func TestEveryWaitHasWords(t *testing.T) {
	seen := map[string]bool{}
	for w := range Waits {
		if w.Text() == "" || w.String() == "" || seen[w.Text()] || seen[w.String()] {
			t.Errorf("wait %d: %q, %q: want words of its own", w, w, w.Text())
		}
		seen[w.Text()], seen[w.String()] = true, true
	}
	if WaitsForNothing.String()+WaitsForNothing.Text() != "" {
		t.Error("an answer that waits for nothing says why")
	}
}

func wantWait(t *testing.T, what string, a Answer, want Wait) {
	t.Helper()
	if a.Outcome != Waiting || a.Wait != want {
		t.Errorf("%s: %s, %s; want waiting, %s", what, a.Outcome, a.Wait, want)
	}
}

// TestWhyPodsWait causes every reason to wait.
func TestWhyPodsWait(t *testing.T) {
	bound := func(count int, turn int64, created func(int) int64) *Node {
		n := open(t, newKubelet(t, model(t, twoSockets, pinning)))
		for i := range count {
			r := cpus(fmt.Sprint("p", i), 1)
			r.Containers[0].Memory[0].Bytes += uint64(i) // no two alike
			n.See(Sighting{UID: r.UID, Request: r, Created: created(i), Turn: turn * int64(i+1)})
		}
		return n
	}
	same := func(int) int64 { return 1 }
	x := &Candidate{Request: cpus("x", 8), Created: 1000}

	for _, c := range []struct {
		what  string
		n     *Node
		want  Wait
		flood bool
	}{
		{"pods in an order that is not known", bound(maxEvents+1, 0, same), ManyEvents, true},
		{"as many as are gone through, none alike", bound(maxEvents, 0, same), ManyStates, true},
		{"pods of one second", bound(5, 1, same), ManyOrders, true},
		{"a pod that may come first", bound(0, 0, same), Undecided, false},
	} {
		if c.want == Undecided {
			c.n.See(Sighting{UID: "y", Request: cpus("y", 8)})
		}
		wantWait(t, c.what, c.n.View().Ask(Question{Candidate: x}), c.want)
		if got := c.n.View().Flooded(); got.Flood() != c.flood || c.flood && got != c.want {
			t.Errorf("%s: flooded %q, want %q: %t", c.what, got, c.want, c.flood)
		}
		check(t, c.n)
	}

	n := open(t, newKubelet(t, model(t, twoSockets, pinning)))
	n.See(Sighting{UID: "old", Request: cpus("old", 1), Turn: 1, Inherited: true})
	wantWait(t, "what a scheduler inherits", n.View().Ask(Question{Candidate: x}), Inherited)

	n = open(t, newKubelet(t, model(t, twoSockets, pinning)))
	first := cpus("first", 1)
	reserve(t, n, first)
	post(t, n, "first")
	wantWait(t, "a pod of an earlier second", n.View().Ask(Question{Candidate: &Candidate{Request: cpus("x", 1), Created: -1}}), PromiseAtRisk)

	n = open(t, newKubelet(t, model(t, twoSockets, pinning)))
	nominated := &Trial{With: []*placement.Request{cpus("a", 8), cpus("b", 8)}}
	wantWait(t, "nominated pods that do not all fit", n.View().Ask(Question{Candidate: x, Trial: nominated}), AfterOthers)
	n = open(t, newKubelet(t, model(t, twoSockets, pinning)))
	var d placement.Decision
	n.Reserve(&Candidate{Request: cpus("gang", 2), Created: 1, Wave: 1}, &d)
	wantWait(t, "a pod beside waves", n.View().Ask(Question{Candidate: x}), InWaves)
	if n.View().Flooded() != WaitsForNothing {
		t.Error("a node with nothing open is flooded")
	}
}
