package placement

import (
	"slices"

	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

// Snapshot is the complete state of a node as plain data: the content of a kubelet's checkpoints
// and the reports of device plugins, or the content of a NodeTopology. Model.StateOf converts it to
// a State, and State.Snapshot does the reverse.
type Snapshot struct {
	// SharedCPUs is defaultCpuSet of cpu_manager_state: every CPU that no container has
	// exclusively, including reserved CPUs (without strict-cpu-reservation).
	SharedCPUs topology.CPUSet
	// Memory is machineState of memory_manager_state, ascending by NUMA node; nil if the policy is
	// None.
	Memory []MemoryTable
	// Devices are the pools of the device plugins, ascending by resource.
	Devices []DevicePool
	// Pods are the admitted pods, pinned or not, in order of admission if the order is known.
	Pods []PodAllocation
}

// MemoryTable is the memory manager's record of one NUMA node (memorymanager/state.NUMANodeState).
type MemoryTable struct {
	NUMA        topology.NUMAID
	Assignments int
	// Cells is the group of NUMA nodes that share this NUMA node's memory allocations. It is {NUMA}
	// if this NUMA node is in no group.
	Cells topology.NUMASet
	// Resources is ascending by resource name.
	Resources []MemoryAmounts
}

// MemoryAmounts is one row of a MemoryTable, in bytes; Reserved + Free = Allocatable.
type MemoryAmounts struct {
	Resource                    string
	Allocatable, Reserved, Free uint64
}

// PodAllocation has the resources of an admitted pod.
type PodAllocation struct {
	UID string
	// Whole has the resources of the pod as a whole. It is usually nil.
	Whole      *Whole
	Containers []ContainerAllocation
	// Generation is the number of the decision that the node's agent has carried out, if Berth
	// decides and the pod was resized. Otherwise Generation is 0. A State does not store
	// Generation.
	Generation uint64
}

// ContainerAllocation has the resources of one container of an admitted pod.
type ContainerAllocation struct {
	Name string
	Kind ContainerKind
	CPUs topology.CPUSet // exclusive CPUs
	// Memory has the container's blocks. The kubelet distinguishes an entry without blocks, which
	// is empty but not nil, from a missing entry, which is nil.
	Memory  []MemoryBlock
	Devices []DeviceAllocation
	// Shares and Exclusive are used only if Berth decides.
	Shares    []CPUShare
	Exclusive joint.Exclusive
	Provided  []Provided // sorted by provider, then by place
}

// DevicePool has the devices that a device plugin offers as one resource.
type DevicePool struct {
	Resource   string
	Preference Preference
	// Decided means that Berth assigns the devices, on a node where it decides. Berth's own plugin
	// then offers them, and their ids are PCI addresses. If Decided is false, the kubelet assigns
	// them.
	Decided bool
	Devices []Device // ascending by ID
	// Points rates the connection of each pair of Devices, row by row (Connect). It is nil if the
	// preference does not use ratings, or if they are not known.
	Points []uint32
}

// Device is one device of a plugin (deviceplugin/v1beta1.Device).
type Device struct {
	ID string
	// NUMA is the set of NUMA nodes in the plugin's Device.Topology. It is valid only if
	// HasTopology is set. The kubelet distinguishes a device with an empty topology from a device
	// without a topology.
	NUMA        topology.NUMASet
	HasTopology bool
	Unhealthy   bool
	// Address is the PCI address ("0000:3b:00.0"), or "" if it is not known.
	Address string
}

// clone returns a copy that shares no memory with c.
func (c *ContainerAllocation) clone() ContainerAllocation {
	out := *c
	out.Memory, out.Shares, out.Provided = slices.Clone(c.Memory), slices.Clone(c.Shares), slices.Clone(c.Provided)
	out.Devices = cloneDevices(c.Devices)
	return out
}

func cloneDevices(ds []DeviceAllocation) []DeviceAllocation {
	ds = slices.Clone(ds)
	for i := range ds {
		ds[i].IDs = slices.Clone(ds[i].IDs)
	}
	return ds
}

// StateError names a part of a Snapshot that contradicts another part or the machine.
type StateError struct {
	Field string // such as "pods[uid].containers[name].cpus" or "memory[1].memory"
	Value string
	Want  string // the expected value
}

func (e *StateError) Error() string { return e.Field + ": " + quoteShort(e.Value) + ": want " + e.Want }

func contradiction(field, value, want string) error {
	return &StateError{Field: field, Value: value, Want: want}
}

func containerField(p *PodAllocation, c *ContainerAllocation, field string) string {
	return "pods[" + p.UID + "].containers[" + c.Name + "]." + field
}
