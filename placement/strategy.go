package placement

import (
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

// Fit scores how well a pod on the NUMA nodes of reach fits the node's Config.Strategy, from 0 to
// 100. ok is false if the kubelet decides, and for joint.MostAllocated, the default. The scheduler
// then uses its own strategy.
func (s *State) Fit(reach topology.NUMASet) (score int, ok bool) {
	if s.m.obey == nil || s.m.obey.joint.Strategy() == joint.MostAllocated {
		return 0, false
	}
	return s.m.obey.joint.Score(s.account, s.m.compact(reach)), true
}
