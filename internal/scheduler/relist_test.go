package scheduler

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// vouched returns a heartbeat for a report.
func vouched(sequence string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.HeartbeatName("n"), Annotations: map[string]string{v1alpha1.SequenceAnnotation: sequence}},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: time.Unix(1, 0)}},
	}
}

// settleDown lets time pass, with reports and heartbeats, until deleted pods are forgotten.
func (f *fixture) settleDown() {
	for range 3 {
		f.clock.Step(10 * time.Second)
		f.feed.ReportSeen(f.topology())
		f.feed.HeartbeatSeen(vouched(""))
	}
}

// postOn decides for a pod and posts its Binding.
func (f *fixture) postOn(n *nodes.Node, pod *corev1.Pod) placement.Decision {
	f.Helper()
	var d placement.Decision
	if a := n.Account().Reserve(f.wait(pod), &d); !a.OK() {
		f.Fatalf("%s: %+v", pod.Name, a)
	}
	if _, err := n.Account().Post(uidOf(pod), &d); err != nil {
		f.Fatal(err)
	}
	f.feed.Posted(pod, n)
	f.waiters.Done(uidOf(pod))
	return d
}

// TestPodThatCameBackUnderItsName: a list shows the new pod as an update of the old one. The old
// pod has no resources when its kubelet reports so.
func TestPodThatCameBackUnderItsName(t *testing.T) {
	f := newFixture(t)
	h := f.core
	old := on(pinned("web-0", 4), "n")
	f.admit(old)
	f.feed.ReportSeen(f.topology())
	h.OnAdd(old, false)
	again := pinned("web-0", 4)
	again.UID = "uid-web-0-again"
	h.OnUpdate(old, again)
	f.state.Release(uidOf(old))
	f.settleDown()
	if c := f.table.Named("n").Account().View().Census(); c != (ledger.Census{}) {
		t.Errorf("left behind: %+v", c)
	}
	f.want("the node is empty", pinned("x", 8), ledger.Admitted)
}

// TestPodThatWasBoundAndLeftUnheard: before the pod was gone, the watch showed it without a node.
func TestPodThatWasBoundAndLeftUnheard(t *testing.T) {
	for name, c := range map[string]struct {
		pod      *corev1.Pod
		reported bool
	}{
		"its kubelet had it":                            {pinned("x", 8), true},
		"its kubelet never had it":                      {pinned("x", 8), false},
		"it has CPU time alone, and its kubelet had it": {burstable("x", "8"), true},
		"it has CPU time alone, and no kubelet had it":  {burstable("x", "8"), false},
	} {
		t.Run(name, func(t *testing.T) {
			f, pod := newFixture(t), c.pod
			if !wire.MightPin(pod) {
				f.obeys()
			}
			h := f.core
			f.feed.ReportSeen(f.topology())
			n := f.table.Named("n")
			h.OnAdd(pod, false)
			f.postOn(n, pod)
			h.OnDelete(cache.DeletedFinalStateUnknown{Key: "default/x", Obj: pod})
			later := pinned("y", 8)
			later.CreationTimestamp = metav1.Unix(900, 0)
			if a := n.Account().View().Ask(ledger.Question{Candidate: f.wait(later)}); a.Exact {
				t.Errorf("certain of the CPUs that the pod may hold: %+v", a)
			}
			if c.reported {
				f.admit(pod)
				f.feed.ReportSeen(f.topology())
				f.state.Release(uidOf(pod))
			}
			f.settleDown()
			if c := n.Account().View().Census(); c != (ledger.Census{}) {
				t.Errorf("left behind: %+v", c)
			}
			f.want("the node is empty", later, ledger.Admitted)
		})
	}
}

// TestHeartbeatForAReportThatHasNotCome: it does not confirm the current report, which may be long
// out of date.
func TestHeartbeatForAReportThatHasNotCome(t *testing.T) {
	f := newFixture(t)
	h := f.core
	f.feed.ReportSeen(f.topology()) // report 1
	n := f.table.Named("n")
	pod := pinned("x", 8)
	f.postOn(n, pod)
	bound := on(pod.DeepCopy(), "n")
	h.OnUpdate(pod, bound)
	f.admit(pod)
	onItsWay := f.topology() // report 2, still in flight
	h.OnDelete(bound)        // by force
	for range 4 {
		f.clock.Step(10 * time.Second)
		f.feed.HeartbeatSeen(vouched("2"))
	}
	if c := n.Account().View().Census(); c.Posted != 1 {
		t.Errorf("forgot the pod that the report on its way lists: %+v", c)
	}
	f.clock.Step(f.args.StaleAfter.Duration)
	f.feed.HeartbeatSeen(vouched("2"))
	if why := f.refusal(n.Name()); why != noHeartbeat {
		t.Errorf("relied on (%q)", why)
	}
	f.feed.ReportSeen(onItsWay)
	if why := f.refusal(n.Name()); why != "" {
		t.Errorf("not relied on: %s", why)
	}
	f.clock.Step(f.args.StaleAfter.Duration)
	f.feed.HeartbeatSeen(vouched("2"))
	if why := f.refusal(n.Name()); why != "" {
		t.Errorf("a heartbeat for the report that is there counts for nothing: %s", why)
	}
}

// TestGangsHearOfWhatAHeartbeatEnds: a heartbeat may make a node reliable again, or show that a pod
// is gone that the live agent does not list. In both cases waiting gangs are tried again.
func TestGangsHearOfWhatAHeartbeatEnds(t *testing.T) {
	f := newFixture(t)
	told := 0
	f.feed.Changed = func() { told++ }
	f.feed.ReportSeen(f.topology())
	n := f.table.Named("n")
	pod := pinned("x", 4)
	f.postOn(n, pod)
	f.feed.PodGone(pod)
	told = 0
	f.clock.Step(f.args.SettleAfter.Duration + time.Second)
	f.feed.HeartbeatSeen(vouched(""))
	if n.Account().View().Census() != (ledger.Census{}) || told != 1 {
		t.Errorf("a pod was forgotten: %+v is left, told %d times", n.Account().View().Census(), told)
	}
	f.clock.Step(f.args.StaleAfter.Duration + time.Second)
	if f.refusal("n") == "" {
		t.Fatal("the node is relied on")
	}
	if f.feed.HeartbeatSeen(vouched("")); told != 2 {
		t.Errorf("the node can be relied on again: told %d times, want 2", told)
	}
}
