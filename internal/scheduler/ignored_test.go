package scheduler

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestIgnoredAnnotationsAreTold: once a pod, on the first attempt, also of pods that Berth leaves
// to others.
func TestIgnoredAnnotationsAreTold(t *testing.T) {
	condition := func(reason string) []corev1.PodCondition {
		return []corev1.PodCondition{{Type: corev1.PodReady}, {Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason}}
	}
	for _, tc := range []struct {
		name, key  string
		conditions []corev1.PodCondition
		shares     bool
		told       bool
	}{
		{name: "first attempt", key: "berth.dev/polcy", told: true},
		{name: "another dialect", key: "scheduling.koordinator.sh/resource-spec", told: true},
		{name: "a pod that shares CPUs", key: "scheduling.koordinator.sh/resource-spec", shares: true, told: true},
		{name: "second attempt", key: "berth.dev/polcy", conditions: condition(corev1.PodReasonUnschedulable)},
		{name: "after its gate", key: "berth.dev/polcy", conditions: condition(corev1.PodReasonSchedulingGated), told: true},
		{name: "what is read", key: "berth.dev/policy"},
	} {
		f := newFixture(t)
		p := pinned("x", 2)
		if tc.shares {
			p.Status.QOSClass = corev1.PodQOSBestEffort
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
		}
		p.Annotations, p.Status.Conditions = map[string]string{tc.key: "restricted"}, tc.conditions
		f.PreFilter(t.Context(), newCycleData(), p, nil)
		select {
		case e := <-f.events.Events:
			if !tc.told || !strings.Contains(e, "AnnotationIgnored") || !strings.Contains(e, tc.key) {
				t.Errorf("%s: told %q", tc.name, e)
			}
		default:
			if tc.told {
				t.Errorf("%s: nothing is told", tc.name)
			}
		}
	}
}
