package ledger

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/berth-dev/berth/placement"
)

// apart returns the node with no two interchangeable pods in flight. Its answers take longer, and
// are the same.
func apart(n *Node) *Node { return copyOf(n, true) }

func copyOf(n *Node, apart bool) *Node {
	o := new(Ledger).Open(nil)
	from, to := &n.outlook.facts, &o.outlook.facts
	to.report, to.pods.turn, to.begun = from.report, from.pods.turn, from.begun
	to.pods.byUID = map[string]*pod{}
	copied := map[*pod]*pod{}
	for uid, p := range from.pods.byUID {
		q := *p
		if apart {
			q.key = "only " + uid
		}
		to.pods.byUID[uid], copied[p] = &q, &q
	}
	for _, p := range from.pods.posted {
		to.pods.posted = append(to.pods.posted, copied[p])
	}
	for _, p := range from.pods.reserved {
		to.pods.reserved = append(to.pods.reserved, copied[p])
	}
	o.outlook.changes.setFlight(afterAll, 0)
	return o
}

// sameAnswers asks both nodes. If apart has too much to try, the node may still have an answer.
func sameAnswers(n *Node, c *Candidate, t *Trial) (got, want Answer, same bool) {
	n, o := copyOf(n, false), apart(n)
	got, want = n.View().Ask(Question{Candidate: c, Trial: t}), o.View().Ask(Question{Candidate: c, Trial: t})
	flight := append(o.outlook.facts.flight(true), &pod{asked: asked{req: c.Request}, created: c.Created})
	tooMuch := o.outlook.afterReserved().uncertain() || arrivalOrders(flight, interchangeable) == nil
	return got, want, got.Outcome == want.Outcome && got.Verdict == want.Verdict && (got.Exact || !want.Exact) || want.Outcome == Waiting && tooMuch
}

func TestPodsThatAreAlike(t *testing.T) {
	n := open(t, newKubelet(t, model(t, twoSockets, pinning)))
	for i := range 5 {
		n.See(Sighting{UID: fmt.Sprint("posted", i), Request: cpus(fmt.Sprint("posted", i), 1), Created: 7, Turn: int64(i + 1)})
	}
	check(t, n)
	if got := len(n.outlook.afterReserved().all); got != 1 {
		t.Errorf("%d states of 5 pods that are alike, want 1", got)
	}
	if o := apart(n); o.View().Ask(Question{Candidate: cand(cpus("x", 1))}).Outcome != Waiting {
		t.Error("this test needs more orders than are tried one by one")
	}
	wantOutcome(t, "2 CPUs, 7 and 3 free", n.View().Ask(Question{Candidate: &Candidate{Request: cpus("x", 2), Created: 7}}), Admitted)
	wantOutcome(t, "one of them gone", n.View().Ask(Question{Candidate: &Candidate{Request: cpus("x", 7), Created: 8}, Trial: &Trial{Without: []string{"posted1"}}}), Admitted)
}

func TestStrangersThatAreAlike(t *testing.T) {
	n := open(t, newKubelet(t, model(t, twoSockets, pinning)))
	for i := range maxEvents {
		n.See(Sighting{UID: fmt.Sprint("p", i), Request: cpus(fmt.Sprint("p", i), 1), Created: 7})
	}
	check(t, n)
	if got := len(n.outlook.afterReserved().all); got != maxEvents+1 {
		t.Errorf("%d states, want %d: any number of them may have come", got, maxEvents+1)
	}
	if o := apart(n); o.View().Ask(Question{Candidate: cand(cpus("x", 1))}).Outcome != Waiting {
		t.Error("this test needs more states than are tried one by one")
	}
	wantOutcome(t, "8 CPUs", n.View().Ask(Question{Candidate: &Candidate{Request: cpus("x", 8), Created: 8}}), Admitted)
	wantOutcome(t, "8 CPUs twice", n.View().Ask(Question{Candidate: &Candidate{Request: cpus("x", 7), Created: 8}, Trial: &Trial{With: []*placement.Request{cpus("y", 8)}}}), Waiting)
}

func TestPodsThatAreNotAlike(t *testing.T) {
	exact := &Promise{Exact: true}
	base := func() *pod { return &pod{asked: asked{req: cpus("a", 2)}} }
	for name, c := range map[string]struct {
		other          *pod
		alike, indebts bool
	}{
		"the same request":  {&pod{asked: asked{req: cpus("b", 2)}}, true, true},
		"another request":   {&pod{asked: asked{req: cpus("b", 3)}}, false, false},
		"one is ending":     {&pod{asked: asked{req: cpus("b", 2)}, sight: sight{phase: Ending}}, false, false},
		"one has a promise": {&pod{asked: asked{req: cpus("b", 2)}, debt: debt{promise: exact}}, true, false},
		"promised no CPUs":  {&pod{asked: asked{req: cpus("b", 2)}, debt: debt{promise: new(Promise)}}, true, true},
		"another second":    {&pod{asked: asked{req: cpus("b", 2)}, created: 5}, true, true},
	} {
		p := base()
		got, back, indebts := interchangeable(p, c.other), interchangeable(c.other, p), interchangeableInDebt(p, c.other)
		if got != c.alike || back != c.alike || indebts != c.indebts {
			t.Errorf("%s: alike %t, with promises %t; want %t, %t", name, got, indebts, c.alike, c.indebts)
		}
		if sameness(interchangeable).except(p)(p, c.other) {
			t.Errorf("%s: alike, though one is told apart", name)
		}
	}
	if p := base(); !interchangeable(p, p) || !sameness(interchangeable).except(p)(p, p) {
		t.Error("a pod is not like itself")
	}
}

// TestAlikeInRandomHistories compares answers with those of a node without interchangeable pods.
func TestAlikeInRandomHistories(t *testing.T) {
	asked, fewer := 0, 0
	for seed := range uint64(*runs / 15) {
		h := newHistory(t, seed)
		h.few = true
		for range 100 {
			h.step()
			if len(h.n.outlook.facts.flight(true))+len(h.n.outlook.facts.pods.afloat()) < 2 {
				continue
			}
			var trial Trial
			for _, uid := range slices.Sorted(maps.Keys(h.n.outlook.facts.pods.byUID)) {
				if h.rng.IntN(3) == 0 {
					trial.Without = append(trial.Without, uid)
				}
			}
			for _, tr := range []*Trial{{}, &trial} {
				second := h.second
				c := &Candidate{Request: h.request(), Created: second}
				h.second = second
				got, want, same := sameAnswers(h.n, c, tr)
				if !same {
					h.fail("seed %d, %+v without %v: %+v, and with every pod on its own %+v", seed, c.Request, tr.Without, got, want)
				}
				asked++
			}
			o := apart(h.n)
			o.outlook.compute()
			if len(h.n.outlook.afterReserved().all) != len(o.outlook.afterReserved().all) {
				fewer++
			}
		}
	}
	t.Logf("%d questions, %d nodes with fewer states", asked, fewer)
	if fewer < 20 {
		t.Error("too few pods were alike for this test")
	}
}

// TestBatchOrdersAreCounted: the count is the number of the orders, or both are too many.
func TestBatchOrdersAreCounted(t *testing.T) {
	rng := rand.New(rand.NewPCG(27, 3))
	many := 0
	for range 3000 {
		batch := make([]*pod, rng.IntN(8))
		for i := range batch {
			batch[i] = &pod{uid: fmt.Sprint(i), asked: asked{req: cpus(fmt.Sprint(i), 1+rng.Int64N(3))}, created: rng.Int64N(2)}
			if rng.IntN(4) == 0 {
				batch[i].promise = &Promise{Exact: true}
			}
		}
		got, want := batchOrders(batch, interchangeableInDebt), len(arrangements(batch, interchangeableInDebt))
		if min(got, maxOrders+1) != min(want, maxOrders+1) {
			t.Fatalf("%d orders counted, %d there", got, want)
		}
		if got > maxOrders {
			many++
		}
	}
	if many < 100 {
		t.Errorf("%d batches of too many orders: the test shows little", many)
	}
}

// TestWhatReserveTookLooseIsPosted: pods without promised CPUs may change places with each other
// when they are bound, as when they were reserved.
func TestWhatReserveTookLooseIsPosted(t *testing.T) {
	n := open(t, newKubelet(t, model(t, twoSockets, pinning)))
	var d placement.Decision
	sizes := []int64{3, 2, 1, 1, 1}
	for i, count := range sizes {
		c := &Candidate{Request: cpus(fmt.Sprint("p", i), count), Created: 7, Loose: true}
		if a := n.Reserve(c, &d); !a.OK() {
			t.Fatalf("p%d: %+v", i, a)
		}
	}
	for i := range sizes {
		if p, _ := post(t, n, fmt.Sprint("p", i)); !p.Answer.OK() || p.Answer.Exact {
			t.Errorf("p%d: %+v, want it admitted, and promised no CPUs", i, p.Answer)
		}
	}
	check(t, n)
}

// TestALooseCandidateAmongItsLike: among interchangeable pods, only one order counts. So the answer
// is certain even if an estimate was requested.
func TestALooseCandidateAmongItsLike(t *testing.T) {
	n := open(t, newKubelet(t, model(t, twoSockets, pinning)))
	n.Reserve(&Candidate{Request: cpus("a", 2), Created: 7, Loose: true}, new(placement.Decision))
	post(t, n, "a")
	for count, like := range map[int64]bool{2: true, 8: false} {
		s := n.View().Sample(Question{Candidate: &Candidate{Request: cpus("x", count), Created: 7, Loose: true}, Estimate: true})
		if !s.Answer.OK() || s.Estimated == like || s.Answer.Certain != like {
			t.Errorf("%d CPUs beside a pod of 2: %+v, want it certain: %v", count, s, like)
		}
	}
}

// TestRoomInEveryOrder: if there is room for all pods in flight, trying their orders one by one
// gives the same answer, unless there are too many orders.
func TestRoomInEveryOrder(t *testing.T) {
	same, more := 0, 0
	machines := []string{"package:2 numa:1 core:8 pu:2 mem:64Gi dist:10,21", "package:1 numa:4 core:4 pu:2 mem:16Gi"}
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 27))
		cfg := placement.Config{CPUManagerPolicy: "static", ReservedSystemCPUs: "0",
			TopologyManagerPolicy: []string{"best-effort", "restricted", "single-numa-node"}[rng.IntN(3)]}
		n := open(t, newKubelet(t, model(t, machines[rng.IntN(2)], cfg)))
		var d placement.Decision
		for i := range 8 {
			c := &Candidate{Request: cpus(fmt.Sprint("p", i), 1+rng.Int64N(4)), Created: rng.Int64N(2), Loose: i > 0 || rng.IntN(4) > 0}
			if a := n.Reserve(c, &d); a.OK() && rng.IntN(2) == 0 {
				post(t, n, c.Request.UID)
			}
			check(t, n)
			c = &Candidate{Request: cpus("x", 1+rng.Int64N(5)), Created: rng.Int64N(3), Loose: true}
			if !n.outlook.hasRoom(n.outlook.line, c.Request) {
				continue
			}
			got, want := n.outlook.consultLast(c, n.outlook.line, nil), n.outlook.consultInAnyOrder(c, n.outlook.line, nil)
			switch {
			case want.Wait == ManyOrders:
				if more++; n.View().Flooded() != WaitsForNothing {
					t.Fatalf("seed %d: flooded, with room", seed)
				}
			case got.Outcome != want.Outcome || got.Verdict != want.Verdict || got.Exact && !want.Exact || got.Certain && !want.Certain:
				t.Fatalf("seed %d: %+v with room, and in every order %+v", seed, got, want)
			default:
				same++
			}
		}
	}
	t.Logf("%d answers, %d more where orders were too many", same, more)
	if same < 100 || more == 0 {
		t.Error("too few pods had room for this test")
	}
}
