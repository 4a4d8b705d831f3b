package placement_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// claimed returns n free devices on a NUMA node, for the given requests.
func claimed(numa topology.NUMAID, n int, requests ...int) placement.ClaimDevices {
	d := placement.ClaimDevices{NUMA: topology.NewNUMASet(numa), Free: n, All: n}
	for _, i := range requests {
		d.For |= 1 << i
	}
	return d
}

func uses(n int, users ...string) placement.ClaimRequest {
	return placement.ClaimRequest{Users: users, N: n}
}

// TestCPUsFollowClaimedDevices has example decisions.
func TestCPUsFollowClaimedDevices(t *testing.T) {
	single := placement.Rules{Policy: placement.PolicySingleNUMANode}
	restricted := placement.Rules{Policy: placement.PolicyRestricted}
	pod := placement.Rules{Policy: placement.PolicySingleNUMANode, Scope: placement.PodScope}
	anywhere := claimed(0, 1, 0)
	anywhere.NUMA = placement.EveryNode
	taken := claimed(0, 1, 0)
	taken.Free = 0
	gpuAndNIC := []placement.ClaimRequest{uses(1, "a"), uses(1, "a")}
	lying := func(a, b topology.NUMASet) map[string]topology.NUMASet {
		return map[string]topology.NUMASet{"a": a, "b": b}
	}
	ids := func(ids ...topology.NUMAID) topology.NUMASet { return topology.NewNUMASet(ids...) }
	refuted := &placement.Claimed{Requests: []placement.ClaimRequest{uses(1, "a"), uses(1, "b")}, Devices: []placement.ClaimDevices{claimed(0, 2, 0, 1), claimed(1, 2, 0, 1)}}
	refuted.Refute(lying(ids(0), ids(0)))
	refuted.Refute(lying(ids(1), 0)) // b may be on any NUMA node
	settled := (&placement.Claimed{Requests: []placement.ClaimRequest{uses(1, "a", "b")}}).Settled(lying(ids(0, 1), ids(1)))
	for _, c := range []struct {
		name string
		r    placement.Request
		of   placement.Claimed
		want string
	}{
		{"the only device", guaranteed("x", placement.Rules{}, app("a", 4000, 1)), placement.Claimed{Requests: []placement.ClaimRequest{uses(1, "a")},
			Devices: []placement.ClaimDevices{taken, claimed(1, 1, 0)}}, "a:8-11@1"},
		{"a device without a NUMA node", guaranteed("x", single, app("a", 4000, 1)), placement.Claimed{Requests: []placement.ClaimRequest{uses(1, "a")},
			Devices: []placement.ClaimDevices{anywhere, claimed(1, 1, 0)}}, "a:1-4@0"},
		{"GPU and NIC on one NUMA node", guaranteed("x", single, app("a", 4000, 1)), placement.Claimed{Requests: gpuAndNIC,
			Devices: []placement.ClaimDevices{claimed(0, 1, 0), claimed(1, 1, 0), claimed(1, 1, 1)}}, "a:8-11@1"},
		{"GPU and NIC on two", guaranteed("x", placement.Rules{}, app("a", 4000, 1)), placement.Claimed{Requests: gpuAndNIC,
			Devices: []placement.ClaimDevices{claimed(0, 1, 0), claimed(1, 1, 1)}}, "a:1-2,8-9@0-1"},
		{"GPU and NIC on two, and one is asked for", guaranteed("x", single, app("a", 4000, 1)), placement.Claimed{Requests: gpuAndNIC,
			Devices: []placement.ClaimDevices{claimed(0, 1, 0), claimed(1, 1, 1)}}, "ProvidedApart"},
		{"GPU and NIC on two, as an empty node needs them", guaranteed("x", restricted, app("a", 4000, 1)), placement.Claimed{Requests: gpuAndNIC,
			Devices: []placement.ClaimDevices{claimed(0, 1, 0), claimed(1, 1, 1)}}, "a:1-2,8-9@0-1"},
		{"GPU and NIC on two, and an empty node has both on one", guaranteed("x", restricted, app("a", 4000, 1)), placement.Claimed{Requests: gpuAndNIC,
			Devices: []placement.ClaimDevices{claimed(0, 1, 0), claimed(1, 1, 1), {NUMA: ids(1), For: 1, All: 1}}}, "ProvidedApart"},
		{"one device for two requests", guaranteed("x", single, app("a", 4000, 1)), placement.Claimed{Requests: gpuAndNIC,
			Devices: []placement.ClaimDevices{claimed(0, 1, 0, 1), claimed(1, 2, 0, 1)}}, "a:8-11@1"},
		{"a device that the other request could do without", guaranteed("x", single, app("a", 4000, 1)), placement.Claimed{Requests: gpuAndNIC,
			Devices: []placement.ClaimDevices{claimed(1, 1, 0, 1), claimed(1, 1, 0)}}, "a:8-11@1"},
		{"memory on two NUMA nodes, CPUs near the device", guaranteed("x", placement.Rules{}, app("a", 2000, 24)), placement.Claimed{Requests: []placement.ClaimRequest{uses(1, "a")},
			Devices: []placement.ClaimDevices{claimed(1, 1, 0)}}, "a:8-9@0-1"},
		{"one PCI root", guaranteed("x", single, app("a", 4000, 1)), placement.Claimed{Requests: gpuAndNIC,
			Devices: []placement.ClaimDevices{claimed(0, 1, 0), claimed(0, 1, 1), claimed(1, 1, 0), claimed(1, 1, 1)},
			Matches: []placement.ClaimMatch{{For: 0b11, Values: [][]int{{0}, {1}, {2, 3}}}}}, "a:8-11@1"},
		{"no PCI root has both", guaranteed("x", single, app("a", 4000, 1)), placement.Claimed{Requests: gpuAndNIC,
			Devices: []placement.ClaimDevices{claimed(0, 1, 0), claimed(0, 1, 1)},
			Matches: []placement.ClaimMatch{{For: 0b11, Values: [][]int{{0}, {1}}}}}, "NotProvided"},
		{"each container near its own", guaranteed("x", single, app("a", 2000, 1), app("b", 2000, 1)), placement.Claimed{Requests: []placement.ClaimRequest{uses(1, "a"), uses(1, "b")},
			Devices: []placement.ClaimDevices{claimed(1, 1, 0), claimed(0, 1, 1)}}, "a:8-9@1 b:1-2@0"},
		{"the second finds the first's device gone", guaranteed("x", single, app("a", 2000, 1), app("b", 2000, 1)), placement.Claimed{Requests: []placement.ClaimRequest{uses(1, "a"), uses(1, "b")},
			Devices: []placement.ClaimDevices{claimed(0, 1, 0, 1), claimed(1, 1, 0, 1)}}, "a:1-2@0 b:8-9@1"},
		{"two containers share a device", guaranteed("x", single, app("a", 5000, 1), app("b", 3000, 1)), placement.Claimed{Requests: []placement.ClaimRequest{uses(1, "a", "b")},
			Devices: []placement.ClaimDevices{claimed(0, 1, 0), claimed(1, 1, 0)}}, "a:8-12@1 b:13-15@1"},
		{"the other containers are free", guaranteed("x", single, app("a", 6000, 1), app("b", 6000, 1)), placement.Claimed{Requests: []placement.ClaimRequest{uses(1, "b")},
			Devices: []placement.ClaimDevices{claimed(0, 1, 0)}}, "a:8-13@1 b:1-6@0"},
		{"the pod as one", guaranteed("x", pod, app("a", 2000, 1), app("b", 2000, 1)), placement.Claimed{Requests: []placement.ClaimRequest{uses(1, "b")},
			Devices: []placement.ClaimDevices{claimed(1, 1, 0)}}, "a:8-9@1 b:10-11@1"},
		{"an init container", guaranteed("x", single, placement.ContainerRequest{Name: "i", Kind: placement.Init, MilliCPU: 2000}, app("a", 2000, 1)),
			placement.Claimed{Requests: []placement.ClaimRequest{uses(1, "i")}, Devices: []placement.ClaimDevices{claimed(1, 1, 0)}}, "i:8-9@1 a:1-2@0"},
		{"time on a NUMA node", placement.Request{UID: "x", Rules: single, Containers: []placement.ContainerRequest{app("a", 2500, 1)}},
			placement.Claimed{Requests: []placement.ClaimRequest{uses(1, "a")}, Devices: []placement.ClaimDevices{claimed(1, 1, 0)}}, "a:1=2500@1"},
		{"time anywhere", placement.Request{UID: "x", Containers: []placement.ContainerRequest{app("a", 2500, 0)}},
			placement.Claimed{Requests: []placement.ClaimRequest{uses(1, "a")}, Devices: []placement.ClaimDevices{claimed(1, 1, 0)}}, "a:0=2500@0"},
		{"nothing", placement.Request{UID: "x", Containers: []placement.ContainerRequest{app("a", 0, 0)}},
			placement.Claimed{Requests: []placement.ClaimRequest{uses(1, "a")}}, "a:@"},
		{"there are none", guaranteed("x", single, app("a", 2000, 1)), placement.Claimed{Requests: []placement.ClaimRequest{uses(1, "a")}}, "NotProvided"},
		{"refuted", guaranteed("x", single, app("a", 2000, 1), app("b", 2000, 1)), *refuted, "a:1-2@0 b:8-9@1"},
		{"settled", guaranteed("x", placement.Rules{}, app("a", 2000, 1), app("b", 2000, 1)), *settled, "a:8-9@1 b:10-11@1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := state(t, two8.view(), obeying())
			c.r.Rules.Claimed = &c.of
			var d placement.Decision
			v := placement.Decide(s, &c.r, &d)
			got := v.Detail.String()
			if v.OK() {
				got = tell(&d)
			}
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if e := placement.Explain(s, &c.r); e.Reason != v.Reason || e.String() == "" {
				t.Errorf("explained as %s", e)
			}
		})
	}
}

// claimTwin answers by trying everything: each set of NUMA nodes for each container, each number of
// CPUs on each NUMA node, and each device for each request.
type claimTwin struct {
	r    *placement.Request
	free []int // CPUs by NUMA node
	wide int   // NUMA nodes that a container may use
}

// fits reports whether the containers from the n-th on have room. lying has the NUMA nodes of the
// containers before.
func (t *claimTwin) fits(lying map[string]topology.NUMASet, n int) bool {
	if n == len(t.r.Containers) {
		return t.serves(lying)
	}
	c := &t.r.Containers[n]
	for set := topology.NUMASet(1); set < 1<<len(t.free); set++ {
		if set.Len() > t.wide {
			continue
		}
		lying[c.Name] = set
		if t.take(set, int(c.MilliCPU/1000), 0, func() bool { return t.fits(lying, n+1) }) {
			return true
		}
	}
	return false
}

// take takes CPUs of the NUMA nodes of the set from v on, some of each, in every possible way,
// until then returns true.
func (t *claimTwin) take(set topology.NUMASet, cpus, v int, then func() bool) bool {
	if v == len(t.free) {
		return cpus == 0 && then()
	}
	if !set.Has(topology.NUMAID(v)) {
		return t.take(set, cpus, v+1, then)
	}
	for n := 1; n <= min(cpus, t.free[v]); n++ {
		t.free[v] -= n
		found := t.take(set, cpus-n, v+1, then)
		if t.free[v] += n; found {
			return true
		}
	}
	return false
}

// serves reports whether the devices suffice if the containers have these NUMA nodes.
func (t *claimTwin) serves(lying map[string]topology.NUMASet) bool {
	c := t.r.Rules.Claimed
	var asks []int // a request for each device
	for i := range c.Requests {
		for range c.Requests[i].N {
			asks = append(asks, i)
		}
	}
	left := make([]int, len(c.Devices))
	for i := range c.Devices {
		left[i] = c.Devices[i].Free
	}
	var give func(n int, may func(request, device int) bool) bool
	give = func(n int, may func(request, device int) bool) bool {
		if n == len(asks) {
			return true
		}
		for i := range c.Devices {
			near := true
			for _, user := range c.Requests[asks[n]].Users {
				near = near && (lying[user] == 0 || lying[user]&c.Devices[i].NUMA != 0)
			}
			if left[i] == 0 || !near || c.Devices[i].For>>asks[n]&1 == 0 || !may(asks[n], i) {
				continue
			}
			left[i]--
			found := give(n+1, may)
			if left[i]++; found {
				return true
			}
		}
		return false
	}
	if len(c.Matches) == 0 {
		return give(0, func(int, int) bool { return true })
	}
	return slices.ContainsFunc(c.Matches[0].Values, func(value []int) bool {
		return give(0, func(request, device int) bool {
			return c.Matches[0].For>>request&1 == 0 || slices.Contains(value, device)
		})
	})
}

// TestClaimsAgainstTheTwin compares with the twin on random machines, pods and claims. The search
// is exact for a pod with one container, and for containers on one NUMA node each.
func TestClaimsAgainstTheTwin(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	placed, refused := 0, 0
	for round := range 4500 {
		numa := 1 + rng.IntN(3)
		cores := 1 + rng.IntN(4)
		s := state(t, (&machine{1, numa, cores, 1, 16 << 30, 0}).view(), obeying())
		r := placement.Request{UID: "x", Guaranteed: true}
		containers := 1 + rng.IntN(3)
		if r.Rules.Policy = placement.PolicyNone; containers > 1 || rng.IntN(2) == 0 {
			r.Rules.Policy = placement.PolicySingleNUMANode
		}
		for i := range containers {
			r.Containers = append(r.Containers, app(fmt.Sprint("c", i), 1000*int64(1+rng.IntN(4)), 0))
		}
		r.Rules.Claimed = randomClaimed(rng, numa, &r)
		twin := claimTwin{r: &r, wide: numa}
		if r.Rules.Policy == placement.PolicySingleNUMANode {
			twin.wide = 1
		}
		for range numa {
			twin.free = append(twin.free, cores)
		}
		twin.free[0]-- // reserved
		want := twin.fits(map[string]topology.NUMASet{}, 0)
		var d placement.Decision
		v := placement.Decide(s, &r, &d)
		if v.OK() != want {
			t.Fatalf("seed %d, round %d: %v, the twin says %t: %d NUMA nodes of %d CPUs, %+v %+v", seed, round, v.Detail, want, numa, cores, r.Containers, *r.Rules.Claimed)
		}
		if !want {
			refused++
			continue
		}
		placed++
		lying := map[string]topology.NUMASet{}
		for i := range d.Containers {
			c := &d.Containers[i]
			for cpu := range c.CPUs.All() {
				lying[c.Name] = lying[c.Name].With(topology.NUMAID(int(cpu) / cores))
			}
		}
		if !twin.serves(lying) {
			t.Fatalf("seed %d, round %d: %s, and the devices are not there: %+v", seed, round, tell(&d), *r.Rules.Claimed)
		}
	}
	if placed < 300 || refused < 300 {
		t.Errorf("%d placed, %d refused", placed, refused)
	}
}

// randomClaimed returns devices on several NUMA nodes for the request's containers.
func randomClaimed(rng *rand.Rand, numa int, of *placement.Request) *placement.Claimed {
	container := func() string { return of.Containers[rng.IntN(len(of.Containers))].Name }
	c := &placement.Claimed{}
	for range 1 + rng.IntN(3) {
		r := placement.ClaimRequest{N: 1 + rng.IntN(2), Users: []string{container()}}
		if other := container(); rng.IntN(3) == 0 && other != r.Users[0] {
			r.Users = append(r.Users, other)
		}
		c.Requests = append(c.Requests, r)
	}
	for range rng.IntN(6) {
		d := claimed(topology.NUMAID(rng.IntN(numa)), rng.IntN(3))
		if rng.IntN(6) == 0 {
			d.NUMA = placement.EveryNode
		}
		d.For = uint64(1 + rng.IntN(1<<len(c.Requests)-1))
		c.Devices = append(c.Devices, d)
	}
	if rng.IntN(3) == 0 {
		m := placement.ClaimMatch{For: uint64(rng.IntN(1 << len(c.Requests))), Values: make([][]int, 1+rng.IntN(2))}
		for i := range c.Devices {
			if v := rng.IntN(len(m.Values) + 1); v < len(m.Values) {
				m.Values[v] = append(m.Values[v], i)
			}
		}
		c.Matches = append(c.Matches, m)
	}
	return c
}

// TestClaimsHaveABudget: a decision ends however many devices a tenant's claims could have, and
// reports that it was cut short.
func TestClaimsHaveABudget(t *testing.T) {
	c := &placement.Claimed{}
	for range 32 {
		c.Requests = append(c.Requests, uses(2, "a"))
	}
	m := placement.ClaimMatch{For: 1<<32 - 1}
	for i := range 128 {
		d := claimed(topology.NUMAID(i%8), 1)
		d.For = 1<<32 - 1
		c.Devices = append(c.Devices, d)
		m.Values = append(m.Values, []int{i})
	}
	for range 32 {
		c.Matches = append(c.Matches, m)
	}
	var cs []placement.ContainerRequest
	for i := range 8 {
		cs = append(cs, app(fmt.Sprint("c", i), 9000, 1))
	}
	cs = append([]placement.ContainerRequest{app("a", 9000, 1)}, cs...)
	r := guaranteed("x", placement.Rules{Policy: placement.PolicySingleNUMANode, Claimed: c}, cs...)
	s := state(t, m8.view(), obeying())
	var d placement.Decision
	if v := placement.Decide(s, &r, &d); !v.Cut {
		t.Errorf("%v, not cut short", v.Detail)
	}
}

// TestClaimsForAWholeMachine: requests for a GPU and a NIC on each of eight NUMA nodes are within
// the budget.
func TestClaimsForAWholeMachine(t *testing.T) {
	c := &placement.Claimed{Requests: []placement.ClaimRequest{uses(8, "a"), uses(8, "a")}}
	for i := range 16 {
		c.Devices = append(c.Devices, claimed(topology.NUMAID(i/2), 1, i%2))
	}
	s := state(t, m8.view(), obeying())
	var d placement.Decision
	r := guaranteed("x", placement.Rules{Claimed: c}, app("a", 16000, 1), app("b", 1000, 1))
	if v := placement.Decide(s, &r, &d); !v.OK() || v.Cut || d.Containers[0].Hint.NUMA.Len() != 8 {
		t.Errorf("%v, cut short: %t, on %s", v.Detail, v.Cut, tell(&d))
	}
}
