package placement_test

import (
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// TestForetell are the answers, one by one. Every NUMA node has 4 CPUs; there are four of them,
// near and far.
func TestForetell(t *testing.T) {
	four := machine{2, 2, 4, 1, 16 << 30, 0}
	two := placement.Rules{NUMANodes: 2}
	each := placement.Rules{NUMANodes: 2, Scope: placement.ContainerScope}
	for _, c := range []struct {
		name, policy, scope string
		change              func(*placement.Config)
		r                   placement.Request
		want                placement.Foresight
		width               int
	}{
		{name: "nothing said", policy: "none", r: guaranteed("x", placement.Rules{}, app("a", 6000, 1))},
		{name: "none", policy: "none", r: guaranteed("x", two, app("a", 6000, 1)), want: placement.PolicyOpen},
		{name: "best-effort", policy: "best-effort", r: guaranteed("x", two, app("a", 6000, 1)), want: placement.PolicyOpen},
		{name: "as many as it takes", policy: "restricted", r: guaranteed("x", two, app("a", 6000, 1)), width: 2},
		{name: "beside shared CPUs", policy: "restricted", r: guaranteed("x", two, app("a", 6000, 1), app("b", 500, 1)), width: 2},
		{name: "fewer would do", policy: "restricted", r: guaranteed("x", two, app("a", 4000, 1)), want: placement.OtherNumber, width: 1},
		{name: "one", policy: "restricted", r: guaranteed("x", placement.Rules{NUMANodes: 1}, app("a", 4000, 1)), width: 1},
		{name: "all", policy: "restricted", r: guaranteed("x", placement.Rules{NUMANodes: 4}, app("a", 13000, 1)), width: 4},
		{name: "single", policy: "single-numa-node", r: guaranteed("x", placement.Rules{NUMANodes: 1}, app("a", 4000, 1)), width: 1},
		{name: "single and two", policy: "single-numa-node", r: guaranteed("x", two, app("a", 4000, 1)), want: placement.OtherNumber, width: 1},
		{name: "two containers", policy: "restricted", r: guaranteed("x", two, app("a", 6000, 1), app("b", 6000, 1)), want: placement.ScopeOpen},
		{name: "two containers, each", policy: "restricted", r: guaranteed("x", each, app("a", 6000, 1), app("b", 6000, 1)), width: 2},
		{name: "two containers, not each", policy: "restricted", r: guaranteed("x", each, app("b", 2000, 1), app("a", 6000, 1)), want: placement.OtherNumber, width: 1},
		{name: "the same the other way round", policy: "restricted", r: guaranteed("x", each, app("a", 6000, 1), app("b", 2000, 1)), want: placement.OtherNumber, width: 1},
		{name: "two containers as one", policy: "restricted", scope: "pod", r: guaranteed("x", two, app("a", 3000, 1), app("b", 3000, 1)), width: 2},
		{name: "Burstable", policy: "restricted", r: placement.Request{UID: "x", Rules: two, Containers: []placement.ContainerRequest{app("a", 6000, 1)}}, want: placement.PinsOpen},
		{name: "no CPU manager", policy: "restricted", change: func(c *placement.Config) { c.CPUManagerPolicy, c.CPUManagerPolicyOptions = "none", nil },
			r: guaranteed("x", two, app("a", 6000, 1)), want: placement.PinsOpen},
		{name: "not by distance", policy: "restricted", change: func(c *placement.Config) { c.TopologyManagerPolicyOptions = nil },
			r: guaranteed("x", two, app("a", 6000, 1)), want: placement.DistanceOpen},
		{name: "all, whatever the distance", policy: "restricted", change: func(c *placement.Config) { c.TopologyManagerPolicyOptions = nil },
			r: guaranteed("x", placement.Rules{NUMANodes: 4}, app("a", 13000, 1)), width: 4},
		{name: "by sockets", policy: "restricted", change: func(c *placement.Config) {
			c.CPUManagerPolicyOptions = map[string]string{"align-by-socket": "true"}
			c.FeatureGates = map[string]bool{"CPUManagerPolicyAlphaOptions": true}
		}, r: guaranteed("x", two, app("a", 6000, 1)), want: placement.SocketsOpen},
	} {
		cfg := placement.Config{CPUManagerPolicy: "static", ReservedMilliCPU: 1000, TopologyManagerPolicy: c.policy, TopologyManagerScope: c.scope,
			TopologyManagerPolicyOptions: map[string]string{"prefer-closest-numa-nodes": "true"}}
		if c.change != nil {
			c.change(&cfg)
		}
		m, err := placement.NewModel(four.view(), cfg)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got, width := m.Foretell(&c.r); got != c.want || width != c.width {
			t.Errorf("%s: %d, %d NUMA nodes, want %d, %d", c.name, got, width, c.want, c.width)
		}
	}
}

// TestForetold: what is foretold comes true, whatever a kubelet has handed out. Which NUMA nodes
// are the nearest is the merger's business.
func TestForetold(t *testing.T) {
	admitted, wide := 0, 0
	for seed := range uint64(8000) {
		live(t, seed, func(w *world) {
			r := w.request()
			if w.r.IntN(2) == 0 {
				r.Containers[len(r.Containers)-1].MilliCPU = 1000 * int64(1+w.r.IntN(12))
			}
			if w.r.IntN(3) == 0 {
				r.Rules.Scope = placement.ContainerScope
			}
			for n := uint8(1); n < 4; n++ {
				r.Rules.NUMANodes = n
				var d placement.Decision
				f, _ := w.model.Foretell(&r)
				if f != placement.Foretold && f != placement.DistanceOpen || !w.model.Keeps(placement.Rules{Scope: r.Rules.Scope}) || placement.Decide(w.state, &r, &d).Reason != placement.Admitted {
					continue
				}
				var pod topology.NUMASet
				for i := range d.Containers {
					c := d.Containers[i]
					c.Devices = nil
					held := w.heldBy(&c, nil)
					if pod |= held; r.Rules.Scope == placement.ContainerScope && held != 0 && held.Len() != int(n) {
						t.Fatalf("seed %d: %s is on NUMA nodes %v, and %d were foretold: %+v: %+v", seed, c.Name, held, n, r, d)
					}
				}
				if r.Rules.Scope != placement.ContainerScope && pod.Len() != int(n) {
					t.Fatalf("seed %d: the pod is on NUMA nodes %v, and %d were foretold: %+v: %+v", seed, pod, n, r, d)
				}
				if admitted++; n > 1 {
					wide++
				}
			}
		})
	}
	if admitted < 500 || wide < 100 {
		t.Errorf("%d admitted, %d of them on several NUMA nodes: want more", admitted, wide)
	}
}
