package scheduler

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/ledger"
)

// beatOf returns a heartbeat at this second of the agent's clock.
func beatOf(sequence string, second int64) *coordinationv1.Lease {
	lease := vouched(sequence)
	lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Unix(second, 0)}
	return lease
}

// TestRestored: the API server was restored from a backup one hour old. No pod is placed according
// to the restored report, or to the newer one that was lost, until the agent has noticed and
// confirms a report.
func TestRestored(t *testing.T) {
	f := newFixture(t)
	n := f.table.Named("n")
	refusal := func() string { return f.refusal(n.Name()) }
	empty := f.topology() // report 1
	f.feed.ReportSeen(empty)
	f.feed.HeartbeatSeen(beatOf("1", 100))
	a := on(pinned("a", 8), "n")
	f.core.OnAdd(a, false)
	f.admit(a)
	full := f.topology() // report 2
	f.feed.ReportSeen(full)
	f.feed.HeartbeatSeen(beatOf("2", 200))
	f.want("a has the NUMA node that is whole", pinned("b", 8), ledger.Refused)

	f.core.OnDelete(a) // it was created in the last hour
	f.feed.ReportSeen(empty)
	if refusal() != wentBack {
		t.Errorf("the node is refused because of %q, want %q", refusal(), wentBack)
	}
	if e := <-f.events.Events; !strings.Contains(e, `status.sequence: "1": want 2 or more`) {
		t.Errorf("the event is %s", e)
	}
	f.feed.ReportSeen(empty) // again, as after a break of the watch
	select {
	case e := <-f.events.Events:
		t.Errorf("told twice: %s", e)
	default:
	}
	for _, lease := range []*coordinationv1.Lease{vouched("1"), beatOf("1", 100), beatOf("1", 200), beatOf("2", 300)} {
		f.feed.HeartbeatSeen(lease)
		if refusal() != wentBack {
			t.Errorf("heartbeat %v, %v confirms the report: %q", lease.Annotations, lease.Spec.RenewTime, refusal())
		}
	}
	f.feed.HeartbeatSeen(beatOf("1", 400)) // the agent has read the restored report, and confirms it
	if refusal() != "" {
		t.Errorf("refused though its agent vouches for the report: %s", refusal())
	}
	f.want("nobody is there", pinned("b", 8), ledger.Admitted)
}

// TestRestoredAndPassed: an agent that still knows its number continues from there.
func TestRestoredAndPassed(t *testing.T) {
	f := newFixture(t)
	n := f.table.Named("n")
	first, second, third := f.topology(), f.topology(), f.topology()
	f.feed.ReportSeen(second)
	f.feed.ReportSeen(first)
	if why := f.refusal(n.Name()); why != wentBack {
		t.Errorf("refused because of %q", why)
	}
	f.feed.ReportSeen(third)
	if why := f.refusal(n.Name()); why != "" {
		t.Errorf("refused because of %q", why)
	}
	f.feed.ReportSeen(first)
	f.feed.ReportGone("n")
	f.feed.HeartbeatSeen(beatOf("1", 100)) // confirms an object that is gone
	if why := f.refusal(n.Name()); why != noReport {
		t.Errorf("refused because of %q", why)
	}
}

// TestRestoredAfterATrouble: the newest report was not reliable, and nor is an older one.
func TestRestoredAfterATrouble(t *testing.T) {
	f := newFixture(t)
	refusal := func() string { return f.refusal("n") }
	f.feed.ReportSeen(f.topology())
	second, third := f.topology(), f.topology()
	third.Status.Conditions[0].Status = metav1.ConditionFalse
	f.feed.ReportSeen(third)
	f.feed.ReportSeen(second)
	if refusal() != wentBack {
		t.Errorf("refused because of %q, want %q", refusal(), wentBack)
	}
	// If a confirmed report is not reliable either, later reports still count.
	second.Status.Conditions[0].Status = metav1.ConditionFalse
	f.feed.ReportSeen(second)
	f.feed.HeartbeatSeen(beatOf("2", 100))
	again := third.DeepCopy()
	again.Status.Conditions[0].Status = metav1.ConditionTrue
	f.feed.ReportSeen(again)
	if refusal() != "" {
		t.Errorf("refused because of %q", refusal())
	}
}

// TestMalformedIsNotOlder: an object of another form has no readable number. The refusal names what
// is wrong with the object.
func TestMalformedIsNotOlder(t *testing.T) {
	f := newFixture(t)
	refusal := func() string { return f.refusal("n") }
	first, second := f.topology(), f.topology()
	f.feed.ReportSeen(second)
	f.feed.ReportSeen(&v1alpha1.NodeTopology{ObjectMeta: second.ObjectMeta, Malformed: "status holds a text"})
	if !strings.Contains(refusal(), "delete that once") {
		t.Errorf("refused because of %q", refusal())
	}
	f.feed.ReportSeen(first)
	if refusal() != wentBack {
		t.Errorf("refused because of %q, want %q", refusal(), wentBack)
	}
}

// TestNumberGivenTwice: a restarted agent continues from the restored report, and uses the number
// of a lost report again. The new report counts as soon as the agent confirms it.
func TestNumberGivenTwice(t *testing.T) {
	f := newFixture(t)
	refusal := func() string { return f.refusal("n") }
	first, lost := f.topology(), f.topology()
	f.feed.ReportSeen(first)
	f.feed.ReportSeen(lost)
	f.feed.HeartbeatSeen(beatOf("2", 100))
	f.feed.ReportSeen(first)
	a := on(pinned("a", 8), "n")
	f.core.OnAdd(a, false)
	f.admit(a)
	f.seq = 1
	now := f.topology()
	now.Status.ObservedTime = metav1.NewMicroTime(time.Unix(200, 0))
	f.feed.ReportSeen(now)
	if refusal() != wentBack {
		t.Errorf("refused because of %q, want %q", refusal(), wentBack)
	}
	f.feed.HeartbeatSeen(beatOf("2", 200))
	if refusal() != "" {
		t.Errorf("refused because of %q", refusal())
	}
	if r := f.table.Named("n").Account().View().Report(); !r.Has("uid-a") {
		t.Error("the report that was lost still counts")
	}
	f.admit(on(pinned("b", 2), "n"))
	f.feed.ReportSeen(f.topology())
	if r := f.table.Named("n").Account().View().Report(); r.Sequence != 3 || refusal() != "" {
		t.Errorf("report %d, refused because of %q, after the one before was confirmed", r.Sequence, refusal())
	}
}

// TestRestoredObjectOfBefore: after the backup, the object was created again and its numbers began
// again.
func TestRestoredObjectOfBefore(t *testing.T) {
	f := newFixture(t)
	refusal := func() string { return f.refusal("n") }
	f.seq = 69
	before := f.topology()
	before.CreationTimestamp = metav1.Unix(100, 0)
	f.seq = 0
	anew := f.topology()
	anew.UID, anew.CreationTimestamp = "anew", metav1.Unix(200, 0)
	f.feed.ReportSeen(before)
	f.feed.ReportSeen(anew)
	f.feed.HeartbeatSeen(beatOf("1", 300))
	if refusal() != "" {
		t.Errorf("refused because of %q", refusal())
	}
	f.feed.ReportSeen(before)
	f.feed.HeartbeatSeen(beatOf("1", 310))
	if refusal() != wentBack {
		t.Errorf("refused because of %q, want %q", refusal(), wentBack)
	}
	f.feed.HeartbeatSeen(beatOf("70", 320))
	if refusal() != "" {
		t.Errorf("refused because of %q", refusal())
	}
	f.feed.ReportGone("n")
	f.feed.ReportSeen(anew)
	if refusal() != "" {
		t.Errorf("refused because of %q", refusal())
	}
}

// TestHeartbeatForAReportBefore does not confirm the current report.
func TestHeartbeatForAReportBefore(t *testing.T) {
	f := newFixture(t)
	f.topology()
	f.feed.ReportSeen(f.topology())
	f.clock.Step(f.args.StaleAfter.Duration + time.Second)
	for _, tc := range []struct{ sequence, want string }{{"1", noHeartbeat}, {"3", noHeartbeat}, {"2", ""}} {
		f.feed.HeartbeatSeen(vouched(tc.sequence))
		if why := f.refusal("n"); why != tc.want {
			t.Errorf("after a heartbeat for report %s the node is refused because of %q, want %q", tc.sequence, why, tc.want)
		}
	}
}

// TestHeartbeatForARefusedReport: the agent is alive, and does not count as silent.
func TestHeartbeatForARefusedReport(t *testing.T) {
	f := newFixture(t)
	f.feed.ReportSeen(f.topology())
	refused := f.topology()
	refused.Status.Conditions[0].Status = metav1.ConditionFalse
	f.feed.ReportSeen(refused)
	f.clock.Step(time.Hour)
	f.feed.HeartbeatSeen(vouched("2"))
	if c := f.count(); c.silence != 0 || c.nodes[nodeUntrusted] != 1 {
		t.Errorf("%v of silence, nodes %v", c.silence, c.nodes)
	}
}
