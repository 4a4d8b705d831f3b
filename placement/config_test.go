package placement_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// TestConfigErrors: configurations with which a kubelet would not start, or which cannot be
// predicted, are refused, and the error names the field.
func TestConfigErrors(t *testing.T) {
	type edit func(*placement.KubeletView, *placement.Config)
	option := func(name, value string) edit {
		return func(_ *placement.KubeletView, c *placement.Config) {
			if c.CPUManagerPolicyOptions == nil {
				c.CPUManagerPolicyOptions = map[string]string{}
			}
			c.CPUManagerPolicyOptions[name] = value
		}
	}
	topologyOption := func(name, value string) edit {
		return func(_ *placement.KubeletView, c *placement.Config) {
			c.TopologyManagerPolicyOptions = map[string]string{name: value}
		}
	}
	both := func(edits ...edit) edit {
		return func(v *placement.KubeletView, c *placement.Config) {
			for _, e := range edits {
				e(v, c)
			}
		}
	}
	config := func(f func(*placement.Config)) edit {
		return func(_ *placement.KubeletView, c *placement.Config) { f(c) }
	}
	view := func(f func(*placement.KubeletView)) edit {
		return func(v *placement.KubeletView, _ *placement.Config) { f(v) }
	}
	alpha := config(func(c *placement.Config) { c.FeatureGates = map[string]bool{"CPUManagerPolicyAlphaOptions": true} })
	for name, test := range map[string]struct {
		edit        edit
		field       string
		unsupported bool
	}{
		"release":         {config(func(c *placement.Config) { c.Version = 32 }), "version", true},
		"CPU policy":      {config(func(c *placement.Config) { c.CPUManagerPolicy = "dynamic" }), "cpuManagerPolicy", false},
		"memory policy":   {config(func(c *placement.Config) { c.MemoryManagerPolicy = "static" }), "memoryManagerPolicy", false},
		"topology policy": {config(func(c *placement.Config) { c.TopologyManagerPolicy = "strict" }), "topologyManagerPolicy", false},
		"scope":           {config(func(c *placement.Config) { c.TopologyManagerScope = "node" }), "topologyManagerScope", false},
		"pod-level managers": {config(func(c *placement.Config) {
			c.FeatureGates = map[string]bool{"PodLevelResourceManagers": true, "PodLevelResources": false}
		}), "featureGates[PodLevelResourceManagers]", false},
		"pod-level, too old": {config(func(c *placement.Config) {
			c.Version, c.FeatureGates = placement.V135, map[string]bool{"PodLevelResourceManagers": true}
		}), "featureGates[PodLevelResourceManagers]", false},
		"unknown option":     {option("no-such-option", "true"), "cpuManagerPolicyOptions[no-such-option]", false},
		"option's value":     {option("full-pcpus-only", "maybe"), "cpuManagerPolicyOptions[full-pcpus-only]", false},
		"alpha option":       {option("align-by-socket", "true"), "cpuManagerPolicyOptions[align-by-socket]", false},
		"options with none":  {both(option("full-pcpus-only", "true"), config(func(c *placement.Config) { c.CPUManagerPolicy = "none" })), "cpuManagerPolicyOptions[full-pcpus-only]", false},
		"cores and cores":    {both(alpha, option("full-pcpus-only", "true"), option("distribute-cpus-across-cores", "true")), "cpuManagerPolicyOptions[distribute-cpus-across-cores]", false},
		"cores and NUMA":     {both(alpha, option("distribute-cpus-across-numa", "true"), option("distribute-cpus-across-cores", "true")), "cpuManagerPolicyOptions[distribute-cpus-across-cores]", false},
		"cores and caches":   {both(alpha, option("prefer-align-cpus-by-uncorecache", "true"), option("distribute-cpus-across-cores", "true")), "cpuManagerPolicyOptions[distribute-cpus-across-cores]", false},
		"NUMA and caches":    {both(option("prefer-align-cpus-by-uncorecache", "true"), option("distribute-cpus-across-numa", "true")), "cpuManagerPolicyOptions[distribute-cpus-across-numa]", false},
		"socket and single":  {both(alpha, option("align-by-socket", "true"), config(func(c *placement.Config) { c.TopologyManagerPolicy = "single-numa-node" })), "cpuManagerPolicyOptions[align-by-socket]", false},
		"more sockets":       {both(alpha, option("align-by-socket", "true"), view(func(v *placement.KubeletView) { v.NumSockets = 9 })), "cpuManagerPolicyOptions[align-by-socket]", false},
		"beta gate off":      {both(option("distribute-cpus-across-numa", "true"), config(func(c *placement.Config) { c.FeatureGates = map[string]bool{"CPUManagerPolicyBetaOptions": false} })), "cpuManagerPolicyOptions[distribute-cpus-across-numa]", false},
		"all beta gates off": {both(option("distribute-cpus-across-numa", "true"), config(func(c *placement.Config) { c.FeatureGates = map[string]bool{"AllBeta": false} })), "cpuManagerPolicyOptions[distribute-cpus-across-numa]", false},
		"topology option":    {topologyOption("no-such-option", "true"), "topologyManagerPolicyOptions[no-such-option]", false},
		"closest":            {topologyOption("prefer-closest-numa-nodes", "maybe"), "topologyManagerPolicyOptions[prefer-closest-numa-nodes]", false},
		"closest, unknown":   {both(topologyOption("prefer-closest-numa-nodes", "true"), view(func(v *placement.KubeletView) { v.Nodes[1].Distances = nil })), "topologyManagerPolicyOptions[prefer-closest-numa-nodes]", false},
		"closest, gaps":      {both(topologyOption("prefer-closest-numa-nodes", "true"), view(func(v *placement.KubeletView) { v.Nodes[1].ID = 9 })), "topologyManagerPolicyOptions[prefer-closest-numa-nodes]", true},
		"maximum":            {topologyOption("max-allowable-numa-nodes", "4"), "topologyManagerPolicyOptions[max-allowable-numa-nodes]", false},
		"too many nodes":     {view(func(v *placement.KubeletView) { manyNodes(v, 9) }), "topologyManagerPolicyOptions[max-allowable-numa-nodes]", false},
		"far too many nodes": {both(topologyOption("max-allowable-numa-nodes", "64"), view(func(v *placement.KubeletView) { manyNodes(v, 17) })), "machine", true},
		"no nodes":           {view(func(v *placement.KubeletView) { v.Nodes = nil }), "machine", false},
		"node id":            {view(func(v *placement.KubeletView) { v.Nodes[1].ID = 64 }), "machine", true},
		"node twice":         {view(func(v *placement.KubeletView) { v.Nodes[1].ID = 0 }), "machine", false},
		"no CPUs":            {view(func(v *placement.KubeletView) { v.NumCores = 0 }), "machine", false},
		"empty core":         {view(func(v *placement.KubeletView) { v.Nodes[1].Cores[0].Threads = nil }), "machine", false},
		"CPU twice":          {view(func(v *placement.KubeletView) { v.Nodes[1].Cores[0].Threads = v.Nodes[0].Cores[0].Threads }), "machine", true},
		"CPU id":             {view(func(v *placement.KubeletView) { v.Nodes[1].Cores[0].Threads = []topology.CPUID{2000} }), "machine", true},
		"reserved text":      {config(func(c *placement.Config) { c.ReservedSystemCPUs = "0-3:2/4" }), "reservedSystemCPUs", false},
		"reserved unknown":   {config(func(c *placement.Config) { c.ReservedSystemCPUs = "900" }), "reservedSystemCPUs", false},
		"nothing reserved":   {config(func(c *placement.Config) { c.ReservedSystemCPUs = "" }), "kubeReserved[cpu]", false},
		"too much reserved":  {config(func(c *placement.Config) { c.ReservedSystemCPUs, c.ReservedMilliCPU = "", 1_000_000 }), "kubeReserved[cpu]", false},
		"no memory reserved": {config(func(c *placement.Config) { c.ReservedMemory = nil }), "reservedMemory", false},
		"reserved nowhere":   {config(func(c *placement.Config) { c.ReservedMemory[0].NUMA = 60 }), "reservedMemory[0].numaNode", false},
		"reserved twice":     {config(func(c *placement.Config) { c.ReservedMemory = append(c.ReservedMemory, c.ReservedMemory[0]) }), "reservedMemory[1].limits[memory]", false},
		"reserved otherwise": {config(func(c *placement.Config) { c.NodeReserved = map[string]uint64{"memory": 1} }), "reservedMemory[*].limits[memory]", false},
		"memory on many":     {both(config(func(c *placement.Config) { c.TopologyManagerPolicy = "none" }), view(func(v *placement.KubeletView) { manyNodes(v, 36) })), "machine", true},
		"unequal cores, full": {both(option("full-pcpus-only", "true"), view(func(v *placement.KubeletView) {
			v.Nodes[0].Cores[0].Threads = v.Nodes[0].Cores[0].Threads[:1]
			v.NumCores--
		}), config(func(c *placement.Config) { c.GuardDefects = true })), "cpuManagerPolicyOptions[full-pcpus-only]", true},
	} {
		v, c := m2.view(), m2.config("restricted")
		test.edit(v, &c)
		_, err := placement.NewModel(v, c)
		var wrong *placement.ConfigError
		if !errors.As(err, &wrong) || wrong.Field != test.field || wrong.Unsupported != test.unsupported {
			t.Errorf("%s: got %v, want an error about %s, unsupported %v", name, err, test.field, test.unsupported)
			continue
		}
		if wrong.Want == "" || !strings.HasPrefix(err.Error(), test.field+": ") {
			t.Errorf("%s: %q does not name the field and what would be right", name, err)
		}
	}
}

// TestClosestOfOneNode: a machine with one NUMA node may be described without distances. A kubelet
// that sees no distances does not start (NewNUMAInfo of pkg/kubelet/cm/topologymanager).
func TestClosestOfOneNode(t *testing.T) {
	m := shapes.Machine("package:1 numa:1 core:4 pu:1 mem:8Gi")
	m.NUMANodes[0].Distances = nil
	v := made.View(t, m)
	c := m2.config("restricted")
	c.TopologyManagerPolicyOptions = map[string]string{"prefer-closest-numa-nodes": "true"}
	if _, err := placement.NewModel(v, c); err != nil {
		t.Error(err)
	}
	v.Nodes[0].Distances = nil
	if _, err := placement.NewModel(v, c); err == nil || !strings.Contains(err.Error(), "the distances of NUMA node 0") {
		t.Errorf("got %v, want an error about the distances of NUMA node 0", err)
	}
}

// TestGatesOfAStage: AllAlpha and AllBeta apply to a gate that is not set by its own name.
func TestGatesOfAStage(t *testing.T) {
	for name, test := range map[string]struct {
		version placement.Version
		gates   map[string]bool
		option  string
	}{
		"alpha options by AllAlpha":       {placement.V136, map[string]bool{"AllAlpha": true}, "align-by-socket"},
		"before there was such a manager": {placement.V135, map[string]bool{"AllAlpha": true}, "align-by-socket"},
		"its own name comes first":        {placement.V136, map[string]bool{"AllBeta": false, "CPUManagerPolicyBetaOptions": true}, "distribute-cpus-across-numa"},
		"options that are GA":             {placement.V136, map[string]bool{"AllBeta": false}, "strict-cpu-reservation"},
	} {
		c := m2.config("restricted")
		c.Version, c.FeatureGates = test.version, test.gates
		c.CPUManagerPolicyOptions = map[string]string{test.option: "true"}
		if _, err := placement.NewModel(m2.view(), c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPodLevelGate: whether kubelets pin CPUs for a pod with pod-level resources. If its
// spec.resources is empty, some determine its QoS class from its containers (v1qos.ComputePodQOS).
func TestPodLevelGate(t *testing.T) {
	off, allOff := map[string]bool{"PodLevelResources": false}, map[string]bool{"AllBeta": false}
	old := map[string]bool{"PodLevelResourcesFixKubeletQOSClass": false}
	for _, test := range []struct {
		empty   bool
		version placement.Version
		gates   map[string]bool
		pins    bool
	}{
		{false, placement.V133, nil, true}, {false, placement.V134, nil, false}, {false, placement.V135, off, true}, {false, placement.V135, allOff, true},
		{false, placement.V136, nil, false}, {false, placement.V136, off, false}, {false, placement.V136, allOff, false},
		{true, placement.V133, nil, true}, {true, placement.V133, map[string]bool{"PodLevelResources": true}, false}, {true, placement.V134, nil, false},
		{true, placement.V135, off, true}, {true, placement.V136, nil, false}, {true, placement.V136, off, true}, {true, placement.V136, allOff, true},
		{true, placement.V137, nil, true}, {true, placement.V137, old, false}, {true, placement.V137, allOff, true},
	} {
		c := m2.config("restricted")
		c.Version, c.FeatureGates = test.version, test.gates
		s := state(t, m2.view(), c)
		r := cpus("p", 2)
		r.PodLevel, r.EmptyLevel = !test.empty, test.empty
		var d placement.Decision
		if v := placement.Decide(s, &r, &d); !v.OK() || !d.Containers[0].CPUs.IsEmpty() != test.pins {
			t.Errorf("%+v: got %+v with CPUs %v", test, v, d.Containers[0].CPUs)
		}
	}
}

// TestPodLevelRefused: whether kubelets refuse a pod with pod-level resources although all managers
// admit it.
func TestPodLevelRefused(t *testing.T) {
	off, allOff := map[string]bool{"PodLevelResources": false}, map[string]bool{"AllBeta": false}
	for _, test := range []struct {
		version  placement.Version
		gates    map[string]bool
		guard    bool
		podLevel bool
		want     placement.Detail
	}{
		{placement.V136, off, true, true, placement.PodLevelOff}, {placement.V134, allOff, true, true, placement.PodLevelOff},
		{placement.V136, off, true, false, placement.NoDetail}, {placement.V136, off, false, true, placement.NoDetail},
		{placement.V136, nil, true, true, placement.NoDetail}, {placement.V133, nil, true, true, placement.NoDetail},
	} {
		c := m2.config("restricted")
		c.Version, c.FeatureGates, c.GuardDefects = test.version, test.gates, test.guard
		s := state(t, m2.view(), c)
		r := cpus("p", 2)
		r.PodLevel = test.podLevel
		v := placement.Admit(s, &r)
		if v.Detail != test.want || !v.OK() && (v.Scarcity != placement.Unresolvable || v.Reason.String() != "PodLevelResourcesNotSupported") {
			t.Errorf("%+v: got %+v", test, v)
		}
		if e := placement.Explain(s, &r); e.Detail != v.Detail || e.Reason != v.Reason || len(e.Needs) > 0 {
			t.Errorf("%+v: explained as %+v", test, e)
		}
	}
}

// TestClaimsGate: whether kubelets also allocate devices that Dynamic Resource Allocation provides.
func TestClaimsGate(t *testing.T) {
	for _, test := range []struct {
		gates map[string]bool
		given int
	}{{nil, 0}, {map[string]bool{"DRAExtendedResource": false}, 1}, {map[string]bool{"AllBeta": false}, 1}} {
		c := m2.config("none")
		c.FeatureGates = test.gates
		s := state(t, m2.view(), c)
		s.SetPool(placement.DevicePool{Resource: "example.com/gpu", Preference: placement.SortedPreference, Devices: []placement.Device{{ID: "a"}}})
		r := cpus("p", 2)
		r.Containers[0].Devices = []placement.DeviceRequest{{Resource: "example.com/gpu", Count: 1, Claimed: true}}
		var d placement.Decision
		if v := placement.Decide(s, &r, &d); !v.OK() || len(d.Containers[0].Devices) != test.given {
			t.Errorf("%v: got %+v with %v", test.gates, v, d.Containers[0].Devices)
		}
	}
}

// manyNodes distributes the first node's cores over n nodes.
func manyNodes(v *placement.KubeletView, n int) {
	cores := v.Nodes[0].Cores
	v.Nodes = nil
	for i := range n {
		v.Nodes = append(v.Nodes, placement.ViewNode{ID: topology.NUMAID(i), MemoryBytes: 8 << 30, Cores: cores[i : i+1]})
	}
	v.NumCores = 2 * n
}

// TestManyNodes: machines with more NUMA nodes than hints support work if no manager asks for
// hints.
func TestManyNodes(t *testing.T) {
	v, c := m2.view(), m2.config("none")
	manyNodes(v, 36)
	c.MemoryManagerPolicy, c.ReservedMemory = "None", nil
	m := made.ModelOf(t, v, c)
	s := m.NewState()
	s.SetPool(placement.DevicePool{Resource: "example.com/gpu", Preference: placement.SortedPreference,
		Devices: []placement.Device{{ID: "a", HasTopology: true, NUMA: 1 << 35}}})
	r := pod2()
	var d placement.Decision
	if v := placement.Decide(s, &r, &d); !v.OK() || d.Containers[0].CPUs.Len() != 8 || len(d.Containers[0].Devices) != 1 {
		t.Errorf("got %+v, %+v", v, d)
	}
	if text := placement.Explain(s, &r).String(); text != "admitted" {
		t.Error(text)
	}
	r.Containers[0].MilliCPU = 900_000
	if text := placement.Explain(s, &r).Table(); !strings.Contains(text, "900") {
		t.Error(text)
	}
}

// TestRaisedMaximum: with max-allowable-numa-nodes, hints support up to 16 nodes.
func TestRaisedMaximum(t *testing.T) {
	for _, policy := range []string{"best-effort", "restricted", "single-numa-node"} {
		v, c := m2.view(), m2.config(policy)
		manyNodes(v, 16)
		c.ReservedSystemCPUs = "0"
		c.TopologyManagerPolicyOptions = map[string]string{"max-allowable-numa-nodes": "16"}
		m := made.ModelOf(t, v, c)
		r := pod1()
		r.Containers[0].MilliCPU, r.Containers[0].Memory[0].Bytes = 6000, 20<<30
		got := placement.Admit(m.NewState(), &r)
		if want := policy != "single-numa-node"; got.OK() != want || want && got.NUMA.Len() != 3 {
			t.Errorf("%s: got %+v", policy, got)
		}
	}
}

// FuzzModel: for every machine and configuration, NewModel returns a working model or a typed
// error.
func FuzzModel(f *testing.F) {
	add := func(v *placement.KubeletView, c placement.Config) {
		text, err := json.Marshal(struct {
			View   *placement.KubeletView
			Config placement.Config
		}{v, c})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	add(machine{1, 2, 2, 2, 8 << 30, 1}.view(), m2.config("best-effort"))
	add(machine{2, 1, 1, 1, 8 << 30, 0}.view(), m2.config("restricted"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var in struct {
			View   placement.KubeletView
			Config placement.Config
		}
		if len(text) > 1<<14 || json.Unmarshal(text, &in) != nil {
			return
		}
		m, err := placement.NewModel(&in.View, in.Config)
		if err != nil {
			var wrong *placement.ConfigError
			if !errors.As(err, &wrong) {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		s := m.NewState()
		for _, r := range []placement.Request{pod1(), pod2()} {
			var d placement.Decision
			if v := placement.Decide(s, &r, &d); v.OK() {
				s.Commit(&r, &d)
			} else {
				reject(s, &r, &d)
			}
			placement.Explain(s, &r)
		}
	})
}

// TestDevicesElsewhere: devices on NUMA nodes that the machine does not have must be aligned but
// cannot be. Devices without NUMA nodes need not be aligned.
func TestDevicesElsewhere(t *testing.T) {
	for name, test := range map[string]struct {
		numa topology.NUMASet
		want placement.Detail
	}{"elsewhere": {1 << 63, placement.NotPreferred}, "no node": {0, placement.NoDetail}} {
		s := state(t, m2.view(), m2.config("restricted"))
		s.SetPool(placement.DevicePool{Resource: "example.com/gpu", Devices: []placement.Device{{ID: "a", HasTopology: true, NUMA: test.numa}}})
		r := cpus("p", 2)
		r.Containers[0].Devices = []placement.DeviceRequest{{Resource: "example.com/gpu", Count: 1}}
		if v := placement.Admit(s, &r); v.Detail != test.want {
			t.Errorf("%s: got %+v", name, v)
		}
	}
}

// TestFractionBeforeKind: the kubelet reads all amounts before it looks up any kind of memory. So
// it refuses a fraction in cases in which it would otherwise crash.
func TestFractionBeforeKind(t *testing.T) {
	for _, scope := range []string{"container", "pod"} {
		c := m2.config("restricted")
		c.TopologyManagerScope = scope
		s := state(t, m2.view(), c)
		r := cpus("p", 2)
		r.Containers[0].Memory = []placement.MemoryRequest{{Resource: "hugepages-64Ki", Bytes: 1 << 20}, {Resource: "memory", Bytes: 2, Fraction: true}}
		if v := placement.Admit(s, &r); v.Detail != placement.MemoryNotInteger {
			t.Errorf("scope %s: got %+v", scope, v)
		}
	}
}
