package places

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/sampleplugin"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

const (
	small  = "package:2 numa:1 core:4 pu:1 mem:16Gi" // CPUs 1-3 and 4-7 are free
	strict = "cpuManagerPolicy: static\ntopologyManagerPolicy: single-numa-node\nreservedSystemCPUs: \"0\"\n"
	gpu    = "example.com/gpu"
)

// moment returns a time some seconds after the start.
func moment(seconds int) time.Time { return time.Unix(1000+int64(seconds), 0) }

func follow(t *testing.T, nodes map[string]Node) *Places {
	t.Helper()
	p, err := New(gpu, 3, nodes)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// asking returns a pod with exclusive CPUs.
func asking(cpus int64) *corev1.Pod {
	list := corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("64Mi")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}}},
	}
}

// run makes a pod run on the node with these CPUs and devices, from that time on.
func (p *Places) run(t *testing.T, node, cpus string, at time.Time, devices ...string) *corev1.Pod {
	t.Helper()
	set := shapes.CPUs(cpus)
	pod := asking(int64(set.Len()))
	pod.UID, pod.Spec.NodeName = types.UID(node+cpus), node
	p.Bound(pod, at)
	p.Ran(pod, holding(set, devices...), at)
	return pod
}

// holding returns the resources of a pod with one container.
func holding(cpus topology.CPUSet, devices ...string) *placement.PodAllocation {
	c := placement.ContainerAllocation{Name: "c", CPUs: cpus}
	if len(devices) > 0 {
		c.Devices = []placement.DeviceAllocation{{Resource: gpu, IDs: devices}}
	}
	return &placement.PodAllocation{Containers: []placement.ContainerAllocation{c}}
}

// TestRan: the NUMA nodes of a pod are those of its CPUs, memory and devices. Its sockets are those
// of its CPUs.
func TestRan(t *testing.T) {
	device := func(id string, numa topology.NUMAID) sampleplugin.Device {
		return sampleplugin.Device{ID: id, NUMA: []topology.NUMAID{numa}}
	}
	p := follow(t, map[string]Node{"n": {Machine: "package:1 numa:2 core:4 pu:1 mem:16Gi", KubeletConfig: strict, Plugins: []sampleplugin.Plugin{
		{Resource: gpu, Devices: []sampleplugin.Device{device("b", 1), device("a", 0)}}}}})
	for what, tc := range map[string]struct {
		cpus    []topology.CPUID
		memory  topology.NUMASet
		devices []string
		numa    int
		sockets int
	}{
		"nothing":                 {nil, 0, nil, 0, 0},
		"CPUs of one NUMA node":   {[]topology.CPUID{1, 2}, 0, nil, 1, 1},
		"CPUs of both":            {[]topology.CPUID{1, 4}, 0, nil, 2, 1},
		"a device near the CPUs":  {[]topology.CPUID{1}, 0, []string{"a"}, 1, 1},
		"a device of the other":   {[]topology.CPUID{1}, 0, []string{"b"}, 2, 1},
		"memory of the other":     {[]topology.CPUID{1}, topology.NewNUMASet(1), nil, 2, 1},
		"a device, and no CPUs":   {nil, 0, []string{"b"}, 1, 0},
		"a device nobody offers":  {nil, 0, []string{"c"}, 0, 0},
		"both devices, and a CPU": {[]topology.CPUID{5}, 0, []string{"a", "b"}, 2, 1},
	} {
		pod := asking(1)
		pod.UID, pod.Spec.NodeName = types.UID(what), "n"
		p.Bound(pod, moment(0))
		held := holding(topology.NewCPUSet(tc.cpus...), tc.devices...)
		held.Containers[0].Memory = []placement.MemoryBlock{{Resource: "memory", NUMA: tc.memory, Bytes: 1}}
		if numa, sockets := p.Ran(pod, held, moment(0)); numa != tc.numa || sockets != tc.sockets {
			t.Errorf("%s: %d NUMA nodes and %d sockets, want %d and %d", what, numa, sockets, tc.numa, tc.sockets)
		}
	}
}

// TestRoom: whether a waiting pod could run depends on the CPUs that pods have, not only on
// amounts.
func TestRoom(t *testing.T) {
	p := follow(t, map[string]Node{"n": {Machine: small, KubeletConfig: strict}})
	p.run(t, "n", "1-2", moment(0))
	three := p.run(t, "n", "4-6", moment(0))
	room := func(cpus int64, since time.Time) string { return p.Room(asking(cpus), since) }
	if on := room(2, moment(1)); on != "" {
		t.Errorf("2 CPUs fit on %s, where each NUMA node has 1", on)
	}
	if on := room(1, moment(1)); on != "n" {
		t.Errorf("1 CPU fits on %q, want n", on)
	}
	p.Gone(three, moment(5))
	if on := room(3, moment(4)); on != "" {
		t.Errorf("3 CPUs have fitted on %s since before the pod was gone", on)
	}
	if on := room(3, moment(6)); on != "n" {
		t.Errorf("3 CPUs fit on %q, want n", on)
	}
	elsewhere := asking(1)
	elsewhere.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "m"}
	if on := p.Room(elsewhere, moment(6)); on != "" {
		t.Errorf("a pod that names another node fits on %s", on)
	}
	bound := asking(1)
	bound.UID, bound.Spec.NodeName = "bound", "n"
	p.Bound(bound, moment(6))
	if on := room(1, moment(6)); on != "" {
		t.Errorf("it fits on %s, where nobody knows what a bound pod will have", on)
	}
}

// TestAvoidable: a split pod counts if another node had room from before the pod ran until after.
func TestAvoidable(t *testing.T) {
	nodes := map[string]Node{"n": {Machine: small, KubeletConfig: "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n"}, "whole": {Machine: small, KubeletConfig: strict}}
	for what, tc := range map[string]struct {
		taken   string
		gone    int
		on      string
		fewerOn int
	}{
		"the other was free":      {"1-2", 0, "whole", 1},
		"the other was full":      {"1-2,4-7", 0, "", 0},
		"it became free too late": {"1-2,4-7", 19, "", 0},
		"it became free in time":  {"1-2,4-7", 10, "whole", 1},
	} {
		p := follow(t, nodes)
		other := p.run(t, "whole", tc.taken, moment(0))
		if tc.gone > 0 {
			p.Gone(other, moment(tc.gone))
		}
		p.run(t, "n", "2-5", moment(20))
		if early := p.Judge(moment(21), false); len(early) > 0 {
			t.Errorf("%s: judged after 1 s: %+v", what, early)
		}
		all := p.Judge(moment(23), false)
		if tc.on == "" {
			if len(all) > 0 {
				t.Errorf("%s: avoidable: %+v", what, all)
			}
			continue
		}
		if len(all) != 1 || all[0].On != tc.on || all[0].Needs != tc.fewerOn || all[0].NUMA != 2 {
			t.Errorf("%s: %+v, want one that %s takes on %d", what, all, tc.on, tc.fewerOn)
		}
	}
}

// TestAvoidablyStranded: a pod next to free devices counts if a node without devices had room.
func TestAvoidablyStranded(t *testing.T) {
	device := sampleplugin.Device{ID: "a", NUMA: []topology.NUMAID{1}}
	nodes := map[string]Node{
		"gpus":  {Machine: small, KubeletConfig: strict, Plugins: []sampleplugin.Plugin{{Resource: gpu, Devices: []sampleplugin.Device{device}}}},
		"plain": {Machine: small, KubeletConfig: strict},
	}
	for what, tc := range map[string]struct {
		plain, before string // CPUs in use
		devices       []string
		cpus          string
		want          int
	}{
		"the other was free":       {"1-2", "1", nil, "4-6", 1},
		"the other was full":       {"1-3,4-7", "1", nil, "4-6", 0},
		"the device has CPUs left": {"1-2", "1", nil, "4", 0},
		"it had none before":       {"1-2", "4-5", nil, "6", 0},
		"the device is in use":     {"1-2", "4", []string{"a"}, "5-7", 0},
		"it lies beside no device": {"1-2", "4", nil, "1-3", 0},
	} {
		p := follow(t, nodes)
		p.run(t, "plain", tc.plain, moment(0))
		p.run(t, "gpus", tc.before, moment(0), tc.devices...)
		pod, got := p.run(t, "gpus", tc.cpus, moment(20)), 0
		for _, s := range p.Judge(moment(30), true) {
			if s.Pod != pod {
				continue
			}
			if got += s.Strands; s.On != "plain" || s.Needs != 1 {
				t.Errorf("%s: %+v", what, s)
			}
		}
		if got != tc.want {
			t.Errorf("%s: %d stranded avoidably, want %d", what, got, tc.want)
		}
	}
}

func TestStranded(t *testing.T) {
	device := func(id string, numa topology.NUMAID) sampleplugin.Device {
		return sampleplugin.Device{ID: id, NUMA: []topology.NUMAID{numa}}
	}
	p := follow(t, map[string]Node{"n": {Machine: small, KubeletConfig: strict, Plugins: []sampleplugin.Plugin{
		{Resource: gpu, Devices: []sampleplugin.Device{device("a", 1), device("b", 1), device("c", 0)}}}}})
	stranded := func(want int, when string) {
		t.Helper()
		if got := p.Stranded(); got != want {
			t.Errorf("%s: %d stranded, want %d", when, got, want)
		}
	}
	stranded(1, "empty: 4 CPUs serve one of a and b")
	two := p.run(t, "n", "4-5", moment(0))
	stranded(2, "2 of 4 CPUs beside a and b are taken")
	p.run(t, "n", "1", moment(0), "b")
	stranded(2, "b is taken, and a CPU beside c")
	p.Gone(two, moment(1))
	stranded(1, "the CPUs beside a are free")
}
