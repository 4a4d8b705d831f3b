package placement

import (
	"slices"

	"github.com/berth-dev/berth/topology"
)

// Holding returns the NUMA nodes on which an admitted pod holds something: CPUs of its own, memory
// or devices. It is empty for a pod that holds nothing, or that is not there.
func (s *State) Holding(uid string) (nodes topology.NUMASet) {
	pod := s.pod(uid)
	if pod == nil {
		return 0
	}
	for i := range pod.Containers {
		c := &pod.Containers[i]
		nodes |= s.m.nodesOf(&c.CPUs)
		for k := range c.Memory {
			nodes |= c.Memory[k].NUMA
		}
		for k := range c.Shares {
			nodes = nodes.With(c.Shares[k].NUMA)
		}
		for k := range c.Devices {
			nodes |= s.nodesOfDevices(&c.Devices[k])
		}
	}
	return nodes
}

func (s *State) nodesOfDevices(a *DeviceAllocation) (nodes topology.NUMASet) {
	at := s.poolIndex(a.Resource)
	if at < 0 {
		return 0
	}
	for i := range s.pools[at].source.Devices {
		if d := &s.pools[at].source.Devices[i]; slices.Contains(a.IDs, d.ID) {
			nodes |= d.NUMA
		}
	}
	return nodes
}
