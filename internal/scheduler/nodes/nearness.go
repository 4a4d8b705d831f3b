package nodes

import (
	"slices"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Nearness says how near the devices of a decision for the node lie, and what else the pod has;
// known is false for a pod without devices, and where the machine is not known.
func (n *Node) Nearness(d *placement.Decision) (near placement.Nearness, known bool) {
	var ids []string
	for i := range d.Containers {
		for _, a := range d.Containers[i].Devices {
			ids = append(ids, a.IDs...)
		}
	}
	m := n.Machine()
	if len(ids) == 0 || m == nil {
		return "", false
	}
	var held topology.NUMASet
	var pools []placement.DevicePool // read where the machine does not know a device
	for i := range d.Containers {
		c := &d.Containers[i]
		held |= m.NodesOf(c.CPUs)
		for _, b := range c.Memory {
			held |= b.NUMA
		}
		for _, s := range c.Shares {
			held = held.With(s.NUMA)
		}
		for _, a := range c.Devices {
			for _, id := range a.IDs {
				if known := m.Device(id); known != nil && known.HasNUMA {
					held = held.With(known.NUMA)
					continue
				}
				if pools == nil {
					snapshot, _ := n.Account().View().Snapshot()
					pools = snapshot.Devices
				}
				held |= numaOfDevice(pools, a.Resource, id)
			}
		}
	}
	return placement.NearnessOf(m, ids, held), true
}

// numaOfDevice is what a device plugin says of a device.
func numaOfDevice(pools []placement.DevicePool, resource, id string) topology.NUMASet {
	for i := range pools {
		if pools[i].Resource != resource {
			continue
		}
		if at := slices.IndexFunc(pools[i].Devices, func(d placement.Device) bool { return d.ID == id }); at >= 0 {
			return pools[i].Devices[at].NUMA
		}
	}
	return 0
}
