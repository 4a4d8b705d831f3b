package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NodeTopology is an agent's report about its node: the machine, the settings by which the kubelet
// allocates resources, and the current allocations. It is cluster-scoped and has the name of its
// Node.
//
// Only the agent of that node writes the object. It writes spec and status together, in one
// server-side apply, so that a reader never sees allocations of one configuration with the spec of
// another. For this reason, there is no status subresource.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=nodetopologies,singular=nodetopology,shortName=nodetopo;ntopo,categories=berth
// +kubebuilder:printcolumn:name="Authority",type=string,JSONPath=`.spec.authority`
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=`.spec.topologyManager.policy`
// +kubebuilder:printcolumn:name="CPUs",type=string,JSONPath=`.spec.cpuManager.policy`,priority=1
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.spec.memoryManager.policy`,priority=1
// +kubebuilder:printcolumn:name="Shared",type=string,JSONPath=`.status.sharedCPUs`,description="CPUs that no container has to itself"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Sequence",type=integer,JSONPath=`.status.sequence`,priority=1
// +kubebuilder:printcolumn:name="Observed",type=date,JSONPath=`.status.observedTime`
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.sequence) || (has(self.status) && has(self.status.sequence) && self.status.sequence >= oldSelf.status.sequence)",message="status.sequence never goes back: delete the object to start again"
// +kubebuilder:validation:XValidation:rule="!has(self.status) || !has(self.status.sequence) || (has(oldSelf.status) && has(oldSelf.status.sequence) ? self.status.sequence - oldSelf.status.sequence <= 1048576 : self.status.sequence <= 1099511627776)",message="status.sequence grows by at most 2^20 at a time, and begins at 2^40 or less: the numbers must not run out"
type NodeTopology struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec NodeTopologySpec `json:"spec"`
	// +optional
	Status NodeTopologyStatus `json:"status,omitzero"`

	// Malformed is the error if the stored object does not have this release's form. If Malformed
	// is not "", only the metadata is set.
	Malformed string `json:"-"`
}

// NodeTopologyList is a list of NodeTopology objects.
//
// +kubebuilder:object:root=true
type NodeTopologyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeTopology `json:"items"`
}

// Authority names the program that decides which CPUs, memory and devices a container gets.
//
// +kubebuilder:validation:Enum=kubelet;berth
type Authority string

const (
	// AuthorityKubelet: the kubelet's managers decide and pin; Berth predicts their decisions.
	AuthorityKubelet Authority = "kubelet"
	// AuthorityBerth: the scheduler decides and the agent pins; the kubelet's managers are off.
	AuthorityBerth Authority = "berth"
)

// Enforcer names the program that carries out decisions on a node with authority berth.
//
// +kubebuilder:validation:Enum=agent;koordlet
type Enforcer string

const (
	// EnforcerAgent: Berth's agent, through the container runtime's NRI.
	EnforcerAgent Enforcer = "agent"
	// EnforcerKoordlet: Koordinator's koordlet, by the annotation resource-status of pods.
	EnforcerKoordlet Enforcer = "koordlet"
)

// NodeTopologySpec describes the machine, and the settings by which its resources are allocated.
// The kubelet's settings stay the same until the kubelet restarts. Devices, Authority, Enforcer and
// Defaults can change at any time.
type NodeTopologySpec struct {
	// Machine is the hardware as a compact machine string (package topology: Parse,
	// Machine.String).
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Machine string `json:"machine"`

	// Devices are the PCI devices of the machine that pods may request and the links between these
	// devices: the items dev and link of a machine string. If absent, the devices in Machine apply.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	Devices string `json:"devices,omitempty"`

	// KubeletView lists those values that the kubelet read when it started and that differ from
	// Machine. If absent, no value differs.
	// +optional
	KubeletView *KubeletView `json:"kubeletView,omitempty"`

	// Authority names the program that decides on this node.
	Authority Authority `json:"authority"`

	// Enforcer names the program that carries out decisions if Authority is berth. If absent, it is
	// the agent.
	// +optional
	Enforcer Enforcer `json:"enforcer,omitempty"`

	// KubeletVersion is the kubelet's release as in Node.status.nodeInfo.kubeletVersion
	// ("v1.36.3"). Decisions differ between minor releases.
	// +kubebuilder:validation:Pattern=`^v1\.[0-9]{1,3}(\.[0-9]{1,4})?([-+].{0,60})?$`
	// +kubebuilder:validation:MaxLength=80
	KubeletVersion string `json:"kubeletVersion"`

	// CPUManager has the settings of the kubelet's CPU Manager.
	// +optional
	CPUManager CPUManager `json:"cpuManager,omitzero"`
	// MemoryManager has the settings of the kubelet's Memory Manager.
	// +optional
	MemoryManager MemoryManager `json:"memoryManager,omitzero"`
	// TopologyManager has the settings of the kubelet's Topology Manager.
	// +optional
	TopologyManager TopologyManager `json:"topologyManager,omitzero"`

	// Defaults apply on a node with authority berth to pods without settings of their own.
	// +optional
	Defaults *Defaults `json:"defaults,omitempty"`

	// FeatureGates are the kubelet's feature gates that affect placement and were set explicitly.
	// +optional
	// +mapType=atomic
	// +kubebuilder:validation:MaxProperties=64
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
}

// KubeletView lists those values that the kubelet read when it started and that differ from the
// machine. The value of an absent field does not differ.
type KubeletView struct {
	// NumCores is MachineInfo.NumCores of cAdvisor: the number of hardware threads.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	NumCores *int32 `json:"numCores,omitempty"`
	// NumSockets is MachineInfo.NumSockets of cAdvisor.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	NumSockets *int32 `json:"numSockets,omitempty"`
	// Memory replaces the memory of the NUMA nodes that it lists.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Memory []ViewMemory `json:"memory,omitempty"`
}

// ViewMemory is the memory of one NUMA node as the kubelet saw it when it started.
type ViewMemory struct {
	// NUMA is the operating system's number of the NUMA node.
	NUMA NUMAID `json:"numa"`
	// Bytes is MemTotal of the NUMA node.
	Bytes Bytes `json:"bytes"`
	// HugePages are the node's pools of huge pages.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	HugePages []HugePages `json:"hugePages,omitempty"`
}

// HugePages is a pool of huge pages.
type HugePages struct {
	// PageBytes is the size of one page, a power of two.
	// +kubebuilder:validation:Minimum=4096
	PageBytes int64 `json:"pageBytes"`
	// Count is the number of pages, free or not.
	// +kubebuilder:validation:Minimum=0
	Count int64 `json:"count"`
}

// CPUManager has the CPU Manager's settings of a KubeletConfiguration. The values are spelled as
// there.
type CPUManager struct {
	// Policy is cpuManagerPolicy; "" is the kubelet's default.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Policy string `json:"policy,omitempty"`
	// Options are cpuManagerPolicyOptions.
	// +optional
	// +mapType=atomic
	// +kubebuilder:validation:MaxProperties=16
	Options map[string]OptionValue `json:"options,omitempty"`
	// ReservedCPUs is reservedSystemCPUs, a kernel CPU list.
	// +optional
	ReservedCPUs CPUList `json:"reservedCPUs,omitempty"`
	// ReservedMilliCPU is kubeReserved + systemReserved CPU, in thousandths of a CPU. It applies if
	// ReservedCPUs is empty.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1024000
	ReservedMilliCPU int64 `json:"reservedMilliCPU,omitempty"`
}

// MemoryManager has the Memory Manager's settings of a KubeletConfiguration. The values are spelled
// as there.
type MemoryManager struct {
	// Policy is memoryManagerPolicy; "" is the kubelet's default.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Policy string `json:"policy,omitempty"`
	// Reserved is reservedMemory.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Reserved []ReservedMemory `json:"reserved,omitempty"`
	// NodeReserved is the required sum of Reserved by resource, in bytes: kubeReserved +
	// systemReserved + the hard eviction threshold. If absent, it is not known.
	// +optional
	// +mapType=atomic
	// +kubebuilder:validation:MaxProperties=16
	NodeReserved map[string]Bytes `json:"nodeReserved,omitempty"`
}

// ReservedMemory is memory of one NUMA node that is not allocatable to containers.
type ReservedMemory struct {
	// NUMA is the operating system's number of the NUMA node.
	NUMA NUMAID `json:"numa"`
	// Limits is the number of reserved bytes by resource: memory, hugepages-2Mi, ...
	// +mapType=atomic
	// +kubebuilder:validation:MaxProperties=16
	Limits map[string]Bytes `json:"limits"`
}

// TopologyManager has the Topology Manager's settings of a KubeletConfiguration. The values are
// spelled as there.
type TopologyManager struct {
	// Policy is topologyManagerPolicy; "" is the kubelet's default.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Policy string `json:"policy,omitempty"`
	// Scope is topologyManagerScope; "" is the kubelet's default.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Scope string `json:"scope,omitempty"`
	// Options are topologyManagerPolicyOptions.
	// +optional
	// +mapType=atomic
	// +kubebuilder:validation:MaxProperties=16
	Options map[string]OptionValue `json:"options,omitempty"`
}

// Defaults are settings of a node with authority berth. Policy and Scope apply if neither the pod
// nor the kubelet's configuration sets them.
type Defaults struct {
	// Policy is a Topology Manager policy in the kubelet's spelling. If absent, it is none.
	// +optional
	// +kubebuilder:validation:Enum=none;best-effort;restricted;single-numa-node
	Policy string `json:"policy,omitempty"`
	// Scope is the unit to which the policy applies. If absent, it is container.
	// +optional
	// +kubebuilder:validation:Enum=container;pod
	Scope string `json:"scope,omitempty"`
	// CPUs sets how a container's exclusive CPUs are placed on cores, and overrides the pod's
	// preference. If absent, the pod's preference applies. If CPUs is set, a pod that requests
	// whole CPUs gets them exclusively, unless the pod requests shares.
	// +optional
	// +kubebuilder:validation:Enum=full-cores;spread
	CPUs string `json:"cpus,omitempty"`
	// Strategy chooses between NUMA nodes that fit equally well. If absent, it is MostAllocated. If
	// set, it also applies to the choice among nodes.
	// +optional
	// +kubebuilder:validation:Enum=MostAllocated;LeastAllocated
	Strategy string `json:"strategy,omitempty"`
}

// NodeTopologyStatus lists the current allocations: one consistent reading of the kubelet's
// checkpoints. The amounts include allocations of deleted pods that the kubelet still counts. On a
// node with authority berth, the agent adds the allocations that Berth has decided.
type NodeTopologyStatus struct {
	// Sequence grows by at least one with every write.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Sequence int64 `json:"sequence,omitempty"`
	// ObservedTime is the time when the agent made the report, by the node's clock. Sequence and
	// ObservedTime together identify a report. To detect stale reports, the scheduler uses the
	// heartbeat Lease.
	// +optional
	ObservedTime metav1.MicroTime `json:"observedTime,omitzero"`

	// SharedCPUs is a kernel CPU list of the CPUs that no container has exclusively. On a node with
	// authority kubelet, it is defaultCpuSet of cpu_manager_state, which is empty under the CPU
	// Manager policy none.
	// +optional
	SharedCPUs CPUList `json:"sharedCPUs,omitempty"`
	// Memory is machineState of memory_manager_state, ascending by NUMA node. It is absent if the
	// Memory Manager's policy is None.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Memory []MemoryTable `json:"memory,omitempty"`
	// Devices are the pools of the device plugins, ascending by resource name.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Devices []DevicePool `json:"devices,omitempty"`
	// Pods are all admitted pods that have not ended, pinned or not, and all other pods that hold
	// resources. They are in order of admission if it is known.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Pods []PodAllocation `json:"pods,omitempty"`

	// Conditions are the report's conditions. Ready is True if the report is reliable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MemoryTable has the Memory Manager's amounts for one NUMA node.
type MemoryTable struct {
	// NUMA is the operating system's number of the NUMA node.
	NUMA NUMAID `json:"numa"`
	// Assignments is numberOfAssignments of the checkpoint.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Assignments int32 `json:"assignments,omitempty"`
	// Cells is the group of NUMA nodes whose memory is allocated together with the memory of this
	// NUMA node. If absent, the group has only this NUMA node.
	// +optional
	Cells NUMAList `json:"cells,omitempty"`
	// Resources has a row for each resource, ascending by resource name.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Resources []MemoryAmounts `json:"resources"`
}

// MemoryAmounts is one row of a MemoryTable. Free memory is Allocatable minus Reserved.
type MemoryAmounts struct {
	// Resource is memory, hugepages-2Mi, ...
	Resource ResourceName `json:"resource"`
	// Allocatable is the total number of bytes that containers can get.
	Allocatable Bytes `json:"allocatable"`
	// Reserved is the number of bytes that containers have.
	// +optional
	Reserved Bytes `json:"reserved,omitempty"`
}

// Preference is the rule by which a device plugin chooses among devices (GetPreferredAllocation).
//
// +kubebuilder:validation:Enum=None;Sorted;NVIDIA;Unknown
type Preference string

const (
	// PreferenceNone: the plugin has no GetPreferredAllocation. The kubelet picks in Go's map
	// order, which is random.
	PreferenceNone Preference = "None"
	// PreferenceSorted: the plugin prefers the required devices, then the first free devices in the
	// order of their ids.
	PreferenceSorted Preference = "Sorted"
	// PreferenceNVIDIA: the plugin uses the order that NVIDIA publishes for its plugin. The order
	// uses the addresses of the devices and the links of spec.devices.
	PreferenceNVIDIA Preference = "NVIDIA"
	// PreferenceUnknown: the plugin has its own rules.
	PreferenceUnknown Preference = "Unknown"
)

// DevicePool has the devices that a plugin offers under one resource name.
type DevicePool struct {
	// Resource is the extended resource, such as "nvidia.com/gpu".
	Resource ResourceName `json:"resource"`
	// Preference is the rule by which the plugin chooses among its devices.
	// +optional
	Preference Preference `json:"preference,omitempty"`
	// DecidedBy names the program that chooses devices for each pod. "berth" is for resources of
	// Berth's own device plugin on a node with authority berth. Ids are then PCI addresses
	// ("0000:3b:00.0"), and each container gets exactly the devices that the Binding names. If
	// spec.devices has the device, the id is the address there. If absent, the plugin chooses if it
	// has a preference, and otherwise the kubelet chooses.
	// +optional
	DecidedBy Authority `json:"decidedBy,omitempty"`
	// Groups lists each device once, grouped by NUMA node and health.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Groups []DeviceGroup `json:"groups"`
}

// DeviceGroup has the devices of one pool with the same NUMA nodes and the same health.
type DeviceGroup struct {
	// NUMA is the list of NUMA nodes to which the devices are attached. It is "" if the plugin
	// reports a topology without NUMA nodes. It is absent if the plugin reports no topology.
	// +optional
	NUMA *NUMAList `json:"numa,omitempty"`
	// Unhealthy means that the devices are unhealthy. The kubelet counts unhealthy devices but does
	// not allocate them.
	// +optional
	Unhealthy bool `json:"unhealthy,omitempty"`
	// IDs are the plugin's ids, ascending.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	IDs []DeviceID `json:"ids"`
	// Addresses has the PCI address of each device ("0000:3b:00.0"), in the order of IDs; "" if it
	// is not known. If Addresses is absent, an address is known only if it is the device's id.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Addresses []PCIAddress `json:"addresses,omitempty"`
}

// PodAllocation has the resources of one pod. In JSON it is one line of text, such as "UID
// pod=NAMESPACE/NAME CONTAINER;cpus=2-3,66-67;mem=memory@0=4Gi;dev=nvidia.com/gpu=GPU-1".
//
// +kubebuilder:validation:Type=string
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=65536
type PodAllocation struct {
	// UID is metadata.uid of the pod in the API. For a static pod it is the UID of its mirror pod.
	// If the API has no such pod, it is the UID that the kubelet uses for the pod.
	UID string `json:"uid"`
	// Pod is NAMESPACE/NAME. It is set if the name is known and a container of the pod has
	// resources.
	Pod string `json:"pod,omitempty"`
	// State is absent for an admitted pod that runs or will run, and for an ended pod that may
	// still be active in the kubelet.
	State PodState `json:"state,omitempty"`
	// Generation is the generation of the decision that the agent carries out for a pod that was
	// resized in place. It is set only on nodes with authority berth.
	Generation uint64 `json:"generation,omitempty"`
	// Whole is the pod-level allocation (spec.resources): CPUs and memory that the containers
	// share. It has no name. It is absent if all resources of the pod belong to containers.
	Whole *ContainerAllocation `json:"whole,omitempty"`
	// Containers are the containers that have resources, in the kubelet's order of allocation.
	Containers []ContainerAllocation `json:"containers,omitempty"`
	// Malformed is the complete line if it could not be parsed. No other field is set then.
	Malformed string `json:"-"`
}

// PodState is the reason why the report lists a pod that is not admitted, or that no longer runs.
//
// +kubebuilder:validation:Enum=Ended;Rejected;Unknown
type PodState string

const (
	// PodEnded: the pod has ended or is gone from the API, and is no longer active in the kubelet.
	// The kubelet's checkpoints still list its resources.
	PodEnded PodState = "Ended"
	// PodRejected: the kubelet has rejected the pod, but still keeps resources that it had
	// allocated to the pod before.
	PodRejected PodState = "Rejected"
	// PodUnknown: the checkpoints list a pod that the agent has not seen in the API, or whose
	// admission the kubelet has not finished.
	PodUnknown PodState = "Unknown"
)

// ContainerKind determines how long a container keeps its resources.
//
// +kubebuilder:validation:Enum=App;Init;Sidecar
type ContainerKind string

const (
	// KindApp is an ordinary container. It is the default.
	KindApp ContainerKind = "App"
	// KindInit is an init container that ends before the next container starts.
	KindInit ContainerKind = "Init"
	// KindSidecar is an init container with restartPolicy Always.
	KindSidecar ContainerKind = "Sidecar"
)

// ContainerAllocation has the resources of one container.
type ContainerAllocation struct {
	// Name of the container.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Kind is absent for an ordinary container.
	// +optional
	Kind ContainerKind `json:"kind,omitempty"`
	// CPUs are the exclusive CPUs, a kernel CPU list.
	// +optional
	CPUs CPUList `json:"cpus,omitempty"`
	// Exclusive is the level at which the container excludes other containers: they get no CPUs of
	// the same cores or NUMA nodes. It is set only on nodes with authority berth.
	// +optional
	Exclusive Exclusive `json:"exclusive,omitempty"`
	// Shares is CPU time on NUMA nodes, ascending by NUMA node. It is set only on nodes with
	// authority berth.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Shares []CPUShare `json:"shares,omitempty"`
	// Memory is the pinned memory, sorted by resource name and then by NUMA nodes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Memory []MemoryBlock `json:"memory,omitempty"`
	// Devices are the devices that the container holds, ascending by resource name.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Devices []DeviceAllocation `json:"devices,omitempty"`
}

// Exclusive is a level at which a container excludes other containers.
//
// +kubebuilder:validation:Enum=core;numa
type Exclusive string

// The levels.
const (
	// ExclusiveCore: the other threads of the container's cores stay idle.
	ExclusiveCore Exclusive = "core"
	// ExclusiveNUMA: the other CPUs of the container's NUMA nodes stay idle.
	ExclusiveNUMA Exclusive = "numa"
)

// CPUShare is CPU time on a NUMA node.
type CPUShare struct {
	// NUMA is the operating system's number of the NUMA node.
	NUMA NUMAID `json:"numa"`
	// MilliCPU is in thousandths of a CPU.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024000
	MilliCPU int64 `json:"milliCPU"`
}

// MemoryBlock is memory of one kind, pinned to a set of NUMA nodes, in the form
// RESOURCE@NODES=QUANTITY, such as "memory@0-1=6Gi". A block has quantity 0 if a later container of
// the pod has reused its memory.
//
// +kubebuilder:validation:MaxLength=512
// +kubebuilder:validation:Pattern=`^[^@=]{1,253}@[0-9]{1,2}(-[0-9]{1,2})?(,[0-9]{1,2}(-[0-9]{1,2})?)*=[0-9]{1,19}([KMGTPE]i)?$`
type MemoryBlock string

// DeviceAllocation has the devices of one resource.
type DeviceAllocation struct {
	// Resource is the extended resource.
	Resource ResourceName `json:"resource"`
	// IDs are the plugin's ids, ascending.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	IDs []DeviceID `json:"ids"`
	// Addresses has the PCI address of each device ("0000:3b:00.0"), in the order of IDs; "" if it
	// is not known. If Addresses is absent, an address is known only if it is the device's id.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Addresses []PCIAddress `json:"addresses,omitempty"`
}

// NUMAID is the operating system's number of a NUMA node.
//
// +kubebuilder:validation:Minimum=0
// +kubebuilder:validation:Maximum=63
type NUMAID int32

// NUMAList is a list of NUMA nodes in the kernel's format ("0-1,3").
//
// +kubebuilder:validation:MaxLength=256
// +kubebuilder:validation:Pattern=`^([0-9]{1,2}(-[0-9]{1,2})?(,[0-9]{1,2}(-[0-9]{1,2})?)*)?$`
type NUMAList string

// CPUList is a list of CPUs in the kernel's format ("0-3,8,10-11").
//
// +kubebuilder:validation:MaxLength=4096
// +kubebuilder:validation:Pattern=`^([0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*)?$`
type CPUList string

// Bytes is an amount of memory in bytes.
//
// +kubebuilder:validation:Minimum=0
type Bytes int64

// ResourceName is the name of a resource.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
type ResourceName string

// OptionValue is the value of a policy option, in the kubelet's spelling.
//
// +kubebuilder:validation:MaxLength=63
type OptionValue string

// DeviceID is a device plugin's id of a device.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
type DeviceID string

// PCIAddress is the address of a PCI function, such as "0000:3b:00.0"; "" if it is not known.
//
// +kubebuilder:validation:MaxLength=16
// +kubebuilder:validation:Pattern=`^([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])?$`
type PCIAddress string

// ConditionReady is the type of the condition that is True while the report is reliable. If the
// condition is False, its reason is one of the constants below, and its message describes the
// problem.
const ConditionReady = "Ready"

// The reasons of the Ready condition.
const (
	// ReasonConsistent: the kubelet's checkpoints agree with one another and with the machine
	// (Ready is True).
	ReasonConsistent = "Consistent"
	// ReasonUnsupported: Berth cannot predict a kubelet with this machine or configuration.
	ReasonUnsupported = "Unsupported"
	// ReasonUnreadable: a checkpoint cannot be read, or its checksum is wrong.
	ReasonUnreadable = "CheckpointUnreadable"
	// ReasonContradiction: the checkpoints contradict one another, the machine or the
	// configuration.
	ReasonContradiction = "Contradiction"
	// ReasonAdmissionUnfinished: the kubelet has been admitting a pod for too long.
	ReasonAdmissionUnfinished = "AdmissionUnfinished"
	// ReasonDevicesUnknown: the agent cannot find out the NUMA nodes of a plugin's devices.
	ReasonDevicesUnknown = "DevicesUnknown"
	// ReasonMachineChanged: the machine has lost hardware since the kubelet started, and the
	// kubelet still allocates it.
	ReasonMachineChanged = "MachineChanged"
)

// ReasonTooLarge is a reason of Ready: the API server has refused the report, usually because it is
// too large, so the agent has published a report without allocations.
const ReasonTooLarge = "TooLarge"

// ReasonNotEnforced is a reason of Ready: Berth decides on the node, but no program there carries
// out its decisions.
const ReasonNotEnforced = "NotEnforced"

// ConditionEnforced is the type of the condition that is False while a container does not run as
// Berth decided. The condition is absent while all containers run as decided. Only nodes with
// authority berth can have this condition.
const ConditionEnforced = "Enforced"

// ReasonAstray is the reason of ConditionEnforced.
const ReasonAstray = "ContainersAstray"

// ConditionSoleOwner is the type of the condition that is False while the image name of a pod
// suggests that the pod sets the CPUs of other pods' containers. Agents set the condition on nodes
// with authority berth. The condition is only a warning, because an image name proves nothing. The
// condition is absent while there is no such pod.
const ConditionSoleOwner = "SoleOwner"

// ReasonRivalSuspected is the reason of ConditionSoleOwner.
const ReasonRivalSuspected = "RivalSuspected"

// ConditionKubeletCurrent is the type of the condition that is False while the machine or the
// kubelet's configuration differs from the state that the kubelet read when it started. The
// condition is absent while they are equal. It is Unknown while the agent does not know which
// configuration the kubelet has read; Berth makes no exact decision for the node in that time. If
// the kubelet still allocates hardware that is gone, Ready is False too. The reasons of the
// condition are ReasonMachineChanged and the constants below.
const ConditionKubeletCurrent = "KubeletCurrent"

const (
	// ReasonConfigurationChanged: the kubelet's configuration has changed since the kubelet
	// started.
	ReasonConfigurationChanged = "ConfigurationChanged"
	// ReasonConfigurationUnreadable: the agent can no longer read the kubelet's configuration. The
	// kubelet would fail if it started now.
	ReasonConfigurationUnreadable = "ConfigurationUnreadable"
	// ReasonConfigurationNewer: the kubelet's configuration was changed after the kubelet started
	// and before the agent read it.
	ReasonConfigurationNewer = "ConfigurationNewer"
)

// SequenceAnnotation, an annotation of a node's heartbeat Lease, is the sequence number of the
// current report.
const SequenceAnnotation = "berth.dev/report-sequence"

// KubeletStartedAnnotation, an annotation of a NodeTopology, is the time when the kubelet created
// its sockets, by the node's clock, in RFC 3339 format. If the time changes, the kubelet has
// restarted and admits its pods again. The time is not a field, because the custom resource
// definition of an earlier release would drop a new field.
const KubeletStartedAnnotation = "berth.dev/kubelet-started"

// HeartbeatNamespace is the default namespace of heartbeat Leases.
const HeartbeatNamespace = "berth-system"

// HeartbeatName is the name of the Lease that a node's agent renews while its last report is
// current.
func HeartbeatName(node string) string { return "berth-agent." + node }
