package survey

import (
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// TestProvidedIsShown: what a provider gave stands beside the devices, with its places.
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

// TestProvidedStaysShown: a report knows nothing of providers, so the Binding goes on telling.
func TestProvidedStaysShown(t *testing.T) {
	var p Pod
	p.hold("0", []Container{{Name: "c"}, {Name: "other"}})
	p.addProvided(&placement.Decision{Containers: []placement.ContainerDecision{{Name: "c", Provided: []placement.Provided{{Resource: "x/l", Place: "here", Amount: 2}}}}})
	if got := p.Containers[0].DevicesText(); got != "x/l 2 of here" || p.Containers[1].Devices != nil {
		t.Errorf("%q, %v", got, p.Containers[1])
	}
}
