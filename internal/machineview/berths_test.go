package machineview

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// holding returns a pod that has these CPUs.
func holding(uid, cpus string) placement.PodAllocation {
	return placement.PodAllocation{UID: uid, Containers: []placement.ContainerAllocation{{Name: "main", CPUs: shapes.CPUs(cpus)}}}
}

func drawnBerths(t testing.TB, m *topology.Machine, b *Berths) string {
	t.Helper()
	var out strings.Builder
	if err := BerthsSVG(&out, m, b); err != nil {
		t.Fatal(err)
	}
	decoder := xml.NewDecoder(strings.NewReader(out.String()))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return out.String()
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestEveryCPUIsDrawnOnce: on every machine, each CPU is drawn as one pod's, as reserved for the
// system, or as free.
func TestEveryCPUIsDrawnOnce(t *testing.T) {
	for name, text := range shapes.All() {
		m := shapes.Machine(text)
		first, _ := m.Online.Lowest()
		own := topology.NewCPUSet()
		for id := range m.Online.All() {
			if id%3 == 1 {
				own.Add(id)
			}
		}
		b := &Berths{Pinning: true, Reserved: topology.NewCPUSet(first)}
		b.Reserved = b.Reserved.AndNot(&own)
		b.Snapshot.SharedCPUs = m.Online.AndNot(&own)
		b.Snapshot.Pods = []placement.PodAllocation{{UID: "u", Containers: []placement.ContainerAllocation{{Name: "main", CPUs: own}}}}
		svg := drawnBerths(t, m, b)
		for what, want := range map[string]int{
			": u, container main<": own.Len(), ": kept for the system<": b.Reserved.Len(),
			": free<": m.Online.Len() - own.Len() - b.Reserved.Len(),
		} {
			if got := strings.Count(svg, what); got != want {
				t.Errorf("%s: %d times %q, want %d", name, got, what, want)
			}
		}
		for i := range m.NUMANodes {
			n := &m.NUMANodes[i]
			marked := strings.Contains(svg, fmt.Sprintf(`>NUMA node %d</text>`+"\n"+`<text class="d" text-anchor="end"`, n.ID))
			if n.CPUs.IsEmpty() && !marked {
				t.Errorf("%s: NUMA node %d has no text next to its name", name, n.ID)
			}
		}
		if n := strings.Count(svg, ">no CPUs"); n != len(m.NUMANodes)-withCPUs(m) {
			t.Errorf("%s: %d NUMA nodes are marked to have no CPUs", name, n)
		}
	}
}

func withCPUs(m *topology.Machine) (n int) {
	for i := range m.NUMANodes {
		if !m.NUMANodes[i].CPUs.IsEmpty() {
			n++
		}
	}
	return n
}

// TestMemoryAndDevicesHaveTheirPods draws memory blocks on one and on two NUMA nodes, huge pages,
// devices that are free, in use, unhealthy, or on no NUMA node, and a device whose id is its
// address.
func TestMemoryAndDevicesHaveTheirPods(t *testing.T) {
	m := shapes.Machine("package:2 numa:1 core:4 pu:1 mem:64Gi dev:18:00.0,020000,15b3:1021,numa=0,name=eth0")
	amounts := func(free uint64) []placement.MemoryAmounts {
		return []placement.MemoryAmounts{{Resource: "hugepages-1Gi", Allocatable: 4 << 30, Free: 4 << 30}, {Resource: "memory", Allocatable: 60 << 30, Free: free}}
	}
	one, both := topology.NewNUMASet(0), topology.NewNUMASet(0, 1)
	b := &Berths{Title: "n1", Snapshot: placement.Snapshot{
		Memory: []placement.MemoryTable{{NUMA: 0, Resources: amounts(20 << 30)}, {NUMA: 1, Resources: amounts(50 << 30)}},
		Devices: []placement.DevicePool{
			{Resource: "example.com/gpu", Devices: []placement.Device{{ID: "g0", NUMA: one}, {ID: "g1", NUMA: one}, {ID: "g2", NUMA: one, Unhealthy: true}, {ID: "g3"}}},
			{Resource: "example.com/nic", Devices: []placement.Device{{ID: "0000:18:00.0", NUMA: one}}},
		},
		Pods: []placement.PodAllocation{
			{UID: "u", Containers: []placement.ContainerAllocation{{Name: "main",
				Memory:  []placement.MemoryBlock{{Resource: "memory", NUMA: one, Bytes: 30 << 30}, {Resource: "memory", NUMA: both, Bytes: 20 << 30}},
				Devices: []placement.DeviceAllocation{{Resource: "example.com/gpu", IDs: []string{"g0"}}, {Resource: "example.com/nic", IDs: []string{"0000:18:00.0"}}}}}},
			{UID: "idle"},
		},
	}}
	svg := drawnBerths(t, m, b)
	for text, want := range map[string]int{
		">n1</text>": 1, ">u: 30 GiB on 0<": 1, ">u: 20 GiB on 0-1<": 2, ">memory: 20 GiB of 60 GiB free<": 1, ">hugepages-1Gi: 4 GiB of 4 GiB free<": 2,
		">device g0: u<": 1, ">device g1: free<": 1, ">device g2: unhealthy<": 1, ">device g3: free<": 1, ">example.com/gpu: 1 of 3 free<": 1,
		">Plugin devices without a NUMA node<": 1, `<rect class="device own p0"`: 1, ">1 pod with a berth<": 1, ">1 more pod without a berth<": 1,
		">30 GiB on 0, 20 GiB on 0-1, 1 example.com/gpu, 1 example.com/nic<": 1,
		": shared<": 8, // all CPUs, because Pinning is not set
	} {
		if got := strings.Count(svg, text); got != want {
			t.Errorf("%d times %s, want %d", got, text, want)
		}
	}
}

// TestHostileNames: markup, right-to-left marks and very long names are drawn as plain text.
func TestHostileNames(t *testing.T) {
	m := shapes.Machine("package:1 numa:1 core:4 pu:1 mem:64Gi")
	hostile := "</text><script>alert(1)</script>\u202e\u2066\x1b[2J\"'" + strings.Repeat("x", 300)
	b := &Berths{Title: hostile, Facts: hostile, Pinning: true, Tenants: []Tenant{{UID: "u", Name: hostile, Note: hostile}}}
	b.Snapshot.Pods = []placement.PodAllocation{holding("u", "0-1"), holding(hostile, "2")}
	b.Snapshot.Devices = []placement.DevicePool{{Resource: hostile, Devices: []placement.Device{{ID: hostile}}}}
	svg := drawnBerths(t, m, b)
	if strings.Contains(svg, "<script") || strings.ContainsAny(svg, "\u202e\u2066\x1b") {
		t.Errorf("the drawing has markup or control characters of a name: %.3000s", svg)
	}
}

// TestTags: tags are unique, and when the colours repeat, the texture changes.
func TestTags(t *testing.T) {
	seen := map[string]bool{}
	for n := range 2000 {
		tag := tagOf(n)
		if seen[tag] {
			t.Fatalf("%s comes twice", tag)
		}
		seen[tag] = true
	}
	for n, want := range map[int]string{0: "A", 25: "Z", 26: "AA", 27: "AB", 701: "ZZ", 702: "AAA"} {
		if got := tagOf(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	m := shapes.Machine("package:1 numa:1 core:32 pu:1 mem:64Gi")
	b := &Berths{Pinning: true}
	for i := range 26 {
		b.Snapshot.Pods = append(b.Snapshot.Pods, holding(fmt.Sprint("u", i), fmt.Sprint(i)))
	}
	svg := drawnBerths(t, m, b)
	for class, want := range map[string]int{`"cpu own p0"`: 4, `"cpu own p0 t1"`: 2, `"cpu own p0 t2"`: 2, `"cpu own p1 t2"`: 2, `"cpu own p1"`: 4} {
		if got := strings.Count(svg, class); got != want { // each berth has a CPU and a legend entry
			t.Errorf("%d times %s, want %d", got, class, want)
		}
	}
}

// TestDevicesCountedByTokens: if a device plugin does not use PCI addresses as ids, a PCI device
// has the letter of a pod only if this pod has all such devices on the NUMA node.
func TestDevicesCountedByTokens(t *testing.T) {
	m := shapes.Machine("package:1 numa:1 core:4 pu:1 dev:18:00.0,030200,10de:2330,numa=0,name=card1 dev:19:00.0,030200,10de:2330,numa=0,name=card2 dev:1a:00.0,020000,15b3:1021,numa=0,name=eth0")
	one := topology.NewNUMASet(0)
	for all, want := range map[bool]int{true: 2, false: 0} {
		b := &Berths{Pinning: true, Snapshot: placement.Snapshot{
			Devices: []placement.DevicePool{
				{Resource: "nvidia.com/gpu", Devices: []placement.Device{{ID: "GPU-a", NUMA: one}, {ID: "GPU-b", NUMA: one}}},
				{Resource: "example.com/licence", Devices: []placement.Device{{ID: "l", NUMA: one}}},
			},
			Pods: []placement.PodAllocation{{UID: "u", Containers: []placement.ContainerAllocation{{Name: "main", Devices: []placement.DeviceAllocation{
				{Resource: "nvidia.com/gpu", IDs: []string{"GPU-a", "GPU-b"}[:1]}, {Resource: "example.com/licence", IDs: []string{"l"}},
			}}}}},
		}}
		if all {
			b.Snapshot.Pods[0].Containers[0].Devices[0].IDs = []string{"GPU-a", "GPU-b"}
		}
		svg := drawnBerths(t, m, b)
		if got := strings.Count(svg, `<tspan class="tag">A</tspan> GPU card`); got != want {
			t.Errorf("the pod has all GPUs: %v; %d GPUs have its letter, want %d", all, got, want)
		}
		if strings.Contains(svg, "</tspan> Ethernet") {
			t.Error("a network card has the letter of a licence")
		}
	}
}

// TestTwoLetters: a CPU is wide enough for the letters of its pod and its number.
func TestTwoLetters(t *testing.T) {
	m := shapes.Machine("package:1 numa:1 core:40 pu:1")
	b := &Berths{Pinning: true}
	few := drawnBerths(t, m, b)
	for i := range 30 {
		b.Snapshot.Pods = append(b.Snapshot.Pods, holding(fmt.Sprint("u", i), fmt.Sprint(i)))
	}
	many := drawnBerths(t, m, b)
	if !strings.Contains(few, `width="39.0" height="17.0"`) || !strings.Contains(many, `width="46.0" height="17.0"`) {
		t.Error("want CPUs 46 pixels wide with 30 pods, and 39 pixels wide without pods")
	}
}

// TestPackagesAreOfOneWidth: packages have the same width, even if only one of them has devices.
func TestPackagesAreOfOneWidth(t *testing.T) {
	m := shapes.Machine("package:2 numa:1 core:4 pu:1 dev:18:00.0,030200,10de:2330,numa=0,name=a-card-with-a-long-name")
	widths := regexp.MustCompile(`<rect class="package" x="[0-9.]+" y="[0-9.]+" width="([0-9.]+)"`).FindAllStringSubmatch(drawnBerths(t, m, new(Berths)), -1)
	if len(widths) != 2 || widths[0][1] != widths[1][1] {
		t.Errorf("got packages with widths %v, want two with equal widths", widths)
	}
}
