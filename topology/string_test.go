package topology

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// roundTrip parses the string of a machine, and checks that the result is the same machine.
func roundTrip(t *testing.T, m *Machine) string {
	t.Helper()
	if err := m.Check(); err != nil {
		t.Fatalf("machine is not valid: %v", err)
	}
	text := m.String()
	back, err := Parse(text)
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	if !back.Equal(m) {
		t.Fatalf("%s\n comes back as\n%s\n%+v\n%+v", text, back, m, back)
	}
	return text
}

func TestParsePrintsCanonically(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"pu:4", "cpu:0-3"},
		{"numa:1 core:4 pu:2", "numa:1 core:4 pu:2"},
		{"package:2 numa:1 core:4 pu:2", "package:2 numa:1 core:4 pu:2"},
		{"package:2 numa:2 l3:2 core:2 pu:2 number:packed mem:64Gi", "package:2 numa:2 l3:2 core:2 pu:2 number:packed mem:64Gi"},
		{"package:2 numa:1 core:4 pu:2 number:interleaved dist:10,21", "package:2 numa:1 core:4 pu:2 number:interleaved dist:10,21"},
		{"package:2 numa:2 core:4 pu:2 number:numa,core,package,pu dist:10,12,32 mem:1Gi,2Gi*2,0", "package:2 numa:2 core:4 pu:2 number:numa,core,package,pu mem:1Gi,2Gi*2,0 dist:10,12,32"},
		{"package:2 core:2 pu:2 offline:7", "package:2 core:2 pu:2 offline:7"},
		{"package:1 core:2 pu:2 offline:3,1", "package:2 core:1 pu:2 offline:1,3"},
		{"package:1 l3:1 numa:2 core:10 pu:1 l3id:3 coreid:0-4,8-12,16-20,24-28", "package:1 l3:1 numa:2 core:10 pu:1 coreid:0-4,8-12,16-20,24-28 l3id:3"},
		{"package:1 l3:4 core:2 pu:1 l3id:0,2,4,6", "package:1 l3:4 core:2 pu:1 l3id:0-6/2"},
		{"package:1 l3:4 core:2 pu:1 l3id:cpu offline:2-3", "package:1 l3:4 core:2 pu:1 offline:2-3 l3id:cpu"},
		{"package:2 core:2 pu:2 packageid:none", "package:2 core:2 pu:2 packageid:none"},
		{"cpu:0-5 package:0=0-1;1=2-5 packageid:none", "cpu:0-5 package:0=0-1;1=2-5 packageid:none"},
		{"cpu:1-4 l3:1=1-2;3=3-4 l3id:cpu", "cpu:1-4 l3:1=1-2;3=3-4 l3id:cpu"},
		{"numa:4 core:2 pu:1 numaid:0-2,5 memonly:7,3 dist:10,20", "numa:4 core:2 pu:1 numaid:0-2,5 memonly:3,7 dist:10,20"},
		{"package:0=0-11 cpu:0-11 core:0/0-3=0-6/2+1-7/2;0/8-11=8-11 huge:2Mi=0 numa:0=0-11", "package:1 numa:1 pu:12 core:0/0-3=0-6/2+1-7/2;0/8-11=8-11 huge:2Mi=0"},
		{"numa:2 core:2 pu:1 dev:10000:01:00.0,010802,8086:0a54,root=pci10000:00,name=nvme%2C0 dev:3b:00.0|3b:00.1,020000,8086:1593,numa=1,root=3a,switch=3a:00.0,driver=ice,name=a|b",
			"numa:2 core:2 pu:1 dev:3b:00.0|3b:00.1,020000,8086:1593,numa=1,root=3a,switch=3a:00.0,driver=ice,name=a|b dev:10000:01:00.0,010802,8086:0a54,root=pci10000%3A00,name=nvme%2C0"},
		{"pu:2 dev:00:00.0|00:01.0|00:02.0|00:03.0,030200,10de:0001 link:nvlink=2,00:02.0+00:00.0+00:01.0 link:nvlink=1,00:03.0+00:02.0|00:03.0+00:01.0",
			"cpu:0-1 dev:00:00.0|00:01.0|00:02.0|00:03.0,030200,10de:0001 link:nvlink=2,00:00.0+00:01.0+00:02.0 link:nvlink=1,00:01.0+00:03.0|00:02.0+00:03.0"},
		{"pu:2 dev:00:00.0,020700,15b3:0001,rdma=mlx5_0,name=a dev:00:00.1|00:00.2,020700,15b3:0002,pf=00:00.0",
			"cpu:0-1 dev:00:00.0,020700,15b3:0001,name=a,rdma=mlx5_0 dev:00:00.1|00:00.2,020700,15b3:0002,pf=00:00.0"},
	} {
		m, err := Parse(c.in)
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		if got := roundTrip(t, m); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.in, got, c.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", "either pu:N with the levels above it, or cpu:LIST"},
		{"numa", `machine: "numa": want items of the form KEY:VALUE`},
		{"sockets:2 pu:4", `"sockets:2": want one of the keys package`},
		{"numa:x pu:4", `numa: "x": want a count of at least 1`},
		{"numa:4294967296 pu:4", "want a count of at least 1"},
		{"numa:64 core:64 pu:2", "at most 1024 CPUs"},
		{"numa:2 core:4", "want pu:N as the last level"},
		{"core:4 numa:2 pu:2", "want core to come just before pu"},
		{"numa:2 pu:2 pu:2", "want the key once"},
		{"numa:2 pu:2 huge:1Gi=4,2Mi=8", `with ";" between page sizes`},
		{"numa:2 pu:2 cpu:0-3", "want no list together with levels"},
		{"numa:2 pu:2 number:rows", "want split, packed, interleaved"},
		{"numa:2 pu:2 number:numa", "want split, packed, interleaved"},
		{"numa:2 pu:2 number:pu,pu", "want split, packed, interleaved"},
		{"cpu:0-3 number:packed", "want levels with counts"},
		{"numa:2 pu:2 numaid:0", "want 2 ids"},
		{"numa:2 pu:2 numaid:0,0", "want ids ascending and unique"},
		{"numa:2 pu:2 numaid:0,65536", "want a number from 0 to 65535"},
		{"cpu:0-3 package:0=2-3;1=0-1 packageid:none", "want 0, 1, 2 ... in the order of lowest CPUs"},
		{"cpu:0-3 packageid:none", "want false on a machine without packages"},
		{"cpu:0-3 numaid:0", "want also numa:COUNT"},
		{"numa:2 pu:2 mem:1Gi,2Gi,3Gi", "want one value for all NUMA nodes, or 2 values, not 3"},
		{"numa:2 pu:2 mem:-1", `mem: "-1": want a number of bytes`},
		{"numa:2 pu:2 mem:99999999Ti", "want a number of bytes below 2^64"},
		{"numa:2 pu:2 huge:3Mi=1", "want powers of two"},
		{"numa:2 pu:2 mem:64Gi huge:2Mi=40000", "want huge pages of all sizes to fit into the NUMA node's memory, 68719476736 bytes"},
		{"numa:2 pu:2 huge:2Mi=1;2Mi=2", "want powers of two, ascending and unique"},
		{"numa:2 pu:2 huge:2Mi=x", "want a number of pages"},
		{"numa:2 pu:2 huge:1Gi=18446744073709551615", "want a pool of less than 2^64 bytes"},
		{"numa:2 pu:2 dist:10,20/20", "want 2 distances in a row"},
		{"numa:2 pu:2 dist:0,20", "want a distance of at least 1"},
		{"numa:2 pu:2 dist:10,20,30,40", "want LOCAL"},
		{"pu:2 dist:10", "want a machine with NUMA nodes"},
		{"cpu:0-3 numa:0=0-1;1=1-3", "want CPUs that no other object of this kind has"},
		{"cpu:0-3 numa:0=0-4", "want online CPUs only"},
		{"cpu:0-3 package:0=0-3 core:1/0=0", "want the package that holds CPUs 0"},
		{"cpu:0-3 package:0=0-3 core:0/0-1=0-2", "want 2 CPUs, one for each core id"},
		{"pu:2 dev:0000:00:00.0", "want ADDRESS,CLASS,VENDOR:PRODUCT"},
		{"pu:2 dev:00:00.0,020000,8086:1,numa=0", "want four hexadecimal digits"},
		{"pu:2 dev:00:00.0,020000,8086:0001,numa=0", "want a NUMA node of this machine"},
		{"pu:2 dev:00:00.0,020000,8086:0001,pf=00:00.1", "want the address of a physical function of this machine"},
		{"pu:2 dev:00:00.0,020000,8086:0001,pf=00:00.0", "want the address of a physical function of this machine"},
		{"pu:2 dev:00:00.0|00:00.0,020000,8086:0001", "want addresses in ascending order, each once"},
		{"pu:2 dev:00:00.0,060400,8086:0001,switch=00:01.0 dev:00:01.0,060400,8086:0001,switch=00:00.0", "at most 32 switches above it, and no cycle"},
		{"pu:2 dev:00:00.0,060400,8086:0001,switch=00:00.0", "at most 32 switches above it, and no cycle"},
		{"pu:2 dev:00:00.0,060400,8086:0001,root=00 dev:00:01.0,060400,8086:0001,root=01,switch=00:00.0", `want the root of its switch 0000:00:00.0, "pci0000:00"`},
		{"pu:2 dev:00:00.0|00:01.0,030200,10de:0001,rdma=a", "one name for each address, so 2"},
		{"pu:2 dev:00:00.0|00:01.0,030200,10de:0001 link:nvlink=0,00:00.0+00:01.0", "want a number of links from 1 to 255"},
		{"pu:2 dev:00:00.0|00:01.0,030200,10de:0001 link:wire=1,00:00.0+00:01.0", "KIND being nvlink or xgmi"},
		{"pu:2 dev:00:00.0|00:01.0,030200,10de:0001 link:=1,00:00.0+00:01.0", "KIND being nvlink or xgmi"},
		{"pu:2 dev:00:00.0|00:01.0,030200,10de:0001 link:nvlink=1,00:00.0", "KIND being nvlink or xgmi"},
		{"pu:2 dev:00:00.0|00:01.0,030200,10de:0001 link:nvlink=1,00:00.0+00:00.0", "want a device with a higher address than A"},
		{"pu:2 dev:00:00.0|00:01.0,030200,10de:0001 link:nvlink=1,00:00.0+00:02.0", "want the address of a device of this machine"},
		{"pu:2 dev:00:00.0|00:01.0,030200,10de:0001 link:nvlink=1,00:00.0+00:01.0 link:nvlink=2,00:00.0+00:01.0", "each pair of devices once"},
		{"pu:2 offline:0-1", "want at least one CPU"},
		{"cpu:0-1 offline:1", "want no CPU that is also online"},
		{"pu:2 core:0/0-70000=0", "want more than 65536 numbers"},
		{strings.Repeat("a", MaxMachineText+1), "want at most 262144 bytes"},
	} {
		_, err := Parse(c.in)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60s: got %v, want ...%s...", c.in, err, c.want)
		}
	}
}

// randomMachine makes a machine with few or many irregularities.
func randomMachine(r *rand.Rand) *Machine {
	pick := func(n ...int) int { return n[r.IntN(len(n))] }
	levels := fmt.Sprintf("package:%d numa:%d l3:%d core:%d pu:%d", pick(1, 2, 4), pick(1, 2, 4), pick(1, 2), pick(1, 2, 3, 4), pick(1, 2, 4))
	number := []string{"", " number:packed", " number:interleaved", " number:core,package,l3,numa,pu"}[r.IntN(4)]
	m, err := Parse(levels + number + []string{"", " dist:10,21", " dist:10,12,32"}[r.IntN(3)] + []string{"", " mem:64Gi huge:2Mi=3;1Gi=0"}[r.IntN(2)])
	if err != nil {
		panic(err)
	}
	for range r.IntN(4) {
		disturb(r, m)
	}
	return m
}

// disturb makes one property of a machine irregular.
func disturb(r *rand.Rand, m *Machine) {
	switch r.IntN(12) {
	case 0:
		takeOffline(r, m)
	case 1:
		m.Offline.Add(CPUID(1000 + r.IntN(24)))
	case 2:
		m.NUMANodes[r.IntN(len(m.NUMANodes))].MemoryBytes = r.Uint64()
	case 3:
		m.L3s, m.UnnumberedCaches = nil, false
	case 11:
		m.UnnumberedPackages = !slices.ContainsFunc(m.Packages, func(p Package) bool {
			at := slices.Index(m.Packages, p)
			return int(p.ID) != at || at > 0 && !lower(&m.Packages[at-1].CPUs, &p.CPUs)
		})
	case 10:
		m.UnnumberedCaches = len(m.L3s) > 0
		for i := range m.L3s {
			lowest, _ := m.L3s[i].CPUs.Lowest()
			m.L3s[i].ID = L3ID(lowest)
		}
		slices.SortFunc(m.L3s, func(a, b L3) int { return int(a.ID) - int(b.ID) })
	case 4:
		for i := range m.Cores {
			m.Cores[i].ID += CoreID(i * r.IntN(2))
		}
	case 5:
		if last := &m.NUMANodes[len(m.NUMANodes)-1]; last.ID < 1000 {
			last.ID += NUMAID(r.IntN(60000))
		}
	case 6:
		id := m.NUMANodes[len(m.NUMANodes)-1].ID
		if id < 65000 {
			addNode(m, NUMANode{ID: id + 1 + NUMAID(r.IntN(3)), MemoryBytes: 1 << 30})
		}
	case 7:
		n := &m.NUMANodes[r.IntN(len(m.NUMANodes))]
		most := uint64(1 << 40)
		if n.MemoryBytes > 0 {
			most = n.MemoryBytes >> 21
		}
		n.HugePages = []HugePages{{1 << 21, r.Uint64N(most + 1)}, {1 << 30, 0}}
	case 8:
		m.Cores = slices.Delete(m.Cores, 0, r.IntN(len(m.Cores)+1))
	case 9:
		a := r.IntN(8)
		m.Devices = []Device{
			{Address: fmt.Sprintf("0000:3b:00.%d", a), Class: "030200", Vendor: "10de", Product: "20b0", NUMA: m.NUMANodes[0].ID, HasNUMA: true, Root: "pci0000:3a", Driver: "a b,c|d=", Name: "ab"},
			{Address: fmt.Sprintf("0000:3c:00.%d", a), Class: "030200", Vendor: "10de", Product: "20b0", Root: "3a", Switch: "0000:3a:00.0"},
			{Address: "0000:3d:00.0", Class: "020700", Vendor: "15b3", Product: "1021", Root: "3a", Name: "ib,0", RDMA: "mlx5|0"},
			{Address: "0000:3d:00.1", Class: "020700", Vendor: "15b3", Product: "1021", Root: "3a", Physical: "0000:3d:00.0"},
			{Address: "0000:3d:00.2", Class: "020700", Vendor: "15b3", Product: "1021", Root: "3a", Physical: "0000:3d:00.0"},
		}
		m.Links = nil
		for i := range m.Devices {
			for _, b := range m.Devices[i+1:] {
				if r.IntN(2) == 0 {
					m.Links = append(m.Links, Link{A: m.Devices[i].Address, B: b.Address, Kind: LinkKind(1 + r.IntN(2)), Count: uint8(1 + r.IntN(2))})
				}
			}
		}
	}
	for i := range m.Devices {
		m.Devices[i].HasNUMA, m.Devices[i].NUMA = m.NUMANode(m.Devices[i].NUMA) != nil && m.Devices[i].HasNUMA, 0
		if m.Devices[i].HasNUMA {
			m.Devices[i].NUMA = m.NUMANodes[0].ID
		}
		m.Devices[i].HasNUMA = m.Devices[i].HasNUMA && m.NUMANode(m.Devices[i].NUMA) != nil
	}
}

func addNode(m *Machine, n NUMANode) {
	m.NUMANodes = append(m.NUMANodes, n)
	for i := range m.NUMANodes {
		m.NUMANodes[i].Distances = nil
	}
}

func takeOffline(r *rand.Rand, m *Machine) {
	if m.Online.Len() < 2 {
		return
	}
	gone := m.Online
	keep := r.IntN(m.Online.Len())
	i := 0
	for id := range m.Online.All() {
		if i == keep || r.IntN(4) > 0 {
			gone.Remove(id)
		}
		i++
	}
	m.Online, m.Offline = m.Online.AndNot(&gone), m.Offline.Or(&gone)
	p := parser{m: *m}
	p.dropOffline()
	p.order()
	*m = p.m
	m.UnnumberedCaches, m.UnnumberedPackages = false, false
}

func TestStringRoundTripsRandomMachines(t *testing.T) {
	for seed := range uint64(4000) {
		roundTrip(t, randomMachine(rand.New(rand.NewPCG(seed, 1))))
	}
}

func FuzzMachineString(f *testing.F) {
	for seed := range uint64(50) {
		f.Add(randomMachine(rand.New(rand.NewPCG(seed, 2))).String())
	}
	f.Add("package:2 numa:4 l3:2 core:8 pu:2 number:interleaved mem:64Gi huge:2Mi=128 dist:10,12,32")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Parse(text)
		if (err == nil) != (m != nil) {
			t.Fatalf("machine %v and error %v", m, err)
		}
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Fatalf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		printed := roundTrip(t, m)
		again, _ := Parse(printed)
		if again.String() != printed {
			t.Fatalf("not stable:\n%s\n%s", printed, again)
		}
	})
}

// FuzzRandomMachine starts with random machines instead of random texts.
func FuzzRandomMachine(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) { roundTrip(t, randomMachine(rand.New(rand.NewPCG(a, b)))) })
}
