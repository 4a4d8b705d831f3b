package query

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// TestPodsThatShareAndPin: of the pods that are not Guaranteed, only those are listed to which
// their placement gives CPUs or NUMA nodes. CPU time that is only counted does not count as pinned.
func TestPodsThatShareAndPin(t *testing.T) {
	w := newWorld(t)
	w.Report(w.AddNode("n"))
	place := func(name string, d placement.ContainerDecision) {
		p := w.Bind(pod(name, 1), "n", "")
		p.Status.QOSClass = corev1.PodQOSBurstable
		d.Name, d.Hint = "main", placement.Hint{Any: true}
		text, err := wire.WritePlacement(&wire.Placement{Sequence: uint64(len(w.Pods)), Report: 6, Certainty: wire.Exact, Guarantee: wire.GuaranteeFull,
			Authority: placement.AuthorityBerth, Decision: placement.Decision{UID: string(p.UID), Containers: []placement.ContainerDecision{d}}})
		w.Must(err)
		p.Annotations = map[string]string{wire.PlacementAnnotation: text}
	}
	shares := []placement.CPUShare{{NUMA: 1, MilliCPU: 500}}
	place("cores", placement.ContainerDecision{CPUs: topology.NewCPUSet(4, 5)})
	place("kept", placement.ContainerDecision{Shares: shares, Bounds: placement.BoundCPUs})
	place("counted", placement.ContainerDecision{Shares: shares})
	w.Bind(pod("plain", 1), "n", "").Status.QOSClass = corev1.PodQOSBurstable
	pods, err := w.cluster().Pods(t.Context(), "")
	w.Must(err)
	var got []string
	for i := range pods.Pods {
		got = append(got, pods.Pods[i].Name+" "+pods.Pods[i].CPUs)
	}
	if want := []string{"cores 4-5", "kept "}; !slices.Equal(got, want) {
		t.Errorf("listed are %q, want %q", got, want)
	}
}

// TestExplainProvided: a node's answer does not check resources of providers, and says so. The
// places of such resources are known from the pods that use them.
func TestExplainProvided(t *testing.T) {
	const licence = "example.com/licence"
	w := newWorld(t)
	nt := w.AddNode("obeys")
	nt.Spec.Authority, nt.Spec.CPUManager.Policy, nt.Spec.TopologyManager = v1alpha1.AuthorityBerth, "", v1alpha1.TopologyManager{}
	w.Report(nt)
	w.Report(w.AddNode("kubelet"))
	for i := range w.Nodes {
		w.Nodes[i].Status.Allocatable[licence] = resource.MustParse("8")
	}
	asks := func(name string) *corev1.Pod {
		p := pod(name, 1)
		limits := p.Spec.Containers[0].Resources.Limits
		limits[licence] = resource.MustParse("2")
		return p
	}
	waiting := asks("waiting")
	waiting.Annotations = map[string]string{"berth.dev/policy": "single-numa-node"}
	w.Bind(waiting, "", "").Status.Phase = corev1.PodPending
	waiting.Annotations = map[string]string{"berth.dev/policy": "single-numa-node"}

	has := w.Bind(asks("has"), "obeys", "1")
	text, err := wire.WritePlacement(&wire.Placement{Sequence: 1, Report: 6, Certainty: wire.Exact, Guarantee: wire.GuaranteeFull,
		Decision: placement.Decision{UID: string(has.UID), Containers: []placement.ContainerDecision{
			{Name: "i", Kind: placement.Init, Hint: placement.Hint{Any: true}, Provided: []placement.Provided{{Resource: licence, Place: "socket 0", Amount: 3}}},
			{Name: "main", CPUs: topology.NewCPUSet(1), Hint: placement.Hint{NUMA: 1, Preferred: true}, Provided: []placement.Provided{{Resource: licence, Place: "socket 0", Amount: 2}}},
			{Name: "more", Hint: placement.Hint{Any: true}, Provided: []placement.Provided{{Resource: licence, Place: "socket 1", Amount: 1}}},
		}}})
	w.Must(err)
	has.Annotations = map[string]string{wire.PlacementAnnotation: text}

	given := []survey.Given{{Resource: licence, Place: "socket 0", Amount: 3}, {Resource: licence, Place: "socket 1", Amount: 1}}
	e, err := Explain(t.Context(), w.cluster(), "", "waiting", "")
	w.Must(err)
	got := map[string]Answer{}
	for _, a := range e.Nodes {
		got[a.Node] = a
	}
	if a := got["obeys"]; a.Answer != Admits || !strings.HasSuffix(a.Message, "if the scheduler's provider has enough of example.com/licence there") || !slices.Equal(a.Given, given) {
		t.Errorf("obeys: %+v", a)
	}
	if a := got["kubelet"]; a.Answer != Refuses || !strings.HasPrefix(a.Message, licence+": a provider of this scheduler") || a.Advice == "" {
		t.Errorf("kubelet: %+v", a)
	}
	s, err := w.cluster().Survey(t.Context(), "obeys")
	w.Must(err)
	if n := s.Nodes()[0]; !slices.Equal(n.Given, given) {
		t.Errorf("nodes: %+v", n.Given)
	}
}
