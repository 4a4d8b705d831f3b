package obeyed

import (
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// TestJudge: Judge finds each kind of fault, and none in a correct state.
func TestJudge(t *testing.T) {
	m, err := topology.Parse("package:2 numa:1 core:4 pu:1 mem:4Gi") // CPUs 0-3 and 4-7
	if err != nil {
		t.Fatal(err)
	}
	cpus := func(list string) topology.CPUSet {
		set := shapes.CPUs(list)
		return set
	}
	pod := func(c placement.ContainerDecision) *placement.Decision {
		c.Name = "main"
		return &placement.Decision{Containers: []placement.ContainerDecision{c}}
	}
	bound := placement.ContainerDecision{Shares: []placement.CPUShare{{NUMA: 1, MilliCPU: 500}}, Bounds: placement.BoundCPUs}
	all := Decisions{"a": pod(placement.ContainerDecision{CPUs: cpus("1-2")}), "b": pod(placement.ContainerDecision{CPUs: cpus("2-3")}), "s": pod(bound)}
	all["g"] = pod(placement.ContainerDecision{CPUs: cpus("5"), Devices: []placement.DeviceAllocation{{Resource: "a.b/gpu", IDs: []string{"0000:3c:00.0", "0000:3b:00.0"}}}})
	with := func(uid, list, devices string) Group {
		return Group{UID: uid, Container: "main", CPUs: cpus(list), Devices: DevicesIn("PATH=/bin\x00" + devices + "\n")}
	}
	both := "PCIDEVICE_A_B_GPU=0000:3b:00.0,0000:3c:00.0"
	on := func(uid, list string) Group { return Group{UID: uid, Container: "main", CPUs: cpus(list)} }
	for name, c := range map[string]struct {
		groups                         []Group
		heldTwice, outside, unconfined int
	}{
		"as decided":            {[]Group{on("a", "1-2"), on("s", "4-7"), on("foreign", "0,3-7")}, 0, 0, 0},
		"beside":                {[]Group{on("a", "1-3")}, 0, 1, 0},
		"held twice":            {[]Group{on("a", "1-2"), on("b", "2-3")}, 2, 0, 0},
		"shares elsewhere":      {[]Group{on("s", "0-7")}, 0, 1, 0},
		"on somebody's CPU":     {[]Group{on("a", "1-2"), on("foreign", "0-7")}, 0, 0, 1},
		"devices as decided":    {[]Group{with("g", "5", both), with("a", "1-2", "X=1")}, 0, 0, 0},
		"a device missing":      {[]Group{with("g", "5", "PCIDEVICE_A_B_GPU=0000:3b:00.0")}, 0, 1, 0},
		"devices of nobody's":   {[]Group{with("g", "5", both), with("foreign", "0", "PCIDEVICE_A_B_NIC=0000:3c:00.0")}, 1, 1, 0},
		"devices not looked at": {[]Group{on("g", "5")}, 0, 0, 0},
		"nowhere":               {[]Group{on("foreign", "")}, 0, 0, 1},
	} {
		f := Judge(m, c.groups, all)
		if len(f.HeldTwice) != c.heldTwice || len(f.Outside) != c.outside || len(f.Unconfined) != c.unconfined || f.Empty() != (c.heldTwice+c.outside+c.unconfined == 0) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
