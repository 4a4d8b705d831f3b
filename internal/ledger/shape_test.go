package ledger

import (
	"testing"
	"time"

	"github.com/berth-dev/berth/placement"
)

// TestLevelsHaveShapes: requests with different pod-level resources have different shapes.
func TestLevelsHaveShapes(t *testing.T) {
	memory := func(bytes uint64) []placement.MemoryRequest {
		return []placement.MemoryRequest{{Resource: "memory", Bytes: bytes}}
	}
	seen := map[string]int{}
	for i, r := range []placement.Request{
		{}, {PodLevel: true}, {PodLevel: true, Level: placement.LevelRequest{Guaranteed: true}}, {PodLevel: true, Level: placement.LevelRequest{MilliCPU: 1}},
		{PodLevel: true, Level: placement.LevelRequest{Memory: memory(1)}}, {PodLevel: true, Level: placement.LevelRequest{Memory: memory(2)}},
	} {
		for j, alone := range []bool{false, true} {
			r.Containers = []placement.ContainerRequest{{Name: "c", Guaranteed: alone, Memory: memory(1)}}
			key := RequestKey(&r)
			if other, twice := seen[key]; twice {
				t.Errorf("%d is like %d", 2*i+j, other)
			}
			seen[key] = 2*i + j
		}
	}
}

// TestAWholePromiseIsKept: a kubelet places pods by spec.resources. One of them leaves CPUs that
// none of its containers has.
func TestAWholePromiseIsKept(t *testing.T) {
	c := pinning
	c.Version, c.TopologyManagerScope, c.FeatureGates = placement.V137, "pod", map[string]bool{"PodLevelResourceManagers": true}
	k := newKubelet(t, model(t, twoSockets, c))
	n := open(t, k)
	whole := func(uid string, cpus int64, shares bool) *placement.Request {
		r := &placement.Request{UID: uid, Guaranteed: true, PodLevel: true, Level: placement.LevelRequest{Guaranteed: true, MilliCPU: cpus * 1000},
			Containers: []placement.ContainerRequest{{Name: "c", Guaranteed: true, MilliCPU: 2000}}}
		if shares {
			r.Containers = append(r.Containers, placement.ContainerRequest{Name: "d"})
		}
		return r
	}
	for uid, r := range map[string]*placement.Request{"a": whole("a", 4, true), "b": whole("b", 4, false)} {
		reserve(t, n, r)
		p, d := post(t, n, uid)
		if !p.Answer.Exact || d.Whole == nil || d.Whole.CPUs.Len() != 4 {
			t.Fatalf("%s: %+v, %+v", uid, p, d)
		}
		k.must(r)
		if outcomes := n.Accept(k.report()); len(outcomes) != 1 || !outcomes[0].Kept {
			t.Fatalf("%s: %+v", uid, outcomes)
		}
		check(t, n)
		other := d.Clone()
		other.Whole.CPUs = other.Containers[0].CPUs
		if found, _ := k.State.Pod(uid); !Kept(&d, &found) || Kept(&other, &found) || Same(&d, &other) {
			t.Errorf("%s: %+v, found %+v", uid, d, found)
		}
	}
	wantOutcome(t, "7 of 15 CPUs are left, on two NUMA nodes", reserve(t, n, cpus("x", 7)), Refused)
	k.End("b")
	k.ReleaseEnded()
	n.Gone("b", time.Time{})
	n.Accept(k.report())
	wantOutcome(t, "all of b's are back", reserve(t, n, cpus("y", 7)), Admitted)
}
