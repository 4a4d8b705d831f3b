package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/obeyed"
	"github.com/berth-dev/berth/topology"
)

// TestTwin fills the driver's machines with its pods at random, and asks engine and twin each time.
func TestTwin(t *testing.T) {
	fit, full := 0, 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		m, err := topology.Parse(machines[seed%uint64(len(machines))])
		if err != nil {
			t.Fatal(err)
		}
		reserved, err := topology.ParseCPUList("0")
		if err != nil {
			t.Fatal(err)
		}
		view, err := placement.ViewOf(m)
		if err != nil {
			t.Fatal(err)
		}
		model, err := placement.NewModel(view, placement.Config{Authority: placement.AuthorityBerth, ReservedSystemCPUs: "0"})
		if err != nil {
			t.Fatal(err)
		}
		tw, all := twin{m, reserved}, obeyed.Decisions{}
		var there []*corev1.Pod
		for i := range 80 {
			pod := newPod(rng, i)
			pod.UID = types.UID(fmt.Sprint("u", i))
			ask, err := wire.ReadPod(pod)
			if err != nil {
				t.Fatal(err)
			}
			state := model.NewState()
			for _, other := range there {
				state.Hold(obeyed.AllocationOf(all[string(other.UID)]))
			}
			d := new(placement.Decision)
			v := placement.Decide(state, &ask.Request, d)
			if got := tw.fits(there, all, pod); got != v.OK() {
				for _, other := range there {
					t.Logf("beside %+v", all[string(other.UID)].Containers)
				}
				t.Fatalf("seed %d, pod %d, %+v: the twin says %t, the engine %v", seed, i, ask.Request, got, &v)
			}
			if v.OK() {
				fit++
				there, all[string(pod.UID)] = append(there, pod), d
			} else {
				full++
			}
			if len(there) > 0 && (!v.OK() || rng.IntN(4) == 0) {
				at := rng.IntN(len(there))
				delete(all, string(there[at].UID))
				there = slices.Delete(there, at, at+1)
			}
		}
	}
	if fit < 1000 || full < 300 {
		t.Errorf("%d pods fitted and %d did not: this shows little", fit, full)
	}
}
