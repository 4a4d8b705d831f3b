package suppose

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
)

// node returns a node with 7 CPUs for pods, and its pods of 2 CPUs each. The first pod has a port.
func node(t *testing.T, uids ...string) (Node, []*Pod) {
	t.Helper()
	model := made.Model(t, "package:1 numa:2 core:4 pu:1 mem:16Gi", placement.Config{CPUManagerPolicy: "static", ReservedSystemCPUs: "0", TopologyManagerPolicy: "single-numa-node", GuardDefects: true})
	state, room := model.NewState(), amounts.NewNode(amounts.List{amounts.CPU: 7000, amounts.Pods: 5})
	var pods []*Pod
	for i, uid := range uids {
		p := asking(uid, 2)
		p.UID = uid
		if i == 0 {
			p.Ports = []amounts.Port{{IP: amounts.AnyIP, Protocol: "TCP", Number: 80}}
		}
		var d placement.Decision
		if v := placement.Decide(state, p.Candidate.Request, &d); !v.OK() {
			t.Fatalf("%s: %v", uid, v)
		}
		state.Commit(p.Candidate.Request, &d)
		room.Add(p.Asks, p.Ports...)
		again := *p.Candidate.Request
		again.UID += "/again"
		p.Candidate.Request = &again
		pods = append(pods, p)
	}
	account := made.Account(t, model, state)
	return On(account, room), pods
}

func asking(uid string, cpus int64) *Pod {
	return &Pod{Asks: amounts.List{amounts.CPU: cpus * 1000}, Candidate: &ledger.Candidate{Created: 100, Request: &placement.Request{UID: uid, Guaranteed: true,
		Containers: []placement.ContainerRequest{{Name: "c", MilliCPU: cpus * 1000, Memory: []placement.MemoryRequest{{Resource: "memory", Bytes: 1 << 20}}}}}}}
}

func takes(n *Node, p *Pod) bool {
	a := n.Ask(p)
	return n.Enough(p) && a.OK()
}

func TestNode(t *testing.T) {
	n, pods := node(t, "a", "b") // each on its own NUMA node, or both on one
	large := asking("large", 4)
	if takes(&n, large) {
		t.Fatal("4 CPUs of one NUMA node are free: the test needs a fuller node")
	}
	for _, p := range pods {
		n.Take(p)
	}
	if !takes(&n, large) || !n.Changed() || n.Came() {
		t.Errorf("an empty node: %v", n.Ask(large))
	}
	n.Put(large)
	if takes(&n, asking("larger", 4)) || !n.Came() {
		t.Error("a node with 4 of 7 CPUs taken takes 4 more")
	}
	n.Take(large)
	for _, p := range pods {
		n.Put(p)
	}
	if takes(&n, large) || n.Changed() {
		t.Error("all is as it was, and the answer is not")
	}
	if n.Enough(&Pod{Ports: pods[0].Ports}) || !n.Enough(&Pod{Asks: amounts.List{amounts.CPU: 3000}}) {
		t.Error("a port is taken, and 3 CPUs are free")
	}
	none := On(nil, amounts.Unknown())
	if a := none.Ask(large); a.OK() || !none.Enough(large) {
		t.Error("nothing can be promised, and nobody says what there is")
	}
}

// TestPutAndTakeUndoEachOther: after several steps, a Node gives the same answers as a new one with
// only the remaining changes.
func TestPutAndTakeUndoEachOther(t *testing.T) {
	base, pods := node(t, "a", "b", "c")
	free := base.Room().Free(amounts.CPU)
	all := append(pods, asking("x", 1), asking("y", 2), &Pod{Asks: amounts.List{amounts.CPU: 500}, Ports: pods[0].Ports})
	for seed := range uint64(200) {
		random, n := rand.New(rand.NewPCG(seed, 1)), base
		var there []*Pod
		there = append(there, pods...)
		for range 12 {
			p := all[random.IntN(len(all))]
			if i := slices.Index(there, p); i >= 0 {
				n.Take(p)
				there = slices.Delete(there, i, i+1)
			} else {
				n.Put(p)
				there = append(there, p)
			}
		}
		fresh := base
		for _, p := range pods {
			if !slices.Contains(there, p) {
				fresh.Take(p)
			}
		}
		for _, p := range there {
			if !slices.Contains(pods, p) {
				fresh.Put(p)
			}
		}
		for cpus := int64(1); cpus <= 4; cpus++ {
			q := asking("q", cpus)
			q.Ports = pods[0].Ports
			got, want := n.Ask(q), fresh.Ask(q)
			if got.Outcome != want.Outcome || n.Enough(q) != fresh.Enough(q) || n.Room().Free(amounts.CPU) != fresh.Room().Free(amounts.CPU) {
				t.Fatalf("seed %d, %d CPUs: %v and %v", seed, cpus, got.Outcome, want.Outcome)
			}
		}
	}
	if base.Changed() || base.Room().Free(amounts.CPU) != free {
		t.Error("the node itself changed")
	}
}

// TestPromise: a promise equals the ledger's own decision, and a withdrawn promise has no effect.
func TestPromise(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 2))
		n, pods := node(t, "a")
		twin, _ := node(t, "a")
		free := n.Room().Free(amounts.CPU)
		var there []*Pod
		for i := range 8 {
			if len(there) > 0 && random.IntN(3) == 0 {
				last := len(there) - 1
				n.Withdraw(there[last])
				twin.account.Forget(there[last].Candidate.Request.UID)
				free += there[last].Asks[amounts.CPU]
				there = there[:last]
				continue
			}
			p := asking(string(rune('p'+i)), 1+random.Int64N(4))
			before := n.Clone()
			var got, want placement.Decision
			a, b := n.Promise(p, &got), twin.account.Reserve(p.Candidate, &want)
			if a.Outcome != b.Outcome || a.OK() && (a.Verdict.NUMA != b.Verdict.NUMA || a.Exact != b.Exact) {
				t.Fatalf("seed %d: promised %v, the ledger says %v", seed, a, b)
			}
			if a.OK() {
				there, free = append(there, p), free-p.Asks[amounts.CPU]
			}
			if before.Promised() != n.Promised() && before.Room().Free(amounts.CPU) == n.Room().Free(amounts.CPU) {
				t.Fatalf("seed %d: what is promised to one is promised to its copy", seed)
			}
		}
		if n.Promised() != len(there) || n.Room().Free(amounts.CPU) != free {
			t.Fatalf("seed %d: %d promises and %d free, want %d and %d", seed, n.Promised(), n.Room().Free(amounts.CPU), len(there), free)
		}
		if n.Enough(&Pod{Ports: pods[0].Ports}) {
			t.Fatal("the port is taken")
		}
	}
}

// TestCleared: the places of pods that were taken away are promised to others.
func TestCleared(t *testing.T) {
	n, pods := node(t, "a", "b")
	large := asking("large", 4)
	var d placement.Decision
	if a := n.Promise(large, &d); a.OK() {
		t.Fatal("4 CPUs of one NUMA node are free: the test needs a fuller node")
	}
	for _, p := range pods {
		n.Take(p)
	}
	cleared, ok := n.Cleared()
	if !ok {
		t.Fatal("nothing is open, and nobody can tell what would be free")
	}
	if a := cleared.Promise(large, &d); !a.OK() || cleared.Room().Free(amounts.CPU) != 3000 || n.Room().Free(amounts.CPU) != 7000 {
		t.Errorf("%v, %d free", a, cleared.Room().Free(amounts.CPU))
	}
	n.Put(pods[0])
	n.Put(pods[1])
	if again, ok := n.Cleared(); !ok {
		t.Error("nothing is open, and nobody can tell what is free")
	} else if a := again.Promise(large, &d); a.OK() {
		t.Error("all are back, and their places are promised")
	}
}

// TestClearedStaysAsItWas: later changes of a node have an effect on what Cleared returns then, but
// not on what it returned before.
func TestClearedStaysAsItWas(t *testing.T) {
	n, pods := node(t, "a", "b")
	n.Take(pods[0])
	cleared, _ := n.Cleared()
	had := cleared.Room().Free(amounts.CPU)
	n.Put(pods[0])
	if free := cleared.Room().Free(amounts.CPU); free != had {
		t.Errorf("%d free on the cleared node since a pod is back, want %d", free, had)
	}
	n.Take(pods[0])
	n.Take(pods[1])
	both, small := asking("both", 4), asking("small", 2)
	var d placement.Decision
	if before, _ := n.Cleared(); !promises(&before, both) {
		t.Fatal("4 CPUs are not free on the empty node")
	}
	n.Promise(small, &d)
	if after, _ := n.Cleared(); promises(&after, both) {
		t.Error("4 CPUs are free beside the pod that was promised a place")
	}
	n.Withdraw(small)
	if after, _ := n.Cleared(); !promises(&after, both) {
		t.Error("the pod is not coming, and its place is kept")
	}
}

func promises(n *Node, p *Pod) bool {
	var d placement.Decision
	a := n.Promise(p, &d)
	return a.OK()
}

// TestLoose: pods without promised CPUs leave room for a pod that may be admitted before them.
func TestLoose(t *testing.T) {
	n, _ := node(t)
	first := asking("first", 2)
	var d placement.Decision
	if a := n.Promise(first, &d); !a.OK() || !a.Exact {
		t.Fatalf("the first: %v", a)
	}
	second := asking("second", 3) // it may be admitted first, and get the CPUs promised to the first
	a := n.Promise(second, &d)
	loose := n.Clone()
	loose.Loosen()
	b := loose.Promise(second, &d)
	if a.OK() || a.Wait != ledger.PromiseAtRisk || !b.OK() || n.Loose() {
		t.Errorf("%v, and %v where nobody is promised CPUs", a, b)
	}
	none := On(nil, nil)
	if a := none.Promise(second, &d); !a.OK() || none.Promised() != 0 || !none.Enough(second) {
		t.Errorf("where nobody decides: %v", a)
	}
}
