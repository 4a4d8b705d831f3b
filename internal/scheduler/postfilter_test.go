package scheduler

import (
	"strings"
	"testing"

	fwk "k8s.io/kube-scheduler/framework"
)

// TestAReasonThatNothingMendsStays in the pod's event, even if another plugin refused the node
// first.
func TestAReasonThatNothingMendsStays(t *testing.T) {
	for cpus, want := range map[int64]bool{9: true, 8: false} {
		pod := pinned("x", cpus)
		f, _ := attached(t, pod)
		f.fill()
		said := statuses{"n": fwk.NewStatus(fwk.Unschedulable, "Insufficient cpu").WithPlugin("NodeResourcesFit")}
		_, s := f.PostFilter(t.Context(), f.try(pod), pod, said)
		if s.Code() != fwk.Unschedulable || strings.Contains(s.Message(), "single-numa-node allows 1") != want {
			t.Errorf("%d CPUs: %v %q, want Berth's reason: %v", cpus, s.Code(), s.Message(), want)
		}
	}
}

// TestTheEventNamesOneThingToWaitFor: certain CPUs if the pod fits, and a report if this is
// unknown.
func TestTheEventNamesOneThingToWaitFor(t *testing.T) {
	for said, want := range map[string]string{waitCertainty: "until its CPUs are certain", "for a report": "if the pod fits"} {
		pod := pinned("x", 4)
		f, _ := attached(t, pod)
		_, s := f.PostFilter(t.Context(), f.try(pod), pod, statuses{"n": fwk.NewStatus(fwk.Pending, said).WithPlugin(Name)})
		if other := strings.Contains(s.Message(), "if the pod fits"); !strings.Contains(s.Message(), want) || other == (said == waitCertainty) {
			t.Errorf("%s: %q, want that it waits for %q alone", said, s.Message(), want)
		}
	}
}
