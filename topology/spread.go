package topology

// NodesOf returns the NUMA nodes of the CPUs. It leaves out nodes whose id a NUMASet cannot hold.
func (m *Machine) NodesOf(cpus CPUSet) NUMASet {
	var set NUMASet
	for i := range m.NUMANodes {
		if n := &m.NUMANodes[i]; n.ID < MaxNUMANodes && n.CPUs.Intersects(&cpus) {
			set = set.With(n.ID)
		}
	}
	return set
}

// Spread is the smallest unit that contains a set of NUMA nodes: one node, one package, or the
// machine. The zero value means that the set is empty.
type Spread string

// The spreads of NUMA nodes, from the narrowest to the widest.
const (
	WithinNode    Spread = "numa-node"
	WithinPackage Spread = "package"
	WithinMachine Spread = "machine"
)

// Spread returns the Spread of the NUMA nodes. Nodes without CPUs belong to no package, and do not
// count: if all nodes with CPUs are in one package, the result is WithinPackage.
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
