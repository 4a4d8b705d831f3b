package gang

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/plan"
)

// TestHostOfEachPod: Kueue's topology-aware scheduling assigns a host to each pod of a gang, so
// each pod is a kind of its own. Only that host is asked about the pod.
func TestHostOfEachPod(t *testing.T) {
	const hosts, size = 600, 200
	inWorld(t, hosts, func(w *world) {
		w.shape = 1
		j := &job{Asked: gangs.Asked{Tasks: make([]string, size)}}
		for i := range size {
			pod := podOf("g", fmt.Sprint("m-", i), size, 4)
			pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: fmt.Sprint("n", 3*i)}
			j.Pods = append(j.Pods, pod)
		}
		j.gang.Minimum = size
		r := j.try(w.t.Context(), w.profile())
		if r.wrong != nil || !r.Whole || r.Cut {
			w.t.Fatalf("%v, whole %t, cut off %t: %s", r.wrong, r.Whole, r.Cut, r.Dear)
		}
		for _, at := range r.Places {
			if got, want := r.trial.name(at.Node), j.Pods[at.Member].Spec.NodeSelector[corev1.LabelHostname]; got != want {
				w.t.Errorf("pod %s is planned on %s", j.Pods[at.Member].Name, got)
			}
		}
		if w.filtered > 2*size {
			w.t.Errorf("nodes were asked %d times", w.filtered)
		}
	})
}

// TestKindsOfLabels: labels that no selector uses do not make separate kinds, however long they
// are. A gang of too many kinds is refused before any node is asked.
func TestKindsOfLabels(t *testing.T) {
	for name, c := range map[string]struct {
		size, kinds int
		cut         bool
		write       func(pod *corev1.Pod, i int)
	}{
		"nobody looks": {300, 1, false, func(pod *corev1.Pod, i int) { pod.Labels = map[string]string{"own": fmt.Sprint(i)} }},
		"a mate looks": {12, 12, false, func(pod *corev1.Pod, i int) {
			pod.Labels = map[string]string{"own": fmt.Sprint(i)}
			pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone",
				WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"own": "1"}}}}
		}},
		"a selector each": {plan.MaxKinds + 1, plan.MaxKinds, true, func(pod *corev1.Pod, i int) {
			pod.Spec.NodeSelector = map[string]string{"own": fmt.Sprint(i)}
		}},
	} {
		inWorld(t, 4, func(w *world) {
			w.shape = 1
			j := &job{Asked: gangs.Asked{Tasks: make([]string, c.size)}}
			for i := range c.size {
				pod := podOf("g", fmt.Sprint("m-", i), c.size, 1)
				c.write(pod, i)
				j.Pods = append(j.Pods, pod)
			}
			j.gang.Minimum = c.size
			r := j.try(w.t.Context(), w.profile())
			if r.wrong != nil {
				w.t.Fatal(r.wrong)
			}
			if len(j.gang.Kinds) != c.kinds || r.Cut != c.cut {
				w.t.Errorf("%s: %d kinds, want %d; cut off %t", name, len(j.gang.Kinds), c.kinds, r.Cut)
			}
			if c.cut && w.filtered > 0 {
				w.t.Errorf("%s: nodes were asked %d times", name, w.filtered)
			}
		})
	}
}
