package scheduler

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/handover"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/wire"
)

// calls receives the names of the pods that are activated together.
type calls chan []string

func (c calls) Activate(_ klog.Logger, pods map[string]*corev1.Pod) {
	var names []string
	for _, p := range pods {
		names = append(names, p.Name)
	}
	c <- names
}

// wakes records activations from now on.
func (f *fixture) wakes() calls {
	woken := make(calls, 100)
	f.wakeEdge.activator = woken
	return woken
}

// blame records a failed attempt: some nodes wait for a report, others refuse.
func (f *fixture) blame(pod *corev1.Pod, waiting, refusing []*nodes.Node) {
	f.waiters.Blame(uidOf(pod), wakeNodes(waiting), wakeNodes(refusing))
}

// TestNewNodeWakes a pod that all other nodes refused, because it has not asked this one.
func TestNewNodeWakes(t *testing.T) {
	f := newFixture(t)
	f.fill()
	pod := pinned("x", 4)
	f.wait(pod)
	f.blame(pod, nil, []*nodes.Node{f.table.Named("n")})
	woken := f.wakes()
	f.feed.ReportSeen(newFixture(t).reportOf("m"))
	if len(woken) != 1 {
		t.Errorf("woken %d times", len(woken))
	}
}

// TestNodeThatComesBackWakesForPreemption: no pod could be evicted there while the node was silent.
func TestNodeThatComesBackWakesForPreemption(t *testing.T) {
	f := newFixture(t)
	f.fill()
	n := f.table.Named("n")
	f.clock.Step(2 * time.Minute)
	if why := f.refusal(n.Name()); why != noHeartbeat {
		t.Fatalf("not silent: %q", why)
	}
	pod := pinned("urgent", 4)
	f.wait(pod)
	f.blame(pod, nil, []*nodes.Node{n})
	woken := f.wakes()
	f.feed.HeartbeatSeen(vouched(""))
	if len(woken) != 1 {
		t.Errorf("woken %d times", len(woken))
	}
}

// TestPolicyOfAKubeletChanges: a pod that requests the new policy in an annotation is woken.
func TestPolicyOfAKubeletChanges(t *testing.T) {
	f := newFixture(t)
	f.spec.Config.TopologyManagerPolicy = "best-effort"
	f.feed.ReportSeen(f.topology())
	n := f.table.Named("n")
	pod := pinned("x", 4)
	pod.Annotations = map[string]string{wire.PolicyAnnotation: "single-numa-node"}
	c := f.wait(pod)
	f.blame(pod, nil, []*nodes.Node{n})
	n.Account().Shift(c)
	woken := f.wakes()
	f.feed.ReportSeen(f.topology())
	if len(woken) != 0 {
		t.Fatalf("woken %d times by a report that says nothing new", len(woken))
	}
	f.spec.Config.TopologyManagerPolicy = "single-numa-node"
	f.feed.ReportSeen(f.topology())
	if len(woken) != 1 {
		t.Errorf("woken %d times", len(woken))
	}
}

// TestWhatHappensToOthersIsNotPutToWhoWaits: kube-scheduler checks each event that the plugin
// registers against every waiting pod, and pods on nodes change all the time.
func TestWhatHappensToOthersIsNotPutToWhoWaits(t *testing.T) {
	f := newFixture(t)
	list, err := f.EventsToRegister(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		pod  *corev1.Pod
		want bool
	}{{"without a node", pinned("x", 4), true}, {"on a node", on(pinned("x", 4), "n"), false}} {
		running := c.pod.DeepCopy()
		running.Status.Phase = corev1.PodRunning
		for _, update := range updates(running, c.pod) {
			got := slices.ContainsFunc(list, func(e fwk.ClusterEventWithHint) bool { return framework.MatchClusterEvents(e.Event, update) })
			if got != c.want {
				t.Errorf("the update of a pod %s is put to those who wait: %t, want %t", c.name, got, c.want)
			}
		}
	}
}

// TestPodThatAsksForSomethingElse is tried again, but other pods are not.
func TestPodThatAsksForSomethingElse(t *testing.T) {
	f := newFixture(t)
	pod := pinned("x", 4)
	smaller, mended, labelled, other := pod.DeepCopy(), pod.DeepCopy(), pod.DeepCopy(), pod.DeepCopy()
	smaller.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU] = resource.MustParse("2")
	mended.Annotations = map[string]string{wire.PolicyAnnotation: "restricted"}
	labelled.Labels = map[string]string{"a": "b"}
	other.UID = "other"
	other.Annotations = mended.Annotations
	for name, c := range map[string]struct {
		now  *corev1.Pod
		want fwk.QueueingHint
	}{"resized": {smaller, fwk.Queue}, "annotated": {mended, fwk.Queue}, "labelled": {labelled, fwk.QueueSkip}, "another": {other, fwk.QueueSkip}} {
		got, err := f.afterPodUpdate(klog.Background(), pod, pod, c.now)
		if err != nil || got != c.want {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
	}
}

// TestAHeartbeatThatDropsAPodWakesWhomItHelps, but not every pod that the node refuses.
func TestAHeartbeatThatDropsAPodWakesWhomItHelps(t *testing.T) {
	f := newFixture(t)
	stay := []*corev1.Pod{pinned("seven", 7), pinned("two", 2)}
	for _, pod := range stay {
		f.admit(pod)
	}
	f.feed.ReportSeen(f.topology())
	lost := pinned("lost", 4)
	for _, pod := range append(stay, lost) {
		f.feed.PodSeen(on(pod, "n"), false)
	}
	f.feed.PodGone(lost) // before a report lists it
	n := f.table.Named("n")
	small, large := pinned("small", 6), pinned("large", 7)
	f.want("it may be there or not", small, ledger.Waiting)
	f.blame(small, []*nodes.Node{n}, nil)
	f.want("it does not matter", large, ledger.Refused)
	f.blame(large, nil, []*nodes.Node{n})
	f.clock.Step(f.args.SettleAfter.Duration)
	f.feed.HeartbeatSeen(vouched(""))
	if f.woken["small"] != 1 || f.woken["large"] != 0 {
		t.Errorf("woken: %v", f.woken)
	}
}

// TestTheStartBelievesNoOldHeartbeat: when a scheduler starts, it may find an old heartbeat.
func TestTheStartBelievesNoOldHeartbeat(t *testing.T) {
	for _, tc := range []struct {
		name   string
		before time.Duration // age of the last heartbeat; 0: there is none
		want   string
	}{
		{"no heartbeat yet", 0, ""},
		{"a fresh one", 50 * time.Second, ""},
		{"an old one", 61 * time.Second, noHeartbeat},
		{"one of a clock that is ahead", -time.Hour, ""},
	} {
		f := newFixture(t)
		f.ready.Store(false)
		renewed := f.clock.Now().Add(-tc.before).Unix()
		f.feed.ReportSeen(f.topology())
		if tc.before != 0 {
			f.feed.HeartbeatSeen(beatOf("1", renewed))
		}
		f.begin(func() bool { return true })
		if why := f.refusal("n"); why != tc.want {
			t.Errorf("%s: unusable because of %q, want %q", tc.name, why, tc.want)
		}
		f.feed.HeartbeatSeen(beatOf("1", renewed+1)) // this one comes now, whatever its time is
		if why := f.refusal("n"); why != "" {
			t.Errorf("%s: unusable because of %q after a heartbeat", tc.name, why)
		}
	}
}

// TestALeaderTakesOverAtOnce: a leader takes over before the first pod comes, so that this pod need
// not wait. A replica that does not lead does not take over.
func TestALeaderTakesOverAtOnce(t *testing.T) {
	f := newFixture(t)
	f.ready.Store(false)
	var leads atomic.Bool
	taken := make(chan struct{})
	f.takeOverBy(handover.Options{Leases: heldLease{}, Pods: fake.NewClientset().CoreV1(), Clock: testingclock.NewFakeClock(f.clock.Now()), Logger: klog.Background(), SettleAfter: f.args.SettleAfter.Duration,
		Leads: func(context.Context) (bool, error) {
			if !leads.Load() {
				t.Error("a process that does not lead begins to take over")
			}
			return true, nil
		}})
	f.handover.Done = func() { close(taken) }
	f.begin(func() bool { return true })
	leads.Store(true)
	f.core.lead.Open()
	<-taken
	if why := f.notYet(t.Context()); why != "" {
		t.Errorf("the first pod is told %q", why)
	}
}
