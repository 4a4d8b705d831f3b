package survey

import (
	"slices"
	"testing"

	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// TestPackagesOf returns the package of each NUMA node, and nothing if the machine has only one.
func TestPackagesOf(t *testing.T) {
	for text, want := range map[string][]int{
		"package:2 numa:4 core:2 pu:1":                             {0, 0, 0, 0, 1, 1, 1, 1},
		"package:2 numa:1 core:2 pu:1":                             {0, 1},
		"package:1 numa:4 core:2 pu:1":                             nil,
		"package:2 numa:1 core:2 pu:1 memonly:2 mem:1Gi,1Gi,1Gi*1": {0, 1, -1},
	} {
		m := shapes.Machine(text)
		nodes := []NUMANode{}
		for i := range m.NUMANodes {
			nodes = append(nodes, NUMANode{NUMA: m.NUMANodes[i].ID})
		}
		if got := packagesOf(m, nodes); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	m := shapes.Machine("package:2 numa:1 core:2 pu:1")
	if got, want := packagesOf(m, []NUMANode{{NUMA: 1}, {NUMA: 0}, {NUMA: 7}, {Anywhere: true}}), []int{1, 0, -1, -1}; !slices.Equal(got, want) {
		t.Errorf("NUMA nodes that the machine lacks: %v, want %v", got, want)
	}
	if got := packagesOf(new(topology.Machine), []NUMANode{{NUMA: 0}, {NUMA: 1}}); got != nil {
		t.Errorf("of an unknown machine: %v", got)
	}
}
