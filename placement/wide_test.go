package placement_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// wide is the model of a kubelet on a machine with 34 NUMA nodes, two of them with CPUs.
func wide(t testing.TB, policy string, version placement.Version, change func(*placement.Config)) *placement.Model {
	t.Helper()
	view := made.View(t, shapes.Machine(shapes.GB200))
	c := placement.Config{Version: version, CPUManagerPolicy: "static", ReservedSystemCPUs: "0,72", TopologyManagerPolicy: policy,
		TopologyManagerPolicyOptions: map[string]string{"max-allowable-numa-nodes": "64"}}
	if change != nil {
		change(&c)
	}
	m := made.ModelOf(t, view, c)
	return m
}

// gpusOn returns a pool with a GPU on each of the NUMA nodes.
func gpusOn(nodes ...topology.NUMAID) placement.DevicePool {
	p := placement.DevicePool{Resource: "nvidia.com/gpu", Preference: placement.SortedPreference}
	for i, n := range nodes {
		p.Devices = append(p.Devices, placement.Device{ID: fmt.Sprintf("GPU-%d", i), NUMA: topology.NewNUMASet(n), HasTopology: true})
	}
	return p
}

func wants(cpus, gpus int64) placement.Request {
	c := placement.ContainerRequest{Name: "main", MilliCPU: 1000 * cpus}
	if gpus > 0 {
		c.Devices = []placement.DeviceRequest{{Resource: "nvidia.com/gpu", Count: gpus}}
	}
	return placement.Request{UID: "u", Guaranteed: true, Containers: []placement.ContainerRequest{c}}
}

// TestMemoryOnlyNodes: hints name the NUMA nodes with CPUs or devices. A hint with all 34 NUMA
// nodes is no affinity.
func TestMemoryOnlyNodes(t *testing.T) {
	for _, c := range []struct {
		policy     string
		devices    []topology.NUMAID
		cpus, gpus int64
		want       string // NUMA nodes, or the detail of the refusal
	}{
		{"single-numa-node", []topology.NUMAID{0, 0, 1, 1}, 16, 2, "0"},
		{"single-numa-node", []topology.NUMAID{0, 1, 1}, 16, 2, "1"},
		{"single-numa-node", []topology.NUMAID{0, 0, 1, 1}, 16, 3, "NotPreferred"},
		{"single-numa-node", []topology.NUMAID{0, 0, 1, 1}, 80, 0, "NotPreferred"},
		{"restricted", []topology.NUMAID{0, 0, 1, 1}, 16, 3, "NotPreferred"},
		{"restricted", []topology.NUMAID{0, 0, 1, 1}, 80, 3, "0-1"},
		{"restricted", []topology.NUMAID{2, 3, 4, 5}, 0, 2, "2-3"},
		{"best-effort", []topology.NUMAID{2, 3}, 16, 1, "0-33"}, // CPUs and device have no node in common
		{"best-effort", []topology.NUMAID{0, 0, 1, 1}, 16, 3, "0-1"},
		{"single-numa-node", []topology.NUMAID{18}, 16, 1, "DefectWideDevices"},
		{"single-numa-node", []topology.NUMAID{18}, 16, 0, "0"},
		{"single-numa-node", []topology.NUMAID{18}, 16, 2, "NotPreferred"}, // there is only one
		{"restricted", []topology.NUMAID{40}, 16, 1, "DefectWideDevices"},  // on no node of the machine
	} {
		s := wide(t, c.policy, placement.V136, nil).NewState()
		s.SetPool(gpusOn(c.devices...))
		r := wants(c.cpus, c.gpus)
		var d placement.Decision
		v := placement.Decide(s, &r, &d)
		got := v.Detail.String()
		if v.OK() {
			got = d.Containers[0].Hint.NUMA.String()
		}
		if got != c.want {
			t.Errorf("%s, devices on %v, %d CPUs and %d GPUs: %s, want %s", c.policy, c.devices, c.cpus, c.gpus, got, c.want)
		}
		refusal := placement.Advise(s, &r, nil)
		if advice := refusal.Advice(); v.Detail == placement.DefectWideDevices && !strings.Contains(advice, "if the kubelet is older than 1.36, update it") {
			t.Errorf("%s, devices on %v: a kubelet of 1.36 is advised: %s", c.policy, c.devices, advice)
		}
		if text := placement.Explain(s, &r).Table(); v.OK() != strings.HasPrefix(text, "Admitted") {
			t.Errorf("%s: %s", got, text)
		}
		if err := s.Check(); err != nil {
			t.Error(err)
		}
	}
}

// TestMemoryOnlyNodesBefore136: in these releases, hints for devices include all NUMA nodes, and
// the kubelet would not finish. Hints for CPUs never include all NUMA nodes.
func TestMemoryOnlyNodesBefore136(t *testing.T) {
	s := wide(t, "restricted", placement.V135, nil).NewState()
	s.SetPool(gpusOn(0, 1))
	r := wants(8, 1)
	if v := placement.Admit(s, &r); v.Detail != placement.DefectWideDevices {
		t.Errorf("got %v", v)
	}
	r = wants(8, 0)
	if v := placement.Admit(s, &r); !v.OK() {
		t.Errorf("got %v", v)
	}
	s = wide(t, "none", placement.V135, nil).NewState()
	s.SetPool(gpusOn(0, 33))
	r = wants(8, 1)
	if v := placement.Admit(s, &r); !v.OK() {
		t.Errorf("without a policy: %v", v)
	}
}

// TestMemoryOnlyNodesClosest: among sets with equally many nodes, the closest is chosen.
func TestMemoryOnlyNodesClosest(t *testing.T) {
	s := wide(t, "best-effort", placement.V136, func(c *placement.Config) { c.TopologyManagerPolicyOptions["prefer-closest-numa-nodes"] = "true" }).NewState()
	s.SetPool(gpusOn(1, 2, 3))
	r := wants(0, 2)
	var d placement.Decision
	if v := placement.Decide(s, &r, &d); !v.OK() || d.Containers[0].Hint.NUMA.String() != "1-2" {
		t.Errorf("got %v, %v", v, d.Containers)
	}
}

// TestMemoryOnlyNodesRefused: the memory manager would try all sets of 34 nodes, and a machine can
// have CPUs on more NUMA nodes than hints can name.
func TestMemoryOnlyNodesRefused(t *testing.T) {
	view := made.View(t, shapes.Machine(shapes.GB200))
	c := placement.Config{Version: placement.V136, CPUManagerPolicy: "static", ReservedSystemCPUs: "0", TopologyManagerPolicy: "restricted",
		TopologyManagerPolicyOptions: map[string]string{"max-allowable-numa-nodes": "64"}, MemoryManagerPolicy: "Static",
		ReservedMemory: []placement.ReservedMemory{{NUMA: 0, Limits: map[string]uint64{"memory": 1 << 30}}}}
	if _, err := placement.NewModel(view, c); err == nil || !strings.Contains(err.Error(), "with the memory manager None") {
		t.Errorf("got %v", err)
	}
	c.MemoryManagerPolicy, c.ReservedMemory = "", nil
	for i := range view.Nodes {
		view.Nodes[i].HasDevices = true
	}
	if _, err := placement.NewModel(view, c); err == nil || !strings.Contains(err.Error(), "at most 15 with CPUs or PCI devices") {
		t.Errorf("got %v", err)
	}
	delete(c.TopologyManagerPolicyOptions, "max-allowable-numa-nodes")
	if _, err := placement.NewModel(view, c); err == nil || !strings.Contains(err.Error(), `[max-allowable-numa-nodes]: "8": want at least 34, the number of NUMA nodes (without this option, the value is 8)`) {
		t.Errorf("got %v", err)
	}
}

// BenchmarkMemoryOnlyNodes decides for 16 CPUs and 2 GPUs.
func BenchmarkMemoryOnlyNodes(b *testing.B) {
	s := wide(b, "restricted", placement.V136, nil).NewState()
	s.SetPool(gpusOn(0, 0, 1, 1))
	r := wants(16, 2)
	var d placement.Decision
	b.ReportAllocs()
	for b.Loop() {
		if v := placement.Decide(s, &r, &d); !v.OK() {
			b.Fatal(v)
		}
	}
}
