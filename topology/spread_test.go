package topology

import "testing"

func TestSpread(t *testing.T) {
	// The machine has two packages of two NUMA nodes with two CPUs each, and a NUMA node without
	// CPUs.
	m := &Machine{
		Packages: []Package{{ID: 0, CPUs: NewCPUSet(0, 1, 2, 3)}, {ID: 1, CPUs: NewCPUSet(4, 5, 6, 7)}},
		NUMANodes: []NUMANode{
			{ID: 0, CPUs: NewCPUSet(0, 1)}, {ID: 1, CPUs: NewCPUSet(2, 3)},
			{ID: 2, CPUs: NewCPUSet(4, 5)}, {ID: 5, CPUs: NewCPUSet(6, 7)}, {ID: 9},
		},
	}
	for _, c := range []struct {
		cpus  CPUSet
		nodes NUMASet
		want  Spread
	}{
		{NewCPUSet(), 0, ""},
		{NewCPUSet(1), NewNUMASet(0), WithinNode},
		{NewCPUSet(1, 2), NewNUMASet(0, 1), WithinPackage},
		{NewCPUSet(4, 7), NewNUMASet(2, 5), WithinPackage},
		{NewCPUSet(3, 4), NewNUMASet(1, 2), WithinMachine},
		{NewCPUSet(0, 1, 2, 3, 4, 5, 6, 7), NewNUMASet(0, 1, 2, 5), WithinMachine},
	} {
		nodes := m.NodesOf(c.cpus)
		if nodes != c.nodes {
			t.Errorf("NodesOf(%s) = %s, want %s", c.cpus, nodes, c.nodes)
		}
		if got := m.Spread(nodes); got != c.want {
			t.Errorf("Spread(%s) = %q, want %q", nodes, got, c.want)
		}
	}
	if got := m.Spread(NewNUMASet(0, 9)); got != WithinPackage {
		t.Errorf("node 0 and a node without CPUs: %q, want %q", got, WithinPackage)
	}
}

func TestNodesOfLeavesOutLargeIDs(t *testing.T) {
	m := &Machine{NUMANodes: []NUMANode{{ID: MaxNUMANodes, CPUs: NewCPUSet(0)}}}
	if got := m.NodesOf(NewCPUSet(0)); got != 0 {
		t.Errorf("got %s", got)
	}
}
