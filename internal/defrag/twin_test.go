package defrag

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/suppose"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/test/sim"
)

// harbour is a small cluster of kubelets, with the problem that is built from it.
type harbour struct {
	problem  Problem
	kubelets []*sim.Kubelet
}

func model(t testing.TB, machine, policy string) *placement.Model {
	t.Helper()
	return made.Model(t, machine, placement.Config{CPUManagerPolicy: "static", ReservedSystemCPUs: "0", TopologyManagerPolicy: policy, GuardDefects: true})
}

func candidate(r *placement.Request, created int64) *ledger.Candidate {
	return &ledger.Candidate{Request: r, Created: created}
}

func request(uid string, cpus int64) *placement.Request {
	return &placement.Request{UID: uid, Guaranteed: true, Containers: []placement.ContainerRequest{{Name: "c", MilliCPU: cpus * 1000,
		Memory: []placement.MemoryRequest{{Resource: "memory", Bytes: 1 << 20}}}}}
}

// port is a port that each node has only once.
var port = []amounts.Port{{IP: amounts.AnyIP, Protocol: "TCP", Number: 8080}}

// build fills nodes at random. Some pods use the port of their node. Every third pod must not move,
// and budgets allow one or two evictions.
func build(t testing.TB, random *rand.Rand, models []*placement.Model, nodes int) *harbour {
	t.Helper()
	h := &harbour{}
	var all ledger.Ledger
	h.problem.Budgets = []int{0, 1, 2}
	for n := range nodes {
		m := models[random.IntN(len(models))]
		k := sim.NewKubelet(m)
		var here []Pod
		ports := map[string][]amounts.Port{} // the pods that use the node's port
		for i := range 3 + random.IntN(3) {
			cpus := 1 + int64(random.IntN(5))
			uid := fmt.Sprintf("pod-%d-%d", n, i)
			if got := k.Admit(request(uid, cpus)); !got.Verdict.OK() {
				continue
			}
			if random.IntN(3) == 0 {
				continue
			}
			p := Pod{Node: n, Pod: suppose.Pod{UID: uid, Candidate: candidate(request(uid+"/again", cpus), 100), Asks: amounts.List{amounts.CPU: cpus * 1000}}}
			if b := random.IntN(6); b < 3 {
				p.Budgets = []int{b}
			}
			if len(ports) == 0 && random.IntN(6) == 0 {
				p.Ports = port
				ports[uid] = port
			}
			here = append(here, p)
		}
		h.problem.Pods = append(h.problem.Pods, here...)
		h.kubelets = append(h.kubelets, k)
		account := all.Open(nil)
		snap := k.State.Snapshot()
		r, err := ledger.NewReport(1, m, &snap, nil)
		if err != nil {
			t.Fatal(err)
		}
		account.Accept(r)
		room := amounts.NewNode(amounts.List{amounts.CPU: 15_000, amounts.Pods: 6})
		for _, p := range snap.Pods {
			cpus := 0
			for i := range p.Containers {
				cpus += p.Containers[i].CPUs.Len()
			}
			room.Add(amounts.List{amounts.CPU: int64(cpus) * 1000}, ports[p.UID]...)
		}
		h.problem.Nodes = append(h.problem.Nodes, suppose.On(account, room))
	}
	h.problem.May = func(p *Pod, node int) bool { return node != 0 || p.UID == "" || len(p.UID)%2 == 0 }
	return h
}

func (h *harbour) want(cpus ...int64) {
	for i, n := range cpus {
		h.problem.Wanted = append(h.problem.Wanted, Pod{Pod: suppose.Pod{Candidate: candidate(request(fmt.Sprint("wanted-", i), n), 101), Asks: amounts.List{amounts.CPU: n * 1000}}})
	}
}

// play is the twin's state of the cluster: kubelets and amounts.
type play struct {
	h        *harbour
	kubelets []*sim.Kubelet
	rooms    []*amounts.Node
	budgets  []int
	moved    []bool
}

func (h *harbour) play() *play {
	p := &play{h: h, budgets: slices.Clone(h.problem.Budgets), moved: make([]bool, len(h.problem.Pods))}
	for i := range h.kubelets {
		p.kubelets = append(p.kubelets, h.kubelets[i].Clone())
		p.rooms = append(p.rooms, h.problem.Nodes[i].Room().Clone())
	}
	return p
}

func (p *play) clone() *play {
	out := &play{h: p.h, budgets: slices.Clone(p.budgets), moved: slices.Clone(p.moved), kubelets: slices.Clone(p.kubelets), rooms: slices.Clone(p.rooms)}
	return out
}

// admit makes a node admit a pod, and returns false if it refuses.
func (p *play) admit(pod *Pod, node int) bool {
	if !p.h.problem.May(pod, node) || p.rooms[node].Short(pod.Asks) != nil || p.rooms[node].Taken(pod.Ports) != "" {
		return false
	}
	k := p.kubelets[node].Clone()
	if !k.Admit(pod.Candidate.Request).Verdict.OK() {
		return false
	}
	room := p.rooms[node].Clone()
	room.Add(pod.Asks, pod.Ports...)
	p.kubelets[node], p.rooms[node] = k, room
	return true
}

// move carries out one move. The new place is taken before the pod leaves.
func (p *play) move(m Move) error {
	pod := &p.h.problem.Pods[m.Pod]
	switch {
	case p.moved[m.Pod]:
		return fmt.Errorf("%s moves twice", pod.UID)
	case m.To == pod.Node:
		return fmt.Errorf("%s moves within its node", pod.UID)
	}
	for _, b := range pod.Budgets {
		if p.budgets[b]--; p.budgets[b] < 0 {
			return fmt.Errorf("%s: budget %d is used up", pod.UID, b)
		}
	}
	if !p.admit(pod, m.To) {
		return fmt.Errorf("%s has no place on node %d", pod.UID, m.To)
	}
	p.moved[m.Pod] = true
	k, room := p.kubelets[pod.Node].Clone(), p.rooms[pod.Node].Clone()
	k.Remove(pod.UID)
	room.Remove(pod.Asks, pod.Ports...)
	p.kubelets[pod.Node], p.rooms[pod.Node] = k, room
	return nil
}

// fewest searches all moves, and returns the smallest number of moves after which some node admits
// the wanted pod, at most most; -1 if there are none.
func (p *play) fewest(most int) int {
	for moves := range most + 1 {
		if p.reaches(moves) {
			return moves
		}
	}
	return -1
}

func (p *play) reaches(moves int) bool {
	if moves == 0 {
		for n := range p.kubelets {
			if p.clone().admit(&p.h.problem.Wanted[0], n) {
				return true
			}
		}
		return false
	}
	for i := range p.h.problem.Pods {
		for n := range p.kubelets {
			next := p.clone()
			if next.move(Move{i, n}) == nil && next.reaches(moves-1) {
				return true
			}
		}
	}
	return false
}

const (
	small = "package:2 numa:1 core:4 pu:2 mem:16Gi" // 8 CPUs per NUMA node, one of the first reserved
	split = "package:1 numa:2 core:4 pu:2 mem:16Gi"
)

// TestFindAgainstTwin compares plans with an exhaustive search on small clusters. Kubelets can
// carry out every plan move by move, 95 of 100 plans have at most one move more than necessary, and
// a plan is found whenever the twin finds one.
func TestFindAgainstTwin(t *testing.T) {
	models := []*placement.Model{model(t, small, "single-numa-node"), model(t, split, "restricted"), model(t, small, "best-effort")}
	const most = 3
	cases, moving, more, missed := 0, 0, 0, 0
	for seed := uint64(0); cases < 1500; seed++ {
		random := rand.New(rand.NewPCG(seed, 18))
		h := build(t, random, models, 2+random.IntN(2))
		h.want(4 + int64(random.IntN(5)))
		if random.IntN(3) == 0 {
			h.problem.Wanted[0].Ports = port
		}
		h.problem.MostMoves = most + 1
		want := h.play().fewest(most)
		if want == 0 && random.IntN(5) > 0 {
			continue
		}
		cases++
		got := Find(t.Context(), &h.problem)
		if got.Outcome == Found {
			end := h.play()
			for _, m := range got.Moves {
				if err := end.move(m); err != nil {
					t.Fatalf("seed %d: plan %v: %v", seed, got.Moves, err)
				}
			}
			if !end.admit(&h.problem.Wanted[0], got.Nodes[0]) {
				t.Fatalf("seed %d: plan %v: node %d does not admit the wanted pod", seed, got.Moves, got.Nodes[0])
			}
		}
		switch {
		case want > 0 && got.Outcome != Found:
			missed++
		case want >= 0 && len(got.Moves) > want+1:
			more++
		case want > 0:
			moving++
		}
		if want >= 0 && got.Outcome == Found && len(got.Moves) < want {
			t.Errorf("seed %d: %d moves, and the twin finds none with fewer than %d", seed, len(got.Moves), want)
		}
	}
	t.Logf("%d cases, %d with moves, %d with more than one move too many, %d missed", cases, moving, more, missed)
	if moving < 120 || (more+missed)*20 > moving {
		t.Errorf("%d cases with moves, %d with more than one move too many, %d missed", moving, more, missed)
	}
}

// TestFindForSeveral: kubelets can carry out the plan for several wanted pods, and admit all of
// them after the last move.
func TestFindForSeveral(t *testing.T) {
	models := []*placement.Model{model(t, small, "single-numa-node"), model(t, split, "restricted")}
	whole := 0
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 19))
		h := build(t, random, models, 3+random.IntN(3))
		h.want(4, 3, 5)
		got := Find(t.Context(), &h.problem)
		end := h.play()
		for _, m := range got.Moves {
			if err := end.move(m); err != nil && got.Outcome == Found {
				t.Fatalf("seed %d: plan %+v: %v", seed, got, err)
			}
		}
		if got.Outcome != Found {
			continue
		}
		if len(got.Nodes) != 3 {
			t.Fatalf("seed %d: %d of 3 pods have a node", seed, len(got.Nodes))
		}
		for i, m := range got.Moves {
			leaves := func(l Move) bool { return h.problem.Pods[l.Pod].Node == m.To }
			if slices.Contains(got.Nodes, m.To) || slices.ContainsFunc(got.Moves[i+1:], leaves) {
				t.Fatalf("seed %d: plan %+v: a pod comes to node %d, where it may take a place that is needed", seed, got, m.To)
			}
		}
		for i, node := range got.Nodes {
			if !end.admit(&h.problem.Wanted[i], node) {
				t.Fatalf("seed %d: plan %+v: node %d does not admit wanted pod %d", seed, got, node, i)
			}
		}
		if len(got.Moves) > 0 {
			whole++
		}
	}
	if whole < 20 {
		t.Errorf("%d plans with moves: the test asks too little", whole)
	}
}

// TestFindOutcomes: no pod moves if there is room, if budgets forbid it, or if no pod may move. A
// search that is cut short is reported as such.
func TestFindOutcomes(t *testing.T) {
	m := model(t, small, "single-numa-node")
	crowd := func(change func(*Problem)) Plan {
		random := rand.New(rand.NewPCG(1, 1))
		h := build(t, random, []*placement.Model{m}, 6)
		h.want(8)
		h.problem.May = func(*Pod, int) bool { return true }
		change(&h.problem)
		return Find(t.Context(), &h.problem)
	}
	for _, c := range []struct {
		what    string
		change  func(*Problem)
		outcome Ending
		moves   bool
	}{
		{"as it is", func(*Problem) {}, Found, true},
		{"one CPU", func(p *Problem) { p.Wanted[0].Candidate, p.Wanted[0].Asks = candidate(request("w", 1), 101), nil }, Found, false},
		{"more than a NUMA node has", func(p *Problem) { p.Wanted[0].Candidate = candidate(request("w", 9), 101) }, NoRoom, false},
		{"no budget", func(p *Problem) {
			p.Budgets = []int{0}
			for i := range p.Pods {
				p.Pods[i].Budgets = []int{0}
			}
		}, NoRoom, false},
		{"nowhere to go", func(p *Problem) { p.May = func(q *Pod, _ int) bool { return q.UID == "" } }, NoRoom, false},
		{"a port that a pod to move has", func(p *Problem) {
			p.Wanted[0].Candidate, p.Wanted[0].Asks, p.Wanted[0].Ports = nil, nil, port
			for i := range p.Nodes {
				p.Nodes[i] = suppose.On(nil, amounts.Unknown())
			}
			for i := range p.Pods {
				p.Pods[i].Candidate, p.Pods[i].Asks, p.Pods[i].Ports = nil, nil, nil
			}
			p.Pods[0].Ports = port
			room := amounts.Unknown()
			room.Add(nil, port...)
			p.Nodes[p.Pods[0].Node] = suppose.On(nil, room)
			p.May = func(q *Pod, node int) bool { return (q.UID == "") == (node == p.Pods[0].Node) }
		}, Found, true},
		{"no effort", func(p *Problem) { p.Effort = 3 }, GaveUp, false},
		{"nothing known", func(p *Problem) {
			for i := range p.Nodes {
				p.Nodes[i] = suppose.On(nil, p.Nodes[i].Room())
			}
		}, NoRoom, false},
	} {
		got := crowd(c.change)
		if got.Outcome != c.outcome || (len(got.Moves) > 0) != c.moves {
			t.Errorf("%s: %s with moves %v, want %s", c.what, got.Outcome, got.Moves, c.outcome)
		}
	}
}

// crowded has two full nodes with 60 pods of one CPU each, and a wanted pod of 5 CPUs. Amounts
// alone are too small, so that no ledger is asked.
func crowded() *Problem {
	p := &Problem{May: func(*Pod, int) bool { return true }}
	for n := range 2 {
		room := amounts.NewNode(amounts.List{amounts.CPU: 60_000, amounts.Pods: 100})
		for i := range 60 {
			asks := amounts.List{amounts.CPU: 1000}
			room.Add(asks)
			p.Pods = append(p.Pods, Pod{Node: n, Pod: suppose.Pod{UID: fmt.Sprintf("pod-%d-%d", n, i), Asks: asks}})
		}
		p.Nodes = append(p.Nodes, suppose.On(nil, room))
	}
	p.Wanted = []Pod{{Pod: suppose.Pod{Asks: amounts.List{amounts.CPU: 5000}}}}
	return p
}

// TestFindEnds even if no ledger is asked, because amounts alone are too small, and if the request
// is canceled.
func TestFindEnds(t *testing.T) {
	few := crowded()
	few.Effort = 500
	if got := Find(t.Context(), few); got.Outcome != GaveUp {
		t.Errorf("%s after %d questions to ledgers, want that it gave up", got.Outcome, got.Asked)
	}
	ctx, cancel := context.WithCancel(t.Context())
	looks, may := 0, crowded()
	may.Effort = 1 << 40
	may.May = func(*Pod, int) bool {
		if looks++; looks == 10 {
			cancel()
		}
		return true
	}
	if got := Find(ctx, may); got.Outcome != GaveUp {
		t.Errorf("%s though the context ended, want that it gave up", got.Outcome)
	}
}
