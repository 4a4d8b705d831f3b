package scheduler

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// wants makes a pod with GPUs run on some node, and makes the scheduler read its nodes.
func (c *cluster) wants(gpus int64, change func(*corev1.Pod)) {
	c.Helper()
	p := on(c.pod(1, gpus), "elsewhere")
	if change != nil {
		change(p)
	}
	c.placed++
	c.table.Demand.Seen(p)
	done, cancel := context.WithCancel(c.Context())
	cancel()
	c.table.FollowDemand(done, func(name string) *corev1.Node {
		for _, n := range c.nodes { // no cycle has looked at them yet
			if n.object.Name == name {
				return n.object
			}
		}
		return nil
	})
}

// TestCPUsBesideWantedDevices: a pod without devices fits on one NUMA node only next to free GPUs.
// If some pods have GPUs, it is placed on several NUMA nodes of another node. Otherwise, and with
// numaNodes first, it is placed on one NUMA node.
func TestCPUsBesideWantedDevices(t *testing.T) {
	chosen := func(c *cluster) string {
		pod := c.pod(24, 0)
		state := newCycleData()
		state.Write(cycleKey, c.attempt(pod, requestOf(c.TB, pod)))
		return c.choose(state, pod, c.feasible(state, pod)).spec.Config.TopologyManagerPolicy
	}
	for _, tc := range []struct {
		what         string
		wanted, numa bool
		want         string
	}{
		{"nobody has GPUs", false, false, "single-numa-node"},
		{"somebody has GPUs", true, false, "best-effort"},
		{"somebody has GPUs, and numaNodes comes first", true, true, "single-numa-node"},
	} {
		c := newCluster(t, 4, 1) // the third has GPUs, the fourth pins with best effort
		c.nodes = c.nodes[2:]
		if first := &c.profile.Scoring.First; tc.numa {
			*first = slices.Clone((*first)[1:])
		}
		if tc.wanted {
			c.wants(1, nil)
		}
		if got := chosen(c); got != tc.want {
			t.Errorf("%s: the choice is %s, want %s", tc.what, got, tc.want)
		}
	}
}

// TestDemandedNodesComeLast: among equal nodes, a pod goes to the node on which fewer pods with
// devices could be, according to the pods' node selectors. A pod without devices is placed
// independently of this.
func TestDemandedNodesComeLast(t *testing.T) {
	c := newCluster(t, 17, 2)
	c.nodes = slices.DeleteFunc(c.nodes, func(n *clusterNode) bool { return len(n.spec.Machine.Devices) == 0 })
	if len(c.nodes) != 3 {
		t.Fatalf("%d nodes have GPUs", len(c.nodes))
	}
	tiers := func(gpus int64) (out []int64) {
		pod := c.pod(1, gpus)
		state := newCycleData()
		state.Write(cycleKey, c.attempt(pod, requestOf(c.TB, pod)))
		for _, n := range c.nodes {
			tier, _ := Tiers{}.Score(c.Context(), state, pod, n.infoOf)
			out = append(out, tier)
		}
		return out
	}
	c.nodes[1].object.Labels = map[string]string{"model": "rare"}
	c.wants(1, nil)
	if got := tiers(1); got[0] != got[1] || got[1] != got[2] {
		t.Errorf("all are in equal demand: tiers %v", got)
	}
	c.wants(1, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"model": "rare"} })
	if got := tiers(1); got[0] >= got[1] || got[0] != got[2] {
		t.Errorf("one is in more demand: tiers %v", got)
	}
	if got := tiers(0); got[0] != got[1] || got[1] != got[2] {
		t.Errorf("of a pod without GPUs: tiers %v", got)
	}
}
