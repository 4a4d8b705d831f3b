package licences

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

const resource = "example.com/licence"

// node returns an empty node on which Berth decides. It has two sockets with two NUMA nodes each.
func node(t *testing.T, count uint64) *placement.State {
	t.Helper()
	machine := shapes.Machine("package:2 numa:2 core:4 pu:2 mem:8Gi")
	view, err := placement.ViewOf(machine)
	if err != nil {
		t.Fatal(err)
	}
	model, err := placement.NewModel(view, placement.Config{
		Authority: placement.AuthorityBerth, ReservedSystemCPUs: "0",
		Providers: []placement.Provider{PerSocket{resource, count}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return model.NewState()
}

func pod(uid string, cpus, licences int64) *placement.Request {
	return &placement.Request{UID: uid, Guaranteed: true, Rules: placement.Rules{Policy: placement.PolicySingleNUMANode},
		Containers: []placement.ContainerRequest{{Name: "main", MilliCPU: 1000 * cpus,
			Devices: []placement.DeviceRequest{{Resource: resource, Count: licences}}}}}
}

// TestLicencesLieWithCPUs: CPUs and licences are on one socket.
func TestLicencesLieWithCPUs(t *testing.T) {
	s := node(t, 3)
	for i, want := range []string{"socket 0", "socket 1", "socket 0", "socket 1"} {
		r, d := pod(fmt.Sprint(i), 2, int64(2-i/2)), placement.Decision{}
		if v := placement.Decide(s, r, &d); !v.OK() {
			t.Fatalf("pod %d: %s", i, placement.Explain(s, r))
		}
		c := &d.Containers[0]
		if c.Provided[0].Place != want || socketOf(c.Hint.NUMA) != want {
			t.Errorf("pod %d has licences of %s and CPUs on NUMA nodes %s, want both on %s", i, c.Provided[0].Place, c.Hint.NUMA, want)
		}
		s.Commit(r, &d)
	}
	if e := placement.Explain(s, pod("more", 1, 1)); e.Detail != placement.NotProvided {
		t.Errorf("%s, want too few licences", e)
	}
}

// socketOf returns the socket of NUMA nodes: 0 and 1, or 2 and 3.
func socketOf(nodes topology.NUMASet) string {
	switch {
	case nodes&^0b0011 == 0:
		return "socket 0"
	case nodes&^0b1100 == 0:
		return "socket 1"
	}
	return "both"
}

// TestNoSocketIsOvercommitted adds and removes pods at random.
func TestNoSocketIsOvercommitted(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	s := node(t, 5)
	there := map[string]string{} // the place of each pod's licences
	used := map[string]uint64{}
	amount := map[string]uint64{}
	placed := 0
	for i := range 2000 {
		for uid, place := range there {
			if rng.IntN(3) == 0 {
				s.Release(uid)
				used[place] -= amount[uid]
				delete(there, uid)
			}
		}
		r, d := pod(fmt.Sprint(i), int64(rng.IntN(4)), int64(1+rng.IntN(5))), placement.Decision{}
		if v := placement.Decide(s, r, &d); !v.OK() {
			continue
		}
		placed++
		s.Commit(r, &d)
		p := d.Containers[0].Provided[0]
		there[r.UID], amount[r.UID] = p.Place, p.Amount
		if used[p.Place] += p.Amount; used[p.Place] > 5 {
			t.Fatalf("pod %d: %s has given %d licences of 5", i, p.Place, used[p.Place])
		}
	}
	if placed < 500 {
		t.Errorf("%d of 2000 pods were placed: too few to tell", placed)
	}
}
