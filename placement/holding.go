package placement

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/topology"
)

// Holding returns the NUMA nodes on which an admitted pod has resources. The set is empty if the
// pod has none or is unknown.
func (s *State) Holding(uid string) topology.NUMASet {
	pod := s.pod(uid)
	if pod == nil {
		return 0
	}
	return pod.numaNodes(s.m.nodesOf, func(resource, id string) topology.NUMASet {
		if at := s.pools.index(resource); at >= 0 {
			return s.pools[at].source.deviceAt(id)
		}
		return 0
	})
}

// Clone returns a copy. Later calls of Decide with d do not change the copy.
func (d *Decision) Clone() Decision {
	out := Decision{UID: d.UID, Whole: d.Whole.clone(), Containers: slices.Clone(d.Containers)}
	for i := range out.Containers {
		c := &out.Containers[i]
		c.Memory, c.Shares, c.Provided, c.Devices = slices.Clone(c.Memory), slices.Clone(c.Shares), slices.Clone(c.Provided), cloneDevices(c.Devices)
	}
	return out
}

// Held returns the allocation that the decision gives to the pod. It shares no memory with d.
func (d *Decision) Held() *PodAllocation {
	p := &PodAllocation{UID: d.UID, Whole: d.Whole.clone(), Containers: make([]ContainerAllocation, 0, len(d.Containers))}
	for i := range d.Containers {
		p.Containers = append(p.Containers, d.Containers[i].held())
	}
	return p
}

// held returns the allocation that the decision gives to the container. It shares no memory with c.
func (c *ContainerDecision) held() ContainerAllocation {
	a := ContainerAllocation{Name: c.Name, Kind: c.Kind, CPUs: c.CPUs, Memory: c.Memory, Devices: c.Devices,
		Shares: c.Shares, Exclusive: c.Exclusive, Provided: c.Provided}
	return a.clone()
}

// NUMANodes returns the NUMA nodes of the pod's exclusive CPUs, CPU time, memory and devices.
// deviceAt returns the NUMA nodes of a device, or 0.
func (p *PodAllocation) NUMANodes(m *topology.Machine, deviceAt func(resource, id string) topology.NUMASet) topology.NUMASet {
	return p.numaNodes(func(cpus *topology.CPUSet) topology.NUMASet { return m.NodesOf(*cpus) }, deviceAt)
}

func (p *PodAllocation) numaNodes(cpusAt func(*topology.CPUSet) topology.NUMASet, deviceAt func(resource, id string) topology.NUMASet) topology.NUMASet {
	var nodes topology.NUMASet
	if p.Whole != nil {
		nodes |= cpusAt(&p.Whole.CPUs)
	}
	for b := range p.Blocks() {
		nodes |= b.NUMA
	}
	for i := range p.Containers {
		c := &p.Containers[i]
		nodes |= cpusAt(&c.CPUs)
		for k := range c.Shares {
			nodes = nodes.With(c.Shares[k].NUMA)
		}
		for k := range c.Devices {
			for _, id := range c.Devices[k].IDs {
				nodes |= deviceAt(c.Devices[k].Resource, id)
			}
		}
	}
	return nodes
}

// DeviceAt returns the NUMA nodes that a device plugin names for a device. It returns 0 if the
// plugin names none or if no pool has the device.
func DeviceAt(pools []DevicePool, resource, id string) topology.NUMASet {
	for i := range pools {
		if pools[i].Resource == resource {
			return pools[i].deviceAt(id)
		}
	}
	return 0
}

func (p *DevicePool) deviceAt(id string) topology.NUMASet {
	if at, found := slices.BinarySearchFunc(p.Devices, id, func(d Device, id string) int { return strings.Compare(d.ID, id) }); found {
		return p.Devices[at].NUMA
	}
	return 0
}
