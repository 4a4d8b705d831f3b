package agent

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/stranded"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// quarters is a machine of two packages with two NUMA nodes each: CPUs 0-1, 2-3, 4-5, 6-7.
const quarters = "package:2 numa:2 core:2 pu:1 mem:8Gi"

func quartersNode(t *testing.T) *wire.Node {
	t.Helper()
	m := shapes.Machine(quarters)
	view := made.View(t, m)
	spec := wire.NodeSpec{Machine: m, View: view, Config: placement.Config{CPUManagerPolicy: "static", ReservedSystemCPUs: "0"}}
	n := &wire.Node{Name: "n1", Spec: spec}
	n.Report.Snapshot.SharedCPUs = cpus(t, "0-7")
	n.Report.Snapshot.Devices = []placement.DevicePool{{Resource: "x.y/d", Devices: []placement.Device{
		{ID: "a", NUMA: topology.NewNUMASet(0), HasTopology: true}, {ID: "b", NUMA: topology.NewNUMASet(3), HasTopology: true},
	}}}
	return n
}

func cpus(t *testing.T, list string) (s topology.CPUSet) {
	t.Helper()
	if err := s.UnmarshalText([]byte(list)); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAlignment(t *testing.T) {
	node0 := []placement.MemoryBlock{{Resource: "memory", NUMA: topology.NewNUMASet(0), Bytes: 1}}
	for _, tc := range []struct {
		name       string
		containers []placement.ContainerAllocation
		state      v1alpha1.PodState
		want       map[topology.Spread]int
	}{
		{"holds nothing", nil, "", map[topology.Spread]int{}},
		{"CPUs of one node", []placement.ContainerAllocation{{CPUs: cpus(t, "2-3")}}, "", map[topology.Spread]int{topology.WithinNode: 1}},
		{"memory beside its CPUs", []placement.ContainerAllocation{{CPUs: cpus(t, "1"), Memory: node0}}, "", map[topology.Spread]int{topology.WithinNode: 1}},
		{"memory on the other node of the package", []placement.ContainerAllocation{{CPUs: cpus(t, "2"), Memory: node0}}, "", map[topology.Spread]int{topology.WithinPackage: 1}},
		{"containers in two packages", []placement.ContainerAllocation{{CPUs: cpus(t, "2")}, {CPUs: cpus(t, "4")}}, "", map[topology.Spread]int{topology.WithinMachine: 1}},
		{"device in the other package", []placement.ContainerAllocation{{CPUs: cpus(t, "2"), Devices: []placement.DeviceAllocation{{Resource: "x.y/d", IDs: []string{"b"}}}}}, "", map[topology.Spread]int{topology.WithinMachine: 1}},
		{"has ended", []placement.ContainerAllocation{{CPUs: cpus(t, "2-4")}}, v1alpha1.PodEnded, map[topology.Spread]int{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := quartersNode(t)
			n.Report.Snapshot.Pods = []placement.PodAllocation{{UID: "u", Containers: tc.containers}}
			n.Report.Pods = []wire.ReportedPod{{State: tc.state}}
			want := map[topology.Spread]int{topology.WithinNode: 0, topology.WithinPackage: 0, topology.WithinMachine: 0}
			for a, n := range tc.want {
				want[a] = n
			}
			if got := occupancyOf(n).pods; !reflect.DeepEqual(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// TestNearness: devices count by what they share. They do not count as nearer than the pod's other
// resources are to them.
func TestNearness(t *testing.T) {
	n := quartersNode(t)
	m, err := topology.Parse(quarters + " dev:18:00.0|19:00.0,030200,10de:2330,numa=0,root=15,switch=16:00.0 dev:1a:00.0,020700,15b3:1021,numa=0,root=15" +
		" dev:2a:00.0,020700,15b3:1021,numa=0,root=25 dev:9a:00.0,020700,15b3:1021,numa=3,root=95")
	if err != nil {
		t.Fatal(err)
	}
	n.Spec.Machine = m
	pool := placement.DevicePool{Resource: "x.y/d", Decided: true}
	for i := range m.Devices {
		pool.Devices = append(pool.Devices, placement.Device{ID: m.Devices[i].Address, NUMA: topology.NewNUMASet(m.Devices[i].NUMA), HasTopology: true})
	}
	n.Report.Snapshot.Devices = []placement.DevicePool{pool, {Resource: "v/x", Devices: []placement.Device{{ID: "x", NUMA: topology.NewNUMASet(0), HasTopology: true}, {ID: "y"}}}}
	for _, c := range []struct {
		ids  string
		cpus string
		want placement.Nearness
	}{
		{"18 19", "0", placement.AtSwitch}, {"18", "", placement.AtSwitch}, {"18 1a", "1", placement.AtRoot}, {"18 2a", "", "numa-node"}, {"18 19", "2", "package"}, {"18 9a", "", "machine"}, {"x", "0", "numa-node"}, {"y", "", "machine"},
		{"", "0-1", ""},
	} {
		pod := placement.PodAllocation{UID: "u", Containers: []placement.ContainerAllocation{{CPUs: cpus(t, c.cpus)}}}
		for _, id := range strings.Fields(c.ids) {
			a := placement.DeviceAllocation{Resource: "v/x", IDs: []string{id}}
			if len(id) == 2 {
				a = placement.DeviceAllocation{Resource: "x.y/d", IDs: []string{"0000:" + id + ":00.0"}}
			}
			pod.Containers[0].Devices = append(pod.Containers[0].Devices, a)
		}
		n.Report.Snapshot.Pods, n.Report.Pods = []placement.PodAllocation{pod}, nil
		for near, got := range occupancyOf(n).withDevices {
			if want := near == c.want; (got == 1) != want {
				t.Errorf("%q with CPUs %q: %d pods by %s, want them by %q", c.ids, c.cpus, got, near, c.want)
			}
		}
	}
}

func TestStranded(t *testing.T) {
	for _, tc := range []struct {
		name, shared string
		memory       uint64 // free on NUMA node 3
		want         map[string]int64
	}{
		{"nothing is used up", "0-7", 8, map[string]int64{"cpu": 0, "memory": 0, "x.y/d": 0}},
		{"CPU 0 is reserved, 1 is taken", "0,2-7", 8, map[string]int64{"cpu": 0, "memory": 0, "x.y/d": 1}},
		{"less memory than CPUs", "0-7", 5, map[string]int64{"cpu": 1, "memory": 0, "x.y/d": 0}},
		{"CPUs beside free memory are taken", "0-5", 5, map[string]int64{"cpu": 0, "memory": 5, "x.y/d": 1}},
		{"memory beside free CPUs is taken", "0-7", 0, map[string]int64{"cpu": 2, "memory": 0, "x.y/d": 1}},
		{"both are taken", "0-5", 0, map[string]int64{"cpu": 0, "memory": 0, "x.y/d": 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := quartersNode(t)
			n.Report.Snapshot.SharedCPUs = cpus(t, tc.shared)
			n.Report.Snapshot.Memory = []placement.MemoryTable{{NUMA: 3, Resources: []placement.MemoryAmounts{{Resource: "memory", Allocatable: 8, Reserved: 8 - tc.memory, Free: tc.memory}}}}
			if got := occupancyOf(n).stranded; !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// TestStrandedAgrees: the agent's metric and berth frag agree. Both get the same random nodes, of
// both authorities.
func TestStrandedAgrees(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 25))
	stranding := 0
	for i := range 300 {
		n := randomNode(t, r)
		got, want := occupancyOf(n).stranded, map[string]int64{}
		for _, s := range surveyed(t, n).Stranded(&stranded.Wants{Shapes: shapesOn(n)}) {
			want[s.Resource] += int64(s.Stranded)
		}
		for resource, v := range got {
			if v != want[resource] {
				t.Fatalf("node %d: the agent says that %d of %s are stranded, berth frag %d", i, v, resource, want[resource])
			}
			stranding += int(min(v, 1))
			delete(want, resource)
		}
		if len(want) > 0 {
			t.Fatalf("node %d: berth frag says that %v are stranded, the agent nothing", i, want)
		}
	}
	if stranding < 100 {
		t.Errorf("something was stranded %d times: the test sees too little", stranding)
	}
}

// randomNode returns a node with some pods.
func randomNode(t *testing.T, r *rand.Rand) *wire.Node {
	t.Helper()
	m := shapes.Machine([]string{quarters, "package:2 numa:1 core:6 pu:2 mem:16Gi", "package:1 numa:2 core:5 pu:1 mem:4Gi"}[r.IntN(3)])
	view := made.View(t, m)
	spec := wire.NodeSpec{Machine: m, View: view, Authority: v1alpha1.AuthorityKubelet, KubeletVersion: "v1.36.0",
		Config: placement.Config{CPUManagerPolicy: "static", ReservedSystemCPUs: "0", MemoryManagerPolicy: "Static", TopologyManagerPolicy: "best-effort",
			ReservedMemory: []placement.ReservedMemory{{NUMA: 0, Limits: map[string]uint64{"memory": 100 << 20}}}}}
	if r.IntN(2) == 0 {
		spec.Authority, spec.Config = v1alpha1.AuthorityBerth, placement.Config{Authority: placement.AuthorityBerth, ReservedSystemCPUs: "0"}
	}
	model := made.ModelOf(t, view, spec.Config)
	pool := placement.DevicePool{Resource: "x.y/d"}
	for i := range r.IntN(9) {
		d := placement.Device{ID: fmt.Sprint(i), HasTopology: true, NUMA: topology.NewNUMASet(m.NUMANodes[r.IntN(len(m.NUMANodes))].ID), Unhealthy: r.IntN(5) == 0}
		pool.Devices = append(pool.Devices, d)
	}
	bare := model.NewState().Snapshot()
	if len(pool.Devices) > 0 {
		bare.Devices = []placement.DevicePool{pool}
	}
	state, err := model.StateOf(&bare)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.IntN(7) {
		q := &placement.Request{UID: fmt.Sprint("u", i), Guaranteed: true, Containers: []placement.ContainerRequest{{Name: "c", MilliCPU: 1000 * int64(1+r.IntN(4)),
			Memory: []placement.MemoryRequest{{Resource: "memory", Bytes: uint64(1+r.IntN(3)) << 30}}}}}
		if spec.Authority == v1alpha1.AuthorityKubelet && r.IntN(3) == 0 {
			q.Containers[0].Devices = []placement.DeviceRequest{{Resource: "x.y/d", Count: int64(1 + r.IntN(2))}}
		}
		var d placement.Decision
		if v := placement.Decide(state, q, &d); v.OK() {
			state.Commit(q, &d)
		}
	}
	n := &wire.Node{Name: "n", Spec: spec, Report: wire.Report{Sequence: 1, Snapshot: state.Snapshot(), Conditions: []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Reported"}}}}
	n.Report.Pods = make([]wire.ReportedPod, len(n.Report.Snapshot.Pods))
	return n
}

// surveyed returns the node as the command line finds it in a snapshot.
func surveyed(t *testing.T, n *wire.Node) *survey.Survey {
	t.Helper()
	nt, err := wire.WriteNodeTopology(n)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	packed := gzip.NewWriter(&file)
	err = json.NewEncoder(packed).Encode(map[string]any{"kind": "BerthSnapshot", "version": 1, "staleAfter": "1m", "unknown": []string{"leases"},
		"nodes": []any{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}}, "nodeTopologies": []any{nt}})
	packed.Close()
	if err != nil {
		t.Fatal(err)
	}
	c, err := survey.Open(&file, "f")
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Survey(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if trouble := s.Nodes()[0].Trouble; trouble != nil {
		t.Fatalf("the survey does not rely on the node: %+v", trouble)
	}
	return s
}

func TestOccupancyMetrics(t *testing.T) {
	var m occupancyMetrics
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(&m)
	if n, err := testutil.GatherAndCount(registry); n != 0 || err != nil {
		t.Errorf("%d metrics before the first report (%v)", n, err)
	}
	n := quartersNode(t)
	n.Report.Snapshot.SharedCPUs = cpus(t, "0,2-7")
	m.last.Store(n)
	// One name has one unit.
	for name, want := range map[string]string{
		"berth_agent_stranded_cpus": `
# HELP berth_agent_stranded_cpus CPUs that are free, but that pods cannot use because too little of another resource (CPUs or memory) is free on the same NUMA node.
# TYPE berth_agent_stranded_cpus gauge
berth_agent_stranded_cpus 0
`,
		"berth_agent_stranded_devices": `
# HELP berth_agent_stranded_devices Free devices that would remain if each NUMA node were filled with copies of one of the node's pods with such devices (the pod that leaves the fewest). If no pod has such devices, each copy needs one device, one CPU and 1 byte of memory.
# TYPE berth_agent_stranded_devices gauge
berth_agent_stranded_devices{resource="x.y/d"} 1
`,
		"berth_agent_numa_available_cpus": `
# HELP berth_agent_numa_available_cpus CPUs that are free and that pods can get exclusively, by NUMA node.
# TYPE berth_agent_numa_available_cpus gauge
berth_agent_numa_available_cpus{numa="0"} 0
berth_agent_numa_available_cpus{numa="1"} 2
berth_agent_numa_available_cpus{numa="2"} 2
berth_agent_numa_available_cpus{numa="3"} 2
`,
		"berth_agent_numa_available_devices": `
# HELP berth_agent_numa_available_devices Devices that are free and that pods can get exclusively, by NUMA node.
# TYPE berth_agent_numa_available_devices gauge
berth_agent_numa_available_devices{numa="0",resource="x.y/d"} 1
berth_agent_numa_available_devices{numa="3",resource="x.y/d"} 1
`,
		"berth_agent_numa_available_bytes": "",
	} {
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), name); err != nil {
			t.Error(err)
		}
	}
}
