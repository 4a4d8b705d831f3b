package placement

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/berth-dev/berth/placement/joint"
)

// TestHeldIsAddedUp: what init containers add to what their pod holds, one after another, is what
// the pod's containers hold in all. Each is looked at twice at most.
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
