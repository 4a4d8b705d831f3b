package ledger

import (
	"testing"
	"time"
)

// TestAQuietNodeRemembersNobodyWhoLeft: a pod leaves while another pod is in flight, which is then
// deleted before its kubelet has seen it. The node sends no further reports, only heartbeats.
func TestAQuietNodeRemembersNobodyWhoLeft(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	n := new(Ledger).Open(nil)
	left := cpus("left", 2)
	k.must(left)
	n.See(Sighting{UID: left.UID, Request: left})
	n.Accept(k.report())
	coming := cpus("coming", 2)
	reserve(t, n, coming)
	post(t, n, coming.UID)

	k.Remove(left.UID)
	n.Gone(left.UID, time.Unix(50, 0))
	n.Accept(k.report())
	if n.outlook.facts.lingerers.held == nil {
		t.Fatal("the admission on its way may have seen the pod that left; nothing of it is remembered")
	}
	n.ForgetGone(time.Unix(60, 0), 5*time.Second)
	if n.outlook.facts.lingerers.held == nil {
		t.Fatal("the pod that left is forgotten while the other is on its way")
	}

	n.Gone(coming.UID, time.Unix(100, 0))
	n.ForgetGone(time.Unix(106, 0), 5*time.Second)
	check(t, n)
	if l := n.outlook.facts.lingerers; l.held != nil || l.uids != nil || l.allocs != nil || l.lost {
		t.Errorf("nothing is on its way any more, and pods that left are remembered: %+v", l)
	}
}
