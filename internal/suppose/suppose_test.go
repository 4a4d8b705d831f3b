package suppose

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// node makes a node of 7 CPUs for pods, and its pods, of 2 CPUs each; the first has a port.
func node(t *testing.T, uids ...string) (Node, []*Pod) {
	t.Helper()
	m, err := topology.Parse("package:1 numa:2 core:4 pu:1 mem:16Gi")
	if err != nil {
		t.Fatal(err)
	}
	view, err := placement.ViewOf(m)
	if err != nil {
		t.Fatal(err)
	}
	model, err := placement.NewModel(view, placement.Config{CPUManagerPolicy: "static", ReservedSystemCPUs: "0", TopologyManagerPolicy: "single-numa-node", GuardDefects: true})
	if err != nil {
		t.Fatal(err)
	}
	state, room := model.NewState(), amounts.NewNode(amounts.List{amounts.CPU: 7000, amounts.Pods: 5})
	var pods []*Pod
	for i, uid := range uids {
		p := asking(uid, 2)
		p.UID = uid
		if i == 0 {
			p.Ports = []amounts.Port{{IP: amounts.AnyIP, Protocol: "TCP", Number: 80}}
		}
		var d placement.Decision
		if v := placement.Decide(state, p.Request, &d); !v.OK() {
			t.Fatalf("%s: %v", uid, v)
		}
		state.Commit(p.Request, &d)
		room.Add(p.Asks, p.Ports...)
		again := *p.Request
		again.UID += "/again"
		p.Request = &again
		pods = append(pods, p)
	}
	snap := state.Snapshot()
	report, err := ledger.NewReport(1, model, &snap, nil)
	if err != nil {
		t.Fatal(err)
	}
	account := new(ledger.Ledger).Open(nil)
	account.Accept(report)
	return On(account, room), pods
}

func asking(uid string, cpus int64) *Pod {
	return &Pod{Created: 100, Asks: amounts.List{amounts.CPU: cpus * 1000}, Request: &placement.Request{UID: uid, Guaranteed: true,
		Containers: []placement.ContainerRequest{{Name: "c", MilliCPU: cpus * 1000, Memory: []placement.MemoryRequest{{Resource: "memory", Bytes: 1 << 20}}}}}}
}

func takes(n *Node, p *Pod) bool {
	a := n.Ask(p)
	return n.Enough(p) && a.OK()
}

func TestNode(t *testing.T) {
	n, pods := node(t, "a", "b") // each on a NUMA node of its own, or both on one
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

// TestPutAndTakeUndoEachOther: a Node answers as one on which only what is left of the steps was
// supposed.
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
