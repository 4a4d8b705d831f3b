package placement

import (
	"testing"

	"github.com/berth-dev/berth/topology"
)

// TestHolding: two NUMA nodes of four CPUs; a device on each, and one of which nobody tells where.
func TestHolding(t *testing.T) {
	machine, err := topology.Parse("package:2 numa:1 core:4 pu:1 mem:8Gi")
	if err != nil {
		t.Fatal(err)
	}
	view, err := ViewOf(machine)
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewModel(view, Config{CPUManagerPolicy: "static", ReservedSystemCPUs: "0"})
	if err != nil {
		t.Fatal(err)
	}
	cpus := func(list string) (out topology.CPUSet) {
		if err := out.UnmarshalText([]byte(list)); err != nil {
			t.Fatal(err)
		}
		return out
	}
	devices := func(ids ...string) []DeviceAllocation { return []DeviceAllocation{{Resource: "x/d", IDs: ids}} }
	for name, c := range map[string]struct {
		holds []ContainerAllocation
		want  topology.NUMASet
	}{
		"nothing":          {[]ContainerAllocation{{Name: "c"}}, 0},
		"CPUs":             {[]ContainerAllocation{{Name: "c", CPUs: cpus("4-5")}}, 0b10},
		"CPUs of both":     {[]ContainerAllocation{{Name: "c", CPUs: cpus("1")}, {Name: "e", CPUs: cpus("4")}}, 0b11},
		"a device":         {[]ContainerAllocation{{Name: "c", Devices: devices("b")}}, 0b10},
		"both devices":     {[]ContainerAllocation{{Name: "c", Devices: devices("a", "b")}}, 0b11},
		"one without NUMA": {[]ContainerAllocation{{Name: "c", Devices: devices("c")}}, 0},
	} {
		shared := cpus("0-7")
		for i := range c.holds {
			shared = shared.AndNot(&c.holds[i].CPUs)
		}
		state, err := m.StateOf(&Snapshot{SharedCPUs: shared, Pods: []PodAllocation{{UID: "p", Containers: c.holds}}, Devices: []DevicePool{{Resource: "x/d", Devices: []Device{
			{ID: "a", NUMA: 0b01, HasTopology: true}, {ID: "b", NUMA: 0b10, HasTopology: true}, {ID: "c"}}}}})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := state.Holding("p"); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if got := state.Holding("q"); got != 0 {
			t.Errorf("a pod that is not there holds %v", got)
		}
	}
}
