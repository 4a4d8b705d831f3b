package placement_test

import (
	"fmt"
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// TestStrands: NUMA node 0 has 16 CPUs and four devices, so each device's part is four CPUs. NUMA
// node 1 has no devices.
func TestStrands(t *testing.T) {
	view := made.View(t, shapes.Machine("package:2 numa:1 core:8 pu:2 number:packed mem:64Gi dist:10,21"))
	const gpu = "example.com/gpu"
	with := func(cpu, gpus int64) placement.Request {
		r := cpus(fmt.Sprint(cpu, "-", gpus), cpu)
		r.Containers[0].Devices = []placement.DeviceRequest{{Resource: gpu, Count: gpus}}
		return r
	}
	for _, tc := range []struct {
		name           string
		before         []placement.Request // on NUMA node 0
		r              placement.Request
		on             topology.NUMAID
		left, stranded int
	}{
		{"no devices there", nil, cpus("a", 14), 1, 0, 0},
		{"every CPU is a device's part: the first pod strands one", nil, cpus("a", 2), 0, 4, 1},
		{"a pod that asks for 0 devices is one without", nil, with(2, 0), 0, 4, 1},
		{"two devices lose theirs", nil, cpus("a", 8), 0, 4, 2},
		{"all do", nil, cpus("a", 16), 0, 4, 4},
		{"one has lost them before", []placement.Request{with(8, 1)}, cpus("a", 4), 0, 3, 1},
		{"what is in use needs none", []placement.Request{with(2, 2)}, cpus("a", 6), 0, 2, 0},
		{"one CPU more than it leaves over", []placement.Request{with(2, 2)}, cpus("a", 7), 0, 2, 1},
		{"nothing is left to lose", []placement.Request{with(13, 1)}, cpus("a", 3), 0, 3, 0},
		{"it lies beside none of them", []placement.Request{with(13, 1)}, cpus("a", 3), 1, 0, 0},
		{"the pod's own device is not stranded", nil, with(4, 1), 0, 3, 0},
		{"of the whole node", nil, with(4, 1), 1, 3, 0},
		{"the pod takes the part of another", nil, with(8, 1), 0, 3, 1},
		{"it takes all of them", nil, with(16, 4), 0, 0, 0},
		{"a pod without CPUs of its own takes none", nil, placement.Request{UID: "a", Containers: []placement.ContainerRequest{{Name: "c", MilliCPU: 8000}}}, 0, 4, 0},
	} {
		s := state(t, view, placement.Config{CPUManagerPolicy: "static", TopologyManagerPolicy: "single-numa-node", ReservedSystemCPUs: "16-17"})
		pool := placement.DevicePool{Resource: gpu, Preference: placement.SortedPreference}
		for i := range 4 {
			pool.Devices = append(pool.Devices, placement.Device{ID: fmt.Sprint(i), HasTopology: true, NUMA: topology.NewNUMASet(0)})
		}
		s.SetPool(pool)
		for i := range tc.before {
			put(t, s, &tc.before[i])
		}
		if left, stranded := placement.SpareDevices(s, &tc.r, topology.NewNUMASet(tc.on)), s.Strands(&tc.r, topology.NewNUMASet(tc.on)); left != tc.left || stranded != tc.stranded {
			t.Errorf("%s: %d left over and %d stranded, want %d and %d", tc.name, left, stranded, tc.left, tc.stranded)
		}
	}
}
