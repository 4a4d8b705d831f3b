package survey

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology/shapes"
)

// TestProvidedIsShown: amounts from a provider, with their places, are shown next to the devices.
func TestProvidedIsShown(t *testing.T) {
	m := shapes.Machine("package:2 numa:1 core:4 pu:2 mem:8Gi")
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
