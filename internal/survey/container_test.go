package survey

import (
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// TestReusedMemory: an init container keeps its NUMA nodes, as in the kubelet's GetMemoryNUMANodes,
// although a later container reuses its memory.
func TestReusedMemory(t *testing.T) {
	m := shapes.Machine("package:2 numa:1 core:4 pu:2 mem:8Gi")
	c := ContainerOf(m, &placement.ContainerDecision{Name: "c", Kind: placement.Init,
		Memory: []placement.MemoryBlock{{Resource: "memory", NUMA: topology.NewNUMASet(1)}}})
	if c.NUMANodes != "1" || len(c.Memory) > 0 {
		t.Errorf("NUMA nodes %q, memory %v", c.NUMANodes, c.Memory)
	}
}
