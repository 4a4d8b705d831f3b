package placement

import "github.com/berth-dev/berth/topology"

// Nearness is how near to one another the devices of a pod lie, and what else it has. Devices of
// one switch or root complex whose pod has CPUs or memory on other NUMA nodes are as far apart as
// these.
type Nearness string

// The nearest ones; after them come those of topology.Spread.
const (
	AtSwitch Nearness = "switch"
	AtRoot   Nearness = "root"
)

// Nearnesses are all that there are, the nearest first.
var Nearnesses = []Nearness{AtSwitch, AtRoot, Nearness(topology.WithinNode), Nearness(topology.WithinPackage), Nearness(topology.WithinMachine)}

// NearnessOf says how near the devices of a pod lie; there is at least one. held are the NUMA nodes
// of all that it has. Where a device hangs from is known about those whose ids are PCI addresses of
// the machine.
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
