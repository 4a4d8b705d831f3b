package placement

import (
	"sync"

	"github.com/berth-dev/berth/placement/cpu"
	"github.com/berth-dev/berth/placement/memory"
	"github.com/berth-dev/berth/topology"
)

// Model is the compiled form of a kubelet's machine and configuration. It is immutable and safe for
// concurrent use.
type Model struct {
	set settings
	// own is the node's own policy and scope. If authority is AuthorityBerth, a Request's Rules
	// override them.
	own       Rules
	authority Authority
	// guard is Config.GuardDefects.
	guard bool
	// guardRestarts means that a restart of this kubelet could kill pods, and that
	// Config.GuardRestarts is set.
	guardRestarts bool
	// guardRepeats means that this kubelet could place pods again after a restart, and that
	// Config.GuardRestarts is set.
	guardRepeats bool
	// memoryStays is Config.MemoryStays if Berth decides.
	memoryStays bool
	layout
	cpus cpuModel
	mem  *memory.Model // nil without the static memory manager
	// supplies are the providers' resources on the machine.
	supplies supplies
	// obey has the resources that Berth assigns. It is nil if the kubelet decides.
	obey *obeyModel

	// empty is the state of a node without pods and device plugins.
	empty *State

	admissions sync.Pool
}

// cpuModel is the compiled static CPU manager. Without this manager, topology is nil.
type cpuModel struct {
	topology *cpu.Topology
	hinter   *cpu.Hinter // nil if the node can apply no policy that uses hints
	// reserved are the CPUs that are never exclusive. siblings are all CPUs of the cores of these
	// CPUs.
	reserved, siblings topology.CPUSet
	// initial is the shared pool of an empty node.
	initial topology.CPUSet
}

// Version returns the kubelet's release.
func (m *Model) Version() Version { return m.set.version }

// ReservedCPUs returns the CPUs that are reserved for the system. If the kubelet decides without
// the static CPU manager, the set is empty.
func (m *Model) ReservedCPUs() topology.CPUSet { return m.cpus.reserved }

// NUMANodes returns the NUMA nodes that the kubelet knows.
func (m *Model) NUMANodes() topology.NUMASet { return m.nodes }
