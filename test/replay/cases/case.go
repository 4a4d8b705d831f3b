package cases

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/topology"
)

// Case is a question: what does a kubelet with this machine and configuration do with these events?
type Case struct {
	// ID names the case. Its Result has the same ID.
	ID      string  `json:"id"`
	Machine Machine `json:"machine"`
	Config  Config  `json:"config"`
	// Devices are the pools that device plugins registered before the first event.
	Devices []Pool  `json:"devices,omitempty"`
	Events  []Event `json:"events"`
}

// Machine is the hardware as cAdvisor reports it to the kubelet (info/v1.MachineInfo).
type Machine struct {
	Nodes []Node `json:"nodes"`
	// NumCores is MachineInfo.NumCores; 0 means the number of threads in Nodes.
	NumCores int `json:"numCores,omitempty"`
	// NumSockets is MachineInfo.NumSockets; 0 means the number of different sockets of the cores.
	NumSockets int `json:"numSockets,omitempty"`
}

// Node is a NUMA node (info/v1.Node).
type Node struct {
	ID topology.NUMAID `json:"id"`
	// Memory is in bytes.
	Memory    uint64      `json:"memory"`
	HugePages []HugePages `json:"hugepages,omitempty"`
	// Distances is the row of the distance matrix as sysfs lists it.
	Distances []uint64 `json:"distances,omitempty"`
	Cores     []Core   `json:"cores,omitempty"`
}

// HugePages is a pool of huge pages of a node.
type HugePages struct {
	SizeKB uint64 `json:"sizeKB"`
	Count  uint64 `json:"count"`
}

// Core is a physical core (info/v1.Core).
type Core struct {
	ID      int              `json:"id"`
	Socket  int              `json:"socket"`
	Threads []topology.CPUID `json:"threads"`
	// L3 is the id of the uncore cache, or nil if cAdvisor reports none.
	L3 *int `json:"l3,omitempty"`
}

// Config holds fields of a KubeletConfiguration, with the same spelling.
type Config struct {
	CPUManagerPolicy        string            `json:"cpuManagerPolicy,omitempty"`
	CPUManagerPolicyOptions map[string]string `json:"cpuManagerPolicyOptions,omitempty"`
	ReservedSystemCPUs      string            `json:"reservedSystemCPUs,omitempty"`
	// ReservedCPU is kubeReserved plus systemReserved. It applies if ReservedSystemCPUs is empty.
	ReservedCPU                  *resource.Quantity `json:"reservedCPU,omitempty"`
	MemoryManagerPolicy          string             `json:"memoryManagerPolicy,omitempty"`
	ReservedMemory               []ReservedMemory   `json:"reservedMemory,omitempty"`
	TopologyManagerPolicy        string             `json:"topologyManagerPolicy,omitempty"`
	TopologyManagerScope         string             `json:"topologyManagerScope,omitempty"`
	TopologyManagerPolicyOptions map[string]string  `json:"topologyManagerPolicyOptions,omitempty"`
	FeatureGates                 map[string]bool    `json:"featureGates,omitempty"`
}

// ReservedMemory is an entry of KubeletConfiguration.reservedMemory.
type ReservedMemory struct {
	NUMANode topology.NUMAID     `json:"numaNode"`
	Limits   corev1.ResourceList `json:"limits"`
}

// The values of Pool.Preferred: how a device plugin chooses among devices.
const (
	// PreferNone: the plugin has no GetPreferredAllocation.
	PreferNone = "none"
	// PreferSorted: the plugin returns the required devices, then the first free ones in order of
	// their ids.
	PreferSorted = "sorted"
	// PreferNVIDIA: the plugin chooses in the order that NVIDIA publishes.
	PreferNVIDIA = "nvidia"
)

// Pool is the devices that a device plugin offers under one resource name.
type Pool struct {
	Resource  string   `json:"resource"`
	Preferred string   `json:"preferred"`
	Devices   []Device `json:"devices"`
	// Points is the quality of the connection between each pair of devices, row by row. It is set
	// if the plugin's choice depends on it.
	Points []uint32 `json:"points,omitempty"`
}

// Device is a device of a pool. If NUMA is nil, the device has no topology. If NUMA is empty, its
// topology has no NUMA nodes.
type Device struct {
	ID        string            `json:"id"`
	NUMA      []topology.NUMAID `json:"numa"`
	Unhealthy bool              `json:"unhealthy,omitempty"`
}

// EventType is a kind of event that the kubelet handles.
type EventType string

const (
	// Admit offers a pod to the kubelet.
	Admit EventType = "admit"
	// Remove means that a pod is gone.
	Remove EventType = "remove"
	// Start starts containers of a pod: the memory of finished init containers is freed.
	Start EventType = "start"
	// Restart restarts the kubelet with its checkpoints. The kubelet admits its pods again.
	Restart EventType = "restart"
	// Devices is a device plugin's update of its pool.
	Devices EventType = "devices"
)

// Event is one event. Which fields are set depends on its type.
type Event struct {
	Type EventType `json:"type"`
	// Pod is set for Admit.
	Pod *corev1.Pod `json:"pod,omitempty"`
	// UID is set for Remove and Start.
	UID string `json:"uid,omitempty"`
	// Containers are the containers that Start starts, in that order. None means all containers of
	// the pod.
	Containers []string `json:"containers,omitempty"`
	// Pool is set for Devices.
	Pool *Pool `json:"pool,omitempty"`
	// Meanwhile are pods that end during an Admit.
	Meanwhile []Ending `json:"meanwhile,omitempty"`
}

// Ending is the end of a pod during the admission of another pod.
type Ending struct {
	UID string `json:"uid"`
	// Step is the number of the call to a resource manager before which the pod ends, from 0
	// (placement.Meanwhile).
	Step int `json:"step"`
}
