package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

const gib = 1 << 30

// sampleNode returns a machine of two NUMA nodes with one value of each kind.
func sampleNode(t testing.TB) Node {
	t.Helper()
	m := shapes.Machine("package:2 numa:1 core:4 pu:2 number:interleaved mem:8Gi dist:10,21")
	view := made.View(t, m)
	view.NumSockets = 1
	view.Nodes[1].MemoryBytes -= 4096
	view.Nodes[1].HugePages = []topology.HugePages{{PageBytes: 2 << 20, Count: 100}}
	return Node{
		Name: "n1",
		Spec: NodeSpec{
			Machine: m, View: view, Authority: v1alpha1.AuthorityKubelet, KubeletVersion: "v1.36.3",
			Config: placement.Config{
				Version:          placement.V136,
				CPUManagerPolicy: "static", CPUManagerPolicyOptions: map[string]string{"full-pcpus-only": "true"},
				ReservedSystemCPUs: "0,8", ReservedMilliCPU: 500,
				MemoryManagerPolicy: "Static",
				ReservedMemory:      []placement.ReservedMemory{{NUMA: 0, Limits: map[string]uint64{"memory": gib}}},
				NodeReserved:        map[string]uint64{"memory": gib},

				TopologyManagerPolicy: "restricted", TopologyManagerScope: "pod",
				TopologyManagerPolicyOptions: map[string]string{"prefer-closest-numa-nodes": "true"},
				FeatureGates:                 map[string]bool{"CPUManagerPolicyAlphaOptions": true},
			},
		},
		Report: sampleReport(t, m),
	}
}

func sampleReport(t testing.TB, m *topology.Machine) Report {
	t.Helper()
	held := topology.NewCPUSet(2, 3, 4)
	return Report{
		Sequence: 12, Observed: time.Date(2026, 11, 20, 18, 0, 0, 0, time.UTC),
		Snapshot: placement.Snapshot{
			SharedCPUs: m.Online.AndNot(&held),
			Memory: []placement.MemoryTable{
				{NUMA: 0, Assignments: 1, Cells: 3, Resources: []placement.MemoryAmounts{{Resource: "memory", Allocatable: 7 * gib, Reserved: gib, Free: 6 * gib}}},
				{NUMA: 1, Assignments: 1, Cells: 3, Resources: []placement.MemoryAmounts{{Resource: "memory", Allocatable: 8 * gib, Free: 8 * gib}}},
			},
			Devices: []placement.DevicePool{{Resource: "nvidia.com/gpu", Preference: placement.UnknownPreference, Devices: []placement.Device{
				{ID: "a", NUMA: 1, HasTopology: true}, {ID: "b", NUMA: 2, HasTopology: true, Unhealthy: true}, {ID: "c"}, {ID: "d", HasTopology: true}, {ID: "e", NUMA: 1, HasTopology: true},
			}}},
			Pods: []placement.PodAllocation{
				{UID: "u-1", Containers: []placement.ContainerAllocation{
					{Name: "init", Kind: placement.Init, CPUs: topology.NewCPUSet(2)},
					{
						Name: "app", CPUs: topology.NewCPUSet(2, 3), Memory: []placement.MemoryBlock{{Resource: "memory", NUMA: 3, Bytes: gib}},
						Devices: []placement.DeviceAllocation{{Resource: "nvidia.com/gpu", IDs: []string{"a"}}},
					},
				}},
				{UID: "u-2"},
				{UID: "u-3", Containers: []placement.ContainerAllocation{{Name: "app", CPUs: topology.NewCPUSet(4)}}},
			},
		},
		Pods: []ReportedPod{
			{Namespace: "ns", Name: "a"}, {}, {State: v1alpha1.PodUnknown},
		},
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Consistent"}},
	}
}

func TestNodeTopologyRoundTrip(t *testing.T) {
	want := sampleNode(t)
	nt, err := WriteNodeTopology(&want)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(nt)
	if err != nil {
		t.Fatal(err)
	}
	var back v1alpha1.NodeTopology
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	got, err := ReadNodeTopology(&back)
	if err != nil {
		t.Fatal(err)
	}
	got.Report.Observed = got.Report.Observed.UTC()
	if !got.Spec.Machine.Equal(want.Spec.Machine) {
		t.Errorf("machine %s, want %s", got.Spec.Machine, want.Spec.Machine)
	}
	got.Spec.Machine = want.Spec.Machine
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

// TestWholeIsTold: resources of a pod as a whole are in reports and in placements.
func TestWholeIsTold(t *testing.T) {
	n := sampleNode(t)
	whole := &placement.Whole{CPUs: n.Report.Snapshot.SharedCPUs, Memory: []placement.MemoryBlock{{Resource: "memory", NUMA: 1, Bytes: 1 << 30}}}
	n.Report.Snapshot.SharedCPUs = topology.CPUSet{}
	n.Report.Snapshot.Pods = []placement.PodAllocation{{UID: "u", Whole: whole, Containers: []placement.ContainerAllocation{
		{Name: "a", CPUs: whole.CPUs, Memory: whole.Memory}, {Name: "b", CPUs: whole.CPUs, Memory: whole.Memory}}}}
	n.Report.Pods = make([]ReportedPod, 1)
	nt, err := WriteNodeTopology(&n)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadNodeTopology(nt)
	if err != nil || !reflect.DeepEqual(got.Report.Snapshot.Pods, n.Report.Snapshot.Pods) {
		t.Errorf("%v: got\n%+v\nwant\n%+v", err, got.Report.Snapshot.Pods, n.Report.Snapshot.Pods)
	}
	nt.Status.Pods[0].Whole.CPUs = "0-2:"
	if _, err := ReadNodeTopology(nt); err == nil || !strings.Contains(err.Error(), "status.pods[0].whole.cpus") {
		t.Errorf("a list that nobody writes: %v", err)
	}
	p := samplePlacement()
	p.Decision.Whole = whole
	text, err := WritePlacement(&p)
	if err != nil {
		t.Fatal(err)
	}
	back, err := parsePlacement("Pod ns/a", text)
	if err != nil || !reflect.DeepEqual(back, p) {
		t.Errorf("%v: read\n%+v\nwant\n%+v", err, back, p)
	}
	if rough := roughBytes(&p.Decision); rough < len(text) {
		t.Errorf("%d bytes at the most, and it has %d", rough, len(text))
	}
	if _, err := parsePlacement("Pod ns/a", strings.Replace(text, `"numa":"0","bytes"`, `"numa":"","bytes"`, 1)); err == nil || !strings.Contains(err.Error(), "whole.memory[0].numa") {
		t.Errorf("memory of no NUMA node: %v", err)
	}
}

// TestAddresses: the PCI addresses of a pool's devices are reported next to their ids. Together
// with the machine's links, they show how well the devices are connected.
func TestAddresses(t *testing.T) {
	n := sampleNode(t)
	var err error
	if n.Spec.Machine, err = n.Spec.Machine.WithDevices("dev:18:00.0|19:00.0|1a:00.0,030200,10de:2330,numa=0,root=15,switch=16:00.0 link:nvlink=2,18:00.0+1a:00.0"); err != nil {
		t.Fatal(err)
	}
	if n.Spec.View, err = placement.ViewOf(n.Spec.Machine); err != nil {
		t.Fatal(err)
	}
	pool := placement.DevicePool{Resource: "nvidia.com/gpu", Preference: placement.NVIDIAPreference, Devices: []placement.Device{
		{ID: "GPU-a", Address: "0000:1a:00.0"}, {ID: "GPU-b", Address: "0000:18:00.0", NUMA: 1, HasTopology: true}, {ID: "GPU-c", Address: "0000:19:00.0"},
	}}
	n.Report.Snapshot.Devices, n.Report.Snapshot.Pods, n.Report.Pods = []placement.DevicePool{pool}, nil, nil
	n.Report.Snapshot.SharedCPUs = n.Spec.Machine.Online
	nt, err := WriteNodeTopology(&n)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadNodeTopology(nt)
	if err != nil {
		t.Fatal(err)
	}
	pool.Points = []uint32{0, 250, 50, 250, 0, 50, 50, 50, 0}
	if !reflect.DeepEqual(got.Report.Snapshot.Devices, []placement.DevicePool{pool}) {
		t.Errorf("got %+v\nwant %+v", got.Report.Snapshot.Devices, pool)
	}
	nt.Status.Devices[0].Groups[0].Addresses = nt.Status.Devices[0].Groups[0].Addresses[:1]
	var wrong *FieldError
	if _, err := ReadReport(nt); !errors.As(err, &wrong) || wrong.Field != "status.devices[0].groups[0].addresses" {
		t.Errorf("an address for one of two ids: %v", err)
	}
}

// TestEnforcer: if Berth decides, the report says who carries decisions out. koordlet does not pin
// memory.
func TestEnforcer(t *testing.T) {
	for _, koordlet := range []bool{false, true} {
		n := sampleNode(t)
		n.Spec.Authority, n.Spec.Koordlet = v1alpha1.AuthorityBerth, koordlet
		nt, err := WriteNodeTopology(&n)
		if err != nil {
			t.Fatal(err)
		}
		if (nt.Spec.Enforcer == v1alpha1.EnforcerKoordlet) != koordlet {
			t.Errorf("enforcer %q, koordlet %t", nt.Spec.Enforcer, koordlet)
		}
		if got, err := ReadNodeSpec(nt); err != nil || got.Koordlet != koordlet || got.Config.MemoryStays != koordlet {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

// TestDecidedPools: the report says for each pool of devices who decides about it.
func TestDecidedPools(t *testing.T) {
	n := sampleNode(t)
	n.Spec.Authority, n.Spec.Config.Authority = v1alpha1.AuthorityBerth, placement.AuthorityBerth
	n.Spec.Config.CPUManagerPolicy, n.Spec.Config.MemoryManagerPolicy = "", ""
	n.Report.Snapshot.Devices[0].Decided = true
	n.Report.Snapshot.Devices = append(n.Report.Snapshot.Devices, placement.DevicePool{Resource: "vendor.example/x", Devices: []placement.Device{{ID: "x"}}})
	nt, err := WriteNodeTopology(&n)
	if err != nil {
		t.Fatal(err)
	}
	if by := nt.Status.Devices[0].DecidedBy; by != v1alpha1.AuthorityBerth {
		t.Errorf("decidedBy %q", by)
	}
	got, err := ReadNodeTopology(nt)
	if err != nil {
		t.Fatal(err)
	}
	if d := got.Report.Snapshot.Devices; !d[0].Decided || d[1].Decided {
		t.Errorf("%s decided %v, %s decided %v, want the first alone", d[0].Resource, d[0].Decided, d[1].Resource, d[1].Decided)
	}
}

// TestManyDevices: a node is still reported if a plugin offers more devices than a group may have.
func TestManyDevices(t *testing.T) {
	n := sampleNode(t)
	pool := placement.DevicePool{Resource: "example.com/shared"}
	for i := range 2500 {
		pool.Devices = append(pool.Devices, placement.Device{ID: fmt.Sprintf("%04d", i), Unhealthy: i%10 == 0})
	}
	n.Report.Snapshot.Devices = []placement.DevicePool{pool}
	n.Report.Snapshot.Pods, n.Report.Pods = nil, nil
	nt, err := WriteNodeTopology(&n)
	if err != nil {
		t.Fatal(err)
	}
	for i, g := range nt.Status.Devices[0].Groups {
		if len(g.IDs) > 1024 {
			t.Errorf("group %d has %d ids, more than the schema allows", i, len(g.IDs))
		}
	}
	got, err := ReadReport(nt)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Snapshot.Devices, n.Report.Snapshot.Devices) {
		t.Errorf("the %d devices do not come back as they were", len(pool.Devices))
	}
}

func TestViewIsLeftOutWhereItIsTheMachines(t *testing.T) {
	n := sampleNode(t)
	n.Spec.View = nil
	nt, err := WriteNodeTopology(&n)
	if err != nil {
		t.Fatal(err)
	}
	if nt.Spec.KubeletView != nil {
		t.Errorf("got %+v, want none", nt.Spec.KubeletView)
	}
}

// TestDevicesOfTheMachine: devices are written next to the machine, and read back. A report of the
// first release has them in the machine.
func TestDevicesOfTheMachine(t *testing.T) {
	n := sampleNode(t)
	n.Spec.Machine = shapes.Machine(shapes.GPUSwitched)
	n.Spec.View, _ = placement.ViewOf(n.Spec.Machine)
	w := writer{}
	spec, err := w.spec(&n.Spec)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(spec.Machine, "dev:") || !strings.HasPrefix(spec.Devices, "dev:21:00.0|22:00.0") {
		t.Errorf("got machine %s\nand devices %s", spec.Machine, spec.Devices)
	}
	old := spec
	old.Machine, old.Devices = n.Spec.Machine.String(), ""
	for _, s := range []v1alpha1.NodeTopologySpec{spec, old} {
		back, err := specReader{}.spec(&s)
		if err != nil || !back.Machine.Equal(n.Spec.Machine) {
			t.Errorf("got %v, %v", back.Machine, err)
		}
	}
	var fe *FieldError
	spec.Devices = "dev:21:00.0,030200,10de:2330,numa=9"
	if _, err := (specReader{}).spec(&spec); !errors.As(err, &fe) || fe.Field != "spec.devices" || !strings.Contains(fe.Error(), "want a NUMA node of this machine") {
		t.Errorf("got %v, want an error about spec.devices", err)
	}
}

func TestViewThatCannotBeSaid(t *testing.T) {
	n := sampleNode(t)
	n.Spec.View.Nodes = n.Spec.View.Nodes[:1]
	var fe *FieldError
	if _, err := WriteNodeTopology(&n); !errors.As(err, &fe) || fe.Field != "spec.kubeletView" {
		t.Errorf("got error %v, want one about spec.kubeletView", err)
	}
}

func TestUnderflowIsNotWritten(t *testing.T) {
	n := sampleNode(t)
	n.Report.Snapshot.Memory[0].Resources[0] = placement.MemoryAmounts{Resource: "memory", Allocatable: 1<<64 - 4096, Free: 1<<64 - 4096}
	var fe *FieldError
	if _, err := WriteNodeTopology(&n); !errors.As(err, &fe) || fe.Field != "status.memory[0].resources[0]" {
		t.Errorf("got error %v, want one about status.memory[0].resources[0]", err)
	}
}

// TestContradictions: each change of a valid object is refused, and the error names the field.
func TestContradictions(t *testing.T) {
	for _, tc := range []struct {
		name, field string
		spoil       func(*v1alpha1.NodeTopology)
	}{
		{"no machine", "spec.machine", func(o *v1alpha1.NodeTopology) { o.Spec.Machine = "" }},
		{"machine", "spec.machine", func(o *v1alpha1.NodeTopology) { o.Spec.Machine = "numa:4000000000" }},
		{"authority", "spec.authority", func(o *v1alpha1.NodeTopology) { o.Spec.Authority = "me" }},
		{"enforcer", "spec.enforcer", func(o *v1alpha1.NodeTopology) { o.Spec.Enforcer = "me" }},
		{"koordlet where the kubelet decides", "spec.enforcer", func(o *v1alpha1.NodeTopology) { o.Spec.Enforcer = v1alpha1.EnforcerKoordlet }},
		{"version", "spec.kubeletVersion", func(o *v1alpha1.NodeTopology) { o.Spec.KubeletVersion = "1.36" }},
		{"version 300", "spec.kubeletVersion", func(o *v1alpha1.NodeTopology) { o.Spec.KubeletVersion = "v1.300.0" }},
		{"view node", "spec.kubeletView.memory[0].numa", func(o *v1alpha1.NodeTopology) { o.Spec.KubeletView.Memory[0].NUMA = 7 }},
		{"view size", "spec.kubeletView.memory[0].bytes", func(o *v1alpha1.NodeTopology) { o.Spec.KubeletView.Memory[0].Bytes = -1 }},
		{"view pages", "spec.kubeletView.memory[0].hugePages[0]", func(o *v1alpha1.NodeTopology) { o.Spec.KubeletView.Memory[0].HugePages[0].Count = -1 }},
		{"reserved node", "spec.memoryManager.reserved[0].numa", func(o *v1alpha1.NodeTopology) { o.Spec.MemoryManager.Reserved[0].NUMA = -1 }},
		{"reserved size", "spec.memoryManager.reserved[0].limits[memory]", func(o *v1alpha1.NodeTopology) { o.Spec.MemoryManager.Reserved[0].Limits["memory"] = -1 }},
		{"node reserved", "spec.memoryManager.nodeReserved[memory]", func(o *v1alpha1.NodeTopology) { o.Spec.MemoryManager.NodeReserved["memory"] = -1 }},
		{"sequence", "status.sequence", func(o *v1alpha1.NodeTopology) { o.Status.Sequence = -1 }},
		{"shared", "status.sharedCPUs", func(o *v1alpha1.NodeTopology) { o.Status.SharedCPUs = "0-" }},
		{"shared beyond machine", "status.sharedCPUs", func(o *v1alpha1.NodeTopology) { o.Status.SharedCPUs = "0-1,5-16" }},
		{"table order", "status.memory[1].numa", func(o *v1alpha1.NodeTopology) { o.Status.Memory[1].NUMA = 0 }},
		{"table node", "status.memory[1].numa", func(o *v1alpha1.NodeTopology) { o.Status.Memory[1].NUMA = 99 }},
		{"table beyond machine", "status.memory[1].numa", func(o *v1alpha1.NodeTopology) { o.Status.Memory[1].NUMA, o.Status.Memory[1].Cells = 5, "" }},
		{"assignments", "status.memory[0].assignments", func(o *v1alpha1.NodeTopology) { o.Status.Memory[0].Assignments = -1 }},
		{"cells", "status.memory[0].cells", func(o *v1alpha1.NodeTopology) { o.Status.Memory[0].Cells = "1" }},
		{"row", "status.memory[0].resources[0].reserved", func(o *v1alpha1.NodeTopology) { o.Status.Memory[0].Resources[0].Reserved = 8 * gib }},
		{"pod name", "status.pods[0].pod", func(o *v1alpha1.NodeTopology) { o.Status.Pods[0].Pod = "a" }},
		{"row order", "status.memory[0].resources[1].resource", func(o *v1alpha1.NodeTopology) {
			o.Status.Memory[0].Resources = append(o.Status.Memory[0].Resources, o.Status.Memory[0].Resources[0])
		}},
		{"pool twice", "status.devices[1].resource", func(o *v1alpha1.NodeTopology) { o.Status.Devices = append(o.Status.Devices, o.Status.Devices[0]) }},
		{"preference", "status.devices[0].preference", func(o *v1alpha1.NodeTopology) { o.Status.Devices[0].Preference = "some" }},
		{"decided by", "status.devices[0].decidedBy", func(o *v1alpha1.NodeTopology) { o.Status.Devices[0].DecidedBy = "me" }},
		{"decided where the kubelet decides", "status.devices[0].decidedBy", func(o *v1alpha1.NodeTopology) { o.Status.Devices[0].DecidedBy = "berth" }},
		{"device twice", "status.devices[0].groups", func(o *v1alpha1.NodeTopology) { o.Status.Devices[0].Groups[2].IDs[0] = "a" }},
		{"device node", "status.devices[0].groups[0].numa", func(o *v1alpha1.NodeTopology) { *o.Status.Devices[0].Groups[0].NUMA = "64" }},
		{"pod twice", "status.pods[1].uid", func(o *v1alpha1.NodeTopology) { o.Status.Pods[1].UID = "u-1" }},
		{"pod state", "status.pods[1].state", func(o *v1alpha1.NodeTopology) { o.Status.Pods[1].State = "Dead" }},
		{"container twice", "status.pods[0].containers[1].name", func(o *v1alpha1.NodeTopology) { o.Status.Pods[0].Containers[1].Name = "init" }},
		{"container twice among many", "status.pods[2].containers[41].name", func(o *v1alpha1.NodeTopology) {
			c := &o.Status.Pods[2].Containers
			for i := range 40 {
				*c = append(*c, v1alpha1.ContainerAllocation{Name: fmt.Sprint("c", i)})
			}
			*c = append(*c, v1alpha1.ContainerAllocation{Name: "c0"})
		}},
		{"kind", "status.pods[0].containers[0].kind", func(o *v1alpha1.NodeTopology) { o.Status.Pods[0].Containers[0].Kind = "init" }},
		{"CPUs shared", "status.pods[0].containers[1].cpus", func(o *v1alpha1.NodeTopology) { o.Status.Pods[0].Containers[1].CPUs = "2-3,5" }},
		{"CPUs twice", "status.pods[2].containers[0].cpus", func(o *v1alpha1.NodeTopology) { o.Status.Pods[2].Containers[0].CPUs = "3" }},
		{"CPUs beyond machine", "status.pods[2].containers[0].cpus", func(o *v1alpha1.NodeTopology) { o.Status.Pods[2].Containers[0].CPUs = "4,16" }},
		{"block nodes", "status.pods[0].containers[1].memory[0]", func(o *v1alpha1.NodeTopology) { o.Status.Pods[0].Containers[1].Memory[0] = "memory@=1Gi" }},
		{"block size", "status.pods[0].containers[1].memory[0]", func(o *v1alpha1.NodeTopology) { o.Status.Pods[0].Containers[1].Memory[0] = "memory@0=-1" }},
		{"block unit", "status.pods[0].containers[1].memory[0]", func(o *v1alpha1.NodeTopology) { o.Status.Pods[0].Containers[1].Memory[0] = "memory@0=1.5" }},
		{"block", "status.pods[0].containers[1].memory[0]", func(o *v1alpha1.NodeTopology) { o.Status.Pods[0].Containers[1].Memory[0] = "memory" }},
		{"held order", "status.pods[0].containers[1].devices[0].ids[1]", func(o *v1alpha1.NodeTopology) {
			o.Status.Pods[0].Containers[1].Devices[0].IDs = []v1alpha1.DeviceID{"b", "a"}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := sampleNode(t)
			nt, err := WriteNodeTopology(&n)
			if err != nil {
				t.Fatal(err)
			}
			tc.spoil(nt)
			_, err = ReadNodeTopology(nt)
			var fe *FieldError
			if !errors.As(err, &fe) || fe.Field != tc.field || fe.Object != "NodeTopology n1" {
				t.Fatalf("got error %v, want one about %s of NodeTopology n1", err, tc.field)
			}
		})
	}
}

// TestManyContainers: a report with as many containers as possible is read quickly, whatever client
// wrote it.
func TestManyContainers(t *testing.T) {
	n := sampleNode(t)
	nt, err := WriteNodeTopology(&n)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100_000 {
		nt.Status.Pods[2].Containers = append(nt.Status.Pods[2].Containers, v1alpha1.ContainerAllocation{Name: fmt.Sprint("c", i)})
	}
	start := time.Now()
	if _, err := ReadNodeTopology(nt); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("100000 containers took %v", took)
	}
}

// largeNode returns a machine of 256 CPUs on 8 NUMA nodes with 60 pods, all pinned, eight GPUs, and
// eight network cards of 16 virtual functions. The size limit is made for such nodes.
func largeNode(t testing.TB) Node {
	t.Helper()
	text := "package:2 numa:4 l3:4 core:4 pu:2 number:interleaved mem:128Gi dist:10,12,32"
	var gpus []string
	for i := range 8 {
		root, at := fmt.Sprintf("%02x", 0x20*i), fmt.Sprintf("numa=%d,root=%02x,switch=%02x:01.0", i, 0x20*i, 0x20*i)
		var functions []string
		for vf := range 16 {
			functions = append(functions, fmt.Sprintf("%s:%02x.%d", root, 0x10+vf/8, vf%8))
		}
		text += fmt.Sprintf(" dev:%s:02.0,030200,10de:2330,%s,driver=nvidia dev:%s:03.0,020000,15b3:1021,%s,driver=mlx5_core,name=enp%ds0np0,rdma=mlx5_%d dev:%s,020000,15b3:101e,%s,pf=%s:03.0,driver=mlx5_core",
			root, at, root, at, i, i, strings.Join(functions, "|"), at, root)
		gpus = append(gpus, root+":02.0")
	}
	m := shapes.Machine(text + " link:nvlink=18," + strings.Join(gpus, "+"))
	n := sampleNode(t)
	n.Name = "ip-10-0-123-45.eu-central-1.compute.internal"
	n.Spec.Machine, n.Spec.View = m, nil
	n.Report.Snapshot = placement.Snapshot{SharedCPUs: m.Online}
	n.Report.Pods = nil
	for node := range topology.NUMAID(8) {
		row := func(resource string) placement.MemoryAmounts {
			return placement.MemoryAmounts{Resource: resource, Allocatable: 120 * gib, Reserved: 57 * gib, Free: 63 * gib}
		}
		n.Report.Snapshot.Memory = append(n.Report.Snapshot.Memory, placement.MemoryTable{
			NUMA: node, Assignments: 14, Cells: topology.NewNUMASet(node), Resources: []placement.MemoryAmounts{row("hugepages-1Gi"), row("memory")},
		})
	}
	pool := placement.DevicePool{Resource: "nvidia.com/gpu", Preference: placement.UnknownPreference}
	for i := range 8 {
		pool.Devices = append(pool.Devices, placement.Device{ID: fmt.Sprintf("GPU-0650a168-e770-3ea8-8ac3-8a1d419763e%d", i), NUMA: 1 << i, HasTopology: true})
	}
	n.Report.Snapshot.Devices = []placement.DevicePool{pool}
	for i := range 60 {
		cpus := topology.NewCPUSet(topology.CPUID(2*i+8), topology.CPUID(2*i+9), topology.CPUID(2*i+136), topology.CPUID(2*i+137)).And(&m.Online)
		n.Report.Snapshot.SharedCPUs = n.Report.Snapshot.SharedCPUs.AndNot(&cpus)
		c := placement.ContainerAllocation{Name: "inference", CPUs: cpus, Memory: []placement.MemoryBlock{{Resource: "memory", NUMA: 1 << (i % 8), Bytes: 7 * gib}}}
		if i < 8 {
			c.Devices = []placement.DeviceAllocation{{Resource: pool.Resource, IDs: []string{pool.Devices[i].ID}}}
		}
		n.Report.Snapshot.Pods = append(n.Report.Snapshot.Pods, placement.PodAllocation{
			UID: fmt.Sprintf("39b37746-7f5e-4064-b8e1-eebd2bfaa0%02d", i), Containers: []placement.ContainerAllocation{c},
		})
		n.Report.Pods = append(n.Report.Pods, ReportedPod{Namespace: "machine-learning", Name: fmt.Sprintf("llama-server-6d4cf56db6-x7k%02d", i)})
	}
	return n
}

func TestSize(t *testing.T) {
	n := largeNode(t)
	nt, err := WriteNodeTopology(&n)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ReadNodeTopology(nt); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(nt)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("256 CPUs, 8 NUMA nodes, 60 pinned pods: %d bytes", len(data))
	if limit := 16 << 10; len(data) > limit {
		t.Errorf("%d bytes, want at most %d", len(data), limit)
	}
	if len(data) < 8<<10 {
		t.Errorf("%d bytes: this test means to measure a full node", len(data))
	}
}

// TestMemoryOnlyNodes: a node with 34 NUMA nodes, two of which have CPUs, is read back unchanged,
// does not exceed the size limit when it is full, and can be predicted.
func TestMemoryOnlyNodes(t *testing.T) {
	n := largeNode(t)
	var err error
	n.Spec.Machine = shapes.Machine(shapes.GB200)
	if n.Spec.View, err = placement.ViewOf(n.Spec.Machine); err != nil {
		t.Fatal(err)
	}
	n.Spec.Config = placement.Config{Version: placement.V136, CPUManagerPolicy: "static", ReservedSystemCPUs: "0,72", TopologyManagerPolicy: "restricted",
		TopologyManagerPolicyOptions: map[string]string{"max-allowable-numa-nodes": "64"}}
	n.Spec.KubeletVersion = "v1.36.1"
	pool := placement.DevicePool{Resource: "nvidia.com/gpu", Preference: placement.NVIDIAPreference}
	for i, address := range []string{"0008:01:00.0", "0009:01:00.0", "0018:01:00.0", "0019:01:00.0"} {
		pool.Devices = append(pool.Devices, placement.Device{
			ID: fmt.Sprintf("GPU-0650a168-e770-3ea8-8ac3-8a1d419763e%d", i), NUMA: 1 << (i / 2), HasTopology: true, Address: address,
		})
	}
	pool.Connect(n.Spec.Machine)
	s := &n.Report.Snapshot
	s.Memory, s.Devices, s.SharedCPUs = nil, []placement.DevicePool{pool}, n.Spec.Machine.Online
	for i := range s.Pods { // one CPU of each socket per pod
		c := &s.Pods[i].Containers[0]
		c.Memory, c.Devices, c.CPUs = nil, nil, topology.NewCPUSet(topology.CPUID(i+1), topology.CPUID(i+73))
		if i >= 50 { // 22 CPUs of each socket are left, one of them reserved
			c.CPUs = topology.CPUSet{}
		}
		s.SharedCPUs = s.SharedCPUs.AndNot(&c.CPUs)
	}
	nt, err := WriteNodeTopology(&n)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(nt)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("34 NUMA nodes, %d pods: %d bytes", len(s.Pods), len(data))
	if limit := 16 << 10; len(data) > limit {
		t.Errorf("%d bytes, want at most %d", len(data), limit)
	}
	got, err := ReadNodeTopology(nt)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Spec.View, n.Spec.View) || !reflect.DeepEqual(got.Report.Snapshot.Devices, s.Devices) {
		t.Errorf("got %+v, %+v", got.Spec.View, got.Report.Snapshot.Devices)
	}
	m := made.ModelOf(t, got.Spec.View, got.Spec.Config)
	state, err := m.StateOf(&got.Report.Snapshot)
	if err != nil {
		t.Fatal(err)
	}
	r := placement.Request{UID: "u", Guaranteed: true, Containers: []placement.ContainerRequest{
		{Name: "main", MilliCPU: 16000, Devices: []placement.DeviceRequest{{Resource: "nvidia.com/gpu", Count: 2}}},
	}}
	var d placement.Decision
	v := placement.Decide(state, &r, &d)
	if !v.OK() || v.Random || d.Containers[0].Hint.NUMA != 1 || len(d.Containers[0].Devices[0].IDs) != 2 || d.Containers[0].CPUs.Len() != 16 {
		t.Errorf("got %+v, %+v", v, d.Containers)
	}
}

func FuzzReadNodeTopology(f *testing.F) {
	n := sampleNode(f)
	nt, err := WriteNodeTopology(&n)
	if err != nil {
		f.Fatal(err)
	}
	data, err := json.Marshal(nt)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(strings.Replace(string(data), `"cells":"0-1"`, `"cells":"0"`, 1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		var nt v1alpha1.NodeTopology
		if json.Unmarshal(data, &nt) != nil {
			return
		}
		n, err := ReadNodeTopology(&nt)
		if err != nil {
			return
		}
		again, err := WriteNodeTopology(&n)
		if err != nil {
			t.Fatalf("read but cannot be written: %v", err)
		}
		if _, err := ReadNodeTopology(again); err != nil {
			t.Fatalf("written but cannot be read: %v", err)
		}
	})
}

func BenchmarkReadReport(b *testing.B) {
	n := largeNode(b)
	nt, err := WriteNodeTopology(&n)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadReport(nt); err != nil {
			b.Fatal(err)
		}
	}
}
