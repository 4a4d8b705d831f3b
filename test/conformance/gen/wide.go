package gen

import (
	"github.com/berth-dev/berth/test/replay/cases"
	"github.com/berth-dev/berth/topology"
)

// Wide is set in the seeds of cases with machines of 17 to 40 NUMA nodes, few of them with CPUs.
// Their kubelets run without the Static memory manager, which would try all sets of nodes.
const Wide = 1 << 63

// maxNamed is the number of NUMA nodes, from the lowest, that may have devices on such a machine.
const maxNamed = 8

// wideMachine returns a machine with a few usual NUMA nodes, and many more without CPUs.
func (d dice) wideMachine() cases.Machine {
	m := d.machine()
	for len(m.Nodes) > 4 || m.Nodes[len(m.Nodes)-1].ID >= maxNamed {
		m = d.machine()
	}
	for total := d.between(17, 40); len(m.Nodes) < total; {
		n := cases.Node{ID: m.Nodes[len(m.Nodes)-1].ID + 1}
		if d.chance(40) {
			n.Memory = d.memory()
		}
		m.Nodes = append(m.Nodes, n)
	}
	d.distances(m.Nodes)
	return m
}

// wideConfig makes a configuration with which a kubelet usually works on a wide machine.
func (d dice) wideConfig(c *cases.Config) {
	c.MemoryManagerPolicy, c.ReservedMemory = pick(d, "None", ""), nil
	if d.chance(97) {
		if c.TopologyManagerPolicyOptions == nil {
			c.TopologyManagerPolicyOptions = map[string]string{}
		}
		c.TopologyManagerPolicyOptions["max-allowable-numa-nodes"] = pick(d, "40", "64")
	}
}

// named returns the NUMA nodes of a machine that have devices.
func named(m *cases.Machine) []cases.Node {
	if len(m.Nodes) <= 16 {
		return m.Nodes
	}
	return m.Nodes[:maxNamed]
}

// stray is a NUMA node that may not exist on the machine. On a wide machine it is one of the nodes
// with devices. The engine does not predict devices of other nodes. If no device is on a known
// node, the kubelet tries the sets of all nodes.
func (d dice) stray(nodes []cases.Node, wide bool) topology.NUMAID {
	if wide {
		return pick(d, nodes...).ID
	}
	return topology.NUMAID(pick(d, d.between(0, 12), 63))
}
