package placement_test

import (
	"cmp"
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology"
)

// TestForetell has single answers. There are four NUMA nodes of 4 CPUs, some near each other and
// some far apart.
func TestForetell(t *testing.T) {
	four := machine{2, 2, 4, 1, 16 << 30, 0}
	two := placement.Rules{NUMANodes: 2}
	each := placement.Rules{NUMANodes: 2, Scope: placement.ContainerScope}
	for _, c := range []struct {
		name, policy, scope string
		change              func(*placement.Config)
		r                   placement.Request
		want                placement.Foresight
		width               int
	}{
		{name: "nothing said", policy: "none", r: guaranteed("x", placement.Rules{}, app("a", 6000, 1))},
		{name: "none", policy: "none", r: guaranteed("x", two, app("a", 6000, 1)), want: placement.PolicyOpen},
		{name: "best-effort", policy: "best-effort", r: guaranteed("x", two, app("a", 6000, 1)), want: placement.PolicyOpen},
		{name: "as many as it takes", policy: "restricted", r: guaranteed("x", two, app("a", 6000, 1)), width: 2},
		{name: "beside shared CPUs", policy: "restricted", r: guaranteed("x", two, app("a", 6000, 1), app("b", 500, 1)), width: 2},
		{name: "fewer would do", policy: "restricted", r: guaranteed("x", two, app("a", 4000, 1)), want: placement.OtherNumber, width: 1},
		{name: "one", policy: "restricted", r: guaranteed("x", placement.Rules{NUMANodes: 1}, app("a", 4000, 1)), width: 1},
		{name: "all", policy: "restricted", r: guaranteed("x", placement.Rules{NUMANodes: 4}, app("a", 13000, 1)), width: 4},
		{name: "single", policy: "single-numa-node", r: guaranteed("x", placement.Rules{NUMANodes: 1}, app("a", 4000, 1)), width: 1},
		{name: "single and two", policy: "single-numa-node", r: guaranteed("x", two, app("a", 4000, 1)), want: placement.OtherNumber, width: 1},
		{name: "two containers", policy: "restricted", r: guaranteed("x", two, app("a", 6000, 1), app("b", 6000, 1)), want: placement.ScopeOpen},
		{name: "two containers, each", policy: "restricted", r: guaranteed("x", each, app("a", 6000, 1), app("b", 6000, 1)), width: 2},
		{name: "two containers, not each", policy: "restricted", r: guaranteed("x", each, app("b", 2000, 1), app("a", 6000, 1)), want: placement.OtherNumber, width: 1},
		{name: "the same the other way round", policy: "restricted", r: guaranteed("x", each, app("a", 6000, 1), app("b", 2000, 1)), want: placement.OtherNumber, width: 1},
		{name: "two containers as one", policy: "restricted", scope: "pod", r: guaranteed("x", two, app("a", 3000, 1), app("b", 3000, 1)), width: 2},
		{name: "Burstable", policy: "restricted", r: placement.Request{UID: "x", Rules: two, Containers: []placement.ContainerRequest{app("a", 6000, 1)}}, want: placement.PinsOpen},
		{name: "no CPU manager", policy: "restricted", change: func(c *placement.Config) { c.CPUManagerPolicy, c.CPUManagerPolicyOptions = "none", nil },
			r: guaranteed("x", two, app("a", 6000, 1)), want: placement.PinsOpen},
		{name: "not by distance", policy: "restricted", change: func(c *placement.Config) { c.TopologyManagerPolicyOptions = nil },
			r: guaranteed("x", two, app("a", 6000, 1)), want: placement.DistanceOpen},
		{name: "all, whatever the distance", policy: "restricted", change: func(c *placement.Config) { c.TopologyManagerPolicyOptions = nil },
			r: guaranteed("x", placement.Rules{NUMANodes: 4}, app("a", 13000, 1)), width: 4},
		{name: "by sockets", policy: "restricted", change: func(c *placement.Config) {
			c.CPUManagerPolicyOptions = map[string]string{"align-by-socket": "true"}
			c.FeatureGates = map[string]bool{"CPUManagerPolicyAlphaOptions": true}
		}, r: guaranteed("x", two, app("a", 6000, 1)), want: placement.SocketsOpen},
	} {
		cfg := placement.Config{CPUManagerPolicy: "static", ReservedMilliCPU: 1000, TopologyManagerPolicy: c.policy, TopologyManagerScope: c.scope,
			TopologyManagerPolicyOptions: map[string]string{"prefer-closest-numa-nodes": "true"}}
		if c.change != nil {
			c.change(&cfg)
		}
		m, err := placement.NewModel(four.view(), cfg)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got, width := m.Foretell(&c.r); got != c.want || width != c.width {
			t.Errorf("%s: %d, %d NUMA nodes, want %d, %d", c.name, got, width, c.want, c.width)
		}
	}
}

// TestForetold: predictions come true whatever resources a kubelet has allocated. The test ignores
// which NUMA nodes are the nearest, because the merger determines that.
func TestForetold(t *testing.T) {
	admitted, wide := 0, 0
	for seed := range uint64(8000) {
		live(t, seed, func(w *world) {
			r := w.request()
			if w.r.IntN(2) == 0 {
				r.Containers[len(r.Containers)-1].MilliCPU = 1000 * int64(1+w.r.IntN(12))
			}
			if w.r.IntN(3) == 0 {
				r.Rules.Scope = placement.ContainerScope
			}
			for n := uint8(1); n < 4; n++ {
				r.Rules.NUMANodes = n
				var d placement.Decision
				f, _ := w.model.Foretell(&r)
				if f != placement.Foretold && f != placement.DistanceOpen || !w.model.Keeps(placement.Rules{Scope: r.Rules.Scope}) || placement.Decide(w.state, &r, &d).Reason != placement.Admitted {
					continue
				}
				var pod topology.NUMASet
				for i := range d.Containers {
					c := d.Containers[i]
					c.Devices = nil
					held := w.heldBy(&c, nil)
					if pod |= held; r.Rules.Scope == placement.ContainerScope && held != 0 && held.Len() != int(n) {
						t.Fatalf("seed %d: %s is on NUMA nodes %v, and %d were foretold: %+v: %+v", seed, c.Name, held, n, r, d)
					}
				}
				if r.Rules.Scope != placement.ContainerScope && pod.Len() != int(n) {
					t.Fatalf("seed %d: the pod is on NUMA nodes %v, and %d were foretold: %+v: %+v", seed, pod, n, r, d)
				}
				if admitted++; n > 1 {
					wide++
				}
			}
		})
	}
	if admitted < 500 || wide < 100 {
		t.Errorf("%d admitted, %d of them on several NUMA nodes: want more", admitted, wide)
	}
}

// TestForetellDevices has single answers of kubelets, with single-numa-node unless the case says
// otherwise.
func TestForetellDevices(t *testing.T) {
	const gpu, nic = "example.com/gpu", "example.com/nic"
	with := func(name string, kind placement.ContainerKind, milli, gpus, nics int64) placement.ContainerRequest {
		c := app(name, milli, 1)
		c.Kind, c.Devices = kind, []placement.DeviceRequest{{Resource: gpu, Count: gpus}}
		if nics >= 0 {
			c.Devices = append(c.Devices, placement.DeviceRequest{Resource: nic, Count: nics})
		}
		return c
	}
	two := placement.Rules{Devices: placement.DeviceRules{PerNode: 2}}
	each := placement.Rules{Scope: placement.ContainerScope, Devices: placement.DeviceRules{PerNode: 2}}
	for _, c := range []struct {
		name, policy, scope string
		r                   placement.Request
		want                placement.Foresight
		resource            string
	}{
		{name: "two of one", r: guaranteed("x", two, with("a", placement.App, 1000, 2, -1))},
		{name: "two of both", r: guaranteed("x", two, with("a", placement.App, 1000, 2, 2))},
		{name: "two and none", r: guaranteed("x", two, with("a", placement.App, 1000, 2, 0))},
		{name: "two and one", r: guaranteed("x", two, with("a", placement.App, 1000, 2, 1)), want: placement.OtherDevices, resource: nic},
		{name: "four", r: guaranteed("x", two, with("a", placement.App, 1000, 4, -1)), want: placement.OtherDevices, resource: gpu},
		{name: "nothing said", policy: "none", r: guaranteed("x", placement.Rules{}, with("a", placement.App, 1000, 4, -1))},
		{name: "none", policy: "none", r: guaranteed("x", two, with("a", placement.App, 1000, 2, -1)), want: placement.PolicyOpen, resource: gpu},
		{name: "none, all", policy: "none", r: guaranteed("x", two, with("a", placement.App, 1000, 4, -1))},
		{name: "best-effort, all of one", policy: "best-effort", r: guaranteed("x", two, with("a", placement.App, 1000, 4, 2)), want: placement.PolicyOpen, resource: nic},
		{name: "best-effort, all of both", policy: "best-effort", r: guaranteed("x", two, with("a", placement.App, 1000, 2, 4), with("b", placement.App, 1000, 2, -1))},
		{name: "best-effort, all in each", policy: "best-effort", r: guaranteed("x", each, with("a", placement.App, 1000, 2, -1), with("b", placement.App, 1000, 2, -1)), want: placement.PolicyOpen, resource: gpu},
		{name: "none, no devices", policy: "none", r: guaranteed("x", two, app("a", 1000, 1)), want: placement.PolicyOpen},
		{name: "restricted, on one", policy: "restricted", r: guaranteed("x", two, with("a", placement.App, 1000, 2, -1))},
		{name: "restricted, on two", policy: "restricted", r: guaranteed("x", two, with("a", placement.App, 1000, 4, 4))},
		{name: "restricted, on one and on two", policy: "restricted", r: guaranteed("x", two, with("a", placement.App, 1000, 2, 4)), want: placement.OtherDevices, resource: nic},
		{name: "restricted, no multiple", policy: "restricted", r: guaranteed("x", two, with("a", placement.App, 1000, 3, -1)), want: placement.OtherDevices, resource: gpu},
		{name: "restricted, beside CPUs", policy: "restricted", r: guaranteed("x", two, with("a", placement.App, 1000, 4, -1), app("b", 1000, 1)), want: placement.ScopeOpen},
		{name: "restricted, as one", policy: "restricted", scope: "pod", r: guaranteed("x", two, with("a", placement.App, 1000, 1, 4), with("b", placement.App, 1000, 3, -1))},
		{name: "restricted, each another number", policy: "restricted", r: guaranteed("x", each, with("a", placement.App, 1000, 2, -1), with("b", placement.App, 1000, 4, -1))},
		{name: "beside shared CPUs", r: guaranteed("x", two, with("a", placement.App, 1000, 2, -1), app("b", 500, 1))},
		{name: "beside CPUs", r: guaranteed("x", two, with("a", placement.App, 1000, 2, -1), app("b", 1000, 1)), want: placement.ScopeOpen},
		{name: "each its own", r: guaranteed("x", each, with("a", placement.App, 1000, 2, -1), with("b", placement.App, 1000, 2, 2))},
		{name: "each half", r: guaranteed("x", each, with("a", placement.App, 1000, 1, -1), with("b", placement.App, 1000, 1, -1)), want: placement.OtherDevices, resource: gpu},
		{name: "as one", scope: "pod", r: guaranteed("x", two, with("a", placement.App, 1000, 1, 2), with("b", placement.App, 1000, 1, -1))},
		{name: "one after the other", scope: "pod", r: guaranteed("x", two, with("i", placement.Init, 1000, 2, -1), with("a", placement.App, 1000, 1, -1))},
		{name: "as one, four", scope: "pod", r: guaranteed("x", two, with("a", placement.App, 1000, 2, -1), with("b", placement.App, 1000, 2, -1)), want: placement.OtherDevices, resource: gpu},
		{name: "Burstable", r: placement.Request{UID: "x", Rules: two, Containers: []placement.ContainerRequest{with("a", placement.App, 1000, 2, -1), app("b", 1000, 1)}}},
	} {
		m, err := placement.NewModel(two8.view(), placement.Config{CPUManagerPolicy: "static", ReservedMilliCPU: 1000,
			TopologyManagerPolicy: cmp.Or(c.policy, "single-numa-node"), TopologyManagerScope: c.scope})
		if err != nil {
			t.Fatal(err)
		}
		if got, resource := m.ForetellDevices(&c.r); got != c.want || resource != c.resource {
			t.Errorf("%s: %d %q, want %d %q", c.name, got, resource, c.want, c.resource)
		}
	}
}

// TestDevicesForetold: whatever resources a kubelet has allocated, an admitted pod has the
// requested number of devices on each of its NUMA nodes. A pod is only refused for the kubelet's
// own reasons, unless a device is not on exactly one NUMA node, or another number is possible.
func TestDevicesForetold(t *testing.T) {
	var admitted, wide, nowhere, open, several int
	for seed := range uint64(16000) {
		live(t, seed, func(w *world) {
			pools := w.state.Snapshot().Devices
			if len(pools) == 0 {
				return
			}
			state, has, plain := w.state.Clone(), map[topology.NUMAID]int64{}, true
			where := map[string]topology.NUMASet{}
			if w.r.IntN(4) > 0 { // the plugin now reports NUMA nodes for each device
				evenly := w.r.IntN(2) == 0
				for i := range pools[0].Devices {
					dev := &pools[0].Devices[i]
					dev.HasTopology, dev.NUMA = true, topology.NewNUMASet(pick(w.r, w.view.Nodes...).ID)
					if evenly {
						dev.NUMA = topology.NewNUMASet(w.view.Nodes[i%len(w.view.Nodes)].ID)
					}
				}
				state.SetPool(pools[0])
			}
			for _, dev := range pools[0].Devices {
				if where[dev.ID] = dev.NUMA; !dev.HasTopology || dev.NUMA.Len() != 1 {
					plain = false
					continue
				}
				has[dev.NUMA.Lowest()]++
			}
			r := w.request()
			if w.r.IntN(3) == 0 {
				r.Rules.Scope = placement.ContainerScope
			}
			if w.r.IntN(3) == 0 { // one container that requests all devices
				r.Containers = r.Containers[len(r.Containers)-1:]
				r.Containers[0].Devices = []placement.DeviceRequest{{Resource: pools[0].Resource, Count: int64(len(pools[0].Devices))}}
			}
			r.Rules.Devices.PerNode = uint8(1 + w.r.IntN(2))
			wordless := r
			wordless.Rules = placement.Rules{}
			var d placement.Decision
			before := placement.Admit(state, &wordless)
			if f, _ := w.model.ForetellDevices(&r); f != placement.Foretold || !w.model.Keeps(r.Rules) {
				return
			}
			v := placement.Decide(state, &r, &d)
			switch {
			case v.Detail == placement.DevicesNowhere && plain:
				t.Fatalf("seed %d: refused though each device is on one NUMA node: %+v", seed, pools)
			case v.Detail == placement.DevicesNowhere:
				nowhere++
				return
			case v.Detail == placement.DevicesOpen:
				if open++; plain && sureTwin(w, &r, has) {
					t.Fatalf("seed %d: refused though no other number can come of it: %+v: %+v", seed, r, pools)
				}
				return
			case v != before:
				t.Fatalf("seed %d: %+v, and without the word %+v", seed, v, before)
			case !v.OK():
				return
			}
			check := func(name string, of []placement.ContainerDecision) {
				var held, on topology.NUMASet
				ids, each := map[string]bool{}, map[topology.NUMASet]int{}
				for i := range of {
					c := of[i]
					for _, a := range c.Devices {
						for _, id := range a.IDs {
							if !ids[id] {
								each[where[id]]++
							}
							ids[id] = true
							on |= where[id]
						}
					}
					c.Devices = nil
					held |= w.heldBy(&c, nil)
				}
				if len(ids) == 0 {
					return
				}
				for _, n := range each {
					if n != int(r.Rules.Devices.PerNode) || held&^on != 0 || !plain {
						t.Fatalf("seed %d: %s has devices %v on %v and the rest on %v: %+v: %+v", seed, name, ids, on, held, r, d)
					}
				}
				if admitted++; len(each) > 1 {
					wide++
				}
				if len(of) > 1 {
					several++
				}
			}
			if r.Rules.Scope != placement.ContainerScope {
				check("the pod", d.Containers)
				return
			}
			for i := range d.Containers {
				check(d.Containers[i].Name, d.Containers[i:i+1])
			}
		})
	}
	if admitted < 1000 || wide < 100 || nowhere < 100 || open < 100 || several < 100 {
		t.Errorf("%d admitted, %d on several NUMA nodes, %d of several containers, %d refused for their devices and %d for what they leave open: want more",
			admitted, wide, several, nowhere, open)
	}
}

// sureTwin reports whether every possible choice of devices for a container, or for the pod, has
// the requested number on each NUMA node. It tries all sets of NUMA nodes, and all numbers of
// devices.
func sureTwin(w *world, r *placement.Request, has map[topology.NUMAID]int64) bool {
	ids := make([]topology.NUMAID, 0, len(w.view.Nodes))
	for i := range w.view.Nodes {
		ids = append(ids, w.view.Nodes[i].ID)
	}
	n, sure := int64(r.Rules.Devices.PerNode), true
	var tryNumbers func(of []topology.NUMAID, left int64, even bool)
	tryNumbers = func(of []topology.NUMAID, left int64, even bool) {
		if len(of) == 0 {
			sure = sure && (left > 0 || even)
			return
		}
		for x := range min(left, has[of[0]]) + 1 {
			tryNumbers(of[1:], left-x, even && x == n)
		}
	}
	tryAll := func(asked int64) {
		for width := 1; width <= len(ids); width++ {
			found := false
			for mask := range 1 << len(ids) {
				var of []topology.NUMAID
				var sum int64
				for i, id := range ids {
					if mask>>i&1 == 1 {
						of, sum = append(of, id), sum+has[id]
					}
				}
				if sum < asked || len(of) != width && w.cfg.TopologyManagerPolicy == "restricted" || len(of) < len(ids) && w.cfg.TopologyManagerPolicy != "restricted" {
					continue
				}
				found = true
				tryNumbers(of, asked, true)
			}
			if found {
				return
			}
		}
		sure = false
	}
	together := w.cfg.TopologyManagerScope == "pod" || w.cfg.TopologyManagerPolicy != "restricted" && r.Rules.Scope != placement.ContainerScope
	var sidecars, peak, apps int64
	for c := range r.Containers {
		for _, d := range r.Containers[c].Devices {
			if !together && d.Count > 0 {
				tryAll(d.Count)
			}
			switch r.Containers[c].Kind {
			case placement.Sidecar:
				sidecars += d.Count
			case placement.Init:
				peak = max(peak, sidecars+d.Count)
			default:
				apps += d.Count
			}
		}
	}
	if together {
		tryAll(max(peak, sidecars+apps))
	}
	return sure
}

// TestDevicesOpen: it depends on the numbers of devices on the NUMA nodes whether a kubelet
// certainly gives the requested number on each.
func TestDevicesOpen(t *testing.T) {
	const gpu = "example.com/gpu"
	for _, c := range []struct {
		policy string
		has    []int // by NUMA node
		asked  int64
		open   bool
	}{
		{"single-numa-node", []int{4, 4}, 2, false},
		{"restricted", []int{4, 4}, 2, false}, // one NUMA node suffices
		{"restricted", []int{2, 0}, 2, false},
		{"restricted", []int{1, 1}, 2, true}, // one of each
		{"restricted", []int{2, 2}, 4, false},
		{"restricted", []int{3, 2}, 4, true}, // three and one
		{"restricted", []int{4, 4}, 4, true}, // four of one
		{"restricted", []int{2, 2, 2, 2}, 4, false},
		{"restricted", []int{2, 2, 1, 1}, 4, false},
		{"restricted", []int{2, 2, 1, 1}, 6, true},
		{"best-effort", []int{2, 2}, 4, false}, // all devices
		{"none", []int{2, 2}, 4, false},
		{"none", []int{3, 1}, 4, true},
		{"none", []int{3, 2}, 4, true},
	} {
		numa := machine{1, len(c.has), 8, 1, 16 << 30, 0}
		m := made.ModelOf(t, numa.view(), placement.Config{CPUManagerPolicy: "static", ReservedMilliCPU: 1000, TopologyManagerPolicy: c.policy, GuardDefects: true})
		s, pool := m.NewState(), placement.DevicePool{Resource: gpu, Preference: placement.SortedPreference}
		for node, n := range c.has {
			for i := range n {
				pool.Devices = append(pool.Devices, placement.Device{ID: string(rune('a'+node)) + string(rune('0'+i)), HasTopology: true, NUMA: topology.NewNUMASet(topology.NUMAID(node))})
			}
		}
		s.SetPool(pool)
		r := guaranteed("x", placement.Rules{Devices: placement.DeviceRules{PerNode: 2}}, app("main", 500, 1))
		r.Containers[0].Devices = []placement.DeviceRequest{{Resource: gpu, Count: c.asked}}
		if f, _ := m.ForetellDevices(&r); f != placement.Foretold {
			t.Errorf("%+v: %d: want it to depend on the devices", c, f)
		}
		v := placement.Admit(s, &r)
		if got := v.Detail == placement.DevicesOpen; got != c.open || !got && !v.OK() || got && v.Scarcity != placement.Unresolvable {
			t.Errorf("%+v: %+v", c, v)
		}
		want := "example.com/gpu: " + placement.DevicesOpen.Text() + " (NoBerth)"
		if got := placement.Explain(s, &r).String(); c.open && got != want || !c.open && got != "admitted" {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// TestDevicesNowhere: a node whose device plugin does not report one NUMA node for each device
// refuses the pod, and the refusal names the resource. Without the guard, the kubelet's own answer
// counts.
func TestDevicesNowhere(t *testing.T) {
	const gpu = "example.com/gpu"
	on := func(nodes ...topology.NUMAID) placement.Device {
		return placement.Device{HasTopology: true, NUMA: topology.NewNUMASet(nodes...)}
	}
	r := guaranteed("x", placement.Rules{Devices: placement.DeviceRules{PerNode: 2}}, app("first", 500, 1), app("main", 1000, 1))
	r.Containers[1].Devices = []placement.DeviceRequest{{Resource: gpu, Count: 2}}
	for _, c := range []struct {
		name     string
		devices  []placement.Device
		wordless bool
		alone    bool // without a guard
		none     bool // no plugin at all
		refused  bool
	}{
		{name: "one each", devices: []placement.Device{on(0), on(0), on(1)}},
		{name: "one nowhere", devices: []placement.Device{on(0), on(0), {}}, refused: true},
		{name: "one on two", devices: []placement.Device{on(0), on(0), on(0, 1)}, refused: true},
		{name: "a topology without nodes", devices: []placement.Device{on(0), on(0), on()}, refused: true},
		{name: "no plugin", none: true, refused: true},
		{name: "no word", devices: []placement.Device{{}, {}}, wordless: true},
		{name: "no guard", devices: []placement.Device{{}, {}}, alone: true},
	} {
		m := made.ModelOf(t, two8.view(), placement.Config{CPUManagerPolicy: "static", ReservedMilliCPU: 1000, TopologyManagerPolicy: "single-numa-node", GuardDefects: !c.alone})
		s, ask := m.NewState(), r
		if c.wordless {
			ask.Rules = placement.Rules{}
		}
		for i := range c.devices {
			c.devices[i].ID = string(rune('a' + i))
		}
		if !c.none {
			s.SetPool(placement.DevicePool{Resource: gpu, Preference: placement.SortedPreference, Devices: c.devices})
		}
		v := placement.Admit(s, &ask)
		if got := v.Detail == placement.DevicesNowhere; got != c.refused || !got && !v.OK() || got && v.Scarcity != placement.Unresolvable {
			t.Errorf("%s: %+v", c.name, v)
		}
		const want = "container main: example.com/gpu: berth.dev/devices requires a number of devices on each NUMA node, and the device plugin does not report one NUMA node for each device (NoBerth)"
		if got := placement.Explain(s, &ask).String(); c.refused && got != want || !c.refused && got != "admitted" {
			t.Errorf("%s: %q", c.name, got)
		}
	}

	// A pod that already runs is admitted again by a starting kubelet.
	m := made.ModelOf(t, two8.view(), placement.Config{TopologyManagerPolicy: "single-numa-node", GuardDefects: true})
	s := m.NewState()
	s.SetPool(placement.DevicePool{Resource: gpu, Preference: placement.SortedPreference, Devices: []placement.Device{{ID: "a"}, {ID: "b"}}})
	var d placement.Decision
	before := r
	before.Rules = placement.Rules{}
	if v := placement.Decide(s, &before, &d); !v.OK() {
		t.Fatal(v)
	}
	s.Commit(&before, &d)
	if v := placement.Admit(s, &r); !v.OK() {
		t.Errorf("admitted again: %+v", v)
	}
}
