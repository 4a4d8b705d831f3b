package placement

import (
	"testing"

	"github.com/berth-dev/berth/topology"
)

// TestRestByTurns: init containers use their part of a place before the other containers, not in
// addition.
func TestRestByTurns(t *testing.T) {
	of := func(kind ContainerKind, milli int64, bytes uint64) ContainerAllocation {
		return ContainerAllocation{Kind: kind, Shares: []CPUShare{{NUMA: 0, MilliCPU: milli}}, Memory: []MemoryBlock{{Resource: "memory", NUMA: topology.NewNUMASet(0), Bytes: bytes}}}
	}
	place := &PodAllocation{UID: "r", Containers: []ContainerAllocation{of(App, 4000, 64)}}
	for name, c := range map[string]struct {
		pods  [][]ContainerAllocation
		milli int64
		bytes uint64
	}{
		"nobody":                     {nil, 4000, 64},
		"apps":                       {[][]ContainerAllocation{{of(App, 1000, 8), of(App, 500, 8)}}, 2500, 48},
		"a small init container":     {[][]ContainerAllocation{{of(Init, 1000, 4), of(App, 1500, 8)}}, 2500, 56},
		"a large one":                {[][]ContainerAllocation{{of(Init, 1000, 4), of(Init, 3000, 2), of(App, 1500, 8)}}, 1000, 56},
		"a sidecar before":           {[][]ContainerAllocation{{of(Sidecar, 1000, 8), of(Init, 1000, 4), of(App, 500, 1)}}, 2000, 52},
		"pods are beside each other": {[][]ContainerAllocation{{of(Init, 1000, 4)}, {of(App, 1000, 4)}}, 2000, 56},
	} {
		var by []*PodAllocation
		for _, containers := range c.pods {
			by = append(by, &PodAllocation{UID: "p", Containers: containers})
		}
		rest := Rest(place, by).Containers[0]
		if rest.Shares[0].MilliCPU != c.milli || rest.Memory[0].Bytes != c.bytes {
			t.Errorf("%s: left are %+v and %+v, want %d and %d", name, rest.Shares, rest.Memory, c.milli, c.bytes)
		}
	}
}
