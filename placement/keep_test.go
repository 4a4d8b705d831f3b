package placement_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// keptGPU is the resource that CPUs are kept for in these tests.
const keptGPU = "example.com/gpu"

// keeping is a node of two NUMA nodes with 8 CPUs each, one of them reserved on node 0, and GPUs by
// NUMA node.
func keeping(t *testing.T, c placement.Config, gpus ...int) *placement.State {
	t.Helper()
	s := state(t, two8.view(), c)
	pool := placement.DevicePool{Resource: keptGPU, Preference: placement.SortedPreference}
	for node, n := range gpus {
		for i := range n {
			pool.Devices = append(pool.Devices, placement.Device{ID: fmt.Sprintf("%d-%d", node, i), HasTopology: true, NUMA: topology.NewNUMASet(topology.NUMAID(node))})
		}
	}
	s.SetPool(pool)
	return s
}

func mustKeep(t *testing.T, cpus map[string]int) *placement.Keep {
	t.Helper()
	k, err := placement.NewKeep(cpus)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestKeep: a pod without devices leaves the CPUs that are kept for free ones, wherever the node
// would put it. Where Berth decides it is put elsewhere, if it can be.
func TestKeep(t *testing.T) {
	kubelet := placement.Config{CPUManagerPolicy: "static", TopologyManagerPolicy: "single-numa-node", ReservedSystemCPUs: "0"}
	berth := obeying()
	berth.Default.Policy = placement.PolicySingleNUMANode
	two := map[string]int{keptGPU: 2}
	withGPUs := func(uid string, cpu, gpus int64) placement.Request {
		r := cpus(uid, cpu)
		r.Containers[0].Devices = []placement.DeviceRequest{{Resource: keptGPU, Count: gpus}}
		return r
	}
	for name, tc := range map[string]struct {
		config placement.Config
		gpus   []int
		keep   map[string]int
		before []placement.Request
		r      placement.Request
		want   string // NUMA nodes, or the detail
	}{
		"beside no devices":                        {kubelet, []int{0, 2}, two, nil, cpus("x", 7), "0"},
		"what two devices do not need":             {kubelet, []int{2}, two, nil, cpus("x", 3), "0"},
		"what they need":                           {kubelet, []int{2}, two, nil, cpus("x", 4), "KeptForDevices"},
		"the node's own choice is nobody else's":   {kubelet, []int{2, 0}, two, nil, cpus("x", 5), "KeptForDevices"},
		"one of them is in use":                    {kubelet, []int{2}, two, []placement.Request{withGPUs("a", 1, 1)}, cpus("x", 4), "0"},
		"its part, when nothing is named":          {kubelet, []int{0, 2}, nil, []placement.Request{cpus("a", 7)}, cpus("x", 1), "KeptForDevices"},
		"devices of others keep nothing":           {kubelet, []int{2}, map[string]int{"example.com/nic": 8}, nil, cpus("x", 7), "0"},
		"a pod with devices may have them":         {kubelet, []int{2}, two, nil, withGPUs("x", 7, 1), "0"},
		"what is lost already is not lost again":   {kubelet, []int{4}, two, []placement.Request{withGPUs("a", 6, 1)}, cpus("x", 1), "0"},
		"Berth decides, and has another place":     {berth, []int{2, 0}, two, nil, cpus("x", 5), "1"},
		"Berth decides, and there is no other one": {berth, []int{2, 2}, two, nil, cpus("x", 5), "KeptForDevices"},
		"Berth decides, and it fits beside":        {berth, []int{2, 2}, two, nil, cpus("x", 3), "0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := keeping(t, tc.config, tc.gpus...)
			for i := range tc.before {
				put(t, s, &tc.before[i])
			}
			tc.r.Rules.Keep = mustKeep(t, tc.keep)
			v, got := placement.Admit(s, &tc.r), ""
			if got = v.NUMA.String(); !v.OK() {
				got = v.Detail.String()
			}
			if got != tc.want {
				t.Errorf("%s, want %s: %s", got, tc.want, placement.Explain(s, &tc.r))
			}
			if v := placement.Admit(s, tc.r.Settled()); !v.OK() {
				t.Errorf("without the rule: %s", v.Detail)
			}
		})
	}
}

// TestKeepSays: the refusal has the numbers.
func TestKeepSays(t *testing.T) {
	s := keeping(t, placement.Config{CPUManagerPolicy: "static", TopologyManagerPolicy: "single-numa-node", ReservedSystemCPUs: "0"}, 2)
	for want, keep := range map[string]map[string]int{
		"NUMA 0 has 7 free CPUs, 2 free example.com/gpu keep 2 each, and the pod asks for 5 (NoBerth)":     {keptGPU: 2},
		"NUMA 0 has 7 free CPUs, 2 free example.com/gpu keep their part, and the pod asks for 5 (NoBerth)": nil,
	} {
		r := cpus("x", 5)
		r.Rules.Keep = mustKeep(t, keep)
		if got := placement.Explain(s, &r).String(); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// TestKeepsAreChecked: what cannot be right is refused, and Keeps that mean the same are equal.
func TestKeepsAreChecked(t *testing.T) {
	for _, n := range []int{-1, 0, placement.MaxCPUsPerDevice + 1} {
		if _, err := placement.NewKeep(map[string]int{"a/b": n}); err == nil {
			t.Errorf("%d CPUs: no error", n)
		}
	}
	a, b := mustKeep(t, map[string]int{"a/x": 1, "a/y": 2}), mustKeep(t, map[string]int{"a/y": 2, "a/x": 1})
	other, none := mustKeep(t, map[string]int{"a/x": 1}), (*placement.Keep)(nil)
	if a.Key() != b.Key() || a.Key() == other.Key() || mustKeep(t, nil).Key() == "" || none.Key() != "" {
		t.Errorf("keys %q, %q, %q, %q", a.Key(), b.Key(), other.Key(), none.Key())
	}
}

// TestKeepNeverTakesMore: over random loads no pod without devices leaves free devices fewer CPUs
// than are kept for them, or makes that worse, and none is refused that would not. It is counted
// the slow way: device by device.
func TestKeepNeverTakesMore(t *testing.T) {
	refused, admitted := 0, 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		gpus := []int{r.IntN(4), r.IntN(4)}
		s := keeping(t, placement.Config{CPUManagerPolicy: "static", TopologyManagerPolicy: "single-numa-node", ReservedSystemCPUs: "0"}, gpus...)
		each := 1 + r.IntN(3)
		keep := mustKeep(t, map[string]int{keptGPU: each})
		for i := range 8 {
			q := cpus(fmt.Sprint(i), int64(1+r.IntN(4)))
			if r.IntN(2) == 0 {
				q.Containers[0].Devices = []placement.DeviceRequest{{Resource: keptGPU, Count: int64(1 + r.IntN(2))}}
			}
			free := placement.Admit(s, &q)
			q.Rules.Keep = keep
			v := placement.Admit(s, &q)
			if !free.OK() {
				if v.OK() || v.Detail == placement.KeptForDevices {
					t.Fatalf("seed %d: %s, without the rule %s", seed, v.Detail, free.Detail)
				}
				continue
			}
			after := s.Clone()
			put(t, after, q.Settled())
			worse := without(after, gpus, each) > without(s, gpus, each) && len(q.Containers[0].Devices) == 0
			if v.OK() == worse {
				t.Fatalf("seed %d, pod %d: %v, and it would take kept CPUs: %v", seed, i, v.Detail, worse)
			}
			if v.OK() {
				admitted++
				s = after
			} else {
				refused++
			}
		}
	}
	if refused == 0 || admitted == 0 {
		t.Errorf("%d refused, %d admitted: this shows nothing", refused, admitted)
	}
}

// without counts the free devices that have not so many free CPUs each on their NUMA node.
func without(s *placement.State, gpus []int, each int) (count int) {
	left := slices.Clone(gpus)
	for _, p := range s.Snapshot().Pods {
		for i := range p.Containers {
			for _, d := range p.Containers[i].Devices {
				for _, id := range d.IDs {
					left[id[0]-'0']-- // the ids begin with the NUMA node
				}
			}
		}
	}
	for node := range left {
		var all topology.CPUSet
		for cpu := range topology.CPUID(8) {
			all.Add(cpu + 8*topology.CPUID(node))
		}
		cpus := s.FreeCPUsOn(&topology.NUMANode{ID: topology.NUMAID(node), CPUs: all})
		for range left[node] {
			if cpus -= each; cpus < 0 {
				count++
			}
		}
	}
	return count
}
