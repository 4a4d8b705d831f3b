package obeyed

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// twinMachines have GPUs and cards below switches, and virtual functions at root complexes.
var twinMachines = []string{
	"package:2 numa:1 core:4 pu:2 mem:4Gi huge:2Mi=64 dist:10,21 " +
		"dev:18:00.0|19:00.0,030200,10de:2330,numa=0,root=15,switch=16:00.0 dev:1a:00.0,020700,15b3:1021,numa=0,root=15,switch=16:00.0 " +
		"dev:3a:00.0,030200,10de:2330,numa=0,root=37,switch=38:00.0 dev:3c:00.0,020700,15b3:1021,numa=0,root=37,switch=38:00.0 " +
		"dev:9a:00.0,030200,10de:2330,numa=1,root=97,switch=98:00.0 dev:9c:00.0,020700,15b3:1021,numa=1,root=97,switch=98:00.0 " +
		"dev:ba:00.0|bb:00.0,030200,10de:2330,numa=1,root=97 link:nvlink=4,18:00.0+19:00.0|ba:00.0+bb:00.0",
	"package:2 numa:2 core:3 pu:1 mem:2Gi huge:2Mi=32 dist:10,12,21 " +
		"dev:18:00.0,030200,10de:2330,numa=0,root=15 dev:38:00.0,030200,10de:2330,numa=1,root=35 dev:98:00.0,030200,10de:2330,numa=2,root=95 dev:b8:00.0,030200,10de:2330,numa=3,root=b5 " +
		"dev:1a:00.0,020700,15b3:1021,numa=0,root=15 dev:1a:00.1|1a:00.2,020700,15b3:101e,numa=0,root=15,pf=1a:00.0 " +
		"dev:9a:00.0,020700,15b3:1021,numa=2,root=95 dev:9a:00.1|9a:00.2,020700,15b3:101e,numa=2,root=95,pf=9a:00.0",
}

// TestAgainstTheExhaustiveTwin: on machines with other pods, the engine admits a pod exactly if the
// twin finds room, and the decision matches the request.
func TestAgainstTheExhaustiveTwin(t *testing.T) {
	admitted, refused, together, several, exactly := 0, 0, 0, 0, 0
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 17))
		m := shapes.Machine(twinMachines[seed%2])
		twin := Twin{Machine: m, Reserved: topology.NewCPUSet(0), Devices: map[string][]*topology.Device{}}
		for i := range m.Devices {
			switch d := &m.Devices[i]; {
			case d.Kind() == topology.GPU:
				twin.Devices["x/gpu"] = append(twin.Devices["x/gpu"], d)
			case seed%2 == 0 || d.Physical != "":
				twin.Devices["x/nic"] = append(twin.Devices["x/nic"], d)
			}
		}
		var pools []placement.DevicePool
		for _, resource := range []string{"x/gpu", "x/nic"} {
			p := placement.DevicePool{Resource: resource, Decided: true}
			for _, d := range twin.Devices[resource] {
				p.Devices = append(p.Devices, placement.Device{ID: d.Address, NUMA: topology.NewNUMASet(d.NUMA), HasTopology: true})
			}
			pools = append(pools, p)
		}
		view := made.View(t, m)
		model := made.ModelOf(t, view, placement.Config{Authority: placement.AuthorityBerth, ReservedSystemCPUs: "0", Devices: placement.DevicesOf(m, pools)})
		s := model.NewState()
		for _, p := range pools {
			s.SetPool(p)
		}
		var there []*placement.Decision
		for i := range 40 {
			if len(there) > 0 && rng.IntN(3) == 0 {
				at := rng.IntN(len(there))
				s.Release(there[at].UID)
				there = append(there[:at], there[at+1:]...)
			}
			r := randomRequest(rng, i)
			d := new(placement.Decision)
			v := placement.Decide(s, r, d)
			if fits := twin.Fits(there, r); fits && !v.OK() || !fits && v.OK() && !wide(r) {
				t.Fatalf("seed %d: %v at %d, and the twin says %v to %+v", seed, v.Detail, v.Container, fits, r)
			}
			if !v.OK() {
				refused++
				continue
			}
			if why := Crooked(m, r, d); why != "" {
				t.Fatalf("seed %d: %s: %+v for %+v", seed, why, d, r)
			}
			if len(r.Containers) > 1 {
				several++
			}
			if exact(&r.Rules) {
				exactly++
			}
			if len(r.Containers[0].Devices) == 2 && r.Rules.Devices.SameHow == joint.Required {
				together++
			}
			admitted++
			s.Commit(r, d)
			there = append(there, d)
		}
	}
	if admitted < 4000 || refused < 3000 || together < 40 || several < 1000 || exactly < 400 {
		t.Errorf("%d admitted, %d of these with devices together, %d of several containers, %d on an exact number of NUMA nodes, %d refused: want more",
			admitted, together, several, exactly, refused)
	}
}

// wide reports whether the twin may be unable to decide about a pod.
func wide(r *placement.Request) bool {
	return (r.Rules.Policy == placement.PolicyRestricted || exact(&r.Rules)) && len(partsOf(r)) > 1 || mixes([]*placement.Request{r})
}

// randomRequest is a pod of one container, or of up to four, some of them init containers and
// sidecars.
func randomRequest(rng *rand.Rand, i int) *placement.Request {
	r := &placement.Request{UID: fmt.Sprint("p", i), Guaranteed: rng.IntN(3) > 0}
	var kinds []placement.ContainerKind
	if rng.IntN(2) == 0 {
		for range rng.IntN(3) {
			kinds = append(kinds, placement.Init+placement.ContainerKind(rng.IntN(2)))
		}
		if rng.IntN(2) == 0 {
			kinds = append(kinds, placement.App)
		}
	}
	for k, kind := range append(kinds, placement.App) {
		r.Containers = append(r.Containers, randomContainer(rng, fmt.Sprint("c", k), kind))
	}
	r.Rules.Policy = []placement.Policy{placement.NodePolicy, placement.PolicyBestEffort, placement.PolicyRestricted, placement.PolicySingleNUMANode}[rng.IntN(4)]
	if rng.IntN(3) == 0 {
		r.Rules.Scope = placement.PodScope
	}
	if rng.IntN(2) == 0 {
		r.Rules.Devices.Same, r.Rules.Devices.SameHow = joint.Same(1+rng.IntN(4)), joint.Strength(1+rng.IntN(2))
	}
	if rng.IntN(4) == 0 {
		r.Rules.Devices.OnePerFunction = placement.EveryType
	}
	switch rng.IntN(8) {
	case 0:
		if r.Rules.NUMANodes = 1; r.Rules.Policy != placement.PolicySingleNUMANode {
			r.Rules.NUMANodes = uint8(1 + rng.IntN(3))
		}
	case 1:
		r.Rules.Devices.Same, r.Rules.Devices.SameHow, r.Rules.Devices.PerNode = joint.Anywhere, joint.Unset, 1
	}
	return r
}

func randomContainer(rng *rand.Rand, name string, kind placement.ContainerKind) placement.ContainerRequest {
	c := placement.ContainerRequest{Name: name, Kind: kind, MilliCPU: []int64{500, 1000, 2000, 3000}[rng.IntN(4)]}
	if rng.IntN(4) == 0 {
		c.Memory = append(c.Memory, placement.MemoryRequest{Resource: "hugepages-2Mi", Bytes: uint64(1+rng.IntN(8)) << 21})
	}
	c.Memory = append(c.Memory, placement.MemoryRequest{Resource: "memory", Bytes: uint64(1+rng.IntN(8)) << 27})
	for k, resource := range []string{"x/gpu", "x/nic"} {
		if rng.IntN(2+k) == 0 {
			c.Devices = append(c.Devices, placement.DeviceRequest{Resource: resource, Count: int64(1 + rng.IntN(2))})
		}
	}
	return c
}
