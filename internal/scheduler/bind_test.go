package scheduler

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/internal/ledger"
)

// TestAPodThatChangesOnItsWay is written between its cycle's begin and its Binding. The API server
// takes Bindings for the newest version alone.
func TestAPodThatChangesOnItsWay(t *testing.T) {
	const device = "example.com/device"
	for what, tc := range map[string]struct {
		change func(*corev1.Pod)
		// told: the scheduler's own watch has shown it.
		told bool
		want string // of the error; "" when it is bound
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
			if !strings.Contains(s.Message(), tc.want) {
				t.Errorf("%v, want %s", s, tc.want)
			}
			if !bound {
				f.want("the place is free", pinned("next", 8), ledger.Admitted)
			}
		})
	}
}
