package topology

// NodesOf returns the NUMA nodes of the CPUs, without nodes whose id does not fit a NUMASet.
func (m *Machine) NodesOf(cpus CPUSet) NUMASet {
	var set NUMASet
	for i := range m.NUMANodes {
		if n := &m.NUMANodes[i]; n.ID < MaxNUMANodes && n.CPUs.Intersects(&cpus) {
			set = set.With(n.ID)
		}
	}
	return set
}

// Spread is the smallest unit that contains some NUMA nodes: one node, one package, or the machine.
// The zero value means no nodes.
type Spread string

// The spreads of NUMA nodes, from the narrowest to the widest.
const (
	WithinNode    Spread = "numa-node"
	WithinPackage Spread = "package"
	WithinMachine Spread = "machine"
)

// Spread returns the Spread of the NUMA nodes. Nodes without CPUs belong to no package, so they do
// not widen a spread over one package.
func (m *Machine) Spread(nodes NUMASet) Spread {
	switch nodes.Len() {
	case 0:
		return ""
	case 1:
		return WithinNode
	}
	var cpus CPUSet
	for i := range m.NUMANodes {
		if nodes.Has(m.NUMANodes[i].ID) {
			cpus = cpus.Or(&m.NUMANodes[i].CPUs)
		}
	}
	for i := range m.Packages {
		if cpus.IsSubsetOf(&m.Packages[i].CPUs) {
			return WithinPackage
		}
	}
	return WithinMachine
}
