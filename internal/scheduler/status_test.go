package scheduler

import (
	"fmt"
	"strings"
	"testing"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// TestEveryWaitIsSaid: the pod's status has the reason why it waits for a node. kube-scheduler
// makes the pod's event from it.
func TestEveryWaitIsSaid(t *testing.T) {
	seen := map[string]bool{}
	for w := range ledger.Waits {
		a := ledger.Answer{Outcome: ledger.Waiting, Wait: w}
		s := statusOf(nodes.Pack(0, &a), false)
		if s.Code() != fwk.Pending || !strings.Contains(s.Message(), w.Text()) || seen[s.Message()] {
			t.Errorf("%s: %s %q, want Pending and %q", w, s.Code(), s.Message(), w.Text())
		}
		seen[s.Message()] = true
		if got := reasonOf(&a); got != w.String() {
			t.Errorf("%s is counted as %q", w, got)
		}
	}
	refused := ledger.Answer{Outcome: ledger.Refused, Verdict: placement.Verdict{Reason: placement.TopologyAffinityError}}
	if got := reasonOf(&refused); got != refused.Verdict.Reason.String() {
		t.Errorf("a refusal is counted as %q", got)
	}
}

// TestWhoRefuses: a node's answer shows whether the kubelet or Berth refuses the pod.
func TestWhoRefuses(t *testing.T) {
	for d, want := range map[placement.Detail]string{
		placement.DevicesUneven:     "node(s) where Berth refuses the pod: InvalidRequest: ",
		placement.BadRequest:        "node(s) where Berth refuses the pod: InvalidRequest: ",
		placement.DefectForeignCPUs: "node(s) where Berth refuses the pod: KubeletDefect: ",
		placement.DevicesOpen:       "node(s) where Berth has no place for the pod: ",
		placement.NotPreferred:      "node(s) whose kubelet would refuse the pod: TopologyAffinityError: ",
		placement.TooFewCPUs:        "node(s) whose kubelet would refuse the pod: UnexpectedAdmissionError: ",
	} {
		a := ledger.Answer{Outcome: ledger.Refused, Verdict: placement.Verdict{Reason: d.Reason(), Detail: d}}
		if got := statusOf(nodes.Pack(0, &a), false).Message(); got != want+d.Text() {
			t.Errorf("%q, want %q", got, want+d.Text())
		}
	}
}

// TestANodeWithTooMuchOpen: other schedulers have bound seven pods since the last report.
func TestANodeWithTooMuchOpen(t *testing.T) {
	f := newFixture(t)
	f.feed.ReportSeen(f.topology())
	for i := range 7 {
		pod := pinned(fmt.Sprint("stranger", i), 1)
		pod.Spec.NodeName = "n"
		f.feed.PodSeen(pod, false)
	}
	n := f.table.Named("n")
	next := pinned("next", 1)
	ask, err := wire.ReadPod(next)
	if err != nil {
		t.Fatal(err)
	}
	c := f.attempt(next, &ask.Request)
	asked := c.query.Ask(n)
	remembered, _ := c.query.Recall(n)
	for _, a := range []nodes.PackedAnswer{asked, remembered} {
		if s := statusOf(a, false); s.Code() != fwk.Pending || !strings.Contains(s.Message(), ledger.ManyEvents.Text()) {
			t.Errorf("%s %q, want Pending and why", s.Code(), s.Message())
		}
	}
	if got := f.count().flooded; got[ledger.ManyEvents] != 1 {
		t.Errorf("the gauge counts %v", got)
	}
	for i := range 7 {
		f.admit(pinned(fmt.Sprint("stranger", i), 1))
	}
	f.feed.ReportSeen(f.topology())
	if got := f.count().flooded; got[ledger.ManyEvents] != 0 {
		t.Errorf("after the next report the gauge counts %v", got)
	}
}
