package placement_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

// TestRefitExamples has example decisions about a resize. Pod y is placed first, then pod x.
func TestRefitExamples(t *testing.T) {
	single := placement.Rules{Policy: placement.PolicySingleNUMANode}
	restricted := placement.Rules{Policy: placement.PolicyRestricted}
	full := placement.Rules{Policy: placement.PolicySingleNUMANode, CPUs: joint.Rules{Bind: joint.FullCores, BindHow: joint.Required}}
	smt := machine{1, 2, 4, 2, 16 << 30, 0}
	for _, c := range []struct {
		name    string
		machine machine
		y, x    placement.Request
		asks    []placement.ContainerRequest
		want    string
	}{
		{"the same", two8, placement.Request{}, guaranteed("x", single, app("a", 2000, 4)), []placement.ContainerRequest{app("a", 2000, 4)}, "a:1-2@0"},
		{"more CPUs", two8, placement.Request{}, guaranteed("x", single, app("a", 2000, 4)), []placement.ContainerRequest{app("a", 4000, 4)}, "a:1-4@0"},
		{"around another pod", two8, guaranteed("y", single, app("b", 2000, 1)), guaranteed("x", single, app("a", 2000, 4)), []placement.ContainerRequest{app("a", 5000, 4)}, "a:3-7@0"},
		{"as many as its NUMA node has", two8, placement.Request{}, guaranteed("x", single, app("a", 2000, 4)), []placement.ContainerRequest{app("a", 7000, 4)}, "a:1-7@0"},
		{"more than that", two8, placement.Request{}, guaranteed("x", single, app("a", 2000, 4)), []placement.ContainerRequest{app("a", 8000, 4)}, "NoCPUs"},
		{"fewer", two8, placement.Request{}, guaranteed("x", single, app("a", 5000, 4)), []placement.ContainerRequest{app("a", 2000, 4)}, "a:1-2@0"},
		{"more memory", two8, placement.Request{}, guaranteed("x", single, app("a", 2000, 4)), []placement.ContainerRequest{app("a", 2000, 15)}, "a:1-2@0"},
		{"more memory than its NUMA node has", two8, placement.Request{}, guaranteed("x", single, app("a", 2000, 4)), []placement.ContainerRequest{app("a", 2000, 17)}, "NoRoom"},
		{"more memory than another pod leaves", two8, guaranteed("y", single, app("b", 2000, 8)), guaranteed("x", single, app("a", 2000, 4)), []placement.ContainerRequest{app("a", 2000, 9)}, "NoRoom"},
		{"less memory", two8, placement.Request{}, guaranteed("x", single, app("a", 2000, 4)), []placement.ContainerRequest{app("a", 3000, 1)}, "a:1-3@0"},
		{"whole cores", smt, placement.Request{}, guaranteed("x", full, app("a", 2000, 4)), []placement.ContainerRequest{app("a", 4000, 4)}, "a:1-2,9-10@0"},
		{"half a core", smt, placement.Request{}, guaranteed("x", full, app("a", 2000, 4)), []placement.ContainerRequest{app("a", 3000, 4)}, "NoCPUs"},
		{"two NUMA nodes", two8, placement.Request{}, guaranteed("x", restricted, app("a", 10000, 4)), []placement.ContainerRequest{app("a", 12000, 4)}, "a:1-4,8-15@0-1"},
		{"on two, though one would do", two8, placement.Request{}, guaranteed("x", restricted, app("a", 15000, 4)), []placement.ContainerRequest{app("a", 9000, 4)}, "a:1,8-15@0-1"},
		{"exactly two NUMA nodes", two8, placement.Request{}, guaranteed("x", placement.Rules{NUMANodes: 2}, app("a", 8000, 4)), []placement.ContainerRequest{app("a", 2000, 4)}, "a:1,8@0-1"},
		{"exactly two NUMA nodes, growing", two8, placement.Request{}, guaranteed("x", placement.Rules{NUMANodes: 2}, app("a", 4000, 4)), []placement.ContainerRequest{app("a", 6000, 4)}, "a:1-4,8-9@0-1"},
		{"one CPU on two NUMA nodes", two8, placement.Request{}, guaranteed("x", placement.Rules{NUMANodes: 2}, app("a", 4000, 4)), []placement.ContainerRequest{app("a", 1000, 4)}, "NoCPUs"},
		{"two containers", two8, placement.Request{}, guaranteed("x", single, app("a", 2000, 4), app("b", 2000, 4)), []placement.ContainerRequest{app("a", 3000, 4), app("b", 3000, 4)}, "a:1-2,5@0 b:3-4,6@0"},
		{"one grows by what is free, not by what the other leaves", two8, placement.Request{}, guaranteed("x", single, app("a", 3000, 4), app("b", 4000, 4)), []placement.ContainerRequest{app("a", 2000, 4), app("b", 5000, 4)}, "NoCPUs"},
		{"a sidecar", two8, placement.Request{}, guaranteed("x", single, ofKind(placement.Sidecar, app("s", 1000, 1)), app("a", 2000, 4)),
			[]placement.ContainerRequest{ofKind(placement.Sidecar, app("s", 3000, 2)), app("a", 2000, 4)}, "s:1,4-5@0 a:2-3@0"},
		{"beside an init container", two8, placement.Request{}, guaranteed("x", single, ofKind(placement.Init, app("i", 4000, 1)), app("a", 2000, 4)),
			[]placement.ContainerRequest{ofKind(placement.Init, app("i", 4000, 1)), app("a", 4000, 4)}, "i:1-4@0 a:1-2,5-6@0"},
		{"beside an init container, to fewer CPUs", two8, placement.Request{}, guaranteed("x", single, ofKind(placement.Init, app("i", 4000, 1)), app("a", 3000, 4)),
			[]placement.ContainerRequest{ofKind(placement.Init, app("i", 4000, 1)), app("a", 1000, 4)}, "i:1-4@0 a:1@0"},
		{"half a CPU", two8, placement.Request{}, guaranteed("x", single, app("a", 2000, 4)), []placement.ContainerRequest{app("a", 2500, 4)}, "OddCPUs"},
		{"CPU time", two8, placement.Request{}, guaranteed("x", single, app("a", 500, 4)), []placement.ContainerRequest{app("a", 1000, 4)}, "OddCPUs"},
		{"memory beside CPU time", two8, placement.Request{}, guaranteed("x", single, app("a", 500, 4)), []placement.ContainerRequest{app("a", 500, 5)}, "a:0=500@0"},
		{"nothing", two8, placement.Request{}, guaranteed("x", single, app("a", 2000, 4)), []placement.ContainerRequest{app("a", 0, 4)}, "OddCPUs"},
		{"a pod that is not there", two8, placement.Request{}, placement.Request{}, []placement.ContainerRequest{app("a", 2000, 4)}, "NoRoom"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := state(t, c.machine.view(), obeying())
			for _, r := range []*placement.Request{&c.y, &c.x} {
				if r.UID == "" {
					continue
				}
				var d placement.Decision
				if v := placement.Decide(s, r, &d); !v.OK() {
					t.Fatalf("%s: %v", r.UID, v.Detail)
				}
				s.Commit(r, &d)
			}
			before := s.Snapshot()
			to := guaranteed("x", c.x.Rules, c.asks...)
			var d placement.Decision
			v := placement.Refit(s, &to, &d)
			got := v.Detail.String()
			if v.OK() {
				got = tell(&d)
			}
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if after := s.Snapshot(); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Error("the state has changed")
			}
		})
	}
}

// TestRefitKeepsItsWord resizes random pods, and checks that no decision breaks a rule.
func TestRefitKeepsItsWord(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 62))
	grown, shrunk, refused := 0, 0, 0
	for range 400 {
		view := machine{1, 1 + rng.IntN(3), 4, 1 + rng.IntN(2), 16 << 30, 0}.view()
		s := state(t, view, obeying())
		requests := map[string]placement.Request{}
		for i := range 4 {
			rules := placement.Rules{Policy: placement.Policy(1 + rng.IntN(4)), Scope: placement.Scope(1 + rng.IntN(2))}
			if rng.IntN(3) == 0 {
				rules.CPUs = joint.Rules{Bind: joint.FullCores, BindHow: joint.Strength(1 + rng.IntN(2))}
			}
			r := guaranteed(fmt.Sprint("p", i), rules, app("a", int64(1+rng.IntN(4))*1000, uint64(1+rng.IntN(4))), app("b", int64(1+rng.IntN(2))*1000, 1))
			var d placement.Decision
			if v := placement.Decide(s, &r, &d); v.OK() {
				s.Commit(&r, &d)
				requests[r.UID] = r
			}
		}
		for _, uid := range slices.Sorted(maps.Keys(requests)) {
			r := requests[uid]
			before, _ := s.Pod(uid)
			r.Containers = []placement.ContainerRequest{app("a", int64(rng.IntN(7))*1000, uint64(rng.IntN(8))), app("b", int64(1+rng.IntN(3))*1000, 1)}
			var d placement.Decision
			if v := placement.Refit(s, &r, &d); !v.OK() {
				refused++
				continue
			}
			free := s.FreeCPUs()
			for i := range d.Containers {
				had, has, asks := &before.Containers[i], &d.Containers[i], &r.Containers[i]
				var bytes uint64
				for _, b := range has.Memory {
					bytes += b.Bytes
				}
				extra := has.CPUs.AndNot(&had.CPUs)
				switch nodes := nodesOf(view, &had.CPUs); {
				case int64(has.CPUs.Len())*1000 != asks.MilliCPU || bytes != asks.Bytes("memory"):
					t.Fatalf("%s asks for %+v and gets %+v", uid, asks, has)
				case !extra.IsSubsetOf(&free):
					t.Fatalf("%s gets CPUs %s that are not free: %s", uid, extra, free)
				case !had.CPUs.IsSubsetOf(&has.CPUs) && !has.CPUs.IsSubsetOf(&had.CPUs):
					t.Fatalf("%s moves from %s to %s", uid, had.CPUs, has.CPUs)
				case nodesOf(view, &has.CPUs)&^nodes != 0:
					t.Fatalf("%s goes from NUMA nodes %s to CPUs %s", uid, nodes, has.CPUs)
				case has.CPUs.Len() > had.CPUs.Len():
					grown++
				case has.CPUs.Len() < had.CPUs.Len():
					shrunk++
				}
			}
			s.Release(uid)
			s.Commit(&r, &d)
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if grown < 50 || shrunk < 50 || refused < 50 {
		t.Errorf("grown %d, shrunk %d, refused %d: the test sees too little", grown, shrunk, refused)
	}
}

// nodesOf returns the NUMA nodes of the CPUs.
func nodesOf(view *placement.KubeletView, cpus *topology.CPUSet) (nodes topology.NUMASet) {
	for _, n := range view.Nodes {
		for _, core := range n.Cores {
			for _, id := range core.Threads {
				if cpus.Has(id) {
					nodes = nodes.With(n.ID)
				}
			}
		}
	}
	return nodes
}
