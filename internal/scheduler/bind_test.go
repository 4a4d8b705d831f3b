package scheduler

import (
	"context"
	"errors"
	"net/http"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/wake"
	"github.com/berth-dev/berth/internal/wire"
)

// TestAPodThatChangesOnItsWay: a pod is written between the begin of its cycle and its Binding. The
// API server accepts a Binding only for the newest version.
func TestAPodThatChangesOnItsWay(t *testing.T) {
	const device = "example.com/device"
	for what, tc := range map[string]struct {
		change func(*corev1.Pod)
		// told means that the scheduler's own watch has shown the change.
		told bool
		want string // part of the error; "" if it is bound
	}{
		"annotated":         {func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }, true, ""},
		"annotated, untold": {func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }, false, ""},
		"its devices are claimed": {func(p *corev1.Pod) {
			p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{
				RequestMappings: []corev1.ContainerExtendedResourceRequest{{ContainerName: "c", ResourceName: device}}}
		}, true, ""},
		"resized": {func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU] = resource.MustParse("2")
		}, true, "resized"},
		"resized, untold": {func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU] = resource.MustParse("2")
		}, false, "resized"},
		"fenced": {func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: "berth.dev/fenced", Message: "b"}}
		}, true, "fenced"},
		"with annotations galore": {func(p *corev1.Pod) { p.Annotations = map[string]string{"a": strings.Repeat("b", 256<<10-10)} }, true, "262144"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			pod := pinned("x", 4)
			pod.ResourceVersion = "1"
			pod.Spec.Containers[0].Resources.Limits[device] = resource.MustParse("1")
			f, h := attached(t, pod)
			state := f.reserve(pod)
			now := pod.DeepCopy()
			now.ResourceVersion = "2"
			tc.change(now)
			if tc.told {
				h.tell(t, now)
			}
			h.onGet(func() (*corev1.Pod, error) { return now, nil })
			bound := false
			h.onBind(func(b *corev1.Binding) error {
				if b.ResourceVersion != now.ResourceVersion {
					return apierrors.NewConflict(corev1.Resource("pods"), "x", errors.New("changed"))
				}
				bound = true
				return nil
			})
			s := f.Bind(t.Context(), state, pod, "n")
			if bound != (tc.want == "") || s.IsSuccess() != bound {
				t.Fatalf("bound: %v, status %v", bound, s)
			}
			if known, _ := f.pods.of.Get(pod.UID); known.version != pod && known.version != now {
				t.Error("what is remembered is of no version of the pod")
			}
			if !strings.Contains(s.Message(), tc.want) {
				t.Errorf("%v, want %s", s, tc.want)
			}
			if !bound {
				f.want("the place is free", pinned("next", 8), ledger.Admitted)
			}
		})
	}
}

// TestAClaimOfAnAttemptBefore: the claim of an earlier attempt is gone, and is removed from the
// pod's status before the kubelet sees the pod. The pod is placed as a pod that uses the device
// plugin.
func TestAClaimOfAnAttemptBefore(t *testing.T) {
	for what, tc := range map[string]struct {
		answer error
		bound  bool
	}{
		"it is still there":         {nil, true},
		"this attempt made another": {apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", "", 0, false), true},
		"nobody answers":            {errors.New("no answer"), false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			pod := pinned("x", 4)
			pod.Spec.Containers[0].Resources.Limits["example.com/device"] = resource.MustParse("1")
			pod.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "x-abc",
				RequestMappings: []corev1.ContainerExtendedResourceRequest{{ContainerName: "c", ResourceName: "example.com/device"}}}
			f, h := attached(t, pod)
			if ask, err := f.Plugin.read(pod); err != nil || ask.Request.Containers[0].Devices[0].Claimed {
				t.Errorf("reads %+v, %v: want a device that nobody claims", ask, err)
			}
			state := f.reserve(pod)
			var said []string
			h.client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
				said = append(said, action.GetSubresource()+" "+string(action.(clienttesting.PatchAction).GetPatch()))
				return true, pod, tc.answer
			})
			bound := false
			h.onBind(func(*corev1.Binding) error { bound = true; return nil })
			if s := f.Bind(t.Context(), state, pod, "n"); s.IsSuccess() != tc.bound || bound != tc.bound {
				t.Errorf("bound: %v, %v", bound, s)
			}
			if len(said) != 1 || !strings.HasPrefix(said[0], "status ") || !strings.Contains(said[0], `"value":"x-abc"`) || !strings.Contains(said[0], `"op":"remove"`) {
				t.Errorf("patched by %q, want one that removes x-abc", said)
			}
		})
	}
}

// TestABindingSaysWhatItIsFor: a member's Binding has its gang, whether resources are pinned or
// not.
func TestABindingSaysWhatItIsFor(t *testing.T) {
	for what, tc := range map[string]struct {
		member, pinned bool
	}{"a pinned member": {true, true}, "an unpinned member": {true, false}, "a pinned pod of no gang": {false, true}, "an unpinned pod of no gang": {}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			pod := pinned("x", 4)
			if !tc.pinned {
				pod.Spec.Containers[0].Resources.Limits = nil
			}
			if tc.member {
				pod.Annotations = map[string]string{wire.GangAnnotation: "a", wire.GangMinimumAnnotation: "1"}
			}
			f, h := attached(t, pod)
			f.core.gangs.PodSeen(pod)
			state := fwk.CycleState(framework.NewCycleState())
			if tc.pinned {
				alone := pod.DeepCopy() // which needs no plan
				alone.Annotations = nil
				state = f.reserve(alone)
			}
			var bound *corev1.Binding
			h.onBind(func(b *corev1.Binding) error {
				bound = b
				return nil
			})
			s := f.Bind(t.Context(), state, pod, "n")
			if !tc.member && !tc.pinned {
				if !s.IsSkip() || bound != nil {
					t.Errorf("%v, and bound is %+v: want to leave it to the next plugin", s, bound)
				}
				return
			}
			if !s.IsSuccess() || bound == nil {
				t.Fatalf("%v, and bound is %+v", s, bound)
			}
			now := pod.DeepCopy()
			now.Spec.NodeName, now.Annotations = "n", bound.Annotations
			said, ok := wire.ReadBoundFor(now)
			if want := (wire.GangKey{Source: wire.GangOfPods, Namespace: "default", Name: "a"}); ok != tc.member || ok && (said.Gang != want || !said.Whole) {
				t.Errorf("the Binding says %+v, %t: want %s, whole", said, ok, want)
			}
		})
	}
}

// TestBindingsOfOthersArePaced: the next plugin writes the Bindings of ordinary pods. Each of them
// counts until its binding cycle ends.
func TestBindingsOfOthersArePaced(t *testing.T) {
	t.Parallel()
	pod := burstable("a", "1")
	f, _ := attached(t, pod)
	bind := func(ctx context.Context) *fwk.Status { return f.Bind(ctx, framework.NewCycleState(), pod, "n") }
	cycle, end := context.WithCancel(t.Context())
	defer end()
	if s := bind(cycle); !s.IsSkip() {
		t.Fatal(s)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for err := error(nil); err == nil; { // until as many are under way as may be
		_, err = f.core.handover.Pace(ended, "ns")
	}
	if s := bind(ended); !errors.Is(s.AsError(), context.Canceled) {
		t.Errorf("%v: want that the Binding waits", s)
	}
	end()
	if s := bind(t.Context()); !s.IsSkip() {
		t.Errorf("%v: want that the Binding goes on when a cycle has ended", s)
	}
}

// TestBindWaitsForAReport: another pod has come to the node since Reserve, and is ending. Bind
// waits for the report that shows if the pod still fits, but not longer than kube-scheduler's
// back-off. A planned member of a gang waits longer.
func TestBindWaitsForAReport(t *testing.T) {
	never := func(*fixture, *corev1.Pod) {}
	for what, tc := range map[string]struct {
		report func(f *fixture, other *corev1.Pod)
		member bool
		want   fwk.Code
		least  time.Duration
	}{
		"the other has ended": {report: func(f *fixture, other *corev1.Pod) {
			f.feed.PodGone(other)
			f.state.Release(string(other.UID))
			f.feed.ReportSeen(f.topology())
		}, want: fwk.Success},
		"no report comes":             {report: never, want: fwk.Pending, least: reportPatience},
		"no report comes to a member": {report: never, member: true, want: fwk.Pending, least: wake.ReportLimit},
	} {
		t.Run(what, func(t *testing.T) {
			pod, other := pinned("x", 8), on(pinned("other", 8), "n")
			f, h := attached(t, pod)
			h.onBind(func(*corev1.Binding) error { return nil })
			state := f.reserve(pod)
			if tc.member {
				cycleOf(state).way = &gangMember{node: "n"}
			}
			f.admit(other)
			f.feed.ReportSeen(f.topology())
			f.feed.PodSeen(other, false)
			other = other.DeepCopy()
			other.DeletionTimestamp = &metav1.Time{}
			f.feed.PodSeen(other, false)
			began, done := f.clock.Now(), make(chan *fwk.Status)
			go func() { done <- f.Bind(t.Context(), state, pod, "n") }()
			for reported := false; ; {
				select {
				case s := <-done:
					if s.Code() != tc.want || !reported {
						t.Errorf("%v (%v), want %v", s, s.Code(), tc.want)
					}
					if took := f.clock.Now().Sub(began); took < tc.least || took > max(tc.least, reportPatience)+changePause {
						t.Errorf("Bind has waited %v, want %v", took, tc.least)
					}
					return
				default:
					if !f.clock.HasWaiters() {
						goruntime.Gosched()
						continue
					}
					if !reported {
						tc.report(f, other)
						reported = true
					}
					f.clock.Step(changePause)
				}
			}
		})
	}
}
