package scheduler

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/wire"
)

// sharing returns a pod that requests CPUs and is not pinned.
func sharing(name, cpus string) *corev1.Pod {
	pod := pinned(name, 1)
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus)}}
	return pod
}

// TestOthersComeBeforeTheBinding: a member of a gang waits for the other members between the cycle,
// in which the framework checks amounts, and the Binding. Another pod that comes to its node
// meanwhile takes amounts for lack of which the kubelet would refuse the member.
func TestOthersComeBeforeTheBinding(t *testing.T) {
	const port = 8080
	withPort := func(pod *corev1.Pod) *corev1.Pod {
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: port, ContainerPort: port}}
		return pod
	}
	for what, tc := range map[string]struct {
		pod     *corev1.Pod
		between func(f *fixture, h apiHandle)
		want    string // part of the pod's message; "" if it is bound
	}{
		"nobody comes": {pinned("x", 4), func(*fixture, apiHandle) {}, ""},
		"one comes whom the node has room for": {pinned("x", 4), func(f *fixture, h apiHandle) {
			f.OnAdd(h.comes(f, on(sharing("other", "4"), "n")), false)
		}, ""},
		"one comes with too much": {pinned("x", 4), func(f *fixture, h apiHandle) {
			f.OnAdd(h.comes(f, on(sharing("other", "5"), "n")), false)
		}, "the node has 3 free CPUs of 8 in total, but the pod asks for 4"},
		"one is bound that was there without a node": {pinned("x", 4), func(f *fixture, h apiHandle) {
			f.OnUpdate(sharing("other", "5"), h.comes(f, on(sharing("other", "5"), "n")))
		}, "3 free CPUs"},
		"one comes and ends": {pinned("x", 4), func(f *fixture, h apiHandle) {
			other := on(sharing("other", "5"), "n")
			f.OnAdd(other, false)
			ended := other.DeepCopy()
			ended.Status.Phase = corev1.PodSucceeded
			f.OnUpdate(other, h.comes(f, ended))
		}, ""},
		"one comes to another node": {pinned("x", 4), func(f *fixture, h apiHandle) {
			f.OnAdd(h.comes(f, on(sharing("other", "5"), "m")), false)
		}, ""},
		"one grows": {pinned("x", 4), func(f *fixture, h apiHandle) {
			small, large := on(sharing("other", "1"), "n"), on(sharing("other", "5"), "n")
			large.Generation++
			f.OnUpdate(small, h.comes(f, large))
		}, "3 free CPUs"},
		"one comes for the same port": {withPort(pinned("x", 4)), func(f *fixture, h apiHandle) {
			f.OnAdd(h.comes(f, withPort(on(sharing("other", "1"), "n"))), false)
		}, "port"},
		"one comes beside a Binding that is not shown yet": {pinned("x", 4), func(f *fixture, h apiHandle) {
			f.OnAdd(h.comes(f, on(sharing("other", "2"), "n")), false)
			f.feed.Posted(pinned("mate", 4), f.table.Named("n"))
		}, "2 free CPUs"},
		"a Binding of this scheduler is shown": {pinned("x", 4), func(f *fixture, h apiHandle) {
			mate := pinned("mate", 4)
			f.feed.Posted(mate, f.table.Named("n"))
			f.OnUpdate(mate, h.comes(f, on(mate, "n")))
			if f.table.Named("n").TookSince(f.clock.Now().Add(-othersLate)) {
				f.Error("its own pod is counted among those of others")
			}
		}, ""},
	} {
		for _, obeys := range []bool{false, true} {
			t.Run(what+map[bool]string{false: ", predicted", true: ", Berth decides"}[obeys], func(t *testing.T) {
				t.Parallel()
				f, h := attached(t, tc.pod)
				if obeys {
					f.obeys()
				}
				h.hasNode(t, "n", "8")
				bound := false
				h.onBind(func(*corev1.Binding) error {
					bound = true
					return nil
				})
				state := f.reserve(tc.pod)
				tc.between(f, h)
				s := f.Bind(t.Context(), state, tc.pod, "n")
				if bound != (tc.want == "") || s.IsSuccess() != bound || !strings.Contains(s.Message(), tc.want) {
					t.Fatalf("bound: %v, status %v: want %q", bound, s, tc.want)
				}
				if !bound {
					if s.Code() != fwk.Unschedulable {
						t.Errorf("%v: want one that says so of the node", s.Code())
					}
					f.Unreserve(t.Context(), state, tc.pod, "n")
					f.want("the place is free", pinned("next", 8), ledger.Admitted)
				}
			})
		}
	}
}

// TestOthersComeBeforeAnUnpinnedMember: an unpinned member is bound only if the amounts suffice.
// Otherwise its gang is told, before the kubelet could refuse it.
func TestOthersComeBeforeAnUnpinnedMember(t *testing.T) {
	for cpus, want := range map[string]bool{"4": true, "5": false} {
		pod := sharing("x", "4")
		pod.Annotations = map[string]string{wire.GangAnnotation: "a", wire.GangMinimumAnnotation: "1"}
		f, h := attached(t, pod)
		h.hasNode(t, "n", "8")
		f.core.gangs.PodSeen(pod)
		h.comes(f, on(sharing("other", cpus), "n"))
		bound := false
		h.onBind(func(*corev1.Binding) error {
			bound = true
			return nil
		})
		if s := f.Bind(t.Context(), fwk.CycleState(framework.NewCycleState()), pod, "n"); bound != want || s.IsSuccess() != want {
			t.Errorf("beside %s CPUs: bound %v, %v", cpus, bound, s)
		}
	}
}

// comes shows a pod in the scheduler's own watch, and returns it.
func (h apiHandle) comes(f *fixture, pod *corev1.Pod) *corev1.Pod {
	if err := h.informers.Core().V1().Pods().Informer().GetStore().Add(pod); err != nil {
		f.Fatal(err)
	}
	return pod
}

// hasNode shows a Node with this number of CPUs.
func (h apiHandle) hasNode(t *testing.T, name, cpus string) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpus), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("110")}}}
	if err := h.informers.Core().V1().Nodes().Informer().GetStore().Add(node); err != nil {
		t.Fatal(err)
	}
}
