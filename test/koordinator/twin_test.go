package koordinator

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/test/obeyed"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// TestTwin fills the load's machines with its pods at random, and compares engine and twin each
// time.
func TestTwin(t *testing.T) {
	fit, full := 0, 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		m := shapes.Machine(machines[seed%uint64(len(machines))])
		model := made.Model(t, machines[seed%uint64(len(machines))], placement.Config{Authority: placement.AuthorityBerth, ReservedSystemCPUs: "0"})
		tw, all := twin{m, topology.NewCPUSet(0)}, obeyed.Decisions{}
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
		t.Errorf("%d pods fitted and %d did not: too few to prove anything", fit, full)
	}
}

// TestTwinWithin lets random pods use parts of a Reservation, and asks engine and twin each time if
// an owner fits in the rest. They agree if no CPUs are held or requested exclusively.
func TestTwinWithin(t *testing.T) {
	fit, full, alike := 0, 0, 0
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 2))
		m := shapes.Machine(machines[seed%uint64(len(machines))])
		model := made.Model(t, machines[seed%uint64(len(machines))], placement.Config{Authority: placement.AuthorityBerth, ReservedSystemCPUs: "0"})
		tw, state := twin{m, topology.NewCPUSet(0)}, model.NewState()
		template := newPod(rng, 0)
		template.UID, template.Spec.InitContainers = "place", nil
		ask, err := wire.ReadPod(template)
		if err != nil {
			t.Fatal(err)
		}
		place := new(placement.Decision)
		if v := placement.Decide(state, &ask.Request, place); !v.OK() {
			t.Fatalf("seed %d: %+v", seed, v)
		}
		whole := obeyed.AllocationOf(place)
		var taken []*placement.PodAllocation
		for i := range 6 {
			rest, now := placement.Rest(whole, taken), model.NewState()
			for _, p := range taken {
				now.Hold(p)
			}
			now.Hold(rest)
			pod := newPod(rng, i+1)
			if rng.IntN(2) == 0 {
				pod.Labels, pod.Annotations, pod.Spec.InitContainers = template.Labels, template.Annotations, nil
				pod.Spec.Containers = template.DeepCopy().Spec.Containers
			}
			pod.UID = types.UID(fmt.Sprint("u", i))
			ask, err := wire.ReadPod(pod)
			if err != nil {
				t.Fatal(err)
			}
			d := new(placement.Decision)
			v := placement.DecideWithin(now, whole, &ask.Request, d)
			got := tw.fitsWithin(place, rest, template, pod)
			plain := !heldAlone(place) && !wantsAlone(&ask.Request)
			if got && !v.OK() || plain && got != v.OK() {
				t.Fatalf("seed %d, owner %d, %+v of %+v: the twin says %t, the engine %v", seed, i, ask.Request, rest.Containers, got, &v)
			}
			switch {
			case !got:
				full++
			case plain:
				fit++
			default:
				alike++
			}
			if v.OK() {
				taken = append(taken, obeyed.AllocationOf(d))
			}
		}
	}
	if fit < 100 || full < 300 || alike < 10 {
		t.Errorf("%d fitted, %d did not, %d were like the place: too few to prove anything", fit, full, alike)
	}
}

// TestTwinBeyond: owners request more than is left of a Reservation, on nodes with other pods. If
// the twin finds room in the rest and the free resources of the node together, so does the engine.
// The engine's decision leaves room for all other pods and for the rest of the Reservation.
func TestTwinBeyond(t *testing.T) {
	more, given := 0, 0
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 3))
		m := shapes.Machine(machines[seed%uint64(len(machines))])
		model := made.Model(t, machines[seed%uint64(len(machines))], placement.Config{Authority: placement.AuthorityBerth, ReservedSystemCPUs: "0"})
		tw, all := twin{m, topology.NewCPUSet(0)}, map[string]*placement.Decision{}
		ask := func(uid string, pod *corev1.Pod) *placement.Request {
			pod.UID, pod.Spec.InitContainers = types.UID(uid), nil
			ask, err := wire.ReadPod(pod)
			if err != nil {
				t.Fatal(err)
			}
			return &ask.Request
		}
		state := model.NewState()
		for i := range rng.IntN(4) {
			r, d := ask(fmt.Sprint("stranger", i), newPod(rng, i)), new(placement.Decision)
			if v := placement.Decide(state, r, d); v.OK() {
				state.Commit(r, d)
				all[r.UID] = d
			}
		}
		place := new(placement.Decision)
		if v := placement.Decide(state, ask("place", newPod(rng, 0)), place); !v.OK() {
			continue
		}
		whole := obeyed.AllocationOf(place)
		var taken []*placement.PodAllocation
		for i := range 6 {
			rest, now, free := placement.Rest(whole, taken), model.NewState(), tw.rooms(nil)
			for _, d := range all {
				now.Hold(obeyed.AllocationOf(d))
				free = minus(free, tw.rooms(d), tw.rooms(nil))
			}
			if why := now.Hold(rest); why != "" {
				t.Fatalf("seed %d: no room for the rest: %s", seed, why)
			}
			free = minus(free, tw.rooms(asDecision(rest)), tw.rooms(nil))
			pod := newPod(rng, i+1)
			r, d := ask(fmt.Sprint("u", i), pod), new(placement.Decision)
			v := placement.DecideBeyond(now, whole, false, r, d)
			got := tw.fitsBeyond(place, rest, free, pod)
			if got && !v.OK() {
				t.Fatalf("seed %d, owner %d, %+v of %+v: the twin finds room, the engine says %v", seed, i, r, rest.Containers, &v)
			}
			if !v.OK() {
				continue
			}
			given++
			if v := placement.DecideWithin(now, whole, r, new(placement.Decision)); !v.OK() {
				more++
			}
			all[r.UID], taken = d, append(taken, obeyed.AllocationOf(d))
			roomy := tw.rooms(nil)
			for _, d := range all {
				roomy = minus(roomy, tw.rooms(d), tw.rooms(nil))
			}
			roomy = minus(roomy, tw.rooms(asDecision(placement.Rest(whole, taken))), tw.rooms(nil))
			for v, room := range roomy {
				if room.own > 1<<20 || room.milli > 1<<40 || room.memory > 1<<60 { // below 0
					t.Fatalf("seed %d, owner %d: NUMA node %d is overdrawn: %+v", seed, i, v, roomy)
				}
			}
		}
	}
	if given < 200 || more < 50 {
		t.Errorf("%d were given something, %d of them more than is held: too few to prove anything", given, more)
	}
}
