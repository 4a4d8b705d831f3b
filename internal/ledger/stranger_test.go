package ledger

import (
	"testing"
	"time"

	"github.com/berth-dev/berth/placement"
)

// TestStrangersOfWhomALeaderHadNotHeard: the leader decided on a report without another scheduler's
// pod, and promised that pod's CPUs. A scheduler that only observes does not count this as a wrong
// prediction, whatever it sees first.
func TestStrangersOfWhomALeaderHadNotHeard(t *testing.T) {
	for _, c := range []struct {
		name string
		// decided is the report on which the leader decided.
		decided int64
		// before happens between the stranger's admission and the sight of the leader's Binding.
		before    func(n *Node, k *kubelet)
		contended bool
	}{
		{"a report lists it", 1, func(n *Node, k *kubelet) { n.Accept(k.report()) }, true},
		{"the API shows it, and a report lists it", 1, func(n *Node, k *kubelet) {
			n.See(Sighting{UID: "foreign", Request: cpus("foreign", 2)})
			n.Accept(k.report())
		}, true},
		{"it has left again", 1, func(n *Node, k *kubelet) {
			n.Accept(k.report())
			k.End("foreign")
			k.ReleaseEnded()
			n.Accept(k.report())
		}, true},
		{"the API shows it, and it has gone before a report", 1, func(n *Node, k *kubelet) {
			n.See(Sighting{UID: "foreign", Request: cpus("foreign", 2)})
			n.Gone("foreign", time.Unix(0, 0))
		}, true},
		{"the leader knew", 2, func(n *Node, k *kubelet) { n.Accept(k.report()) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newKubelet(t, model(t, twoSockets, pinning))
			n := open(t, k)
			var promised placement.Decision
			if v := placement.Decide(k.State, cpus("a", 2), &promised); !v.OK() {
				t.Fatal(v)
			}
			k.must(cpus("foreign", 2))
			c.before(n, k)
			n.See(Sighting{
				UID: "a", Request: cpus("a", 2), Turn: 1, Report: c.decided, Promise: &Promise{Decision: promised, Exact: true},
			})
			check(t, n)
			n.ForgetGone(time.Unix(60, 0), time.Second)
			k.must(cpus("other", 2)) // whatever the leader knew, a gets other CPUs
			k.must(cpus("a", 2))
			k.End("other")
			k.ReleaseEnded()
			outcomes := n.Accept(k.report())
			check(t, n)
			if len(outcomes) != 1 || outcomes[0].Kept || outcomes[0].Contended != c.contended {
				t.Errorf("%+v, want one that is not kept, contended: %v", outcomes, c.contended)
			}
		})
	}
}
