package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/placement"
)

// tempted is a cluster of count nodes: n0 has NUMA nodes of 38 CPUs or more, n1 of 12, and n2 has
// GPUs. Each has room for every pod here. On n0, four pods of one second are in flight, so that
// every other pod waits for its report.
func tempted(t *testing.T, count int, sizes ...int64) *cluster {
	t.Helper()
	c := newCluster(t, count, 1)
	for i, cpus := range sizes {
		r := requestOf(t, pinned(fmt.Sprint("coming", i), cpus))
		n, candidate := c.table.Named("n0").Account(), c.wait(pinned(fmt.Sprint("coming", i), cpus))
		candidate.Loose = true
		if a := n.Reserve(candidate, new(placement.Decision)); !a.OK() {
			t.Fatalf("coming%d: %+v", i, a)
		}
		if _, err := n.Post(r.UID, new(placement.Decision)); err != nil {
			t.Fatal(err)
		}
		c.waiters.Done(r.UID)
	}
	return c
}

// cycleOn tries to place a pod up to Reserve, which is on n1 unless n0 also admits the pod.
func (c *cluster) cycleOn(pod string, cpus int64) (where string, s *fwk.Status) {
	c.Helper()
	p := pinned(pod, cpus)
	state := newCycleData()
	if _, s := c.PreFilter(c.Context(), state, p, nil); !s.IsSuccess() {
		c.Fatal(s)
	}
	chosen := c.choose(state, p, c.feasible(state, p)).object.Name
	if s = c.Reserve(c.Context(), state, p, chosen); !s.IsSuccess() {
		c.Unreserve(c.Context(), state, p, chosen)
	}
	return chosen, s
}

// TestAPodWaitsForABetterNode: one node would admit the pod on several NUMA nodes, and a better one
// only waits for its report.
func TestAPodWaitsForABetterNode(t *testing.T) {
	c := tempted(t, 2, 1, 2, 3, 4)
	where, s := c.cycleOn("x", 16)
	if where != "n1" || s.Code() != fwk.Pending || s.Message() != waitBetter {
		t.Fatalf("on %s: %v: want it to wait for n0", where, s)
	}
	n := c.nodes[0]
	for i, cpus := range []int64{1, 2, 3, 4} {
		r := requestOf(t, pinned(fmt.Sprint("coming", i), cpus))
		var d placement.Decision
		placement.Decide(n.state, r, &d)
		n.state.Commit(r, &d)
	}
	clear(c.woken)
	c.report(n)
	if c.woken["x"] == 0 {
		t.Error("the report of n0 does not wake it")
	}
	if where, s = c.cycleOn("x", 16); where != "n0" || !s.IsSuccess() {
		t.Errorf("on %s: %v: want n0", where, s)
	}
}

// TestAPodWaitsBesideDevices: one node would admit the pod next to its free GPUs, and one without
// GPUs only waits for its report.
func TestAPodWaitsBesideDevices(t *testing.T) {
	c := tempted(t, 3, 1, 2, 3, 4)
	where, s := c.cycleOn("x", 16)
	if where != "n2" || s.Code() != fwk.Pending || s.Message() != waitBetter {
		t.Fatalf("on %s: %v: want it to wait for n0", where, s)
	}
	c.clock.Step(betterPatience * c.args.Patience.Duration)
	if where, s := c.cycleOn("x", 16); where != "n2" || !s.IsSuccess() {
		t.Errorf("on %s: %v: want it on n2 in the end", where, s)
	}
}

// TestAPodWaitsForABetterNodeOnce: the wait is limited. It starts with the first attempt that could
// have placed the pod, however long the pod waited before.
func TestAPodWaitsForABetterNodeOnce(t *testing.T) {
	c := tempted(t, 2, 1, 2, 3, 4)
	woken := c.wakes()
	c.wait(pinned("x", 16))
	c.clock.Step(time.Minute / 2)
	if _, s := c.cycleOn("x", 16); s.Code() != fwk.Pending {
		t.Fatalf("%v: want it to wait", s)
	}
	c.clock.Step(c.args.Patience.Duration)
	if len(woken) > 0 {
		t.Errorf("%v tried again although nothing has changed", <-woken)
	}
	if _, s := c.cycleOn("x", 16); s.Code() != fwk.Pending {
		t.Fatalf("%v: want it to wait on", s)
	}
	c.clock.Step((betterPatience - 1) * c.args.Patience.Duration)
	if names := <-woken; fmt.Sprint(names) != "[x]" {
		t.Errorf("%v tried again, want x", names)
	}
	if where, s := c.cycleOn("x", 16); where != "n1" || !s.IsSuccess() {
		t.Errorf("on %s: %v: want it on n1 in the end", where, s)
	}
}

// TestNoBetterNode: no pod waits for a node that would not be better, or if the limit is zero.
func TestNoBetterNode(t *testing.T) {
	for _, tc := range []struct {
		name   string
		coming []int64
		cpus   int64
		set    func(*cluster)
	}{
		{name: "nothing is better than one NUMA node", coming: []int64{1, 2, 3, 4}, cpus: 8},
		{name: "those on their way leave no room", coming: []int64{30, 29, 1, 2}, cpus: 16},
		{name: "no patience", coming: []int64{1, 2, 3, 4}, cpus: 16, set: func(c *cluster) { c.Plugin.args.Patience.Duration = -1 }},
		{name: "the policy comes first", coming: []int64{1, 2, 3, 4}, cpus: 16, set: func(c *cluster) { c.profile.Scoring.First = nil }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := tempted(t, 2, tc.coming...)
			if tc.set != nil {
				tc.set(c)
			}
			if where, s := c.cycleOn("x", tc.cpus); where != "n1" || !s.IsSuccess() || strings.Contains(s.Message(), waitBetter) {
				t.Errorf("on %s: %v: want it on n1 at once", where, s)
			}
		})
	}
}
