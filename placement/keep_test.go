package placement_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// keptGPU is the resource for which CPUs are kept in these tests.
const keptGPU = "example.com/gpu"

// keptConfig is the configuration of a kubelet that pins CPUs.
var keptConfig = placement.Config{CPUManagerPolicy: "static", TopologyManagerPolicy: "single-numa-node", ReservedSystemCPUs: "0"}

// keeping returns a node with two NUMA nodes of 8 CPUs, one of them reserved on node 0, and GPUs by
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

// TestKeep: pods without devices together get only the CPUs that are not kept for devices, wherever
// the node would place them. If Berth decides, they are placed on another NUMA node if possible.
func TestKeep(t *testing.T) {
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
		"beside no devices":                        {keptConfig, []int{0, 2}, two, nil, cpus("x", 7), "0"},
		"what is left":                             {keptConfig, []int{2}, two, nil, cpus("x", 3), "0"},
		"one more":                                 {keptConfig, []int{2}, two, nil, cpus("x", 4), "KeptForDevices"},
		"a device in use keeps its CPUs":           {keptConfig, []int{2}, two, []placement.Request{withGPUs("a", 1, 1)}, cpus("x", 4), "KeptForDevices"},
		"others without devices have some of it":   {keptConfig, []int{2}, two, []placement.Request{cpus("a", 2)}, cpus("x", 2), "KeptForDevices"},
		"pods with devices have none of it":        {keptConfig, []int{2}, two, []placement.Request{withGPUs("a", 3, 1)}, cpus("x", 3), "0"},
		"devices of others keep nothing":           {keptConfig, []int{2}, map[string]int{"example.com/nic": 8}, nil, cpus("x", 7), "0"},
		"a pod with devices may have them":         {keptConfig, []int{2}, two, nil, withGPUs("x", 7, 1), "0"},
		"a pod that asks for 0 devices may not":    {keptConfig, []int{2}, two, nil, withGPUs("x", 4, 0), "KeptForDevices"},
		"a full NUMA node sends it to another":     {keptConfig, []int{2}, two, []placement.Request{withGPUs("a", 6, 1)}, cpus("x", 4), "1"},
		"Berth decides, and has another place":     {berth, []int{2, 0}, two, nil, cpus("x", 5), "1"},
		"Berth decides, and there is no other one": {berth, []int{2, 2}, two, nil, cpus("x", 5), "KeptForDevices"},
		"Berth decides, and it fits":               {berth, []int{2, 2}, two, nil, cpus("x", 3), "0"},
		"Berth decides, and it fits one alone":     {berth, []int{2, 2}, two, nil, cpus("x", 4), "1"},
		"Berth decides, a node for each container": {berth, []int{1, 2}, two, nil, guaranteed("x", placement.Rules{}, app("a", 4000, 0), app("b", 4000, 0)), "0-1"},
		"Berth decides, and shares are counted":    {berth, []int{2, 0}, two, nil, placement.Request{UID: "x", Containers: []placement.ContainerRequest{app("a", 3500, 0)}}, "1"},
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

// TestKeepSays: the refusal has the numbers of CPUs.
func TestKeepSays(t *testing.T) {
	r := cpus("x", 5)
	r.Rules.Keep = mustKeep(t, map[string]int{keptGPU: 2})
	want := "NUMA 0 has 3 CPUs left for pods that ask for none of its devices (5 needed): 4 kept for 2 example.com/gpu (NoBerth)"
	if got := placement.Explain(keeping(t, keptConfig, 2), &r).String(); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// TestKeepsForEver: if devices keep so many CPUs that the pod would not fit on the empty node, the
// end of other pods makes no room for it.
func TestKeepsForEver(t *testing.T) {
	r := cpus("x", 5)
	for each, want := range map[int]placement.Scarcity{2: placement.Resolvable, 4: placement.Unresolvable} {
		r.Rules.Keep = mustKeep(t, map[string]int{keptGPU: each})
		if v := placement.Admit(keeping(t, keptConfig, 2, 2), &r); v.Detail != placement.KeptForDevices || v.Scarcity != want {
			t.Errorf("%d CPUs for each device: %+v, want it %s", each, v, want)
		}
	}
}

// TestKeepsAreChecked: invalid values are refused, and Keeps with equal meaning are equal.
func TestKeepsAreChecked(t *testing.T) {
	for _, cpus := range []map[string]int{nil, {"a/b": -1}, {"a/b": 0}, {"a/b": placement.MaxCPUsPerDevice + 1}} {
		if _, err := placement.NewKeep(cpus); err == nil {
			t.Errorf("%v: no error", cpus)
		}
	}
	a, b := mustKeep(t, map[string]int{"a/x": 1, "a/y": 2}), mustKeep(t, map[string]int{"a/y": 2, "a/x": 1})
	other, none := mustKeep(t, map[string]int{"a/x": 1}), (*placement.Keep)(nil)
	if a.Key() != b.Key() || a.Key() == other.Key() || none.Key() != "" {
		t.Errorf("keys %q, %q, %q, %q", a.Key(), b.Key(), other.Key(), none.Key())
	}
}

// TestKeepNeverTakesMore: with random loads, a pod without devices is refused exactly if it would
// take kept CPUs. The test counts the CPUs that pods would then have on the node.
func TestKeepNeverTakesMore(t *testing.T) {
	refused, admitted := 0, 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		gpus, each := []int{r.IntN(4), r.IntN(4)}, 1+r.IntN(3)
		s, keep := keeping(t, keptConfig, gpus...), mustKeep(t, map[string]int{keptGPU: each})
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
			takes := len(q.Containers[0].Devices) == 0 && takesKept(after, q.UID, gpus, each)
			if v.OK() == takes {
				t.Fatalf("seed %d, pod %d: %v, and it would take kept CPUs: %v", seed, i, v.Detail, takes)
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

// TestKeepWhereBerthDecides: no pod takes kept CPUs, whatever it requests. A pod of one container
// is refused only if no NUMA node has enough other CPUs.
func TestKeepWhereBerthDecides(t *testing.T) {
	refused, moved := 0, 0
	for seed := range uint64(600) {
		r := rand.New(rand.NewPCG(seed, 2))
		c := obeying()
		c.Default.Policy = []placement.Policy{placement.PolicySingleNUMANode, placement.PolicyRestricted, placement.PolicyBestEffort}[seed%3]
		c.Default.Scope = []placement.Scope{placement.ContainerScope, placement.PodScope}[seed/3%2]
		gpus, each := []int{r.IntN(4), r.IntN(4)}, 1+r.IntN(2)
		s, keep := keeping(t, c, gpus...), mustKeep(t, map[string]int{keptGPU: each})
		for i := range 6 {
			q := guaranteed(fmt.Sprint(i), placement.Rules{Keep: keep})
			for k := range 1 + r.IntN(2) {
				q.Containers = append(q.Containers, app(fmt.Sprint(k), int64(500*(1+r.IntN(8))), 0))
			}
			var plain, d placement.Decision
			free, v := placement.Decide(s, q.Settled(), &plain), placement.Decide(s, &q, &d)
			if !v.OK() {
				if refused++; free.OK() && len(q.Containers) == 1 && roomBeside(s, &q, gpus, each) {
					t.Fatalf("seed %d, pod %d: %s, though a NUMA node has enough left: %+v", seed, i, v.Detail, s.Snapshot().Pods)
				}
				continue
			}
			if free.NUMA != v.NUMA {
				moved++
			}
			if s.Commit(&q, &d); takesKept(s, q.UID, gpus, each) {
				t.Fatalf("seed %d, pod %d takes CPUs that are kept: %+v", seed, i, d)
			}
		}
	}
	if refused == 0 || moved == 0 {
		t.Errorf("%d refused, %d put elsewhere: this shows nothing", refused, moved)
	}
}

// roomBeside reports whether one NUMA node has the pod's requested CPUs, free and not kept.
func roomBeside(s *placement.State, q *placement.Request, gpus []int, each int) bool {
	for node, open := range []int64{7, 8} {
		all := usedOn(s, "", node)
		if 1000*open-1000*int64(each*gpus[node])-all >= q.Containers[0].MilliCPU {
			return true
		}
	}
	return false
}

// usedOn returns how many thousandths of the NUMA node's CPUs are used by pods without devices or,
// if uid is not "", by this pod.
func usedOn(s *placement.State, uid string, node int) (milli int64) {
	for _, p := range s.Snapshot().Pods {
		for i := range p.Containers {
			c := &p.Containers[i]
			if len(c.Devices) > 0 || uid != "" && p.UID != uid {
				continue
			}
			for cpu := range topology.CPUID(16) {
				if int(cpu)/8 == node && c.CPUs.Has(cpu) {
					milli += 1000
				}
			}
			for _, share := range c.Shares {
				if int(share.NUMA) == node {
					milli += share.MilliCPU
				}
			}
		}
	}
	return milli
}

// takesKept reports whether pods without devices use kept CPUs of a NUMA node on which this pod is.
func takesKept(s *placement.State, uid string, gpus []int, each int) bool {
	for node, open := range []int64{7, 8} {
		if usedOn(s, uid, node) > 0 && usedOn(s, "", node) > 1000*(open-int64(each*gpus[node])) {
			return true
		}
	}
	return false
}
