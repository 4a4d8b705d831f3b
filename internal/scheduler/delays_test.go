package scheduler

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

func pinnedPod(uid string, labels map[string]string) *corev1.Pod {
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: uid, UID: types.UID(uid), Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Limits: amounts, Requests: amounts}}}},
	}
}

// TestDelays: each second of a pod without a node counts for the cause of the delay.
func TestDelays(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	d := Delays{clock: clock, waits: func(*corev1.Pod) bool { return true }}
	pod, ordinary := pinnedPod("a", nil), pinnedPod("b", nil)
	ordinary.Status.QOSClass = corev1.PodQOSBurstable
	queued := clock.Now()
	clock.Step(1 * time.Second)
	d.Tried(ordinary, queued)
	d.Tried(pod, queued)
	for _, step := range []struct {
		after  time.Duration
		status *fwk.Status
		waits  bool
	}{
		{2 * time.Second, fwk.NewStatus(fwk.Unschedulable), true}, {4 * time.Second, fwk.NewStatus(fwk.Unschedulable), false}, {8 * time.Second, fwk.AsStatus(fmt.Errorf("the API server is away")), false},
	} {
		d.Failed(pod, step.status, step.waits)
		clock.Step(step.after)
		d.Tried(pod, time.Time{})
		clock.Step(100 * time.Millisecond)
	}
	d.is(pod.UID, inBinding)
	clock.Step(16 * time.Second)
	d.is(pod.UID, inBinding)
	if len(d.of) != 1 {
		t.Fatalf("%d pods, want the one that could be pinned", len(d.of))
	}
	want := [causes]time.Duration{inQueue: time.Second, inAttempt: 300 * time.Millisecond, forReport: 2 * time.Second, forRoom: 4 * time.Second, inBackOff: 8 * time.Second, inBinding: 16 * time.Second}
	if got := d.of[pod.UID].spent; got != want {
		t.Errorf("spent %v, want %v", got, want)
	}
	if d.bound(pod.UID); len(d.of) > 0 {
		t.Error("a pod that is bound is remembered")
	}
	d.bound("unknown")
}

// TestOurs: a pod whose last attempt failed only because of Berth waits for no other plugin.
func TestOurs(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	d := Delays{clock: clock, waits: func(*corev1.Pod) bool { return true }}
	failed := func(unschedulable, pending []string) *fwk.Status {
		return fwk.NewStatus(fwk.Unschedulable).WithError(&framework.FitError{Diagnosis: framework.Diagnosis{
			UnschedulablePlugins: sets.New(unschedulable...), PendingPlugins: sets.New(pending...)}})
	}
	claiming := pinnedPod("claiming", nil)
	claiming.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
	for i, test := range []struct {
		pod    *corev1.Pod
		status *fwk.Status
		want   bool
	}{
		{pinnedPod("a", nil), failed([]string{Name}, nil), true},
		{pinnedPod("a", nil), failed([]string{Name}, []string{Name}), true},
		{pinnedPod("a", nil), failed(nil, []string{Name}), true},
		{pinnedPod("a", nil), failed([]string{"NodeAffinity"}, []string{Name}), false},
		{pinnedPod("a", nil), failed(nil, nil), false},
		{pinnedPod("a", nil), fwk.AsStatus(fmt.Errorf("the API server is away")), false},
		{claiming, failed([]string{Name}, nil), false},
	} {
		d.Tried(test.pod, clock.Now())
		if d.Ours(test.pod) {
			t.Errorf("%d: a pod that is tried is ours", i)
		}
		if d.Failed(test.pod, test.status, false); d.Ours(test.pod) != test.want {
			t.Errorf("%d: ours %v, want %v", i, !test.want, test.want)
		}
	}
	d.forget("a")
	if d.Ours(pinnedPod("a", nil)) {
		t.Error("a pod that is gone is ours")
	}
}

// TestDelaysAreOfPodsThatWereTried: a standby replica has all pods in its queue, and does not
// report the pods that the leader binds.
func TestDelaysAreOfPodsThatWereTried(t *testing.T) {
	register()
	d := Delays{clock: clocktesting.NewFakeClock(time.Unix(1000, 0)), waits: func(*corev1.Pod) bool { return true }}
	reported := func(tried bool) uint64 {
		before, err := testutil.GetHistogramMetricCount(delays.WithLabelValues(causeTexts[inQueue]))
		pod := pinnedPod("a", nil)
		if d.Queued(pod); tried {
			d.Tried(pod, time.Time{})
		}
		d.bound(pod.UID)
		after, wrong := testutil.GetHistogramMetricCount(delays.WithLabelValues(causeTexts[inQueue]))
		if err != nil || wrong != nil || len(d.of) > 0 || len(d.crowds) > 0 {
			t.Fatal(err, wrong, d.of, d.crowds)
		}
		return after - before
	}
	if tried, untried := reported(true), reported(false); tried != 1 || untried != 0 {
		t.Errorf("%d reports of a pod that was tried, %d of one that was not; want 1 and 0", tried, untried)
	}
}

// TestDelaysAreBounded: pods that are never bound do not fill the memory.
func TestDelaysAreBounded(t *testing.T) {
	d := Delays{clock: clocktesting.NewFakeClock(time.Unix(1000, 0)), waits: func(*corev1.Pod) bool { return true }}
	for i := range maxDelays + 10 {
		if d.Tried(pinnedPod(fmt.Sprint(i), nil), time.Unix(999, 0)); len(d.of) > maxDelays {
			t.Fatalf("%d pods are remembered", len(d.of))
		}
	}
}

// TestDelaysGoWithTheirPods: the data of a pod that is gone, or that another scheduler has bound,
// is removed, whether the plugin learns about this before or after the pod is tried.
func TestDelaysGoWithTheirPods(t *testing.T) {
	for what, end := range map[string]func(f *fixture, h apiHandle, pod *corev1.Pod){
		"gone": func(f *fixture, h apiHandle, pod *corev1.Pod) {
			if err := h.informers.Core().V1().Pods().Informer().GetStore().Delete(pod); err != nil {
				t.Fatal(err)
			}
			f.OnDelete(pod)
		},
		"bound": func(f *fixture, h apiHandle, pod *corev1.Pod) { f.OnUpdate(pod, h.comes(f, on(pod, "n"))) },
		"replaced by another of its name": func(f *fixture, h apiHandle, pod *corev1.Pod) {
			next := pod.DeepCopy()
			next.UID = "next"
			f.OnUpdate(pod, h.comes(f, next))
		},
	} {
		for _, late := range []bool{false, true} {
			pod := pinnedPod("a", nil)
			f, h := attached(t, pod)
			f.core.delays = Delays{clock: f.clock, waits: f.pods.waits}
			try := func() { f.core.delays.Tried(pod, f.clock.Now()) }
			if !late {
				if try(); len(f.core.delays.of) != 1 {
					t.Fatal("a pod that is tried is not remembered")
				}
			}
			end(f, h, pod)
			if late {
				try()
			}
			if f.core.delays.is(pod.UID, inBinding); len(f.core.delays.of) > 0 {
				t.Errorf("%s, tried after that %v: it is remembered", what, late)
			}
		}
	}
}

// TestCrowded: more than eight pods for each node are a crowd, until only one pod for eight nodes
// is left. Pods without room, gated pods, and pods that wait for their gang do not count.
func TestCrowded(t *testing.T) {
	d := Delays{clock: clocktesting.NewFakeClock(time.Unix(1000, 0)), waits: func(*corev1.Pod) bool { return true }}
	const nodes = 16
	queue := func(from, to int) {
		for i := from; i < to; i++ {
			d.Queued(pinnedPod(fmt.Sprint(i), nil))
			d.Queued(pinnedPod(fmt.Sprint(i), nil)) // again after an attempt
		}
	}
	gated, member := pinnedPod("gated", nil), pinnedPod("member", nil)
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "later"}}
	member.Annotations = map[string]string{wire.GangAnnotation: "g", wire.GangMinimumAnnotation: "2"}
	d.Queued(gated)
	d.Queued(member)
	each := func(from, to int, do func(*corev1.Pod)) func() {
		return func() {
			for i := from; i < to; i++ {
				do(pinnedPod(fmt.Sprint(i), nil))
			}
		}
	}
	tried := func(p *corev1.Pod) { d.Tried(p, time.Time{}) }
	for _, step := range []struct {
		what string
		do   func()
		want bool
	}{
		{"eight pods for each node", func() { queue(0, 128) }, false},
		{"one more", func() { queue(128, 129) }, true},
		{"some are bound", each(0, 10, func(p *corev1.Pod) { tried(p); d.bound(p.UID) }), true},
		{"some wait for a report", each(10, 13, func(p *corev1.Pod) { tried(p); d.Failed(p, fwk.NewStatus(fwk.Unschedulable), true) }), true},
		{"some are gone", each(13, 14, func(p *corev1.Pod) { d.forget(p.UID) }), true},
		{"some have no room", each(10, 14, func(p *corev1.Pod) { d.Failed(p, fwk.NewStatus(fwk.Unschedulable), false) }), true},
		{"the others are bound, but for two", each(14, 127, func(p *corev1.Pod) { d.bound(p.UID) }), false},
		{"many have no room", each(200, 999, func(p *corev1.Pod) { tried(p); d.Failed(p, fwk.NewStatus(fwk.Unschedulable), false) }), false},
	} {
		if step.do(); d.crowded("ns", nodes) != step.want {
			t.Errorf("%s: crowded %v, want %v; %v", step.what, !step.want, step.want, d.crowds["ns"])
		}
		if d.crowded("others", nodes) {
			t.Errorf("%s: others are a crowd", step.what)
		}
	}
}

// TestInACrowdNobodyWaitsForCertainty: in a crowd, a pod is promised no CPUs, so that other pods of
// its second may follow it to its node.
func TestInACrowdNobodyWaitsForCertainty(t *testing.T) {
	for _, crowd := range []bool{false, true} {
		f := newFixture(t)
		f.feed.ReportSeen(f.topology())
		f.core.delays = Delays{clock: f.clock, waits: func(*corev1.Pod) bool { return true }}
		first, second := pinned("first", 2), pinned("second", 3)
		for i := range 2 * crowdFrom {
			if crowd {
				f.core.delays.Queued(pinned(fmt.Sprint(i), 2))
			}
		}
		f.reserve(first)
		p, err := f.table.Named("n").Account().Post(uidOf(first), new(placement.Decision))
		if err != nil || p.Answer.Exact == crowd {
			t.Errorf("crowd %v: the first pod is promised CPUs: %v, %v", crowd, p.Answer.Exact, err)
		}
		want := fwk.Pending
		if crowd {
			want = fwk.Success
		}
		state := newCycleData()
		if _, s := f.PreFilter(t.Context(), state, second, nil); !s.IsSuccess() {
			t.Fatal(s)
		}
		if s := f.Filter(t.Context(), state, second, nodeObject("n")); s.Code() != want {
			t.Errorf("crowd %v: the node answers the second pod %v, want %v", crowd, s, want)
		}
		if cycleOf(state).way.(*alone).patient == crowd {
			t.Errorf("crowd %v: the second pod waits to be certain of its CPUs: %v", crowd, !crowd)
		}
	}
}
