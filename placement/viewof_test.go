package placement

import (
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

func viewOf(t *testing.T, text string) *KubeletView {
	t.Helper()
	m, err := topology.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	v, err := ViewOf(m)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestViewOfGoesByFolderNames(t *testing.T) {
	v := viewOf(t, "numa:12 core:6 pu:2")
	var nodes []topology.NUMAID
	for _, n := range v.Nodes {
		nodes = append(nodes, n.ID)
	}
	if want := []topology.NUMAID{0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(nodes, want) {
		t.Errorf("nodes %v, want %v", nodes, want)
	}
	// node 7: CPUs 42-47 and 114-119; cpu114 comes before cpu42
	if core := v.Nodes[9].Cores[0]; !slices.Equal(core.Threads, []topology.CPUID{114, 42}) {
		t.Errorf("threads %v", core.Threads)
	}
	if v.NumCores != 144 || v.NumSockets != 1 {
		t.Errorf("%d cores, %d sockets", v.NumCores, v.NumSockets)
	}
}

func TestViewOfUncore(t *testing.T) {
	for _, c := range []struct {
		name, machine string
		want          []int // of the first core
	}{
		{"one L3 is one node", "package:2 numa:1 l3:1 core:8 pu:2", nil},
		{"split L3", shapes.EPYCNPS1, []int{0}},
		{"L3 spans nodes", "package:2 l3:1 numa:2 core:4 pu:2", []int{0}},
		{"kernel gives no ids", "package:2 l3:2 numa:1 core:4 pu:2 l3id:cpu", nil},
		{"no L3", "package:2 numa:1 core:4 pu:2", nil},
		{"an offline thread makes the counts differ", "numa:1 l3:1 core:4 pu:2 l3id:5 offline:7", []int{5}},
	} {
		if got := viewOf(t, c.machine).Nodes[0].Cores[0].Uncore; !slices.Equal(got, c.want) {
			t.Errorf("%s: uncore caches %v, want %v", c.name, got, c.want)
		}
	}
}

func TestViewOfMergesCoresWithEqualIDs(t *testing.T) {
	v := viewOf(t, "package:1 numa:1 core:4 pu:1 coreid:0,0,1,1")
	if got := len(v.Nodes[0].Cores); got != 2 {
		t.Errorf("%d cores, want 2: cAdvisor goes by core and package id", got)
	}
}

func TestViewOfListsOneGiBPagesFirst(t *testing.T) {
	pools := viewOf(t, "numa:1 core:1 pu:1 huge:2Mi=1;1Gi=2").Nodes[0].HugePages
	if len(pools) != 2 || pools[0].PageBytes != 1<<30 {
		t.Errorf("pools %v: hugepages-1048576kB sorts before hugepages-2048kB", pools)
	}
}

func TestViewOfWithoutNUMANodes(t *testing.T) {
	v := viewOf(t, "package:2 core:2 pu:2 packageid:3,1 offline:7")
	if len(v.Nodes) != 2 || v.Nodes[0].ID != 1 || v.Nodes[1].ID != 3 || v.NumCores != 8 {
		t.Errorf("view %+v: want a node for each package, offline CPUs counted", v)
	}
}

func TestViewOfRefuses(t *testing.T) {
	for _, c := range []struct{ machine, field string }{
		{"numa:2 core:2 pu:1 numaid:0,64", "NUMANodes[1].ID"},
		{shapes.POWER9GPU, "NUMANodes[2].ID"},
		{"package:2 core:2 pu:1 packageid:0,64", "Packages.ID"},
		{"package:2 core:2 pu:1 packageid:none", "UnnumberedPackages"},
	} {
		m, err := topology.Parse(c.machine)
		if err != nil {
			t.Fatal(err)
		}
		_, err = ViewOf(m)
		if err == nil || !strings.HasPrefix(err.Error(), c.field+": ") {
			t.Errorf("%s: %v, want an error about %s", c.machine, err, c.field)
		}
	}
	twice := &topology.Machine{NUMANodes: []topology.NUMANode{{ID: 1}, {ID: 1}}}
	if _, err := ViewOf(twice); err == nil {
		t.Error("a machine with node 1 twice was accepted")
	}
}

func FuzzViewOf(f *testing.F) {
	for _, text := range shapes.All() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := topology.Parse(text)
		if err != nil {
			return
		}
		v, err := ViewOf(m)
		if (v == nil) != (err != nil) {
			t.Fatalf("view %v and error %v", v, err)
		}
		if v == nil || len(m.NUMANodes) == 0 {
			return
		}
		if v.NumCores > m.Online.Len() || len(v.Nodes) != len(m.NUMANodes) {
			t.Fatalf("%d cores and %d nodes of %s", v.NumCores, len(v.Nodes), text)
		}
	})
}
