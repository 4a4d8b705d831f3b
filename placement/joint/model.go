package joint

import (
	"fmt"
	"slices"

	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/topology"
)

// Config is a machine with its assignable resources.
type Config struct {
	// Nodes are the machine's NUMA nodes, ascending by id.
	Nodes []Node
	// Amounts are the kinds of amounts other than CPU.
	Amounts []AmountKind
	// Devices are the kinds of resources that are assigned in whole devices.
	Devices []DeviceKind
	// Reserved CPUs are never pinned, and count neither for CPUs nor for CPU shares.
	Reserved topology.CPUSet
	Strategy Strategy
}

// Model is a compiled machine. It is immutable and safe for concurrent use.
type Model struct {
	// Each table has the capacity of one sort of resources, and records their use in a Book.
	Cores   CoreTable
	Amounts AmountTable
	Devices DeviceTable

	space    *hint.Space
	distance []uint64 // by mask, the sum of the distances of all ordered pairs; nil if unknown
	strategy Strategy
	empty    *Book
}

// New compiles a machine. The error names the part that is not supported.
func New(c Config) (*Model, error) {
	m := &Model{strategy: c.Strategy, Cores: CoreTable{reserved: c.Reserved}}
	var ids topology.NUMASet
	for i := range c.Nodes {
		if id := c.Nodes[i].ID; id >= topology.MaxNUMANodes || ids.Has(id) || ids>>id != 0 {
			return nil, fmt.Errorf("NUMA node %d: want ascending ids below %d", id, topology.MaxNUMANodes)
		}
		ids = ids.With(c.Nodes[i].ID)
	}
	var err error
	if m.space, err = hint.NewSpace(ids); err != nil {
		return nil, err
	}
	m.Cores.place = make([]thread, topology.MaxCPUs)
	for i := range c.Nodes {
		if err := m.Cores.addNode(&c.Nodes[i]); err != nil {
			return nil, err
		}
	}
	if len(m.Cores.cores) == 0 {
		return nil, fmt.Errorf("the machine has no CPUs")
	}
	m.compileAmounts(&c)
	m.Cores.compileThreads()
	m.compileDistances(&c)
	if err := m.Devices.compile(c.Devices, len(c.Nodes)); err != nil {
		return nil, err
	}
	m.Devices.compileGroups(c.Devices)
	m.empty = m.newEmpty()
	return m, nil
}

func (m *Model) compileAmounts(c *Config) {
	n := len(c.Nodes)
	m.Amounts.nodeCount, m.Amounts.kinds = n, append([]AmountKind{{Name: "cpu", Unit: 1}}, c.Amounts...)
	m.Amounts.capacity = make([]uint64, n*len(m.Amounts.kinds))
	for i := range m.Cores.cores {
		m.Amounts.capacity[m.Cores.cores[i].node] += 1000 * uint64(ones(m.Cores.cores[i].own))
	}
	for k := 1; k < len(m.Amounts.kinds); k++ {
		m.Amounts.kinds[k].Unit = max(m.Amounts.kinds[k].Unit, 1)
		for v := range n {
			if k-1 < len(c.Nodes[v].Amounts) {
				amount := c.Nodes[v].Amounts[k-1]
				m.Amounts.capacity[k*n+v] = amount - amount%m.Amounts.kinds[k].Unit
			}
		}
	}
}

func (m *Model) compileDistances(c *Config) {
	n := len(c.Nodes)
	for i := range c.Nodes {
		if len(c.Nodes[i].Distances) != n {
			return
		}
	}
	m.distance = make([]uint64, len(m.space.BySize())+1)
	for _, mask := range m.space.BySize() {
		for i := range mask.All() {
			for j := range mask.All() {
				m.distance[mask] += c.Nodes[i].Distances[j]
			}
		}
	}
}

// Space returns the space of the machine's NUMA nodes.
func (m *Model) Space() *hint.Space { return m.space }

// NewBook returns a book without assignments.
func (m *Model) NewBook() *Book {
	b := new(Book)
	b.CopyFrom(m.empty)
	return b
}

func (m *Model) newEmpty() *Book {
	b := &Book{free: make([]uint8, len(m.Cores.cores)), used: make([]uint64, len(m.Amounts.capacity)),
		nodes: make([]stat, len(m.Cores.nodes)), groups: make([]stat, len(m.Cores.groups)),
		devices: slices.Clone(m.Devices.own), taken: make([]uint64, len(m.Devices.own)), sick: make([]uint64, len(m.Devices.own))}
	for i := range m.Cores.cores {
		m.Cores.setFree(b, i, m.Cores.cores[i].own)
	}
	return b
}

// Strategy returns Config.Strategy.
func (m *Model) Strategy() Strategy { return m.strategy }
