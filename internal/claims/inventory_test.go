package claims

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/berth-dev/berth/topology"
)

// machine has two NUMA nodes, a GPU on each, a card on an unknown one, and a root complex with
// devices on both.
func machine(t testing.TB) *topology.Machine {
	t.Helper()
	m, err := topology.Parse("package:2 numa:1 core:4 pu:2 dev:3b:00.0,030200,10de:2330,numa=0,root=3a dev:86:00.0,030200,10de:2330,numa=1,root=85 " +
		"dev:aa:00.0,020000,8086:1593,root=aa dev:b1:00.0,020000,8086:1593,numa=0,root=b0 dev:b2:00.0,020000,8086:1593,numa=1,root=b0")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

type attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute

func number64(n int64) resourceapi.DeviceAttribute {
	return resourceapi.DeviceAttribute{IntValue: &n}
}

func numbers(n ...int64) resourceapi.DeviceAttribute {
	return resourceapi.DeviceAttribute{IntValues: n}
}

func words(s ...string) resourceapi.DeviceAttribute {
	if len(s) == 1 {
		return resourceapi.DeviceAttribute{StringValue: &s[0]}
	}
	return resourceapi.DeviceAttribute{StringValues: s}
}

func device(name string, a attributes) resourceapi.Device {
	return resourceapi.Device{Name: name, Attributes: a}
}

const node = "n1"

// sliceOf returns a slice of the node's pool.
func sliceOf(driver string, devices ...resourceapi.Device) *resourceapi.ResourceSlice {
	name := node
	return &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{
		Driver: driver, NodeName: &name, Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}, Devices: devices,
	}}
}

func TestPlaces(t *testing.T) {
	yes, none := true, (*bool)(nil)
	for name, c := range map[string]struct {
		driver string
		a      attributes
		want   string
		odd    string // a part of Place.Odd
	}{
		"a number":                       {"d", attributes{StandardNUMANode: number64(1)}, "on NUMA node 1 (resource.kubernetes.io/numaNode)", ""},
		"the first of a list":            {"d", attributes{StandardNUMANode: numbers(1, 0)}, "on NUMA node 1 (resource.kubernetes.io/numaNode)", ""},
		"an empty list":                  {"d", attributes{StandardNUMANode: {IntValues: []int64{}}}, "on no NUMA node (its driver states none)", "a list of ints"},
		"nothing":                        {"d", nil, "on no NUMA node (its driver states none)", ""},
		"negative":                       {"d", attributes{StandardNUMANode: number64(-1)}, "on no NUMA node (its driver states a negative number)", ""},
		"negative in a driver's own":     {"d", attributes{"dra.net/numaNode": number64(-1)}, "on no NUMA node (its driver states a negative number)", ""},
		"negative, and an address":       {"d", attributes{"dra.net/numaNode": number64(-1), StandardAddress: words("0000:86:00.0")}, "on NUMA node 1 (PCI address 0000:86:00.0)", ""},
		"a driver's own":                 {"d", attributes{"dra.net/numaNode": number64(1)}, "on NUMA node 1 (dra.net/numaNode)", ""},
		"without the driver's domain":    {"gpu.amd.com", attributes{"numaNode": number64(1)}, "on NUMA node 1 (gpu.amd.com/numaNode)", ""},
		"the domain is another driver's": {"d", attributes{"numaNode": number64(1)}, "on no NUMA node (its driver states none)", ""},
		"the standard comes first":       {"d", attributes{"dra.net/numaNode": number64(0), StandardNUMANode: number64(1)}, "on NUMA node 1 (resource.kubernetes.io/numaNode)", ""},
		"an administrator's":             {"d", attributes{"a.b/node": number64(1)}, "on NUMA node 1 (a.b/node)", ""},
		"an address":                     {"d", attributes{StandardAddress: words("0000:86:00.0")}, "on NUMA node 1 (PCI address 0000:86:00.0)", ""},
		"an address of NVIDIA's":         {"d", attributes{StandardAddress: words("00000000:86:00.0")}, "on NUMA node 1 (PCI address 0000:86:00.0)", ""},
		"an address in capitals":         {"d", attributes{StandardAddress: words("3B:00.0")}, "on NUMA node 0 (PCI address 0000:3b:00.0)", ""},
		"an address of a driver's own":   {"d", attributes{"dra.net/pciAddress": words("0000:86:00.0")}, "on NUMA node 1 (PCI address 0000:86:00.0)", ""},
		"an address that is not there":   {"d", attributes{StandardAddress: words("0000:87:00.0")}, "on no NUMA node (no NUMA node follows from its driver's attributes)", ""},
		"an address without a node":      {"d", attributes{StandardAddress: words("0000:aa:00.0")}, "on no NUMA node (its driver states none)", ""},
		"a root":                         {"d", attributes{StandardPCIeRoot: words("pci0000:85")}, "on NUMA node 1 (resource.kubernetes.io/pcieRoot)", ""},
		"a list of roots":                {"d", attributes{StandardPCIeRoot: words("pci0000:85", "pci0000:3a")}, "on NUMA node 1 (resource.kubernetes.io/pcieRoot)", ""},
		"a root on both":                 {"d", attributes{StandardPCIeRoot: words("pci0000:b0")}, "on no NUMA node (no NUMA node follows from its driver's attributes)", ""},
		"an unknown root":                {"d", attributes{StandardPCIeRoot: words("pci0000:00")}, "on no NUMA node (no NUMA node follows from its driver's attributes)", ""},
		"an empty root":                  {"d", attributes{StandardPCIeRoot: words("")}, "on no NUMA node (its driver states none)", ""},
		"the address before the root":    {"d", attributes{StandardPCIeRoot: words("pci0000:3a"), StandardAddress: words("0000:86:00.0")}, "on NUMA node 1 (PCI address 0000:86:00.0)", ""},
		"a number of the wrong type":     {"d", attributes{StandardNUMANode: words("1"), "dra.net/numaNode": number64(0)}, "on NUMA node 0 (dra.net/numaNode)", "numaNode is a string: want an int"},
		"an address of the wrong type":   {"d", attributes{StandardAddress: number64(1)}, "on no NUMA node (its driver states none)", "pciBusID is an int: want a string"},
		"a root of the wrong type":       {"d", attributes{StandardPCIeRoot: {BoolValue: &yes}}, "on no NUMA node (its driver states none)", "pcieRoot is a bool: want a string"},
		"no type at all":                 {"d", attributes{StandardNUMANode: {BoolValue: none}}, "on no NUMA node (its driver states none)", "of an unknown type"},
		"a node that is not there":       {"d", attributes{StandardNUMANode: number64(2)}, "on a NUMA node that the machine does not have (resource.kubernetes.io/numaNode: 2: want a NUMA node of the machine)", "2"},
		"a node that nobody has":         {"d", attributes{StandardNUMANode: number64(1 << 40)}, "on a NUMA node that the machine does not have (resource.kubernetes.io/numaNode: 1099511627776: want a NUMA node of the machine)", "1099511627776"},
		"the machine says otherwise":     {"d", attributes{StandardNUMANode: number64(0), StandardAddress: words("0000:86:00.0")}, "on NUMA node 0 (resource.kubernetes.io/numaNode)", "the machine has 0000:86:00.0 on NUMA node 1"},
	} {
		t.Run(name, func(t *testing.T) {
			sources, err := DefaultSources().With([]string{"a.b/node"})
			if err != nil {
				t.Fatal(err)
			}
			i := Read(node, machine(t), []*resourceapi.ResourceSlice{sliceOf(c.driver, device("x", c.a))}, &sources)
			p := i.Place(DeviceID{c.driver, node, "x"})
			if got := p.String(); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if (p.Odd != "") != (c.odd != "") || !strings.Contains(p.Odd, c.odd) {
				t.Errorf("contradiction %q, want one with %q", p.Odd, c.odd)
			}
			if _, count := i.Contradictions(0); (count == 1) != (c.odd != "") {
				t.Errorf("%d contradictions", count)
			}
		})
	}
}

// TestPlacesWithoutReport: without a report, the numbers in attributes are used, and no addresses
// are looked up.
func TestPlacesWithoutReport(t *testing.T) {
	sources := DefaultSources()
	i := Read(node, nil, []*resourceapi.ResourceSlice{sliceOf("d", device("a", attributes{StandardNUMANode: number64(7)}),
		device("b", attributes{StandardAddress: words("0000:86:00.0"), StandardPCIeRoot: words("pci0000:85")}), device("c", attributes{StandardNUMANode: number64(64)}))}, &sources)
	var got []string
	for id, p := range i.All() {
		got = append(got, id.Name+" "+p.String())
	}
	want := []string{
		"a on NUMA node 7 (resource.kubernetes.io/numaNode)", "b on no NUMA node (its driver states none)",
		"c on a NUMA node that the machine does not have (resource.kubernetes.io/numaNode: 64: want a NUMA node of the machine)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func consumes(d resourceapi.Device, sets ...string) resourceapi.Device {
	for _, s := range sets {
		d.ConsumesCounters = append(d.ConsumesCounters, resourceapi.DeviceCounterConsumption{CounterSet: s})
	}
	return d
}

func TestPartitionsHaveTheirParentsNode(t *testing.T) {
	sources := DefaultSources()
	gpu := func(n int64) attributes { return attributes{StandardNUMANode: number64(n)} }
	// A partition comes before its parent, and the parent is in another slice of the pool.
	parts := sliceOf("d", consumes(device("p0", nil), "g0"), consumes(device("p1", nil), "g1"), consumes(device("both", nil), "g0", "g1"),
		consumes(device("own", gpu(0)), "g1"), consumes(device("none", nil), "g2"))
	whole := sliceOf("d", consumes(device("w0", gpu(0)), "g0"), consumes(device("w1", gpu(1)), "g3"))
	part := sliceOf("d", consumes(device("p3", nil), "g3"))
	other := sliceOf("e", consumes(device("p0", nil), "g0")) // the counter set of another driver
	i := Read(node, machine(t), []*resourceapi.ResourceSlice{parts, whole, part, other}, &sources)
	for id, want := range map[DeviceID]string{
		{"d", node, "p0"}: "on NUMA node 0 (its parent)", {"d", node, "p1"}: "on NUMA node 0 (its parent)", {"d", node, "p3"}: "on NUMA node 1 (its parent)",
		{"d", node, "both"}: "on NUMA node 0 (its parent)", {"d", node, "none"}: "on no NUMA node (its driver states none)",
		{"e", node, "p0"}: "on no NUMA node (its driver states none)",
	} {
		if got := i.Place(id).String(); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
	i = Read(node, machine(t), []*resourceapi.ResourceSlice{sliceOf("d", consumes(device("w0", gpu(0)), "g0"), consumes(device("w1", gpu(1)), "g1"),
		consumes(device("two", nil), "g0", "g1"), consumes(device("power", nil), "g2"), consumes(device("x", gpu(0)), "g2"), consumes(device("y", gpu(1)), "g2"))}, &sources)
	for _, name := range []string{"two", "power"} {
		if p := i.Place(DeviceID{"d", node, name}); p.Standing != Neutral {
			t.Errorf("%s of parents on two NUMA nodes is %s", name, p)
		}
	}
}

func TestWhichSlicesCount(t *testing.T) {
	sources := DefaultSources()
	at := func(n int64) attributes { return attributes{StandardNUMANode: number64(n)} }
	old := sliceOf("d", device("a", at(0)), device("gone", at(0)))
	now := sliceOf("d", device("a", at(1)))
	now.Spec.Pool.Generation = 2
	elsewhere := sliceOf("d2", device("b", at(0)))
	*elsewhere.Spec.NodeName = "n2"
	yes, here, there := true, node, "n2"
	attached := sliceOf("net", device("c", at(0)))
	attached.Spec.NodeName, attached.Spec.AllNodes = nil, &yes
	each := sliceOf("each", device("mine", at(1)), device("theirs", at(1)), device("all", at(1)))
	each.Spec.NodeName, each.Spec.PerDeviceNodeSelection = nil, &yes
	each.Spec.Devices[0].NodeName, each.Spec.Devices[1].NodeName, each.Spec.Devices[2].AllNodes = &here, &there, &yes
	i := Read(node, machine(t), []*resourceapi.ResourceSlice{old, now, elsewhere, attached, each}, &sources)
	var got []string
	for id, p := range i.All() {
		got = append(got, id.String()+" "+p.String())
	}
	want := []string{
		"d/n1/a on NUMA node 1 (resource.kubernetes.io/numaNode)",
		"each/n1/all on no NUMA node (its ResourceSlice has no nodeName for it)", "each/n1/mine on NUMA node 1 (resource.kubernetes.io/numaNode)",
		"net/n1/c on no NUMA node (its ResourceSlice has no nodeName for it)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := i.Place(DeviceID{"d", node, "gone"}).String(); got != "in no ResourceSlice of the node" {
		t.Errorf("a device of an older generation is %s", got)
	}
	if got := i.NUMANodes(); got != topology.NewNUMASet(1) {
		t.Errorf("devices on NUMA nodes %s, want 1", got)
	}
}

func TestManyContradictionsAreCounted(t *testing.T) {
	var devices []resourceapi.Device
	for i := range 10_000 {
		devices = append(devices, device(fmt.Sprintf("d%05d", i), attributes{StandardNUMANode: words("0")}))
	}
	sources := DefaultSources()
	first, count := Read(node, machine(t), []*resourceapi.ResourceSlice{sliceOf("d", devices...)}, &sources).Contradictions(2)
	if count != 10_000 || len(first) != 2 || first[0].String() != "device d/n1/d00000: resource.kubernetes.io/numaNode is a string: want an int, or a list of ints" {
		t.Errorf("%d contradictions, first %v", count, first)
	}
}

func TestSourcesOfAnAdministrator(t *testing.T) {
	for name, want := range map[string]string{
		"a.b/numa": "", "numa": "want an attribute with its domain", "a.b/": "want", "/numa": "want", "a.b/nu ma": "want", "A_B/numa": "want", "a.b/c/d": "want",
	} {
		_, err := DefaultSources().With([]string{name})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
	if _, err := DefaultSources().With(make([]string, maxSources+1)); err == nil {
		t.Error("too many attributes are accepted")
	}
}

// FuzzRead: whatever drivers publish, there is no panic, and a Located device is on a NUMA node of
// the machine.
func FuzzRead(f *testing.F) {
	f.Add("d", "x", StandardNUMANode, int64(1), "", uint8(0))
	f.Add("d", "x", StandardAddress, int64(-1), "0000:86:00.0", uint8(1))
	f.Add("gpu.amd.com", "", "numaNode", int64(1<<62), ":", uint8(7))
	m := machine(f)
	sources := DefaultSources()
	f.Fuzz(func(t *testing.T, driver, name, key string, n int64, word string, form uint8) {
		var a resourceapi.DeviceAttribute
		switch form % 5 {
		case 0:
			a = number64(n)
		case 1:
			a = words(word)
		case 2:
			a = numbers(n, 0)
		case 3:
			a = words(word, word)
		}
		list := []*resourceapi.ResourceSlice{sliceOf(driver, consumes(device(name, attributes{resourceapi.QualifiedName(key): a}), word), consumes(device(word, nil), word))}
		i := Read(node, m, list, &sources)
		for id, p := range i.All() {
			if p.Standing == Located && m.NUMANode(p.NUMA) == nil {
				t.Errorf("%s is %s", id, p)
			}
			if p.Standing == Misstated && p.Odd == "" {
				t.Errorf("%s is misstated without a reason", id)
			}
		}
		shown := i.Show(list[0], topology.NewNUMASet(0), nil)
		if len(list[0].Spec.Devices) != 2 || len(shown.Spec.Devices) > 2 {
			t.Error("the slice was changed")
		}
	})
}
