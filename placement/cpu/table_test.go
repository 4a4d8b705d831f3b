package cpu

import (
	"testing"

	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// grid is a machine with equal numbers at each level. The CPUs of a core have consecutive numbers.
type grid struct{ sockets, nodes, cores, threads, coresPerL3 int } // nodes per socket, cores per node

func (g grid) node() Node {
	n := Node{NumSockets: g.sockets, NumCores: g.sockets * g.nodes * g.cores}
	for core := range n.NumCores {
		for i := range g.threads {
			th := Thread{
				CPU: topology.CPUID(core*g.threads + i), NUMA: topology.NUMAID(core / g.cores),
				Socket: core / g.cores / g.nodes, Core: core * g.threads,
			}
			if th.Uncore = th.Socket; g.coresPerL3 > 0 {
				th.Uncore = core / g.coresPerL3
			}
			n.Threads = append(n.Threads, th)
		}
	}
	n.NumCPUs = len(n.Threads)
	return n
}

func TestTake(t *testing.T) {
	for _, tc := range []struct {
		name  string
		g     grid
		o     Options
		avail string
		n     int
		want  string // CPU list or error
	}{
		{"nothing", grid{1, 1, 4, 1, 0}, Options{}, "0-3", 0, ""},
		{"less than nothing", grid{1, 1, 4, 1, 0}, Options{}, "0-3", -1, ""},
		{"too many", grid{1, 1, 4, 1, 0}, Options{}, "0-2", 4, ErrNotEnough.Error()},
		{"CPUs that do not exist", grid{1, 1, 4, 1, 0}, Options{}, "0-2,9", 4, ErrNotEnough.Error()},
		{"lowest core first", grid{1, 1, 4, 2, 0}, Options{}, "0-7", 2, "0-1"},
		{"whole cores before single CPUs", grid{1, 1, 4, 2, 0}, Options{}, "1-7", 3, "1-3"},
		{"the fuller node first", grid{1, 2, 4, 1, 0}, Options{}, "0-3,6-7", 2, "6-7"},
		{"the fuller socket first", grid{2, 2, 2, 1, 0}, Options{}, "0-3,5-7", 2, "6-7"},
		{"a whole socket", grid{2, 2, 2, 1, 0}, Options{}, "1-7", 4, "4-7"},
		{"a whole node", grid{1, 3, 2, 1, 0}, Options{}, "1-5", 2, "2-3"},
		{"spread over cores", grid{1, 1, 4, 2, 0}, Options{DistributeAcrossCores: true}, "1-7", 2, "1-2"},
		{"a whole L3", grid{1, 1, 6, 2, 2}, Options{PreferAlignByUncore: true}, "1-11", 4, "4-7"},
		{"part of an L3", grid{1, 1, 6, 2, 2}, Options{PreferAlignByUncore: true}, "3-11", 2, "4-5"},
		{"part of an L3, odd, 1.34", grid{1, 1, 6, 2, 2}, Options{PreferAlignByUncore: true}, "0-1,4-11", 3, "4-6"},
		{"part of an L3, odd, 1.33", grid{1, 1, 6, 2, 2}, Options{PreferAlignByUncore: true, Version: 33}, "0-1,4-11", 3, "0-1,4"},
		{"evenly over nodes", grid{1, 2, 4, 1, 0}, Options{DistributeAcrossNUMA: true}, "0-7", 6, "0-2,4-6"},
		{"evenly by whole cores", grid{1, 2, 4, 2, 0}, Options{DistributeAcrossNUMA: true, FullPhysicalCPUsOnly: true}, "0-15", 10, "0-5,8-11"},
		{"kubernetes#141237", grid{2, 4, 4, 1, 0}, Options{DistributeAcrossNUMA: true}, "0-30", 16, "12-27"},
		{
			"remainder overwritten", grid{2, 5, 16, 1, 0}, Options{DistributeAcrossNUMA: true},
			"0-13,80-91,96-107,112-123,128-139,144-155", 65, "0-11,80-90,96-106,112-121,128-137,144-154",
		},
		{"hang", grid{4, 1, 3, 2, 0}, Options{DistributeAcrossNUMA: true, FullPhysicalCPUsOnly: true}, "1-5,7-11,13-17,19-23", 14, ErrWouldHang.Error()},
		{"across sockets, 1.36", grid{2, 2, 4, 1, 0}, Options{DistributeAcrossNUMA: true, AlignBySocket: true}, "0-2,4,8-10,12-14", 5, "0-2,8-9"},
		{"in one socket, 1.37", grid{2, 2, 4, 1, 0}, Options{DistributeAcrossNUMA: true, AlignBySocket: true, Version: 37}, "0-2,4,8-10,12-14", 5, "8-10,12-13"},
		{"too many nodes to try", grid{1, 40, 2, 1, 0}, Options{DistributeAcrossNUMA: true}, "0-79", 39, ErrTooComplex.Error()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			avail, out := shapes.CPUs(tc.avail), topology.CPUSet{}
			got := ""
			if err := mustNew(tc.g.node(), tc.o).Take(&avail, tc.n, &out); err != nil {
				got = err.Error()
			} else {
				got = out.String()
			}
			if got != tc.want {
				t.Errorf("Take(%s, %d) = %s, want %s", tc.avail, tc.n, got, tc.want)
			}
		})
	}
}

func TestAllocate(t *testing.T) {
	two := grid{2, 1, 4, 2, 0}
	for _, tc := range []struct {
		name     string
		o        Options
		shared   string
		reserved string
		reusable string
		numa     topology.NUMASet // 0: not aligned
		n        int
		want     string
	}{
		{"anywhere", Options{}, "0-15", "0", "", 0, 2, "2-3"},
		{"on a node", Options{}, "0-15", "0", "", 2, 2, "8-9"},
		{"on a node as far as it goes", Options{}, "0-9", "0", "", 2, 4, "2-3,8-9"},
		{"from an init container", Options{}, "0-5", "0", "12-13", 2, 2, "12-13"},
		{"reserved CPUs are never taken", Options{}, "0-3", "0-3", "", 0, 1, ErrNotEnough.Error()},
		{"half a core", Options{FullPhysicalCPUsOnly: true}, "0-15", "0", "", 0, 3, ErrSMTSize.Error()},
		{"a sibling of a reserved CPU", Options{FullPhysicalCPUsOnly: true}, "0-3", "0", "", 0, 4, ErrSMTCores.Error()},
		{"reusable cores do not count", Options{FullPhysicalCPUsOnly: true}, "0-1", "0", "2-3", 0, 2, ErrSMTCores.Error()},
		{"whole cores", Options{FullPhysicalCPUsOnly: true}, "0-15", "0", "", 1, 2, "2-3"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			topo := mustNew(two.node(), tc.o)
			shared, reserved, reusable := shapes.CPUs(tc.shared), shapes.CPUs(tc.reserved), shapes.CPUs(tc.reusable)
			siblings, err := topo.Siblings(reserved)
			if err != nil {
				t.Fatal(err)
			}
			var out topology.CPUSet
			err = topo.Allocate(&AllocateInput{
				N: tc.n, Shared: &shared, Reserved: &reserved, Siblings: &siblings, Reusable: &reusable, Aligned: tc.numa != 0, NUMA: tc.numa,
			}, &out)
			got := out.String()
			if err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestAllocateBySocket(t *testing.T) {
	topo := mustNew(grid{2, 2, 2, 1, 0}.node(), Options{AlignBySocket: true})
	shared, none, out := shapes.CPUs("0-7"), topology.CPUSet{}, topology.CPUSet{}
	in := AllocateInput{N: 3, Shared: &shared, Reserved: &none, Siblings: &none, Aligned: true, NUMA: topology.NewNUMASet(3)}
	if err := topo.Allocate(&in, &out); err != nil || out.String() != "4-6" {
		t.Errorf("got %s, %v; want 4-6 of socket 1", out, err)
	}
}

func TestReserve(t *testing.T) {
	topo := mustNew(grid{2, 1, 4, 2, 0}.node(), Options{})
	if got, err := topo.Reserve(3); err != nil || got.String() != "0-2" {
		t.Errorf("Reserve(3) = %s, %v; want 0-2", got, err)
	}
	if got, err := topo.Reserve(17); err != ErrReserve {
		t.Errorf("Reserve(17) = %s, %v; want %v", got, err, ErrReserve)
	}
	if _, err := topo.Siblings(shapes.CPUs("3,16")); err == nil {
		t.Error("Siblings took a CPU that the node does not have")
	}
}

func TestHints(t *testing.T) {
	// Nodes 1, 3 and 4 have 4 CPUs each, node 2 has none.
	n := grid{1, 3, 4, 1, 0}.node()
	for i := range n.Threads {
		n.Threads[i].NUMA = []topology.NUMAID{1, 3, 4}[n.Threads[i].NUMA]
	}
	space, err := hint.NewSpace(topology.NewNUMASet(1, 2, 3, 4))
	if err != nil {
		t.Fatal(err)
	}
	h, err := NewHinter(mustNew(n, Options{}), space)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name                string
		avail, reusable     string
		n                   int
		preferred, unwanted []topology.NUMASet
		kind                hint.ListKind
	}{
		{"one node will do", "0-3,4", "", 3, []topology.NUMASet{0b10}, []topology.NUMASet{0b1010, 0b10010, 0b11010}, hint.Masks},
		{"a node would do were it free", "0,4,8", "", 3, nil, []topology.NUMASet{0b11010}, hint.Masks},
		{"reusable CPUs bind", "0-3", "4", 2, nil, []topology.NUMASet{0b1010, 0b11010}, hint.Masks},
		{"more than there is", "0-11", "", 13, nil, nil, hint.Impossible},
	} {
		t.Run(tc.name, func(t *testing.T) {
			avail, reusable, l := shapes.CPUs(tc.avail), shapes.CPUs(tc.reusable), space.NewList()
			h.Hints(&HintInput{N: tc.n, Available: &avail, Reusable: &reusable, Want: hint.Offered}, &l)
			want := space.NewList()
			for _, set := range tc.preferred {
				want.Preferred.Add(space.Compact(set))
				want.Offered.Add(space.Compact(set))
			}
			for _, set := range tc.unwanted {
				want.Offered.Add(space.Compact(set))
			}
			if l.Kind != tc.kind || l.Preferred[0] != want.Preferred[0] || l.Offered[0] != want.Offered[0] {
				t.Errorf("preferred %b, offered %b, kind %d; want %b, %b, %d", l.Preferred, l.Offered, l.Kind, want.Preferred, want.Offered, tc.kind)
			}
		})
	}
	if _, err := NewHinter(mustNew(n, Options{}), mustSpace(t, topology.NewNUMASet(1, 3))); err == nil {
		t.Error("NewHinter took a space without one of the nodes")
	}
}

func mustSpace(t *testing.T, nodes topology.NUMASet) *hint.Space {
	t.Helper()
	s, err := hint.NewSpace(nodes)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestLargest fills every table: 1024 CPUs, in as few groups and as many groups as possible.
func TestLargest(t *testing.T) {
	every := Node{NumCPUs: topology.MaxCPUs, NumCores: topology.MaxCPUs, NumSockets: topology.MaxCPUs}
	for i := range topology.MaxCPUs {
		every.Threads = append(every.Threads, Thread{CPU: topology.CPUID(i), NUMA: topology.NUMAID(i % topology.MaxNUMANodes), Socket: i, Core: i, Uncore: i})
	}
	for name, n := range map[string]Node{
		"one node":         grid{1, 1, 512, 2, 0}.node(),
		"64 nodes":         grid{2, 32, 8, 2, 4}.node(),
		"a socket per CPU": every,
	} {
		for _, o := range []Options{{}, {PreferAlignByUncore: true}, {DistributeAcrossCores: true}, {DistributeAcrossNUMA: true}} {
			topo := mustNew(n, o)
			avail := topo.CPUs()
			avail.Remove(0)
			for _, k := range []int{1, 17, 1022, 1023} {
				var out topology.CPUSet
				err := topo.Take(&avail, k, &out)
				if err == ErrTooComplex && o.DistributeAcrossNUMA {
					continue
				}
				if err != nil || out.Len() != k || !out.IsSubsetOf(&avail) {
					t.Errorf("%s, %+v: Take(%d) = %s, %v", name, o, k, out, err)
				}
			}
		}
	}
}
