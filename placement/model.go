package placement

import (
	"sync"

	"github.com/berth-dev/berth/placement/cpu"
	"github.com/berth-dev/berth/topology"
)

// Model is a kubelet: its machine and its configuration, compiled. It is immutable and safe for
// concurrent use.
type Model struct {
	set settings
	// own is the node's own policy and scope. authority decides whether a Request's Rules override
	// it.
	own       Rules
	authority Authority
	// guard refuses pods that would trigger a known defect of the kubelet.
	guard bool
	// guardRestarts refuses pods that a restart would kill: Config.GuardRestarts, if it has an
	// effect.
	guardRestarts bool
	// guardRepeats refuses pods that a restart would place again: Config.GuardRestarts, if it has
	// an effect.
	guardRepeats bool
	// memoryStays is Config.MemoryStays if Berth decides.
	memoryStays bool
	layout
	cpus cpuModel
	mem  *memoryModel // nil without the static memory manager
	// supplies are the providers' resources on the machine.
	supplies supplies
	// joint is the node's model if Berth decides. It is nil if the kubelet decides.
	joint *obeyModel
	// side has the functions that differ between the two authorities. It follows from joint.
	side side

	// empty is the state of a kubelet without pods or plugins.
	empty *State

	admissions sync.Pool
}

// cpuModel is the static CPU manager; topology is nil without it.
type cpuModel struct {
	topology *cpu.Topology
	hinter   *cpu.Hinter // nil if no policy that asks for hints can be applied
	// reserved are CPUs that are never exclusive. siblings are these CPUs and all others of the
	// same cores.
	reserved, siblings topology.CPUSet
	// initial is the shared pool of an empty node.
	initial topology.CPUSet
}

// Version returns the kubelet's release.
func (m *Model) Version() Version { return m.set.version }

// ReservedCPUs returns the CPUs that are reserved for the system. There are none if the kubelet
// decides without the static CPU manager.
func (m *Model) ReservedCPUs() topology.CPUSet { return m.cpus.reserved }

// NUMANodes returns the NUMA nodes that the kubelet knows.
func (m *Model) NUMANodes() topology.NUMASet { return m.nodes }
