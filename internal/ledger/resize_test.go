package ledger

import (
	"testing"

	"github.com/berth-dev/berth/placement"
)

// asksTheSame is the feed's answer about a pod that was not resized.
func asksTheSame(*placement.Request) bool { return true }

// TestAPodResizedOnItsWay: the kubelet may see the pod before or after the resize. Until a report
// shows which, other pods wait, and a broken promise counts as nobody's mistake.
func TestAPodResizedOnItsWay(t *testing.T) {
	for name, admitted := range map[string]int64{"as it was": 2, "as it is": 6} {
		t.Run(name, func(t *testing.T) {
			k := newKubelet(t, model(t, twoSockets, pinning))
			n := open(t, k)
			reserve(t, n, cpus("a", 2))
			post(t, n, "a")
			reserve(t, n, cpus("b", 2))
			post(t, n, "b")
			if n.Glance(Glimpse{UID: "a", Asks: func(r *placement.Request) bool { return r.Containers[0].MilliCPU == 6000 }}) {
				t.Fatal("the ledger knows that the pod asks for 6 CPUs")
			}
			if changed, _ := n.See(Sighting{UID: "a", Request: cpus("a", 6), Created: 1, Turn: 1}); !changed {
				t.Fatal("a resize changes nothing")
			}
			check(t, n)
			x := cand(cpus("x", 2))
			wantWait(t, "a pod that comes then", n.View().Ask(Question{Candidate: x}), Resized)
			if changed, _ := n.See(Sighting{UID: "a", Request: cpus("a", 6), Created: 1, Turn: 1}); changed {
				t.Error("the same again is news")
			}
			k.must(cpus("a", admitted))
			k.must(cpus("b", 2))
			for _, o := range n.Accept(k.report()) {
				if !o.Kept && !o.Contended {
					t.Errorf("%s: mispredicted, want contended", o.UID)
				}
			}
			check(t, n)
			wantOutcome(t, "once a report tells", n.View().Ask(Question{Candidate: x}), Admitted)
		})
	}
}

// TestAReportTellsOfTheResizeFirst: the kubelet has admitted the resized pod, and the report comes
// before the watch shows the resize. Broken promises to this pod or to another count as nobody's
// mistake.
func TestAReportTellsOfTheResizeFirst(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	n := open(t, k)
	for _, uid := range []string{"a", "b"} {
		reserve(t, n, cpus(uid, 2))
		post(t, n, uid)
		n.Glance(Glimpse{UID: uid, Ending: false, Mortal: false, Asks: asksTheSame})
	}
	k.must(cpus("a", 6))
	k.must(cpus("b", 2))
	outcomes := n.Accept(k.report())
	check(t, n)
	if len(outcomes) != 2 {
		t.Fatalf("%+v, want the outcomes of two promises", outcomes)
	}
	for _, o := range outcomes {
		if o.Kept || !o.Contended {
			t.Errorf("%s: %+v, want a promise that is contended", o.UID, o)
		}
	}
}

// TestAPodFirstShownResized: another scheduler's ledger sees the pod only after its resize.
func TestAPodFirstShownResized(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	open(t, k) // the first report
	var d placement.Decision
	placement.Decide(k.State, cpus("a", 2), &d)
	for _, c := range []struct {
		uid  string
		asks int64
		want Outcome
	}{{"a", 2, Admitted}, {"a", 6, Waiting}} {
		n := open(t, k)
		n.See(Sighting{UID: c.uid, Request: cpus(c.uid, c.asks), Created: 1, Turn: 1, Promise: &Promise{Decision: d.Clone(), Exact: true}})
		check(t, n)
		wantOutcome(t, "a pod that comes then", n.View().Ask(Question{Candidate: cand(cpus("x", 2))}), c.want)
	}
}

// TestAResizeOfWhatIsNotPinned: no pod waits, because the kubelet's managers see no difference.
func TestAResizeOfWhatIsNotPinned(t *testing.T) {
	more := func(n int64) *placement.Request {
		r := cpus("a", n)
		r.Containers[0].Memory[0].Bytes *= 2
		return r
	}
	for name, c := range map[string]struct {
		config placement.Config
		now    *placement.Request
		want   Outcome
	}{
		"memory, without a memory manager": {pinning, more(2), Admitted},
		"CPUs, without a CPU manager":      {placement.Config{}, more(6), Admitted},
		"CPUs":                             {pinning, more(6), Waiting},
	} {
		t.Run(name, func(t *testing.T) {
			n := open(t, newKubelet(t, model(t, twoSockets, c.config)))
			reserve(t, n, cpus("a", 2))
			post(t, n, "a")
			n.See(Sighting{UID: "a", Request: c.now, Created: 1, Turn: 1})
			check(t, n)
			wantOutcome(t, "a pod that comes then", n.View().Ask(Question{Candidate: cand(cpus("x", 2))}), c.want)
		})
	}
}

// TestAReportedPodThatIsResized: the resources in the report stay. If the kubelet does not list the
// pod for a moment, the pod returns with its allocated resources.
func TestAReportedPodThatIsResized(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	n := open(t, k)
	reserve(t, n, cpus("a", 2))
	post(t, n, "a")
	k.must(cpus("a", 2))
	n.Accept(k.report())
	for _, asks := range []int64{8, 1} {
		if changed, _ := n.See(Sighting{UID: "a", Request: cpus("a", asks), Created: 1, Turn: 1}); changed {
			t.Errorf("resized to %d CPUs: the report tells what it has", asks)
		}
		check(t, n)
		wantOutcome(t, "what is left on the NUMA node of the pod", n.View().Ask(Question{Candidate: cand(cpus("x", 8))}), Admitted)
		wantOutcome(t, "more than a NUMA node has", n.View().Ask(Question{Candidate: cand(cpus("x", 9))}), Refused)
	}
}
