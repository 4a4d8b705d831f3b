package cases

import "github.com/berth-dev/berth/topology"

// Result has the kubelet's decisions in a Case.
type Result struct {
	ID string `json:"id"`
	// StartupError is the error if the kubelet does not start with the case's configuration. Events
	// is empty then.
	StartupError string        `json:"startupError,omitempty"`
	Events       []EventResult `json:"events"`
	// Millis is the time that the answer took.
	Millis float64 `json:"millis"`
	// Nondeterministic means that a decision depended on chance, so that another run may give
	// another result.
	Nondeterministic bool `json:"nondeterministic,omitempty"`
}

// EventResult is the kubelet's reaction to one event.
type EventResult struct {
	// Event is the index in Case.Events; 0 inside Readmit.
	Event int       `json:"event"`
	Type  EventType `json:"type"`
	UID   string    `json:"uid,omitempty"`
	// Admitted is set for Admit and inside Readmit.
	Admitted *bool `json:"admitted,omitempty"`
	// Reason and Message are set for a rejection, as in pod.status. Tests compare only reasons.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Containers is set for an admission and for Start. It has the resources of each container,
	// init containers first.
	Containers []ContainerResult `json:"containers,omitempty"`
	// Readmit has the result of a Restart for each pod, in the order of their first admission.
	Readmit []EventResult `json:"readmit,omitempty"`
	State   *State        `json:"state,omitempty"`
	// Panic is the error of a failed Restart, which is the last event.
	Panic string `json:"panic,omitempty"`
	// Random means that a decision in this event depends on chance, so that several results are
	// right. It is not part of the format.
	Random bool `json:"-"`
}

// ContainerResult has the resources of a container.
type ContainerResult struct {
	Name string `json:"name"`
	Hint Hint   `json:"hint"`
	// CPUs are the exclusive CPUs as a kernel CPU list. It is "" if the container uses the shared
	// pool.
	CPUs    string                     `json:"cpus"`
	Memory  []MemoryBlock              `json:"memory,omitempty"`
	Devices map[string][]DeviceOnNodes `json:"devices,omitempty"`
}

// Hint is a topology hint. If NUMA is nil, the hint prefers no NUMA nodes.
type Hint struct {
	NUMA      []topology.NUMAID `json:"numa"`
	Preferred bool              `json:"preferred"`
}

// MemoryBlock is pinned memory; Size is in bytes.
type MemoryBlock struct {
	Type string            `json:"type"`
	NUMA []topology.NUMAID `json:"numa"`
	Size uint64            `json:"size"`
}

// DeviceOnNodes is an allocated device with the nodes of its topology.
type DeviceOnNodes struct {
	ID   string            `json:"id"`
	NUMA []topology.NUMAID `json:"numa,omitempty"`
}

// State is the content of the kubelet's checkpoints after an event.
type State struct {
	// DefaultCPUs is the shared pool; "" also with the policy none.
	DefaultCPUs string `json:"defaultCPUs"`
	// Memory is absent with the policy None.
	Memory map[topology.NUMAID]NodeMemory `json:"memory,omitempty"`
}

// NodeMemory is the memory manager's state of a NUMA node.
type NodeMemory struct {
	Assignments int               `json:"assignments"`
	Cells       []topology.NUMAID `json:"cells"`
	// Table has the amounts of each resource. The keys are "memory", "hugepages-2Mi" and so on.
	Table map[string]Amounts `json:"table"`
}

// Amounts are the bytes of one resource on a NUMA node.
type Amounts struct {
	Allocatable uint64 `json:"allocatable"`
	Reserved    uint64 `json:"reserved"`
	Free        uint64 `json:"free"`
}
