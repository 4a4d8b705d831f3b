package placement

import (
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

// Fit is how well a pod that is spread over the NUMA nodes of reach fits by the node's own
// strategy, from 0 to 100, on a node where Berth decides. ok is false elsewhere, also with
// joint.MostAllocated, the default: there a scheduler's strategy counts.
func (s *State) Fit(reach topology.NUMASet) (score int, ok bool) { return s.books().fit(reach) }

func (kubeletBooks) fit(topology.NUMASet) (score int, ok bool) { return 0, false }

func (s jointBooks) fit(reach topology.NUMASet) (score int, ok bool) {
	if s.m.joint.Strategy() == joint.MostAllocated {
		return 0, false
	}
	return s.m.joint.Score(s.account, s.m.compact(reach)), true
}
