package placement_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// obeying is the configuration of a node on which Berth decides.
func obeying() placement.Config {
	return placement.Config{Authority: placement.AuthorityBerth, ReservedMilliCPU: 1000}
}

func app(name string, milli int64, gib uint64) placement.ContainerRequest {
	c := placement.ContainerRequest{Name: name, MilliCPU: milli}
	if gib > 0 {
		c.Memory = []placement.MemoryRequest{{Resource: "memory", Bytes: gib << 30}}
	}
	return c
}

func guaranteed(uid string, rules placement.Rules, cs ...placement.ContainerRequest) placement.Request {
	return placement.Request{UID: uid, Guaranteed: true, Rules: rules, Containers: cs}
}

// two8 has two NUMA nodes of 8 CPUs without SMT. CPU 0 is reserved.
var two8 = machine{1, 2, 8, 1, 16 << 30, 0}

// TestObeyExamples has example decisions.
func TestObeyExamples(t *testing.T) {
	single := placement.Rules{Policy: placement.PolicySingleNUMANode}
	pod := placement.Rules{Policy: placement.PolicySingleNUMANode, Scope: placement.PodScope}
	restricted := placement.Rules{Policy: placement.PolicyRestricted, Scope: placement.PodScope}
	init8 := placement.ContainerRequest{Name: "i", Kind: placement.Init, MilliCPU: 8000}
	side2 := placement.ContainerRequest{Name: "s", Kind: placement.Sidecar, MilliCPU: 2000}
	for _, c := range []struct {
		name string
		r    placement.Request
		want string // container:cpus or container:shares, @ NUMA nodes; or the detail
	}{
		{"one container", guaranteed("x", single, app("a", 8000, 4)), "a:8-15@1"},
		{"more than a node has", guaranteed("x", single, app("a", 9000, 4)), "TooWide"},
		{"two nodes, as an empty machine needs them", guaranteed("x", restricted, app("a", 15000, 4)), "a:1-15@0-1"},
		{"more than there is", guaranteed("x", single, app("a", 16000, 4)), "NoCPUs"},
		{"a node for each container", guaranteed("x", single, app("a", 7000, 1), app("b", 8000, 1)), "a:1-7@0 b:8-15@1"},
		{"one node for the pod", guaranteed("x", pod, app("a", 3000, 1), app("b", 4000, 1)), "a:1-3@0 b:4-7@0"},
		{"one node is too small for the pod", guaranteed("x", pod, app("a", 7000, 1), app("b", 8000, 1)), "TooWide"},
		{"memory decides", guaranteed("x", single, app("a", 4000, 16), app("b", 2000, 10)), "a:1-4@0 b:8-9@1"},
		{"init takes turns", guaranteed("x", pod, init8, app("a", 6000, 1)), "i:8-15@1 a:8-13@1"},
		{"init beside a sidecar", guaranteed("x", pod, side2, placement.ContainerRequest{Name: "i", Kind: placement.Init, MilliCPU: 6000}, app("a", 4000, 1)),
			"s:8-9@1 i:10-15@1 a:10-13@1"},
		{"init where the pod is", guaranteed("x", single, placement.ContainerRequest{Name: "i", Kind: placement.Init, MilliCPU: 2000}, app("a", 4000, 1)),
			"i:1-2@0 a:1-4@0"},
		{"init needs more", guaranteed("x", single, init8, app("a", 4000, 1)), "i:8-15@1 a:1-4@0"},
		{"two nodes where one would do", guaranteed("x", placement.Rules{NUMANodes: 2}, app("a", 6000, 4)), "a:1-3,8-10@0-1"},
		{"two nodes for the pod", guaranteed("x", placement.Rules{NUMANodes: 2}, app("a", 4000, 1), app("b", 2000, 1)), "a:1-3,8@0-1 b:9-10@0-1"},
		{"two nodes for each container", guaranteed("x", placement.Rules{NUMANodes: 2, Scope: placement.ContainerScope}, app("a", 4000, 1), app("b", 2000, 1)),
			"a:1-2,8-9@0-1 b:3,10@0-1"},
		{"two nodes and one CPU", guaranteed("x", placement.Rules{NUMANodes: 2}, app("a", 1000, 1)), "NotExactly"},
		{"one node, as single-numa-node", guaranteed("x", placement.Rules{NUMANodes: 1}, app("a", 9000, 1)), "NotExactly"},
		{"three nodes of two", guaranteed("x", placement.Rules{NUMANodes: 3}, app("a", 9000, 1)), "NotExactly"},
		{"time on two nodes", placement.Request{UID: "x", Rules: placement.Rules{NUMANodes: 2}, Containers: []placement.ContainerRequest{app("a", 2500, 1)}}, "a:0=12501=1250@0-1"},
		{"shares", placement.Request{UID: "x", Rules: single, Containers: []placement.ContainerRequest{app("a", 2500, 1)}}, "a:0=2500@0"},
		{"shares beside CPUs", guaranteed("x", pod, app("a", 6000, 1), app("b", 1500, 0)), "a:8-13@1 b:1=1500@1"},
		{"whole CPUs of a Burstable pod that says how", placement.Request{UID: "x", Containers: []placement.ContainerRequest{app("a", 2000, 0)},
			Rules: placement.Rules{CPUs: joint.Rules{Bind: joint.Spread, BindHow: joint.Preferred}}}, "a:1-2@0"},
		{"shares of a Guaranteed pod", guaranteed("x", placement.Rules{Policy: placement.PolicySingleNUMANode, Shares: joint.Required}, app("a", 3000, 0)), "a:0=3000@0"},
		{"nothing", placement.Request{UID: "x", Containers: []placement.ContainerRequest{app("a", 0, 0)}}, "a:@"},
		{"pod-level resources", placement.Request{UID: "x", PodLevel: true, Containers: []placement.ContainerRequest{app("a", 0, 0)}}, "PodLevelUndecided"},
		{"devices", guaranteed("x", single, placement.ContainerRequest{Name: "a", Devices: []placement.DeviceRequest{{Resource: "x/y", Count: 1}}}), "DevicesUndecided"},
		{"devices, wherever", guaranteed("x", placement.Rules{}, placement.ContainerRequest{Name: "a", MilliCPU: 1000, Devices: []placement.DeviceRequest{{Resource: "x/y", Count: 1}}}), "a:1@0"},
		{"unknown memory", guaranteed("x", single, placement.ContainerRequest{Name: "a", Memory: []placement.MemoryRequest{{Resource: "hugepages-64Ki", Bytes: 1}}}), "NoDefaultMemory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := state(t, two8.view(), obeying())
			var d placement.Decision
			v := placement.Decide(s, &c.r, &d)
			got := v.Detail.String()
			if v.OK() {
				got = tell(&d)
			}
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if e := placement.Explain(s, &c.r); e.Reason != v.Reason || e.String() == "" {
				t.Errorf("explained as %s", e)
			}
		})
	}
}

// tell describes a decision, container by container.
func tell(d *placement.Decision) (text string) {
	for i := range d.Containers {
		c := &d.Containers[i]
		text += fmt.Sprintf(" %s:%v", c.Name, c.CPUs)
		for _, s := range c.Shares {
			text += fmt.Sprintf("%d=%d", s.NUMA, s.MilliCPU)
		}
		text += "@" + c.Hint.NUMA.String()
	}
	return text[1:]
}

// TestExplainExactly: the refusal explains why there is no room on exactly this number of NUMA
// nodes, and advises what to do.
func TestExplainExactly(t *testing.T) {
	four := placement.DeviceRequest{Resource: "x/gpu", Count: 4}
	withFour := app("a", 4000, 1)
	withFour.Devices = []placement.DeviceRequest{four}
	cfg := obeying()
	kind, pool := placement.DeviceKind{Resource: "x/gpu"}, placement.DevicePool{Resource: "x/gpu", Decided: true}
	for i := range 4 {
		d := placement.PlacedDevice{ID: fmt.Sprint(i), NUMA: topology.NUMAID(i / 3), HasNUMA: true} // three on node 0, one on node 1
		kind.Devices, pool.Devices = append(kind.Devices, d), append(pool.Devices, placement.Device{ID: d.ID, NUMA: topology.NewNUMASet(d.NUMA), HasTopology: true})
	}
	cfg.Devices = []placement.DeviceKind{kind}
	for name, c := range map[string]struct {
		r        placement.Request
		detail   placement.Detail
		want, do string
	}{
		"too few CPUs": {guaranteed("x", placement.Rules{NUMANodes: 2}, app("a", 1000, 1)), placement.NotExactly,
			"no room on exactly 2 NUMA nodes with a part on each: NUMA 0 has 7 free CPUs (1 needed), NUMA 1 has 8; NUMA 0 has", "at least one CPU on each"},
		"too few NUMA nodes": {guaranteed("x", placement.Rules{NUMANodes: 1}, app("a", 9000, 1)), placement.NotExactly,
			"no room on exactly 1 NUMA node with a part on each: ", "another number of NUMA nodes"},
		"nothing to give": {placement.Request{UID: "x", Rules: placement.Rules{NUMANodes: 2}, Containers: []placement.ContainerRequest{app("a", 0, 0)}}, placement.NotExactly,
			"the pod asks for no CPUs and no memory to place on 2 NUMA nodes", "another number"},
		"devices elsewhere": {guaranteed("x", placement.Rules{Devices: placement.DeviceRules{PerNode: 2}}, withFour), placement.NotExactly,
			"NUMA 0 has 3 free x/gpu (4 needed), NUMA 1 has 1 (NoBerth)", "another number"},
		"an odd number of devices": {guaranteed("x", placement.Rules{Devices: placement.DeviceRules{PerNode: 3}}, withFour), placement.DevicesUneven, "are not multiples of the number per NUMA node", "the same number of devices"},
		"another number of NUMA nodes": {guaranteed("x", placement.Rules{NUMANodes: 1, Devices: placement.DeviceRules{PerNode: 2}}, withFour), placement.DevicesUneven,
			"or do not match berth.dev/numa-nodes", "the same number of devices"},
	} {
		s := state(t, two8.view(), cfg)
		s.SetPool(pool)
		e := placement.Explain(s, &c.r)
		if e.Detail != c.detail || !strings.Contains(e.String(), c.want) || !strings.Contains(e.Advice(), c.do) {
			t.Errorf("%s: %s: %s; %s", name, e.Detail, e, e.Advice())
		}
	}
}

// TestExplainDevicesWithoutNUMANode: free devices whose NUMA node is not known count as free.
func TestExplainDevicesWithoutNUMANode(t *testing.T) {
	cfg := obeying()
	cfg.Devices = []placement.DeviceKind{{Resource: "x/gpu", Devices: []placement.PlacedDevice{{ID: "0"}, {ID: "1"}}}}
	s := state(t, two8.view(), cfg)
	s.SetPool(placement.DevicePool{Resource: "x/gpu", Decided: true, Devices: []placement.Device{{ID: "0"}, {ID: "1"}}})
	three := app("a", 1000, 1)
	three.Devices = []placement.DeviceRequest{{Resource: "x/gpu", Count: 3}}
	r := guaranteed("x", placement.Rules{}, three)
	if e := placement.Explain(s, &r); !strings.Contains(e.String(), "the node has 2 free x/gpu (3 needed)") {
		t.Errorf("%s; %s", e, e.Advice())
	}
}

// TestObeyNeedsOneDecider: a configuration with managers of the kubelet in addition to Berth's is
// refused, and so is a node without CPUs for shared containers.
func TestObeyNeedsOneDecider(t *testing.T) {
	for field, change := range map[string]func(*placement.Config){
		"cpuManagerPolicy": func(c *placement.Config) { c.CPUManagerPolicy = "static" },
		"memoryManagerPolicy": func(c *placement.Config) {
			c.MemoryManagerPolicy = "Static"
			c.ReservedMemory = []placement.ReservedMemory{{Limits: map[string]uint64{"memory": 1}}}
		},
		"kubeReserved[cpu]":  func(c *placement.Config) { c.ReservedMilliCPU = 0 },
		"reservedSystemCPUs": func(c *placement.Config) { c.ReservedSystemCPUs = "0,99" },
	} {
		cfg := obeying()
		change(&cfg)
		_, err := placement.NewModel(two8.view(), cfg)
		wrong, ok := err.(*placement.ConfigError)
		if !ok || wrong.Field != field {
			t.Errorf("%v, want an error about %s", err, field)
		}
	}
	cfg := obeying()
	cfg.ReservedSystemCPUs = "3,9"
	m, err := placement.NewModel(two8.view(), cfg)
	if err != nil || m.ReservedCPUs().String() != "3,9" {
		t.Errorf("reserved %v, %v", m.ReservedCPUs(), err)
	}
}

// TestDefaultPolicy: the node's default applies if the pod names no policy. The kubelet's own
// policy has precedence over the default.
func TestDefaultPolicy(t *testing.T) {
	wide := guaranteed("x", placement.Rules{}, app("a", 9000, 0))
	for name, c := range map[string]struct {
		kubelet string
		own     placement.Rules
		rules   placement.Rules
		want    placement.Detail
	}{
		"none":               {},
		"the node's":         {own: placement.Rules{Policy: placement.PolicySingleNUMANode}, want: placement.TooWide},
		"the pod's":          {own: placement.Rules{Policy: placement.PolicySingleNUMANode}, rules: placement.Rules{Policy: placement.PolicyNone}},
		"the kubelet's":      {kubelet: "best-effort", own: placement.Rules{Policy: placement.PolicySingleNUMANode}},
		"a strict kubelet's": {kubelet: "single-numa-node", own: placement.Rules{Policy: placement.PolicyNone}, want: placement.TooWide},
	} {
		cfg := obeying()
		cfg.TopologyManagerPolicy, cfg.Default = c.kubelet, c.own
		wide.Rules = c.rules
		if v := placement.Admit(state(t, two8.view(), cfg), &wide); v.Detail != c.want {
			t.Errorf("%s: %s, want %s", name, v.Detail, c.want)
		}
	}
}

// TestNodeBinds: a node may set how CPUs are placed on cores, with precedence over pods'
// preferences. A pod that requires the opposite is not placed there. A pod that may share CPUs
// shares them.
func TestNodeBinds(t *testing.T) {
	full := joint.Rules{Bind: joint.FullCores, BindHow: joint.Required}
	spread := joint.Rules{Bind: joint.Spread, BindHow: joint.Required}
	rather := joint.Rules{Bind: joint.Spread, BindHow: joint.Preferred}
	twoThreads := machine{1, 2, 4, 2, 8 << 30, 0}
	for name, c := range map[string]struct {
		own, pod joint.Rules
		milli    int64
		shares   joint.Strength
		misses   placement.Wish
		want     placement.Detail
		cores    int // on which the pod's CPUs lie
	}{
		"full cores":             {own: full, milli: 4000, cores: 2},
		"full cores, preferring": {own: full, pod: rather, milli: 4000, cores: 2},
		"half a core":            {own: full, milli: 3000, want: placement.OddCPUs},
		"spread":                 {own: spread, milli: 3000, cores: 3},
		"insists":                {own: full, pod: spread, milli: 2000, misses: placement.WishSpread, cores: 1},
		"insists as well":        {own: spread, pod: spread, milli: 2000, cores: 2},
		"insists on full cores":  {own: spread, pod: full, milli: 2000, misses: placement.WishFullCores, cores: 2},
		"shares":                 {own: full, milli: 3000, shares: joint.Required},
		"a fraction":             {own: full, milli: 1500},
	} {
		cfg := obeying()
		cfg.Default.CPUs = c.own
		m := made.ModelOf(t, twoThreads.view(), cfg)
		s := m.NewState()
		r := guaranteed("x", placement.Rules{CPUs: c.pod, Shares: c.shares}, app("a", c.milli, 0))
		if got := m.Misses(r.Rules); got != c.misses || m.Keeps(r.Rules) != (c.misses == placement.NoWish) {
			t.Errorf("%s: misses %d, want %d", name, got, c.misses)
		}
		var d placement.Decision
		if v := placement.Decide(s, &r, &d); v.Detail != c.want {
			t.Errorf("%s: %s, want %s", name, v.Detail, c.want)
			continue
		}
		cores := map[topology.CPUID]bool{}
		for id := range d.Containers[0].CPUs.All() {
			cores[id%8] = true
		}
		if len(cores) != c.cores {
			t.Errorf("%s: CPUs %v on %d cores, want %d", name, d.Containers[0].CPUs, len(cores), c.cores)
		}
	}
}

// TestInitContainersDoNotPayTwice: while a pod's init containers run, the CPUs that the pod keeps
// from others are still its own, however few CPUs the init containers request.
func TestInitContainersDoNotPayTwice(t *testing.T) {
	alone := joint.Rules{Exclusive: joint.ExclusiveNUMA, ExclusiveHow: joint.Required}
	for name, scope := range map[string]placement.Scope{"container": placement.ContainerScope, "pod": placement.PodScope} {
		m := made.ModelOf(t, two8.view(), obeying())
		r := guaranteed("x", placement.Rules{Policy: placement.PolicySingleNUMANode, Scope: scope, CPUs: alone}, app("a", 8000, 1))
		init := app("i", 1000, 1)
		init.Kind = placement.Init
		r.Containers = append([]placement.ContainerRequest{init}, r.Containers...)
		s := m.NewState()
		if v := placement.Admit(s, &r); !v.OK() {
			t.Errorf("scope %s: %+v: %v", name, v, placement.Explain(s, &r))
		}
		r.Containers[1].MilliCPU = 6000
		v := placement.Admit(s, &r)
		if e := placement.Explain(s, &r); v.Detail != placement.Withholds || v.Scarcity != placement.Unresolvable || !strings.Contains(e.String(), "NUMA node 1 has 8") {
			t.Errorf("scope %s, 6 CPUs: %+v: %v", name, v, e)
		}
		r.Rules.CPUs.Exclusive, r.Containers[1].MilliCPU = joint.ExclusiveCore, 1000
		if v := placement.Admit(s, &r); !v.OK() {
			t.Errorf("scope %s, cores of one thread: %+v", name, v)
		}
		r.Rules.CPUs.Exclusive, r.Rules.MayWithhold = joint.ExclusiveNUMA, true
		if v := placement.Admit(s, &r); !v.OK() {
			t.Errorf("scope %s, allowed: %+v", name, v)
		}
	}
}

// TestMisses: if the kubelet's configuration does not imply a requirement of a pod, the node does
// not suit the pod.
func TestMisses(t *testing.T) {
	must := func(r joint.Rules) placement.Rules { return placement.Rules{CPUs: r} }
	full := must(joint.Rules{Bind: joint.FullCores, BindHow: joint.Required})
	core := must(joint.Rules{Exclusive: joint.ExclusiveCore, ExclusiveHow: joint.Required})
	spread := must(joint.Rules{Bind: joint.Spread, BindHow: joint.Required})
	for _, c := range []struct {
		name    string
		options map[string]string
		rules   placement.Rules
		want    placement.Wish
	}{
		{"full cores", nil, full, placement.WishFullCores},
		{"full cores, implied", map[string]string{"full-pcpus-only": "true"}, full, placement.NoWish},
		{"a core alone", nil, core, placement.WishExclusiveCore},
		{"a core alone, implied", map[string]string{"full-pcpus-only": "true"}, core, placement.NoWish},
		{"spread", nil, spread, placement.WishSpread},
		{"spread, implied", map[string]string{"distribute-cpus-across-cores": "true"}, spread, placement.NoWish},
		{"a NUMA node alone", nil, must(joint.Rules{Exclusive: joint.ExclusiveNUMA, ExclusiveHow: joint.Required}), placement.WishExclusiveNUMA},
		{"one cache", nil, must(joint.Rules{L3: joint.Required}), placement.WishL3},
		{"preferred", nil, must(joint.Rules{Bind: joint.Spread, BindHow: joint.Preferred, L3: joint.Preferred}), placement.NoWish},
		{"shares", nil, placement.Rules{Shares: joint.Required}, placement.WishShares},
		{"pinned memory, implied", nil, placement.Rules{PinMemory: true}, placement.NoWish},
	} {
		cfg := m2.config("restricted")
		cfg.CPUManagerPolicyOptions = c.options
		if len(c.options) > 0 {
			cfg.FeatureGates = map[string]bool{"CPUManagerPolicyAlphaOptions": true}
		}
		m := made.ModelOf(t, m2.view(), cfg)
		if got := m.Misses(c.rules); got != c.want || m.Keeps(c.rules) != (c.want == placement.NoWish) {
			t.Errorf("%s: misses %d, want %d", c.name, got, c.want)
		}
	}
}

// TestObeyWorlds admits, releases and restores random pods on random nodes on which Berth decides.
func TestObeyWorlds(t *testing.T) {
	var admitted, refused, hopeless, withDevices, together, exact, near int
	for seed := range uint64(200) {
		w := obeyWorld(t, seed)
		var live []string
		for range 25 {
			if len(live) > 0 && w.r.IntN(3) == 0 {
				i := w.r.IntN(len(live))
				w.state.Release(live[i])
				live = append(live[:i], live[i+1:]...)
				w.sound(t, seed)
				continue
			}
			r := w.obeyRequest()
			var d placement.Decision
			v := placement.Decide(w.state, &r, &d)
			if placement.Admit(w.state, &r) != v || placement.Explain(w.state, &r).Reason != v.Reason {
				t.Fatalf("seed %d: Admit %+v, Decide %+v, Explain %v for %+v", seed, placement.Admit(w.state, &r), v, placement.Explain(w.state, &r), r)
			}
			if !v.OK() {
				refused++
				if v.Scarcity == placement.Unresolvable {
					hopeless++
					if again := placement.Admit(w.model.NewState(), &r); again.OK() {
						t.Fatalf("seed %d: %+v unresolvable, and an empty node takes it", seed, r)
					}
				}
				continue
			}
			admitted++
			if w.checkDecision(t, seed, &r, &d); r.Rules.Claimed != nil {
				near++
			}
			if w.checkExactly(t, seed, &r, &d, &v) {
				exact++
			}
			if n := w.checkDevices(t, seed, &r, &d); n > 0 {
				withDevices++
				if r.Rules.Devices.SameHow == joint.Required {
					together++
				}
			}
			w.state.Commit(&r, &d)
			live = append(live, r.UID)
			w.sound(t, seed)
			var again placement.Decision
			if v := placement.Decide(w.state, &r, &again); !v.OK() || !sameHolding(&d, &again) {
				t.Fatalf("seed %d: asked again: %v, %s instead of %s", seed, v, tell(&again), tell(&d))
			}
		}
		for _, uid := range live {
			w.state.Release(uid)
		}
		empty := w.model.NewState()
		for _, p := range w.state.Snapshot().Devices {
			empty.SetPool(p)
		}
		if string(w.state.AppendStateKey(nil)) != string(empty.AppendStateKey(nil)) {
			t.Fatalf("seed %d: something is left after all pods have gone", seed)
		}
	}
	if admitted < 1000 || refused < 300 || hopeless < 30 || withDevices < 200 || together < 50 || exact < 100 || near < 30 {
		t.Errorf("%d admitted, %d with devices, %d of these together, %d on an exact number of NUMA nodes, %d near claimed devices, %d refused, %d of these for good: want more",
			admitted, withDevices, together, exact, near, refused, hopeless)
	}
}

func sameHolding(a, b *placement.Decision) bool {
	for i := range a.Containers {
		x, y := &a.Containers[i], &b.Containers[i]
		if x.CPUs != y.CPUs || fmt.Sprint(x.Memory, x.Shares, x.Devices) != fmt.Sprint(y.Memory, y.Shares, y.Devices) {
			return false
		}
	}
	return len(a.Containers) == len(b.Containers)
}

func obeyWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 5))
	d := machine{1 + r.IntN(2), 1 + r.IntN(3), 2 + r.IntN(4), 1 + r.IntN(2), uint64(4+r.IntN(8)) << 30, uint64(r.IntN(3))}
	cfg := obeying()
	cfg.TopologyManagerPolicy = pick(r, "none", "best-effort", "restricted", "single-numa-node")
	cfg.Strategy = pick(r, joint.MostAllocated, joint.LeastAllocated, joint.FillNodes)
	view := d.view()
	pools := deviceKinds(r, view, &cfg)
	m := made.ModelOf(t, view, cfg)
	w := &world{r: r, view: view, cfg: cfg, model: m, state: m.NewState(), asked: map[string]placement.Request{}}
	for _, p := range pools {
		w.state.SetPool(p)
	}
	return w
}

// deviceKinds gives a node up to two kinds of devices, at one or two switches of each NUMA node.
func deviceKinds(r *rand.Rand, view *placement.KubeletView, cfg *placement.Config) (pools []placement.DevicePool) {
	for k, name := range []string{"a.example/gpu", "b.example/nic"}[:r.IntN(3)] {
		kind, pool := placement.DeviceKind{Resource: name, Type: []topology.DeviceKind{topology.GPU, topology.RDMANIC}[k]}, placement.DevicePool{Resource: name, Decided: true}
		for i := range 1 + r.IntN(6) {
			at := 1 + r.IntN(2*len(view.Nodes))
			d := placement.PlacedDevice{ID: fmt.Sprintf("0000:%d%d:00.0", k, i), NUMA: view.Nodes[(at-1)/2].ID, HasNUMA: true, Root: fmt.Sprint("root", at), Switch: fmt.Sprint("switch", at),
				Function: fmt.Sprint(k, at, r.IntN(2))}
			kind.Devices = append(kind.Devices, d)
			pool.Devices = append(pool.Devices, placement.Device{ID: d.ID, NUMA: topology.NewNUMASet(d.NUMA), HasTopology: true, Unhealthy: r.IntN(8) == 0})
			if i > 0 && k == 0 && r.IntN(2) == 0 {
				kind.Links = append(kind.Links, joint.DeviceLink{A: i - 1, B: i, Count: 1 + r.IntN(3)})
			}
		}
		cfg.Devices, pools = append(cfg.Devices, kind), append(pools, pool)
	}
	return pools
}

// checkDevices compares the devices of a decision with the request, and returns their number.
func (w *world) checkDevices(t *testing.T, seed uint64, r *placement.Request, d *placement.Decision) (n int) {
	t.Helper()
	free := map[string]*placement.PlacedDevice{}
	for k := range w.cfg.Devices {
		for i := range w.cfg.Devices[k].Devices {
			free[w.cfg.Devices[k].Devices[i].ID] = &w.cfg.Devices[k].Devices[i]
		}
	}
	snap := w.state.Snapshot()
	for _, p := range snap.Devices {
		for _, d := range p.Devices {
			if d.Unhealthy {
				delete(free, d.ID)
			}
		}
	}
	for _, p := range snap.Pods {
		for _, c := range p.Containers {
			for _, a := range c.Devices {
				for _, id := range a.IDs {
					delete(free, id)
				}
			}
		}
	}
	apps := map[string]bool{}
	podSwitches := map[string]map[string]bool{}
	for i := range r.Containers {
		q, c := &r.Containers[i], &d.Containers[i]
		switches := map[string]map[string]bool{}
		got := map[string]int{}
		for _, a := range c.Devices {
			got[a.Resource] = len(a.IDs)
			functions := map[string]bool{}
			for _, id := range a.IDs {
				dev := free[id]
				switch {
				case dev == nil:
					t.Fatalf("seed %d: %s %s is not free", seed, a.Resource, id)
				case q.Kind != placement.Init && apps[id]:
					t.Fatalf("seed %d: %s %s twice in one pod", seed, a.Resource, id)
				case !c.Hint.NUMA.Has(dev.NUMA):
					t.Fatalf("seed %d: %s %s of NUMA node %d, and the container is on %v", seed, a.Resource, id, dev.NUMA, c.Hint.NUMA)
				case functions[dev.Function] && r.Rules.Devices.OnePerFunction == placement.EveryType && r.Rules.Scope != placement.PodScope:
					t.Fatalf("seed %d: %s: two of function %s", seed, a.Resource, dev.Function)
				}
				functions[dev.Function] = true
				if q.Kind != placement.Init {
					apps[id] = true
				}
				for _, m := range []map[string]map[string]bool{switches, podSwitches} {
					if m[a.Resource] == nil {
						m[a.Resource] = map[string]bool{}
					}
					m[a.Resource][dev.Switch] = true
				}
				n++
			}
		}
		for _, want := range q.Devices {
			if int64(got[want.Resource]) != want.Count {
				t.Fatalf("seed %d: %d of %+v", seed, got[want.Resource], want)
			}
		}
		if r.Rules.Scope == placement.ContainerScope {
			w.checkTogether(t, seed, r, switches)
		}
	}
	if len(r.Containers) == 1 {
		w.checkTogether(t, seed, r, podSwitches)
	}
	return n
}

func (w *world) checkTogether(t *testing.T, seed uint64, r *placement.Request, switches map[string]map[string]bool) {
	t.Helper()
	rules := &r.Rules.Devices
	if rules.SameHow != joint.Required {
		return
	}
	a, b := switches["a.example/gpu"], switches["b.example/nic"]
	if len(a) > 0 && len(b) > 0 && !maps.Equal(a, b) || rules.Same == joint.OneSwitch && max(len(a), len(b)) > 1 {
		t.Fatalf("seed %d: at switches %v and %v with %+v", seed, a, b, rules)
	}
}

// TestDevicesOf: the places of devices come from the machine. If the machine lacks a device, only
// the pool's NUMA node is known.
func TestDevicesOf(t *testing.T) {
	m := shapes.Machine(shapes.GPUMesh)
	var gpus, nics []placement.Device
	for i := range m.Devices {
		switch d := &m.Devices[i]; d.Kind() {
		case topology.GPU:
			gpus = append(gpus, placement.Device{ID: d.Address})
		case topology.RDMANIC:
			nics = append(nics, placement.Device{ID: d.Address})
		}
	}
	unknown := placement.Device{ID: "ffff:00:00.0", NUMA: topology.NewNUMASet(1), HasTopology: true}
	kinds := placement.DevicesOf(m, []placement.DevicePool{
		{Resource: "a/gpu", Decided: true, Devices: gpus}, {Resource: "b/nic", Decided: true, Devices: append(nics, unknown)}, {Resource: "c/vendor", Devices: []placement.Device{{ID: "x"}}},
	})
	if len(kinds) != 2 || kinds[0].Type != topology.GPU || kinds[1].Type != topology.OtherDevice || len(kinds[0].Links) == 0 {
		t.Fatalf("%+v", kinds)
	}
	for i, d := range kinds[0].Devices {
		hw := m.Device(gpus[i].ID)
		if d.Root != hw.Root || d.NUMA != hw.NUMA || !d.HasNUMA {
			t.Errorf("%+v of %+v", d, hw)
		}
	}
	if last := kinds[1].Devices[len(nics)]; last != (placement.PlacedDevice{ID: unknown.ID, NUMA: 1, HasNUMA: true}) {
		t.Errorf("%+v", last)
	}
}

// TestForgedDevices: a device that does not exist, or that another pod has, is reported and is not
// taken.
func TestForgedDevices(t *testing.T) {
	cfg := obeying()
	cfg.Devices = []placement.DeviceKind{{Resource: "x/y", Devices: []placement.PlacedDevice{{ID: "a"}, {ID: "b"}}}}
	m := made.ModelOf(t, two8.view(), cfg)
	s := m.NewState()
	s.SetPool(placement.DevicePool{Resource: "x/y", Decided: true, Devices: []placement.Device{{ID: "a"}, {ID: "b", Unhealthy: true}}})
	pod := func(uid string, ids ...string) *placement.PodAllocation {
		return &placement.PodAllocation{UID: uid, Containers: []placement.ContainerAllocation{{Name: "c", Devices: []placement.DeviceAllocation{{Resource: "x/y", IDs: ids}}}}}
	}
	for _, c := range []struct {
		pod  *placement.PodAllocation
		want string
	}{
		{pod("1", "a"), ""}, {pod("2", "a"), "another pod has x/y a"}, {pod("3", "c"), `no plugin offers x/y "c"`}, {pod("4", "b"), ""},
	} {
		if got := s.Hold(c.pod); got != c.want {
			t.Errorf("%s: %q, want %q", c.pod.UID, got, c.want)
		}
		if err := s.Check(); err != nil {
			t.Error(err)
		}
	}
	s.Release("2")
	r := placement.Request{UID: "5", Containers: []placement.ContainerRequest{{Name: "c", Devices: []placement.DeviceRequest{{Resource: "x/y", Count: 1}}}}}
	if v := placement.Admit(s, &r); v.Detail != placement.NoDevices {
		t.Errorf("%+v, want none to be free", v)
	}
	s.Release("1")
	var d placement.Decision
	if v := placement.Decide(s, &r, &d); !v.OK() || d.Containers[0].Devices[0].IDs[0] != "a" {
		t.Errorf("%+v %+v, want a", v, d)
	}
	snap := placement.Snapshot{Pods: []placement.PodAllocation{*pod("1", "a"), *pod("2", "a")}}
	if _, err := m.StateOf(&snap); err == nil || !strings.Contains(err.Error(), "x/y a") {
		t.Errorf("%v, want the device named", err)
	}
	cfg.Devices = append(cfg.Devices, placement.DeviceKind{Resource: "x/z", Devices: []placement.PlacedDevice{{ID: "a"}}})
	if _, err := placement.NewModel(two8.view(), cfg); err == nil || !strings.Contains(err.Error(), "no other resource offers") {
		t.Errorf("%v, want a device of two resources refused", err)
	}
}

func (w *world) obeyRequest() placement.Request {
	r := w.request()
	r.PodLevel = false
	for i := range r.Containers {
		r.Containers[i].Devices = nil
		for k := range w.cfg.Devices {
			if w.r.IntN(3) == 0 {
				r.Containers[i].Devices = append(r.Containers[i].Devices, placement.DeviceRequest{Resource: w.cfg.Devices[k].Resource, Count: int64(1 + w.r.IntN(3))})
			}
		}
		r.Containers[i].MilliCPU = pick[int64](w.r, 0, 500, 1000, 1000, 2000, 3500, 4000)
		if w.r.IntN(2) == 0 {
			r.Containers[i].Memory = nil
		}
	}
	r.Rules = placement.Rules{Policy: placement.Policy(w.r.IntN(5)), Scope: placement.Scope(w.r.IntN(3))}
	c := &r.Rules.CPUs
	if c.Bind = joint.Bind(w.r.IntN(3)); c.Bind != joint.BindAny {
		c.BindHow = joint.Strength(1 + w.r.IntN(2))
	}
	if c.Exclusive = joint.Exclusive(w.r.IntN(6) % 3); c.Exclusive != joint.Shareable {
		c.ExclusiveHow = joint.Strength(1 + w.r.IntN(2))
	}
	r.Rules.MayWithhold = w.r.IntN(2) == 0
	c.L3 = joint.Strength(w.r.IntN(3))
	if e := &r.Rules.Devices; w.r.IntN(2) == 0 {
		e.Same, e.SameHow = joint.Same(1+w.r.IntN(4)), joint.Strength(1+w.r.IntN(2))
		e.OnePerFunction = placement.DeviceTypes(w.r.IntN(16))
	}
	switch w.r.IntN(6) {
	case 0:
		if r.Rules.NUMANodes = uint8(1 + w.r.IntN(3)); r.Rules.NUMANodes > 1 && r.Rules.Policy == placement.PolicySingleNUMANode {
			r.Rules.Policy = placement.PolicyRestricted
		}
	case 1:
		w.perNode(&r)
	case 2:
		r.Rules.Claimed = randomClaimed(w.r, 3, &r)
	}
	return r
}

// perNode makes a request ask for a number of devices on each NUMA node, mostly a possible one.
func (w *world) perNode(r *placement.Request) {
	per, nodes := 1+w.r.IntN(2), 1+w.r.IntN(2)
	r.Rules.Devices = placement.DeviceRules{PerNode: uint8(per), OnePerFunction: placement.DeviceTypes(w.r.IntN(16))}
	if r.Containers = r.Containers[:1]; w.r.IntN(4) == 0 {
		r.Rules.NUMANodes = 1
	}
	for i := range r.Containers[0].Devices {
		if w.r.IntN(5) > 0 {
			r.Containers[0].Devices[i].Count = int64(per * nodes)
		}
	}
}

// checkExactly compares a decision with the requested number of NUMA nodes, and of devices on each.
// It reports whether the request has such a number.
func (w *world) checkExactly(t *testing.T, seed uint64, r *placement.Request, d *placement.Decision, v *placement.Verdict) bool {
	t.Helper()
	where := map[string]topology.NUMAID{}
	for _, k := range w.cfg.Devices {
		for _, dev := range k.Devices {
			where[dev.ID] = dev.NUMA
		}
	}
	exactly := func(name string, held topology.NUMASet, devices map[string]map[string]bool) {
		if n := int(r.Rules.NUMANodes); n > 0 && held.Len() != n && (held != 0 || r.Rules.Scope != placement.ContainerScope) {
			t.Fatalf("seed %d: %s is on NUMA nodes %v, want exactly %d: %+v: %+v", seed, name, held, n, r, d)
		}
		for resource, ids := range devices {
			on := map[topology.NUMAID]int{}
			for id := range ids {
				on[where[id]]++
			}
			for id := range held.All() {
				if p := int(r.Rules.Devices.PerNode); p > 0 && on[id] != p {
					t.Fatalf("seed %d: %s has %v of %s, want %d on each of %v", seed, name, on, resource, p, held)
				}
			}
		}
	}
	devices := map[string]map[string]bool{}
	for i := range d.Containers {
		c := &d.Containers[i]
		mine := map[string]map[string]bool{}
		for _, a := range c.Devices {
			for _, m := range []map[string]map[string]bool{mine, devices} {
				if m[a.Resource] == nil {
					m[a.Resource] = map[string]bool{}
				}
				for _, id := range a.IDs {
					m[a.Resource][id] = true
				}
			}
		}
		if r.Rules.Scope == placement.ContainerScope {
			exactly(c.Name, w.heldBy(c, where), mine)
		}
	}
	if r.Rules.Scope != placement.ContainerScope {
		exactly("the pod", v.NUMA, devices)
	}
	return r.Rules.NUMANodes > 0 || r.Rules.Devices.PerNode > 0 && len(devices) > 0
}

// heldBy returns the NUMA nodes on which a container has resources.
func (w *world) heldBy(c *placement.ContainerDecision, devices map[string]topology.NUMAID) (nodes topology.NUMASet) {
	for i := range w.view.Nodes {
		for _, k := range w.view.Nodes[i].Cores {
			for _, id := range k.Threads {
				if c.CPUs.Has(id) {
					nodes = nodes.With(w.view.Nodes[i].ID)
				}
			}
		}
	}
	for i := range c.Memory {
		nodes |= c.Memory[i].NUMA
	}
	for _, s := range c.Shares {
		nodes = nodes.With(s.NUMA)
	}
	for _, a := range c.Devices {
		for _, id := range a.IDs {
			nodes = nodes.With(devices[id])
		}
	}
	return nodes
}

// sound checks the state, and compares it with the state of its snapshot.
func (w *world) sound(t *testing.T, seed uint64) {
	t.Helper()
	if err := w.state.Check(); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	snap := w.state.Snapshot()
	again, err := w.model.StateOf(&snap)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if !again.Equal(w.state) || !reflect.DeepEqual(again.AppendStateKey(nil), w.state.AppendStateKey(nil)) {
		t.Fatalf("seed %d: the snapshot is another state", seed)
	}
	w.notOverdrawn(t, seed, &snap)
}

// notOverdrawn checks that pods have no more CPU time of a NUMA node than it has.
func (w *world) notOverdrawn(t *testing.T, seed uint64, snap *placement.Snapshot) {
	t.Helper()
	reserved := w.model.ReservedCPUs()
	for i := range w.view.Nodes {
		n := &w.view.Nodes[i]
		var cpus topology.CPUSet
		for _, k := range n.Cores {
			for _, id := range k.Threads {
				cpus.Add(id)
			}
		}
		cpus = cpus.AndNot(&reserved)
		left := int64(1000 * cpus.Len())
		for p := range snap.Pods {
			var own topology.CPUSet
			var sidecars, init, apps int64
			for c := range snap.Pods[p].Containers {
				a := &snap.Pods[p].Containers[c]
				own = own.Or(&a.CPUs)
				for _, s := range a.Shares {
					switch {
					case s.NUMA != n.ID:
					case a.Kind == placement.Sidecar:
						sidecars += s.MilliCPU
					case a.Kind == placement.Init:
						init = max(init, sidecars+s.MilliCPU)
					default:
						apps += s.MilliCPU
					}
				}
			}
			own = own.And(&cpus)
			left -= int64(1000*own.Len()) + max(init, sidecars+apps)
		}
		if left < 0 {
			t.Fatalf("seed %d: NUMA node %d is overdrawn by %dm:\n%+v", seed, n.ID, -left, snap.Pods)
		}
	}
}

// checkDecision compares a decision with the request.
func (w *world) checkDecision(t *testing.T, seed uint64, r *placement.Request, d *placement.Decision) {
	t.Helper()
	policy := r.Rules.Policy
	if exact := r.Rules.NUMANodes > 0 || r.Rules.Devices.PerNode > 0; policy == placement.NodePolicy && !exact {
		policy, _ = placement.ParsePolicy(w.cfg.TopologyManagerPolicy)
	}
	shared := w.state.SharedCPUs()
	reserved := w.model.ReservedCPUs()
	var apps topology.CPUSet
	var pod topology.NUMASet
	for i := range r.Containers {
		q, c := &r.Containers[i], &d.Containers[i]
		own := q.MilliCPU > 0 && q.MilliCPU%1000 == 0 && (r.Guaranteed || r.Rules.CPUs != joint.Rules{})
		wantCPUs, wantShares := 0, q.MilliCPU
		if own {
			wantCPUs, wantShares = int(q.MilliCPU/1000), 0
		}
		var shares int64
		for _, s := range c.Shares {
			shares += s.MilliCPU
		}
		switch {
		case c.CPUs.Len() != wantCPUs || shares != wantShares:
			t.Fatalf("seed %d: %+v got %v and %dm", seed, q, c.CPUs, shares)
		case !c.CPUs.IsSubsetOf(&shared) || c.CPUs.Intersects(&reserved):
			t.Fatalf("seed %d: %v are not free: %v", seed, c.CPUs, shared)
		case q.Kind != placement.Init && c.CPUs.Intersects(&apps):
			t.Fatalf("seed %d: %v twice in one pod", seed, c.CPUs)
		case policy == placement.PolicySingleNUMANode && c.Hint.NUMA.Len() > 1:
			t.Fatalf("seed %d: on NUMA nodes %v with single-numa-node", seed, c.Hint.NUMA)
		}
		if q.Kind != placement.Init {
			apps = apps.Or(&c.CPUs)
		}
		pod |= c.Hint.NUMA
	}
	if policy == placement.PolicySingleNUMANode && r.Rules.Scope == placement.PodScope && pod.Len() > 1 {
		t.Fatalf("seed %d: the pod is on NUMA nodes %v", seed, pod)
	}
	if r.Rules.Claimed == nil {
		return
	}
	lying, follows := map[string]topology.NUMASet{}, false
	for i := range d.Containers {
		c := &d.Containers[i]
		nodes := func(cpus *topology.CPUSet) topology.NUMASet { return nodesOf(w.view, cpus) }
		if set := c.LiesOn(c.Bounds&placement.BoundCPUs != 0, nodes); !c.CPUs.IsEmpty() {
			lying[c.Name] = set
		} else if set != 0 {
			lying[c.Name] = c.Hint.NUMA
		}
		follows = follows || lying[c.Name] != 0 && slices.ContainsFunc(r.Rules.Claimed.Requests, func(a placement.ClaimRequest) bool { return slices.Contains(a.Users, c.Name) })
	}
	if twin := (claimTwin{r: r}); follows && !twin.serves(lying) {
		t.Fatalf("seed %d: on %v, without devices: %+v", seed, lying, *r.Rules.Claimed)
	}
}

func TestObeyNoAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("with the race detector sync.Pool forgets on purpose: run without -race, as make test does once more")
	}
	cfg := obeying()
	kind, pool := placement.DeviceKind{Resource: "x/gpu", Type: topology.GPU}, placement.DevicePool{Resource: "x/gpu", Decided: true}
	for i := range 8 {
		d := placement.PlacedDevice{ID: fmt.Sprintf("0000:%d0:00.0", i), NUMA: topology.NUMAID(i), HasNUMA: true, Root: fmt.Sprint(i), Switch: fmt.Sprint(i)}
		kind.Devices, pool.Devices = append(kind.Devices, d), append(pool.Devices, placement.Device{ID: d.ID, Unhealthy: i == 3})
	}
	cfg.Devices = []placement.DeviceKind{kind}
	m := made.ModelOf(t, m8.view(), cfg)
	s := m.NewState()
	s.SetPool(pool)
	plain := guaranteed("x", placement.Rules{Policy: placement.PolicySingleNUMANode, Scope: placement.PodScope}, app("a", 8000, 4), app("b", 500, 1))
	gpu := app("a", 8000, 4)
	gpu.Devices = []placement.DeviceRequest{{Resource: "x/gpu", Count: 1}}
	rules := placement.Rules{Policy: placement.PolicySingleNUMANode, Devices: placement.DeviceRules{Same: joint.OneSwitch, SameHow: joint.Required}}
	devices, asOne := guaranteed("x", rules, gpu, app("b", 500, 1)), guaranteed("x", rules, gpu, app("b", 500, 1))
	asOne.Rules.Scope = placement.PodScope
	again := guaranteed("x", placement.Rules{Policy: placement.PolicySingleNUMANode}, app("a", 2000, 1), app("b", 6000, 1), app("c", 7000, 1))
	for r, on := range map[*placement.Request]*placement.State{&plain: s, &devices: s, &asOne: s, &again: state(t, two8.view(), obeying())} {
		var d placement.Decision
		ask := func() {
			if v := placement.Decide(on, r, &d); !v.OK() {
				t.Fatal(v)
			}
		}
		for range 20 {
			ask()
		}
		if n := testing.AllocsPerRun(200, ask); n >= 1 {
			t.Errorf("Decide allocates %v times for %+v", n, r)
		}
	}
}

// TestContainersMakeRoomForEachOther: a container does not take resources that another container of
// the same pod needs, even if it comes first.
func TestContainersMakeRoomForEachOther(t *testing.T) {
	s := state(t, two8.view(), obeying()) // 7 CPUs on NUMA node 0, 8 on 1
	single := placement.Rules{Policy: placement.PolicySingleNUMANode}
	small, large := app("small", 7000, 1), app("large", 8000, 1)
	begin := placement.ContainerRequest{Name: "begin", Kind: placement.Init, MilliCPU: 8000}
	for name, c := range map[string]struct {
		containers []placement.ContainerRequest
		want       string
	}{
		"in order":             {[]placement.ContainerRequest{large, small}, "large 1, small 0"},
		"the other way round":  {[]placement.ContainerRequest{app("two", 2000, 1), app("six", 6000, 1), app("seven", 7000, 1)}, "two 1, six 1, seven 0"},
		"an init container":    {[]placement.ContainerRequest{begin, small}, "begin 1, small 0"},
		"with CPU time":        {[]placement.ContainerRequest{app("some", 500, 1), small, app("rest", 7000, 1)}, "some 1, small 0, rest 1"},
		"more than there is":   {[]placement.ContainerRequest{small, large, app("more", 1000, 1)}, ""},
		"none of them fits":    {[]placement.ContainerRequest{app("nine", 9000, 1), app("one", 1000, 1)}, ""},
		"nowhere for the last": {[]placement.ContainerRequest{app("four", 4000, 1), app("five", 5000, 1), app("six", 6000, 1)}, ""},
	} {
		r := guaranteed("x", single, c.containers...)
		var d placement.Decision
		v := placement.Decide(s, &r, &d)
		var got []string
		for i := range d.Containers {
			got = append(got, d.Containers[i].Name+" "+d.Containers[i].Hint.NUMA.String())
		}
		if text := strings.Join(got, ", "); v.OK() != (c.want != "") || v.OK() && text != c.want {
			t.Errorf("%s: %v: %s, want %q", name, v.Detail, text, c.want)
		}
	}
}

func BenchmarkObey(b *testing.B) {
	for _, scope := range []placement.Scope{placement.ContainerScope, placement.PodScope} {
		b.Run(scope.String(), func(b *testing.B) {
			m := made.ModelOf(b, m8.view(), obeying())
			s := m.NewState()
			r := guaranteed("x", placement.Rules{Policy: placement.PolicySingleNUMANode, Scope: scope}, app("a", 8000, 4))
			b.ReportAllocs()
			for b.Loop() {
				placement.Admit(s, &r)
			}
		})
	}
}

// TestObeyRefusalsSayWhatIsMissing checks the sentences for users.
func TestObeyRefusalsSayWhatIsMissing(t *testing.T) {
	s := state(t, two8.view(), obeying())
	single := placement.Rules{Policy: placement.PolicySingleNUMANode}
	for want, r := range map[string]placement.Request{
		"NUMA 0 has 7 free CPUs (9 needed), NUMA 1 has 8":                    guaranteed("x", single, app("a", 9000, 4)),
		"the node has 15 free CPUs (16 needed)":                              guaranteed("x", single, app("a", 16000, 4)),
		"NUMA 0 has 16Gi free memory (17Gi needed), NUMA 1 has 16Gi":         guaranteed("x", single, app("a", 1000, 17)),
		"NUMA 0 has 7000 free cpu shares (m) (9500 needed), NUMA 1 has 8000": guaranteed("x", single, app("a", 9500, 0)),
	} {
		if got := placement.Explain(s, &r).String(); !strings.Contains(got, want) {
			t.Errorf("%q, want %q in it", got, want)
		}
	}
}

// TestDevicesAreExplained: for each device of the requested kinds, the refusal has its holder, that
// it is unhealthy, or the reason why the pod cannot use it.
func TestDevicesAreExplained(t *testing.T) {
	cfg := obeying()
	gpu := placement.DeviceKind{Resource: "x/gpu", Type: topology.GPU, Devices: []placement.PlacedDevice{
		{ID: "g0", HasNUMA: true, Root: "r0", Switch: "s0"}, {ID: "g1", HasNUMA: true, Root: "r0", Switch: "s1"},
		{ID: "g2", NUMA: 1, HasNUMA: true, Root: "r1", Switch: "s2"}, {ID: "g3", NUMA: 1, HasNUMA: true, Root: "r1"},
	}}
	nic := placement.DeviceKind{Resource: "x/nic", Type: topology.RDMANIC, Devices: []placement.PlacedDevice{
		{ID: "n0", HasNUMA: true, Root: "r0", Switch: "s0"}, {ID: "n2", NUMA: 1, HasNUMA: true, Root: "r1", Switch: "s2"},
	}}
	cfg.Devices = []placement.DeviceKind{gpu, nic}
	m := made.ModelOf(t, two8.view(), cfg)
	s := m.NewState()
	s.SetPool(placement.DevicePool{Resource: "x/gpu", Decided: true, Devices: []placement.Device{{ID: "g0"}, {ID: "g1"}, {ID: "g2", Unhealthy: true}, {ID: "g3"}}})
	s.SetPool(placement.DevicePool{Resource: "x/nic", Decided: true, Devices: []placement.Device{{ID: "n0"}, {ID: "n2"}}})
	s.Hold(&placement.PodAllocation{UID: "other", Containers: []placement.ContainerAllocation{{Name: "c", Devices: []placement.DeviceAllocation{{Resource: "x/nic", IDs: []string{"n0"}}}}}})
	ask := func(rules placement.Rules, milli int64) placement.Refusal {
		r := placement.Request{UID: "x", Rules: rules, Containers: []placement.ContainerRequest{{Name: "a", MilliCPU: milli,
			Devices: []placement.DeviceRequest{{Resource: "x/gpu", Count: 1}, {Resource: "x/nic", Count: 1}}}}}
		return placement.Explain(s, &r)
	}
	together := ask(placement.Rules{Devices: placement.DeviceRules{Same: joint.SameSwitch, SameHow: joint.Required}}, 500)
	var got []string
	for _, d := range together.Devices {
		got = append(got, fmt.Sprintf("%s %s %s", d.ID, d.Holder, d.Why))
	}
	want := []string{"g0  free, and its switch has no free x/nic", "g1  free, and its switch has no free x/nic", "g2  unhealthy", "g3  free, and below no switch",
		"n0 other held", "n2  free, and its switch has no free x/gpu"}
	if together.Detail != placement.NotTogether || !slices.Equal(got, want) {
		t.Errorf("%v: got\n%s\nwant\n%s", together.Detail, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if table := together.Table(); !strings.Contains(table, "x/nic") || !strings.Contains(table, "held by other") || !strings.Contains(table, "s2") {
		t.Error(table)
	}
	narrow := ask(placement.Rules{Policy: placement.PolicySingleNUMANode}, 9500)
	if narrow.Reason == placement.Admitted || len(narrow.Devices) != 6 || narrow.Devices[3].Why != "free, and NUMA 1 has too little cpu shares (m)" {
		t.Errorf("%+v", narrow.Devices)
	}
	many := placement.Request{UID: "x", Containers: []placement.ContainerRequest{{Name: "a", Devices: []placement.DeviceRequest{{Resource: "x/nic", Count: 2}}}}}
	if got, want := placement.Explain(s, &many).String(), "the node has 1 free x/nic (2 needed)"; !strings.Contains(got, want) {
		t.Errorf("%q, want %q in it", got, want)
	}
}

// TestFit: on a node that prefers its emptiest NUMA nodes, Fit returns the percentage of unused
// NUMA nodes. On other nodes the scheduler computes the fit.
func TestFit(t *testing.T) {
	four8 := machine{1, 4, 8, 1, 16 << 30, 0}
	least := obeying()
	least.Strategy = joint.LeastAllocated
	s := state(t, four8.view(), least)
	for _, want := range []int{75, 50, 25, 0, 0} {
		r := guaranteed(fmt.Sprint("pod", want), placement.Rules{}, app("a", 3000, 0))
		var d placement.Decision
		v := placement.Decide(s, &r, &d)
		if !v.OK() {
			t.Fatal(v)
		}
		if got, own := s.Fit(v.NUMA); got != want || !own {
			t.Errorf("%s: %d, own %t; want %d", tell(&d), got, own, want)
		}
		s.Commit(&r, &d)
	}
	for name, c := range map[string]placement.Config{"MostAllocated": obeying(), "the kubelet decides": {}} {
		if _, own := state(t, four8.view(), c).Fit(1); own {
			t.Errorf("%s: a strategy of its own", name)
		}
	}
}
