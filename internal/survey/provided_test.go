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
