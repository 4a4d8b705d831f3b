package scheduler

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/ledger"
)

// beatOf is a heartbeat at so many seconds of the agent's clock.
func beatOf(sequence string, second int64) *coordinationv1.Lease {
	lease := vouched(sequence)
	lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Unix(second, 0)}
	return lease
}

// TestRestored: the API server's data are those of an hour ago. The report in them says what was then, and nothing is placed by it, nor
// by the one that was lost, until the agent has found out and vouches for one.
func TestRestored(t *testing.T) {
	f := newFixture(t)
	n := f.nodes.get("n")
	refusal := func() string { return n.refusal(f.clock.Now(), f.args.StaleAfter.Duration) }
	empty := f.topology() // report 1
	f.feed.topologySeen(empty)
	f.feed.leaseSeen(beatOf("1", 100))
	a := on(pinned("a", 8), "n")
	f.feed.podHandler().OnAdd(a, false)
	f.admit(a)
	full := f.topology() // report 2
	f.feed.topologySeen(full)
	f.feed.leaseSeen(beatOf("2", 200))
	f.want("a has the NUMA node that is whole", pinned("b", 8), ledger.Refused)

	f.feed.podHandler().OnDelete(a) // it was created in that hour
	f.feed.topologySeen(empty)
	if refusal() != wentBack {
		t.Errorf("the node is refused because of %q, want %q", refusal(), wentBack)
	}
	if e := <-f.events.Events; !strings.Contains(e, `status.sequence: "1": want 2 or more`) {
		t.Errorf("the event is %s", e)
	}
	f.feed.topologySeen(empty) // once more, as after a break of the watch
	select {
	case e := <-f.events.Events:
		t.Errorf("told twice: %s", e)
	default:
	}
	for _, lease := range []*coordinationv1.Lease{vouched("1"), beatOf("1", 100), beatOf("1", 200), beatOf("2", 300)} {
		f.feed.leaseSeen(lease)
		if refusal() != wentBack {
			t.Errorf("heartbeat %v, %v confirms the report: %q", lease.Annotations, lease.Spec.RenewTime, refusal())
		}
	}
	f.feed.leaseSeen(beatOf("1", 400)) // the agent has read what there is, and finds that it holds
	if refusal() != "" {
		t.Errorf("refused though its agent vouches for the report: %s", refusal())
	}
	f.want("nobody is there", pinned("b", 8), ledger.Admitted)
}

// TestRestoredAndPassed: an agent that still knows its number goes on from there.
func TestRestoredAndPassed(t *testing.T) {
	f := newFixture(t)
	n := f.nodes.get("n")
	first, second, third := f.topology(), f.topology(), f.topology()
	f.feed.topologySeen(second)
	f.feed.topologySeen(first)
	if why := n.refusal(f.clock.Now(), f.args.StaleAfter.Duration); why != wentBack {
		t.Errorf("refused because of %q", why)
	}
	f.feed.topologySeen(third)
	if why := n.refusal(f.clock.Now(), f.args.StaleAfter.Duration); why != "" {
		t.Errorf("refused because of %q", why)
	}
	f.feed.topologySeen(first)
	f.feed.topologyGone("n")
	f.feed.leaseSeen(beatOf("1", 100)) // vouches for an object that is no more
	if why := n.refusal(f.clock.Now(), f.args.StaleAfter.Duration); why != noReport {
		t.Errorf("refused because of %q", why)
	}
}
