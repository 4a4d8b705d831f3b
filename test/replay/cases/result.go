package cases

import "github.com/berth-dev/berth/topology"

// Result is the answer to a Case.
type Result struct {
	ID string `json:"id"`
	// StartupError is why the kubelet would not start with the case's configuration; Events is then
	// empty.
	StartupError string        `json:"startupError,omitempty"`
	Events       []EventResult `json:"events"`
	// Millis is the time that the answer took.
	Millis float64 `json:"millis"`
	// Nondeterministic means that the kubelet left something to chance, so that another run may
	// answer otherwise.
	Nondeterministic bool `json:"nondeterministic,omitempty"`
}

// EventResult is what came of one event.
type EventResult struct {
	// Event is the index in Case.Events; 0 inside Readmit.
	Event int       `json:"event"`
	Type  EventType `json:"type"`
	UID   string    `json:"uid,omitempty"`
	// Admitted is set for Admit and inside Readmit.
	Admitted *bool `json:"admitted,omitempty"`
	// Reason and Message are set for a refusal, as in pod.status; only reasons are compared.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Containers is set for an admission and for Start: what each container holds, init containers
	// first.
	Containers []ContainerResult `json:"containers,omitempty"`
	// Readmit is what a Restart made of each pod, in the order of their first admission.
	Readmit []EventResult `json:"readmit,omitempty"`
	State   *State        `json:"state,omitempty"`
	// Panic is why a Restart failed; that event is the last.
	Panic string `json:"panic,omitempty"`
	// Random is not part of the format: chance decides something in this event, so that another
	// answer would be as right.
	Random bool `json:"-"`
}

// ContainerResult is what a container holds.
type ContainerResult struct {
	Name string `json:"name"`
	Hint Hint   `json:"hint"`
	// CPUs is the kernel CPU list of exclusive CPUs, "" for the shared pool.
	CPUs    string                     `json:"cpus"`
	Memory  []MemoryBlock              `json:"memory,omitempty"`
	Devices map[string][]DeviceOnNodes `json:"devices,omitempty"`
}

// Hint is a topology hint; NUMA nil means no preference for nodes.
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

// State is the kubelet's books after an event.
type State struct {
	// DefaultCPUs is the shared pool; "" also with the policy none.
	DefaultCPUs string `json:"defaultCPUs"`
	// Memory is absent with the policy None.
	Memory map[topology.NUMAID]NodeMemory `json:"memory,omitempty"`
}

// NodeMemory is the memory manager's book of a NUMA node.
type NodeMemory struct {
	Assignments int               `json:"assignments"`
	Cells       []topology.NUMAID `json:"cells"`
	// Table is by resource: "memory", "hugepages-2Mi".
	Table map[string]Amounts `json:"table"`
}

// Amounts is a row of the memory manager's book, in bytes.
type Amounts struct {
	Allocatable uint64 `json:"allocatable"`
	Reserved    uint64 `json:"reserved"`
	Free        uint64 `json:"free"`
}
