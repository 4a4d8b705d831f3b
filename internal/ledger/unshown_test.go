package ledger

import (
	"testing"
	"time"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology/shapes"
)

// TestUnshownCPUs counts the CPUs of pods that only a report lists.
func TestUnshownCPUs(t *testing.T) {
	shown := func(n *Node, _ *kubelet) { n.See(Sighting{UID: "a", Request: cpus("a", 2)}) }
	for what, c := range map[string]struct {
		// before and after are events before and after the report, which lists pod a with 2 CPUs
		// and pod b with 3.
		before, after func(n *Node, k *kubelet)
		want          int
	}{
		"nobody knows them":             {nil, nil, 5},
		"the API shows one before":      {shown, nil, 3},
		"the API shows one afterwards":  {nil, shown, 3},
		"one is being deleted":          {nil, func(n *Node, _ *kubelet) { n.See(Sighting{UID: "a", Request: cpus("a", 2), Phase: Ending}) }, 3},
		"it has been, and is gone":      {nil, func(n *Node, k *kubelet) { shown(n, k); n.Gone("a", time.Unix(0, 0)) }, 3},
		"one is gone and was not shown": {nil, func(n *Node, _ *kubelet) { n.Gone("a", time.Unix(0, 0)) }, 5},
		"one was placed here": {func(n *Node, _ *kubelet) {
			var d placement.Decision
			n.Reserve(cand(cpus("a", 2)), &d)
			if _, err := n.Post("a", &d); err != nil {
				t.Error(err)
			}
		}, nil, 3},
		"one is over":            {func(_ *Node, k *kubelet) { k.End("a") }, nil, 3},
		"one has left":           {nil, func(n *Node, k *kubelet) { k.End("a"); k.ReleaseEnded(); n.Accept(k.report()) }, 3},
		"the report is gone":     {nil, func(n *Node, _ *kubelet) { n.Withdraw() }, 0},
		"a report comes again":   {nil, func(n *Node, k *kubelet) { n.Withdraw(); n.Accept(k.report()) }, 5},
		"amounts alone are told": {nil, func(n *Node, k *kubelet) { r := k.report(); r.Amounts = true; n.Accept(r) }, 0},
	} {
		t.Run(what, func(t *testing.T) {
			k := newKubelet(t, model(t, twoSockets, pinning))
			n := open(t, k)
			k.must(cpus("a", 2))
			k.must(cpus("b", 3))
			if c.before != nil {
				c.before(n, k)
			}
			n.Accept(k.report())
			if c.after != nil {
				c.after(n, k)
			}
			check(t, n)
			if got := n.View().UnshownCPUs(nil); got != c.want || n.outlook.changes.Unshown() != c.want {
				t.Errorf("%d, and %d are noted, want %d", got, n.outlook.changes.Unshown(), c.want)
			}
			if got := n.View().UnshownCPUs(func(uid string) bool { return uid == "b" }); got != max(0, c.want-3) {
				t.Errorf("%d without those of b, want %d", got, max(0, c.want-3))
			}
		})
	}
}

// TestATakenBackPodIsUnshownAgain: a node has reported a pod that has no node in the API yet. The
// scheduler places the pod again, and then gives up this attempt.
func TestATakenBackPodIsUnshownAgain(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	n := open(t, k)
	k.must(cpus("a", 2))
	n.Accept(k.report())
	var d placement.Decision
	n.Reserve(cand(cpus("a", 2)), &d)
	if got := n.outlook.changes.Unshown(); got != 0 {
		t.Errorf("%d, want 0: it is placed here", got)
	}
	n.Forget("a")
	check(t, n)
	if got := n.outlook.changes.Unshown(); got != 2 {
		t.Errorf("%d, want 2", got)
	}
}

// TestWhereBerthDecidesNothingIsUnshown: pods that Berth did not bind have no exclusive CPUs.
func TestWhereBerthDecidesNothingIsUnshown(t *testing.T) {
	m := model(t, "package:1 numa:1 core:6 pu:1 mem:4Gi", obeying)
	n := new(Ledger).Open(nil)
	own := placement.PodAllocation{UID: "a", Containers: []placement.ContainerAllocation{{Name: "c", CPUs: shapes.CPUs("1-2")}}}
	r, err := NewReport(1, m, &placement.Snapshot{Pods: []placement.PodAllocation{own}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n.Accept(r)
	if n.View().UnshownCPUs(nil) != 0 || n.outlook.changes.Unshown() != 0 {
		t.Error("CPUs are unshown")
	}
}

// TestUnshownPodsLeaveWhoWaitsUntold: unshown pods may have kept off a pod that the node admits. So
// the change after which the API shows them wakes this pod.
func TestUnshownPodsLeaveWhoWaitsUntold(t *testing.T) {
	k, l := newKubelet(t, model(t, twoSockets, pinning)), new(Ledger)
	n, c := l.Open(nil), cand(cpus("x", 2))
	c.Shape = l.Shape(c.Request)
	k.must(cpus("a", 2))
	n.Accept(k.report())
	for _, want := range []Outcome{Unreported, Admitted} {
		n.Shift(c)
		n.See(Sighting{UID: "a", Request: cpus("a", 2)})
		before, now := n.Shift(c)
		if before.Outcome != want || now.Outcome != Admitted {
			t.Errorf("%v, then %v: want %v, then admitted", before.Outcome, now.Outcome, want)
		}
		n.See(Sighting{UID: "a", Request: cpus("a", 2), Phase: Ending})
	}
}
