package query

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// TestNothingIsPromisedOfFractions: a Guaranteed pod of 1500m shares CPUs. It is not shown as
// certain or kept, and the reason is given. If its kubelet refused it, it is still shown as
// refused.
func TestNothingIsPromisedOfFractions(t *testing.T) {
	w := newWorld(t)
	w.Report(w.AddNode("n"))
	bound := func(name string, phase corev1.PodPhase) *corev1.Pod {
		p := pod(name, 1)
		p.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU] = resource.MustParse("1500m")
		w.Bind(p, "n", "").Status.Phase = phase
		text, err := wire.WritePlacement(&wire.Placement{Sequence: 1, Report: 6, Certainty: wire.Exact, Guarantee: wire.GuaranteeFull,
			Decision: placement.Decision{UID: string(p.UID), Containers: []placement.ContainerDecision{{Name: "main", Hint: placement.Hint{Any: true}}}}})
		w.Must(err)
		p.Annotations = map[string]string{wire.PlacementAnnotation: text}
		return p
	}
	bound("runs", corev1.PodRunning)
	refused := bound("refused", corev1.PodFailed)
	refused.Status.Reason, refused.Status.Message = "TopologyAffinityError", "Pod was rejected: Resources cannot be allocated with Topology locality"
	c := w.cluster()
	pods, err := c.Pods(t.Context(), "")
	w.Must(err)
	for _, p := range pods.Pods {
		want := map[string]string{"runs": "", "refused": survey.PromiseRefused}[p.Name]
		if p.Certainty != "" || p.Outcome != want {
			t.Errorf("%s: certainty %q, outcome %q: want none, and %q", p.Name, p.Certainty, p.Outcome, want)
		}
	}
	c.Namespace = "default"
	e, err := Explain(t.Context(), c, c.Namespace, "runs", "")
	w.Must(err)
	const why = "main: 1500m is not a whole number of CPUs, so the container gets no exclusive CPUs: want 1 or 2"
	if e.Outcome != "" || e.Promise.Pins() || !slices.Equal(e.Fractions, []string{why}) {
		t.Errorf("outcome %q, promise %+v, %q: want nothing promised, and %q", e.Outcome, e.Promise, e.Fractions, why)
	}
}

// TestExplain: the answer of each node about a waiting pod.
func TestExplain(t *testing.T) {
	w := newWorld(t)
	w.Report(w.AddNode("free"))
	w.Report(w.AddNode("taken", pod("a", 3), pod("b", 2)))
	w.Bind(pod("a", 3), "taken", "")
	w.Bind(pod("b", 2), "taken", "")
	w.Report(w.AddNode("crowded"))
	w.Nodes[2].Status.Allocatable[corev1.ResourcePods] = resource.MustParse("0")
	w.Report(w.AddNode("small"))
	w.Nodes[3].Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("2")
	w.Report(w.AddNode("tainted"))
	w.Nodes[4].Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
	w.AddNode("unreported")
	w.Bind(pod("p", 3), "", "").Status.Phase = corev1.PodPending
	c := w.cluster()
	c.Namespace = "default"

	e, err := Explain(t.Context(), c, c.Namespace, "p", "")
	w.Must(err)
	got := map[string]string{}
	for _, a := range e.Nodes {
		got[a.Node] = a.Answer
		if a.Message == "" || (a.Refusal != nil) != (a.Node == "taken") {
			t.Errorf("%s: %+v", a.Node, a)
		}
	}
	want := map[string]string{"free": Admits, "taken": Refuses, "crowded": Refuses, "small": Excluded, "tainted": Excluded, "unreported": Unreliable}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if _, err := Explain(t.Context(), c, c.Namespace, "nobody", ""); err == nil || !strings.Contains(err.Error(), "no pod nobody") {
		t.Errorf("of nobody: %v", err)
	}
}
