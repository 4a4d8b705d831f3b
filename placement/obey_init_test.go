package placement

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

// TestHeldIsAddedUp: the resources that init containers add to those of their pod, one after
// another, are the resources of all the pod's containers. Each container is read at most twice.
func TestHeldIsAddedUp(t *testing.T) {
	m, err := NewModel(viewOf(t, "numa:2 core:4 pu:2 mem:64Gi"), Config{Authority: AuthorityBerth, ReservedMilliCPU: 1000})
	if err != nil {
		t.Fatal(err)
	}
	const gib = 1 << 30
	placed, sidecars := 0, 0
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		r := Request{UID: "x", Guaranteed: true, Rules: Rules{Policy: []Policy{PolicyNone, PolicyRestricted}[rng.IntN(2)]}}
		if rng.IntN(3) == 0 {
			r.Rules.CPUs = joint.Rules{Exclusive: joint.ExclusiveCore, ExclusiveHow: joint.Preferred}
		}
		n := 2 + rng.IntN(12)
		if seed == 0 {
			n = MaxContainers
		}
		for i := range n {
			kind := []ContainerKind{Init, Init, Sidecar}[rng.IntN(3)]
			if i == n-1 {
				kind = App
			} else if seed == 0 {
				kind = Init
			}
			r.Containers = append(r.Containers, ContainerRequest{Name: fmt.Sprint(i), Kind: kind, MilliCPU: []int64{500, 1000, 1500, 2000, 3000}[rng.IntN(5)],
				Memory: []MemoryRequest{{Resource: "memory", Bytes: uint64(1+rng.IntN(8)) * gib}}})
		}
		inits := slices.ContainsFunc(r.Containers, func(c ContainerRequest) bool { return c.Kind == Init })
		ad, d := newJointAdmission(m), new(Decision)
		ad.begin(m.NewState(), &r, d)
		if detail, _ := ad.run(m.empty.account); detail != NoDetail || !inits {
			continue
		}
		placed++
		if n > maxSearched && ad.entered > 2*n {
			t.Fatalf("seed %d: %d containers were added up for a pod of %d", seed, ad.entered, n)
		}
		got := ad.held
		got.Amounts = slices.Clone(got.Amounts)
		if ad.heldSoFar(); !reflect.DeepEqual(got, ad.held) {
			t.Fatalf("seed %d: %+v: held is %+v, want %+v", seed, r.Containers, got, ad.held)
		}
		if slices.ContainsFunc(r.Containers, func(c ContainerRequest) bool { return c.Kind == Sidecar }) {
			sidecars++
		}
	}
	if placed < 1000 || sidecars < 500 {
		t.Errorf("%d pods were placed, %d with sidecars: want more", placed, sidecars)
	}
}

// TestAPodIsDealtOut: containers that run at the same time take the resources that the containers
// before them have left. Each gets the same as if all other containers were read for it.
func TestAPodIsDealtOut(t *testing.T) {
	gpus, pool := DeviceKind{Resource: "x/gpu", Type: topology.GPU}, DevicePool{Resource: "x/gpu", Decided: true}
	for i := range 16 {
		id := fmt.Sprint(i)
		gpus.Devices = append(gpus.Devices, PlacedDevice{ID: id, NUMA: topology.NUMAID(i / 8), HasNUMA: true, Root: id, Switch: id})
		pool.Devices = append(pool.Devices, Device{ID: id})
	}
	m, err := NewModel(viewOf(t, "numa:2 core:8 pu:2 mem:512Gi"), Config{Authority: AuthorityBerth, ReservedMilliCPU: 1000, Devices: []DeviceKind{gpus}})
	if err != nil {
		t.Fatal(err)
	}
	s := m.NewState()
	s.SetPool(pool)
	placed, pinned, devices := 0, 0, 0
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		r := Request{UID: "x", Guaranteed: true, Rules: Rules{Policy: []Policy{PolicyBestEffort, PolicyRestricted}[rng.IntN(2)], Scope: PodScope}}
		n := 2 + rng.IntN(10)
		if seed == 0 {
			n = MaxContainers
		}
		for i := range n {
			kind, milli := []ContainerKind{Init, Sidecar, App}[rng.IntN(3)], []int64{300, 500, 1000, 1500, 3000}[rng.IntN(5)]
			if seed == 0 {
				kind, milli = App, 20
			}
			r.Containers = append(r.Containers, ContainerRequest{Name: fmt.Sprint(i), Kind: kind, MilliCPU: milli,
				Memory: []MemoryRequest{{Resource: "memory", Bytes: uint64(1+rng.IntN(3)) << 30}}})
			if rng.IntN(4) == 0 && seed > 0 {
				r.Containers[i].Devices = []DeviceRequest{{Resource: "x/gpu", Count: int64(1 + rng.IntN(3))}}
			}
		}
		ad, d := newJointAdmission(m), new(Decision)
		ad.begin(s, &r, d)
		if detail, _ := ad.run(s.account); detail != NoDetail {
			continue
		}
		placed++
		if seed == 0 && ad.entered > 3*n {
			t.Fatalf("%d containers were taken for a pod of %d", ad.entered, n)
		}
		got := slices.Clone(d.Containers)
		slow := new(Decision)
		slow.begin(&r)
		ad.d = slow
		for pass := range 3 {
			for c := range r.Containers {
				if k := r.Containers[c].Kind; pass == 2 && k == Init || k != Init && (pass == 0) == ad.pinsWhole(c) && pass < 2 {
					ad.dealt = false
					if detail := ad.turn(c); detail != NoDetail {
						t.Fatalf("seed %d: container %d: %s", seed, c, detail)
					}
				}
			}
		}
		for c := range got {
			g, w := got[c], slow.Containers[c]
			if !reflect.DeepEqual([]any{g.CPUs, g.Shares, g.Memory, g.Devices}, []any{w.CPUs, w.Shares, w.Memory, w.Devices}) {
				t.Fatalf("seed %d: container %d of %+v has %+v, want %+v", seed, c, r.Containers, g, w)
			}
			if !g.CPUs.IsEmpty() && r.Containers[c].Kind != Init {
				pinned++
				devices += len(g.Devices)
			}
		}
	}
	if placed < 1000 || pinned < 1000 || devices < 100 {
		t.Errorf("%d pods were placed, %d containers pinned, %d with devices: want more", placed, pinned, devices)
	}
}
