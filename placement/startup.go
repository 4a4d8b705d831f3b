package placement

import (
	"github.com/berth-dev/berth/placement/memory"
	"github.com/berth-dev/berth/topology"
)

// Startup has the values that a kubelet's managers know before they read their checkpoints. The
// managers compare the checkpoints with these values (validateState of pkg/kubelet/cm/cpumanager
// and memorymanager).
type Startup struct {
	Version Version
	// CPUPolicy is "none" or "static", MemoryPolicy is "None" or "Static".
	CPUPolicy, MemoryPolicy string
	// CPUs must be the union of the shared and the exclusive CPUs in the checkpoint. It has all
	// CPUs of the machine; with StrictReservation it has all except Reserved. CPUs and Reserved are
	// empty without the policy static.
	CPUs, Reserved    topology.CPUSet
	StrictReservation bool
	// PodLevel means that the managers can assign resources to whole pods (gate
	// PodLevelResourceManagers).
	PodLevel bool
	// Memory is ascending by NUMA node, then resource; nil without the policy Static.
	Memory []StartupMemory
}

// StartupMemory is one kind of memory of a NUMA node, in bytes. If the kubelet's subtraction wraps
// around, Allocatable does too.
type StartupMemory struct {
	NUMA                               topology.NUMAID
	Resource                           string
	Total, SystemReserved, Allocatable uint64
}

// Startup returns the values that the managers of this kubelet know when they start.
func (m *Model) Startup() Startup {
	s := Startup{Version: m.set.version, CPUPolicy: "none", MemoryPolicy: "None", PodLevel: m.KnowsWholes()}
	if m.set.static {
		s.CPUPolicy, s.StrictReservation = "static", m.set.cpu.StrictReservation
		s.CPUs, s.Reserved = m.cpus.initial, m.cpus.reserved
	}
	if m.mem == nil {
		return s
	}
	s.MemoryPolicy = "Static"
	for pos := range m.space.Len() {
		for k, name := range m.mem.Names() {
			kind := memory.Kind(k)
			if !m.mem.Has(kind).Has(pos) {
				continue
			}
			s.Memory = append(s.Memory, StartupMemory{NUMA: m.space.ID(pos), Resource: name,
				Total: m.mem.Total(kind, pos), SystemReserved: m.mem.Kept(kind, pos), Allocatable: m.mem.Allocatable(kind, pos)})
		}
	}
	return s
}
