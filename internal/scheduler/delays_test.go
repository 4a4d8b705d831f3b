package scheduler

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"
)

func pinnedPod(uid string, labels map[string]string) *corev1.Pod {
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: uid, UID: types.UID(uid), Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Limits: amounts, Requests: amounts}}}},
	}
}

// TestDelays: each second of a pod without a node counts for what the pod spent it on.
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

// TestDelaysAreBounded: pods that come and never are bound do not fill the memory.
func TestDelaysAreBounded(t *testing.T) {
	d := Delays{clock: clocktesting.NewFakeClock(time.Unix(1000, 0)), waits: func(*corev1.Pod) bool { return true }}
	for i := range maxDelays + 10 {
		if d.Tried(pinnedPod(fmt.Sprint(i), nil), time.Unix(999, 0)); len(d.of) > maxDelays {
			t.Fatalf("%d pods are remembered", len(d.of))
		}
	}
}

// TestDelaysGoWithTheirPods: nothing is remembered of a pod that is gone, or that somebody else has
// bound, whether the plugin hears of that before or after the pod is tried.
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
			f.core.delays = Delays{clock: f.clock, waits: waitsBy(f.pods.PodLister)}
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
