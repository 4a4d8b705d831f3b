package claims

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// Pools has all slices of each pool that several nodes use. An allocator ignores a pool if it does
// not see all of its slices, including the slices of other nodes.
type Pools map[pool][]*resourceapi.ResourceSlice

// PoolsOf returns the pools in a list of ResourceSlices that several nodes use.
func PoolsOf(list []*resourceapi.ResourceSlice) Pools {
	nodes, out := make(map[pool]string, len(list)), Pools{}
	for _, s := range list {
		of, node := poolOf(s), NodeOf(s)
		if first, known := nodes[of]; known && (first != node || node == "") {
			out[of] = nil
		} else {
			nodes[of] = node
		}
	}
	for _, s := range list {
		if all, several := out[poolOf(s)]; several {
			out[poolOf(s)] = append(all, s)
		}
	}
	return out
}

// Complete adds the missing slices of the pools of some slices.
func (p Pools) Complete(some []*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
	if len(p) == 0 {
		return some
	}
	has, done := map[string]bool{}, map[pool]bool{}
	for _, s := range some {
		has[s.Name] = true
	}
	out := slices.Clip(some)
	for _, s := range some {
		of := poolOf(s)
		for _, other := range p[of] {
			if !done[of] && !has[other.Name] {
				out = append(out, other)
			}
		}
		done[of] = true
	}
	return out
}
