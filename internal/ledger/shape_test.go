package ledger

import (
	"testing"

	"github.com/berth-dev/berth/placement"
)

// TestLevelsHaveShapes: requests that differ in what the pod asks for as a whole have no common
// shape.
func TestLevelsHaveShapes(t *testing.T) {
	memory := func(bytes uint64) []placement.MemoryRequest {
		return []placement.MemoryRequest{{Resource: "memory", Bytes: bytes}}
	}
	seen := map[string]int{}
	for i, r := range []placement.Request{
		{}, {PodLevel: true}, {PodLevel: true, Level: placement.LevelRequest{Guaranteed: true}}, {PodLevel: true, Level: placement.LevelRequest{MilliCPU: 1}},
		{PodLevel: true, Level: placement.LevelRequest{Memory: memory(1)}}, {PodLevel: true, Level: placement.LevelRequest{Memory: memory(2)}},
	} {
		for j, alone := range []bool{false, true} {
			r.Containers = []placement.ContainerRequest{{Name: "c", Guaranteed: alone, Memory: memory(1)}}
			key := RequestKey(&r)
			if other, twice := seen[key]; twice {
				t.Errorf("%d is like %d", 2*i+j, other)
			}
			seen[key] = 2*i + j
		}
	}
}
