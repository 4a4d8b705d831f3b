package scheduler

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/wire"
)

// TestSharesForCPUsAreTold: a pod without memory that Koordinator's proposal gives a CPU is told
// that it shares CPUs, where every kubelet decides for itself.
func TestSharesForCPUsAreTold(t *testing.T) {
	for _, obeys := range []bool{false, true} {
		f := newFixture(t)
		if obeys {
			f.obeys()
		}
		p := with(pinned("x", 1), map[string]string{"scheduling.koordinator.sh/numa-topology-spec": `{"numaTopologyPolicy":"SingleNUMANode"}`})
		p.Status.QOSClass = corev1.PodQOSBurstable
		delete(p.Spec.Containers[0].Resources.Limits, corev1.ResourceMemory)
		f.PreFilter(t.Context(), newCycleData(), p, nil)
		select {
		case e := <-f.events.Events:
			if obeys || !strings.Contains(e, "CPUsShared") || !strings.Contains(e, "numa-topology-spec") {
				t.Errorf("obeying %t: told %q", obeys, e)
			}
		default:
			if !obeys {
				t.Error("nothing is told")
			}
		}
	}
}

// TestSharesBesideNodesThatObey: where other nodes obey, a pod that wants CPUs of its own is told
// when a node is chosen whose kubelet gives it none, and not where Berth does.
func TestSharesBesideNodesThatObey(t *testing.T) {
	f := newFixture(t)
	f.obeys()
	p := with(burstable("x", "2"), map[string]string{"berth.dev/cpus": "full-cores"})
	for _, c := range []struct {
		node string
		told bool
	}{{"n", false}, {"with-a-kubelet", true}} {
		f.tellShared(p, c.node)
		select {
		case e := <-f.events.Events:
			if !c.told || !strings.Contains(e, "CPUsShared with-a-kubelet decides itself: ") || !strings.Contains(e, "berth.dev/cpus") {
				t.Errorf("%s: told %q", c.node, e)
			}
		default:
			if c.told {
				t.Errorf("%s: nothing is told", c.node)
			}
		}
	}
}

// TestIgnoredKeysAreTold: once a pod, on the first attempt, also of pods that Berth leaves
// to others.
func TestIgnoredKeysAreTold(t *testing.T) {
	condition := func(reason string) []corev1.PodCondition {
		return []corev1.PodCondition{{Type: corev1.PodReady}, {Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason}}
	}
	for _, tc := range []struct {
		name, key  string
		conditions []corev1.PodCondition
		shares     bool
		label      bool
		gang       bool
		told       bool
	}{
		{name: "first attempt", key: "berth.dev/polcy", told: true},
		{name: "another dialect", key: "scheduling.koordinator.sh/gpu-partition-spec", told: true},
		{name: "a pod that shares CPUs", key: "scheduling.koordinator.sh/gpu-partition-spec", shares: true, told: true},
		{name: "a member of a gang", key: "berth.dev/polcy", gang: true, told: true},
		{name: "second attempt", key: "berth.dev/polcy", conditions: condition(corev1.PodReasonUnschedulable)},
		{name: "after its gate", key: "berth.dev/polcy", conditions: condition(corev1.PodReasonSchedulingGated), told: true},
		{name: "what is read", key: "berth.dev/policy"},
		{name: "a label", key: "berth.dev/policy", label: true, told: true},
		{name: "another dialect's label", key: "koordinator.sh/priority", label: true, told: true},
	} {
		f := newFixture(t)
		p := pinned("x", 2)
		if tc.shares {
			p.Status.QOSClass = corev1.PodQOSBestEffort
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
		}
		p.Status.Conditions = tc.conditions
		reason := "AnnotationIgnored"
		if tc.label {
			p.Labels, reason = map[string]string{tc.key: "restricted"}, "LabelIgnored"
		} else {
			p.Annotations = map[string]string{tc.key: "restricted"}
		}
		if tc.gang {
			p.Annotations[wire.GangAnnotation], p.Annotations[wire.GangMinimumAnnotation] = "g", "1"
		}
		f.PreFilter(t.Context(), newCycleData(), p, nil)
		select {
		case e := <-f.events.Events:
			if !tc.told || !strings.Contains(e, reason) || !strings.Contains(e, tc.key) {
				t.Errorf("%s: told %q", tc.name, e)
			}
		default:
			if tc.told {
				t.Errorf("%s: nothing is told", tc.name)
			}
		}
	}
}
