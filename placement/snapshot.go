package placement

import (
	"slices"

	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

// Snapshot is the complete state of a node as plain data: the content of a kubelet's checkpoints
// and device plugins, or of a NodeTopology. Model.StateOf makes a State of it and refuses
// contradictions; State.Snapshot makes a Snapshot again.
type Snapshot struct {
	// SharedCPUs is defaultCpuSet of cpu_manager_state: every CPU that no container has to itself,
	// reserved ones included (without strict-cpu-reservation).
	SharedCPUs topology.CPUSet
	// Memory is machineState of memory_manager_state, ascending by NUMA node; nil when the policy
	// is None.
	Memory []MemoryTable
	// Devices are the pools of the device plugins, ascending by resource.
	Devices []DevicePool
	// Pods are the admitted pods, pinned or not, in order of admission where that is known.
	Pods []PodAllocation
}

// MemoryTable is the memory manager's book of one NUMA node (memorymanager/state.NUMANodeState).
type MemoryTable struct {
	NUMA        topology.NUMAID
	Assignments int
	// Cells is the group of nodes that this node's memory is handed out with; {NUMA} when it is on
	// its own.
	Cells topology.NUMASet
	// Resources is ascending by resource name.
	Resources []MemoryAmounts
}

// MemoryAmounts is one row of a MemoryTable, in bytes; Reserved + Free = Allocatable.
type MemoryAmounts struct {
	Resource                    string
	Allocatable, Reserved, Free uint64
}

// PodAllocation is what an admitted pod holds.
type PodAllocation struct {
	UID string
	// Whole is what the pod has as a whole; mostly nil.
	Whole      *Whole
	Containers []ContainerAllocation
	// Generation is that of the decision which the node's agent carries out, if Berth decides and
	// the pod was resized; else 0. A State does not keep it.
	Generation uint64
}

// ContainerAllocation is what one container of an admitted pod holds.
type ContainerAllocation struct {
	Name string
	Kind ContainerKind
	CPUs topology.CPUSet // exclusive CPUs
	// Memory is the container's blocks. The kubelet tells an entry without blocks from none: empty,
	// but not nil.
	Memory  []MemoryBlock
	Devices []DeviceAllocation
	// Shares and Exclusive are there where Berth decides alone.
	Shares    []CPUShare
	Exclusive joint.Exclusive
	Provided  []Provided // by provider, then by place
}

// DevicePool has the devices that one plugin offers under one resource name.
type DevicePool struct {
	Resource   string
	Preference Preference
	// Decided means that Berth chooses among the devices, on a node where it decides: its own
	// plugin offers them, and the ids are PCI addresses. If it is false the kubelet chooses.
	Decided bool
	Devices []Device // ascending by ID
	// Points is how well each pair of Devices is connected, row by row, if the preference goes by
	// that (Connect); nil if it is not known.
	Points []uint32
}

// Device is one device of a plugin (deviceplugin/v1beta1.Device).
type Device struct {
	ID string
	// NUMA is the set of nodes in Device.Topology; meaningful if HasTopology. A device with a
	// topology but no nodes differs, for the kubelet, from one without a topology.
	NUMA        topology.NUMASet
	HasTopology bool
	Unhealthy   bool
	// Address is the PCI address ("0000:3b:00.0"), "" if it is not known.
	Address string
}

func cloneDevices(ds []DeviceAllocation) []DeviceAllocation {
	ds = slices.Clone(ds)
	for i := range ds {
		ds[i].IDs = slices.Clone(ds[i].IDs)
	}
	return ds
}

// StateError is which part of a Snapshot contradicts the rest of it, or the machine.
type StateError struct {
	Field string // "pods[uid].containers[name].cpus", "memory[1].memory"
	Value string
	Want  string // what would be right
}

func (e *StateError) Error() string { return e.Field + ": " + quoteShort(e.Value) + ": want " + e.Want }

func contradiction(field, value, want string) error {
	return &StateError{Field: field, Value: value, Want: want}
}

func containerField(p *PodAllocation, c *ContainerAllocation, field string) string {
	return "pods[" + p.UID + "].containers[" + c.Name + "]." + field
}
