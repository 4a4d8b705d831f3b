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
	// own is the node's own policy and scope; authority says whether a Request's Rules come before
	// it.
	own       Rules
	authority Authority
	// guard refuses what would run into a known defect of the kubelet.
	guard bool
	// guardRestarts refuses what a restart would kill: Config.GuardRestarts if it matters.
	guardRestarts bool
	// guardRepeats refuses what a restart would hand out once more: Config.GuardRestarts if it
	// matters.
	guardRepeats bool
	// memoryStays is Config.MemoryStays if Berth decides.
	memoryStays bool
	layout
	cpus cpuModel
	mem  *memoryModel // nil without the static memory manager
	// supplies are what providers have on the machine.
	supplies supplies
	// joint decides where Berth does, in the kubelet's place; nil if the kubelet does.
	joint *obeyModel
	// side is who decides, by joint.
	side side

	// empty is the state of a kubelet without pods or plugins.
	empty *State

	admissions sync.Pool
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

// Version returns the kubelet's release.
func (m *Model) Version() Version { return m.set.version }

// ReservedCPUs returns the CPUs that are reserved for the system. There are none if the kubelet
// decides without the static CPU manager.
func (m *Model) ReservedCPUs() topology.CPUSet { return m.cpus.reserved }

// NUMANodes returns the NUMA nodes that the kubelet knows.
func (m *Model) NUMANodes() topology.NUMASet { return m.nodes }
