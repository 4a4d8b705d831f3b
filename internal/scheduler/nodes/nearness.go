package nodes

import (
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Nearness returns how near the devices of a decision are to each other and to the pod's other
// resources on the node. The result known is false if the pod has no devices or if the machine is
// not known.
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
	var pools []placement.DevicePool // read if the machine does not know a device
	held := d.Held().NUMANodes(m, func(resource, id string) topology.NUMASet {
		if known := m.Device(id); known != nil && known.HasNUMA {
			return topology.NewNUMASet(known.NUMA)
		}
		if pools == nil {
			snapshot, _ := n.Account().View().Snapshot()
			pools = snapshot.Devices
		}
		return placement.DeviceAt(pools, resource, id)
	})
	return placement.NearnessOf(m, ids, held), true
}
