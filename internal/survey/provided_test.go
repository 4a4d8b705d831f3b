package survey

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// TestProvidedIsShown: amounts from a provider, with their places, are shown next to the devices.
func TestProvidedIsShown(t *testing.T) {
	m, err := topology.Parse("package:2 numa:1 core:4 pu:2 mem:8Gi")
	if err != nil {
		t.Fatal(err)
	}
	c := ContainerOf(m, &placement.ContainerDecision{Name: "c", Hint: placement.Hint{Any: true},
		Devices: []placement.DeviceAllocation{{Resource: "x/gpu", IDs: []string{"a", "b"}}},
		Provided: []placement.Provided{{Resource: "example.com/licence", Place: "socket 0", Amount: 2},
			{Resource: "example.com/licence", Place: "socket 1", Amount: 1}}})
	if got, want := c.DevicesText(), "example.com/licence 2 of socket 0,1 of socket 1; x/gpu a,b"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestProvidedStaysShown: reports do not have amounts of providers, so that those of the Binding
// are still shown.
func TestProvidedStaysShown(t *testing.T) {
	var p Pod
	p.hold("0", []Container{{Name: "c"}, {Name: "other"}})
	p.addProvided(&placement.Decision{Containers: []placement.ContainerDecision{{Name: "c", Provided: []placement.Provided{{Resource: "x/l", Place: "here", Amount: 2}}}}})
	if got := p.Containers[0].DevicesText(); got != "x/l 2 of here" || p.Containers[1].Devices != nil {
		t.Errorf("%q, %v", got, p.Containers[1])
	}
}

// TestGivenAtItsPeak: an init container counts together with the sidecars before it.
func TestGivenAtItsPeak(t *testing.T) {
	has := func(name string, kind placement.ContainerKind, n uint64) placement.ContainerDecision {
		return placement.ContainerDecision{Name: name, Kind: kind, Hint: placement.Hint{Any: true},
			Provided: []placement.Provided{{Resource: "x/l", Place: "here", Amount: n}}}
	}
	text, err := wire.WritePlacement(&wire.Placement{Sequence: 1, Report: 1, Certainty: wire.Exact, Guarantee: wire.GuaranteeFull,
		Decision: placement.Decision{UID: "u", Containers: []placement.ContainerDecision{
			has("early", placement.Init, 4), has("beside", placement.Sidecar, 2), has("late", placement.Init, 3), has("main", placement.App, 1),
		}}})
	if err != nil {
		t.Fatal(err)
	}
	p := pod("p", 1)
	p.UID, p.Annotations = "u", map[string]string{wire.PlacementAnnotation: text}
	if got, want := givenOf([]*corev1.Pod{p, p}), []Given{{"x/l", "here", 10}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v: 5 at one time each", got, want)
	}
}

// TestExplainProvided: a node's answer does not check resources of providers, and says so. The
// places of such resources are known from the pods that use them.
func TestExplainProvided(t *testing.T) {
	const licence = "example.com/licence"
	w := newWorld(t)
	nt := w.addNode("obeys")
	nt.Spec.Authority, nt.Spec.CPUManager.Policy, nt.Spec.TopologyManager = v1alpha1.AuthorityBerth, "", v1alpha1.TopologyManager{}
	w.report(nt)
	w.report(w.addNode("kubelet"))
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
	w.bind(waiting, "", "").Status.Phase = corev1.PodPending
	waiting.Annotations = map[string]string{"berth.dev/policy": "single-numa-node"}

	has := w.bind(asks("has"), "obeys", "1")
	text, err := wire.WritePlacement(&wire.Placement{Sequence: 1, Report: 6, Certainty: wire.Exact, Guarantee: wire.GuaranteeFull,
		Decision: placement.Decision{UID: string(has.UID), Containers: []placement.ContainerDecision{
			{Name: "i", Kind: placement.Init, Hint: placement.Hint{Any: true}, Provided: []placement.Provided{{Resource: licence, Place: "socket 0", Amount: 3}}},
			{Name: "main", CPUs: topology.NewCPUSet(1), Hint: placement.Hint{NUMA: 1, Preferred: true}, Provided: []placement.Provided{{Resource: licence, Place: "socket 0", Amount: 2}}},
			{Name: "more", Hint: placement.Hint{Any: true}, Provided: []placement.Provided{{Resource: licence, Place: "socket 1", Amount: 1}}},
		}}})
	w.must(err)
	has.Annotations = map[string]string{wire.PlacementAnnotation: text}

	given := []Given{{licence, "socket 0", 3}, {licence, "socket 1", 1}}
	e, err := w.cluster().Explain(t.Context(), "waiting", "")
	w.must(err)
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
	w.must(err)
	if n := s.Nodes()[0]; !slices.Equal(n.Given, given) {
		t.Errorf("nodes: %+v", n.Given)
	}
}
