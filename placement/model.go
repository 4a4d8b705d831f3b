package placement

import (
	"cmp"
	"sync"

	"github.com/berth-dev/berth/placement/cpu"
	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/placement/memory"
	"github.com/berth-dev/berth/topology"
)

// Model is a kubelet: its machine and its configuration, compiled. It is immutable and safe for
// concurrent use.
type Model struct {
	set settings
	// own is the node's own policy and scope; authority says whether a Request's Rules come before
	// it.
	own       Rules
	authority Authority
	// guard refuses what would run into a known defect of the kubelet.
	guard bool
	// guardRestarts refuses what a restart would kill: Config.GuardRestarts where it matters.
	guardRestarts bool
	// memoryStays is Config.MemoryStays where Berth decides.
	memoryStays bool
	// nodes is every NUMA node that the kubelet sees. space is the same by position; on machines
	// with more than hint.MaxNodes nodes it has the ones that hints name, and the others as one. It
	// is nil where those are too many, too: nothing may need hints there.
	nodes topology.NUMASet
	space *hint.Space
	// nodeCPUs holds the CPUs of each NUMA node that has any.
	nodeCPUs []nodeCPUs
	// distance[m] is the sum of all ordered pairs' distances in mask m; nil without
	// prefer-closest-numa-nodes.
	distance []uint64

	cpus cpuModel
	mem  *memory.Model // nil without the static memory manager
	// supplies are what providers have on the machine, with so many places in all.
	supplies []supply
	places   int
	// joint decides where Berth does, in the kubelet's place; nil where the kubelet does.
	joint *joint.Model
	// deviceKinds are the kinds of devices that joint knows.
	deviceKinds []DeviceKind

	// empty is the state of a kubelet without pods or plugins.
	empty *State

	admissions sync.Pool
}

type nodeCPUs struct {
	id   topology.NUMAID
	cpus topology.CPUSet
}

// cpuModel is the static CPU manager; topology is nil without it.
type cpuModel struct {
	topology *cpu.Topology
	hinter   *cpu.Hinter // nil if no policy that asks for hints can be applied
	// reserved is never exclusive. siblings is that and all CPUs of the same cores.
	reserved, siblings topology.CPUSet
	// initial is the shared pool of an empty node.
	initial topology.CPUSet
}

// NewModel compiles what a kubelet sees of its machine, and its configuration. It fails with a
// *ConfigError where the kubelet would refuse to start, and where its decisions cannot be predicted
// (ConfigError.Unsupported).
func NewModel(view *KubeletView, cfg Config) (*Model, error) {
	set, err := readConfig(&cfg)
	if err != nil {
		return nil, err
	}
	m := &Model{set: set, own: set.own, authority: cfg.Authority, guard: cfg.GuardDefects}
	if m.authority == AuthorityBerth && m.own.Policy == PolicyNone && cfg.Default.Policy != NodePolicy {
		m.own = Rules{Policy: cfg.Default.Policy, Scope: cmp.Or(cfg.Default.Scope, ContainerScope)}
	}
	if m.authority == AuthorityBerth {
		m.own.CPUs.Bind, m.own.CPUs.BindHow = cfg.Default.CPUs.Bind, cfg.Default.CPUs.BindHow
	}
	m.own.OwnCPUs, m.memoryStays = set.static, m.authority == AuthorityBerth && cfg.MemoryStays
	m.guardRestarts = cfg.GuardRestarts && set.static && set.cpu.FullPhysicalCPUsOnly && set.version < V137
	for _, compile := range [...]func(*KubeletView, *Config) error{m.compileNodes, m.compileDistances, m.compileCPUs, m.compileMemory, m.compileJoint, m.compileSupplies} {
		if err := compile(view, &cfg); err != nil {
			return nil, err
		}
	}
	m.admissions.New = func() any { return &room{decider: newDecider(m)} }
	m.empty = m.newEmpty()
	return m, nil
}

// Nodes returns the NUMA nodes that the kubelet sees.
func (m *Model) Nodes() topology.NUMASet { return m.nodes }

// Version returns the kubelet's release.
func (m *Model) Version() Version { return m.set.version }

// ReservedCPUs returns the CPUs that are kept for the system: none where the kubelet decides
// without the static CPU manager.
func (m *Model) ReservedCPUs() topology.CPUSet { return m.cpus.reserved }

// expand translates positions to the operating system's numbers; without a space there are no
// positions.
func (m *Model) expand(mask hint.Mask) topology.NUMASet {
	if m.space == nil {
		return 0
	}
	return m.space.Expand(mask)
}

// compact is expand's opposite.
func (m *Model) compact(set topology.NUMASet) hint.Mask {
	if m.space == nil {
		return 0
	}
	return m.space.Compact(set)
}

// nodesOf returns the NUMA nodes of a set of CPUs.
func (m *Model) nodesOf(cpus *topology.CPUSet) (nodes topology.NUMASet) {
	for i := range m.nodeCPUs {
		if n := &m.nodeCPUs[i]; n.cpus.Intersects(cpus) {
			nodes |= 1 << n.id
		}
	}
	return nodes
}
