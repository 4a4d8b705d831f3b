package scheduler

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/wire"
)

// fakeClaims is the plugin for claims, and notes the calls. unknown says that the profile's own one
// has not looked at the pod.
type fakeClaims struct {
	claims
	unknown bool
	asked   []string
}

func (c *fakeClaims) PreFilter(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	c.asked, c.unknown = append(c.asked, "PreFilter"), false
	return nil, nil
}

func (c *fakeClaims) PostFilter(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	c.asked = append(c.asked, "PostFilter")
	if c.unknown {
		return nil, fwk.NewStatus(fwk.Error, "not found")
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// TestClaimsAreGivenBack where Berth ends the attempt, and nobody after it is asked.
func TestClaimsAreGivenBack(t *testing.T) {
	gang := map[string]string{wire.GangAnnotation: "a", wire.GangMinimumAnnotation: "2"}
	claim := func(pod *corev1.Pod) *corev1.Pod {
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c"}}
		return pod
	}
	device := pinned("x", 2)
	device.Annotations = gang
	device.Spec.Containers[0].Resources.Limits["a.b/gpu"] = resource.MustParse("1")
	for name, c := range map[string]struct {
		pod              *corev1.Pod
		unknown, waiting bool
		want             string
	}{
		"a member with a claim":                     {claim(with(pinned("x", 2), gang)), false, false, "PostFilter"},
		"a member whose attempt ended before":       {claim(with(pinned("x", 2), gang)), true, false, "PostFilter PreFilter PostFilter"},
		"a member that asks for devices":            {device, false, false, "PostFilter"},
		"a member without either":                   {with(pinned("x", 2), gang), false, false, ""},
		"a node waits for a report":                 {claim(with(pinned("x", 2), gang)), false, true, ""},
		"a pod of no gang: kube-scheduler comes on": {claim(pinned("x", 2)), false, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			h, _ := f.forGangs()
			f.Plugin.handle = h
			asked := &fakeClaims{unknown: c.unknown}
			f.Plugin.claims = asked
			said := statuses{}
			if c.waiting {
				said["n"] = fwk.NewStatus(fwk.Pending)
			}
			f.core.gangs.PodSeen(c.pod)
			_, status := f.PostFilter(t.Context(), newCycleData(), c.pod, said)
			if got := strings.Join(asked.asked, " "); got != c.want {
				t.Errorf("asked %q, want %q; the attempt ends with %v", got, c.want, status)
			}
			if ends := status.Code() == fwk.UnschedulableAndUnresolvable; !ends && slices.Contains(asked.asked, "PostFilter") {
				t.Errorf("asked though others come: %v", status)
			}
		})
	}
}
