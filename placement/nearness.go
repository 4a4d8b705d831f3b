package placement

import "github.com/berth-dev/berth/topology"

// Nearness is how close the devices of a pod are to each other and to its CPUs and memory. If these
// resources are not all on one NUMA node, only the NUMA nodes count, and not the PCI places.
type Nearness string

// The two nearest values. All other values are those of topology.Spread.
const (
	AtSwitch Nearness = "switch"
	AtRoot   Nearness = "root"
)

// Nearnesses lists all values, the nearest first.
var Nearnesses = []Nearness{AtSwitch, AtRoot, Nearness(topology.WithinNode), Nearness(topology.WithinPackage), Nearness(topology.WithinMachine)}

// NearnessOf returns the Nearness of a pod's devices. ids must have at least one device. held must
// have the NUMA nodes of all resources of the pod. The PCI place of a device is known only if its
// id is a PCI address of the machine.
func NearnessOf(m *topology.Machine, ids []string, held topology.NUMASet) Nearness {
	roots, switches := map[string]bool{}, map[string]bool{}
	for _, id := range ids {
		root, sw := "", ""
		if d := m.Device(id); d != nil {
			root = d.Root
			if above := m.Switches(d); len(above) > 0 {
				sw = above[len(above)-1]
			}
		}
		roots[root], switches[sw] = true, true
	}
	switch {
	case held.Len() > 1:
		return Nearness(m.Spread(held))
	case len(switches) == 1 && !switches[""]:
		return AtSwitch
	case len(roots) == 1 && !roots[""]:
		return AtRoot
	case held == 0:
		return Nearness(topology.WithinMachine)
	}
	return Nearness(topology.WithinNode)
}
