package joint

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/topology"
)

// Kind is a resource that is handed out by amount, as an index into Config.Kinds.
type Kind uint8

// CPU is the first kind on every machine, in thousandths of a CPU. Pinned CPUs count in it as well.
const CPU Kind = 0

// maxThreads is the largest number of threads of a core.
const maxThreads = 8

// Config is a machine and what may be handed out of it.
type Config struct {
	// Nodes are its NUMA nodes, ascending by id.
	Nodes []Node
	// Amounts are the kinds after CPU.
	Amounts []AmountKind
	// Devices are the kinds that are handed out in whole devices.
	Devices []DeviceKind
	// Reserved CPUs are never pinned, and are no part of what shares may use.
	Reserved topology.CPUSet
	Strategy Strategy
}

// AmountKind is a kind of memory.
type AmountKind struct {
	Name string // "memory", "hugepages-2Mi"
	Unit uint64 // amounts on one NUMA node are multiples of it, in bytes; 0 means 1
}

// Node is a NUMA node.
type Node struct {
	ID    topology.NUMAID
	Cores []Core
	// Amounts is what there is for pods, by Config.Amounts; missing ones are 0.
	Amounts []uint64
	// Distances are those to the nodes of Config.Nodes, in their order; nil where nobody knows.
	Distances []uint64
}

// Core is a core with its threads on one NUMA node.
type Core struct {
	CPUs []topology.CPUID
	// L3 tells the level-3 caches of a machine apart. Where caches are not known, all cores of a
	// NUMA node have the same.
	L3 int
}

// Model is a machine, compiled. It is immutable and safe for concurrent use.
type Model struct {
	space           *hint.Space
	kinds           []AmountKind
	threads         int // of every core, 0 where cores differ
	cores           []core
	groups          []span // the part of a level-3 cache on one NUMA node
	nodes           []nodeSpan
	place           []thread // by CPU
	all             topology.CPUSet
	reserved        topology.CPUSet
	distance        []uint64 // the sum over all ordered pairs of a mask; nil where distances are not known
	strategy        Strategy
	capacity        []uint64 // by kind, then node
	devices         []deviceKind
	places          []place // of devices
	roots           int     // of devices
	groupsOfDevices []group
	// ownDevices are the devices that can be handed out, as in Book.devices.
	ownDevices []uint64
	empty      *Book
}

// core is a core in the order of the model: by NUMA node, level-3 cache, lowest CPU.
type core struct {
	cpus [maxThreads]topology.CPUID
	// full is every thread of the core, own the ones that may be pinned; bit t is cpus[t].
	full, own uint8
	node      uint8
	group     uint16
}

// span is a range of cores.
type span struct{ from, to uint16 }

// nodeSpan is what a NUMA node has: cores, and parts of level-3 caches.
type nodeSpan struct{ cores, groups span }

// thread says where a CPU is; bit is 0 for a CPU that the machine does not have.
type thread struct {
	core uint16
	bit  uint8
}

// New compiles a machine. An error names what it cannot work with.
func New(c Config) (*Model, error) {
	m := &Model{reserved: c.Reserved, strategy: c.Strategy, kinds: append([]AmountKind{{Name: "cpu", Unit: 1}}, c.Amounts...)}
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
	m.place = make([]thread, topology.MaxCPUs)
	for i := range c.Nodes {
		if err := m.addNode(&c.Nodes[i]); err != nil {
			return nil, err
		}
	}
	if len(m.cores) == 0 {
		return nil, fmt.Errorf("the machine has no CPUs")
	}
	m.compileAmounts(&c)
	m.compileThreads()
	m.compileDistances(&c)
	if err := m.compileDevices(&c); err != nil {
		return nil, err
	}
	m.compileGroups(&c)
	m.empty = m.newEmpty()
	return m, nil
}

func (m *Model) addNode(n *Node) error {
	cores := slices.Clone(n.Cores)
	for i := range cores {
		if len(cores[i].CPUs) == 0 || len(cores[i].CPUs) > maxThreads {
			return fmt.Errorf("NUMA node %d: a core with %d threads: want 1 to %d", n.ID, len(cores[i].CPUs), maxThreads)
		}
		cores[i].CPUs = slices.Sorted(slices.Values(cores[i].CPUs))
	}
	lowest := map[int]topology.CPUID{}
	for _, c := range cores {
		if low, ok := lowest[c.L3]; !ok || c.CPUs[0] < low {
			lowest[c.L3] = c.CPUs[0]
		}
	}
	slices.SortFunc(cores, func(a, b Core) int {
		return cmp.Or(cmp.Compare(lowest[a.L3], lowest[b.L3]), cmp.Compare(a.CPUs[0], b.CPUs[0]))
	})
	s := nodeSpan{span{from: uint16(len(m.cores))}, span{from: uint16(len(m.groups))}}
	for i := range cores {
		if i == 0 || cores[i].L3 != cores[i-1].L3 {
			m.groups = append(m.groups, span{from: uint16(len(m.cores)), to: uint16(len(m.cores))})
		}
		if err := m.addCore(&cores[i]); err != nil {
			return err
		}
		m.groups[len(m.groups)-1].to++
	}
	s.cores.to, s.groups.to = uint16(len(m.cores)), uint16(len(m.groups))
	m.nodes = append(m.nodes, s)
	return nil
}

func (m *Model) addCore(c *Core) error {
	k := core{node: uint8(len(m.nodes)), group: uint16(len(m.groups) - 1)}
	for t, id := range c.CPUs {
		if id >= topology.MaxCPUs {
			return fmt.Errorf("CPU %d: want ids below %d", id, topology.MaxCPUs)
		}
		if m.all.Has(id) {
			return fmt.Errorf("CPU %d: want each CPU on one core", id)
		}
		m.all.Add(id)
		k.cpus[t] = id
		k.full |= 1 << t
		if !m.reserved.Has(id) {
			k.own |= 1 << t
		}
		m.place[id] = thread{core: uint16(len(m.cores)), bit: 1 << t}
	}
	m.cores = append(m.cores, k)
	return nil
}

// compileThreads finds the number of threads that all cores have.
func (m *Model) compileThreads() {
	m.threads = ones(m.cores[0].full)
	for i := range m.cores {
		if ones(m.cores[i].full) != m.threads {
			m.threads = 0
			return
		}
	}
}

func (m *Model) compileAmounts(c *Config) {
	n := len(c.Nodes)
	m.capacity = make([]uint64, n*len(m.kinds))
	for i := range m.cores {
		m.capacity[m.cores[i].node] += 1000 * uint64(ones(m.cores[i].own))
	}
	for k := 1; k < len(m.kinds); k++ {
		m.kinds[k].Unit = max(m.kinds[k].Unit, 1)
		for v := range n {
			if k-1 < len(c.Nodes[v].Amounts) {
				amount := c.Nodes[v].Amounts[k-1]
				m.capacity[k*n+v] = amount - amount%m.kinds[k].Unit
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

// Kind returns the kind of a resource, and whether the machine has it.
func (m *Model) Kind(name string) (Kind, bool) {
	for k := range m.kinds {
		if m.kinds[k].Name == name {
			return Kind(k), true
		}
	}
	return 0, false
}

// KindName returns the name of a kind.
func (m *Model) KindName(k Kind) string { return m.kinds[k].Name }

// Kinds returns how many kinds there are; they count from 0.
func (m *Model) Kinds() Kind { return Kind(len(m.kinds)) }

// Space returns the NUMA nodes.
func (m *Model) Space() *hint.Space { return m.space }

// Threads returns the number of threads that each core has, 0 where cores differ.
func (m *Model) Threads() int { return m.threads }

// NewBook returns a book in which nothing is handed out.
func (m *Model) NewBook() *Book {
	b := new(Book)
	b.CopyFrom(m.empty)
	return b
}

func (m *Model) newEmpty() *Book {
	b := &Book{free: make([]uint8, len(m.cores)), used: make([]uint64, len(m.capacity)),
		nodes: make([]stat, len(m.nodes)), groups: make([]stat, len(m.groups)),
		devices: slices.Clone(m.ownDevices), taken: make([]uint64, len(m.ownDevices)), sick: make([]uint64, len(m.ownDevices))}
	for i := range m.cores {
		m.setFree(b, i, m.cores[i].own)
	}
	return b
}

// Capacity returns how much of a kind the NUMA node at a position has.
func (m *Model) Capacity(k Kind, node int) uint64 { return m.capacity[int(k)*len(m.nodes)+node] }
