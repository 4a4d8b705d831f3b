package placement

import (
	"testing"

	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// TestNUMANodesOfAllThatAPodHas: CPU time counts like CPUs, memory and devices.
func TestNUMANodesOfAllThatAPodHas(t *testing.T) {
	m := shapes.Machine("package:2 numa:2 core:4 pu:1 mem:8Gi")
	pools := []DevicePool{{Resource: "x/gpu", Devices: []Device{{ID: "a", NUMA: topology.NewNUMASet(3)}, {ID: "b"}}}, {Resource: "x/nic", Devices: []Device{{ID: "a"}}}}
	deviceAt := func(resource, id string) topology.NUMASet { return DeviceAt(pools, resource, id) }
	for _, c := range []struct {
		name string
		has  ContainerDecision
		want topology.NUMASet
	}{
		{"nothing", ContainerDecision{}, 0},
		{"CPUs", ContainerDecision{CPUs: m.NUMANodes[1].CPUs}, topology.NewNUMASet(1)},
		{"CPU time", ContainerDecision{Shares: []CPUShare{{NUMA: 2, MilliCPU: 500}}}, topology.NewNUMASet(2)},
		{"memory", ContainerDecision{Memory: []MemoryBlock{{NUMA: topology.NewNUMASet(0, 1), Resource: "memory", Bytes: 1}}}, topology.NewNUMASet(0, 1)},
		{"a device", ContainerDecision{Devices: []DeviceAllocation{{Resource: "x/gpu", IDs: []string{"a"}}}}, topology.NewNUMASet(3)},
		{"a device of no NUMA node, and one that is gone", ContainerDecision{Devices: []DeviceAllocation{{Resource: "x/gpu", IDs: []string{"b", "c"}}}}, 0},
		{"a device of an unknown resource", ContainerDecision{Devices: []DeviceAllocation{{Resource: "x/fpga", IDs: []string{"a"}}}}, 0},
	} {
		d := Decision{Containers: []ContainerDecision{{CPUs: m.NUMANodes[0].CPUs}, c.has}}
		if got := d.Held().NUMANodes(m, deviceAt); got != c.want|topology.NewNUMASet(0) {
			t.Errorf("%s: NUMA nodes %s, want %s and 0", c.name, got, c.want)
		}
	}
}
