package topology

// NodesOf returns the NUMA nodes that the CPUs lie on. A node whose number does not fit a NUMASet
// is left out.
func (m *Machine) NodesOf(cpus CPUSet) NUMASet {
	var set NUMASet
	for i := range m.NUMANodes {
		if n := &m.NUMANodes[i]; n.ID < MaxNUMANodes && n.CPUs.Intersects(&cpus) {
			set = set.With(n.ID)
		}
	}
	return set
}

// Spread says how far apart NUMA nodes lie. The zero value is that of no nodes at all.
type Spread string

// The spreads of NUMA nodes, from the narrowest to the widest.
const (
	WithinNode    Spread = "numa-node"
	WithinPackage Spread = "package"
	WithinMachine Spread = "machine"
)

// Spread says how far apart the NUMA nodes lie. Nodes without CPUs lie in no package of their own,
// so they widen nothing beyond a package that holds the CPUs of the others.
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
