package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NodeTopology is what the agent of one node knows of it: the machine, how the kubelet hands it
// out, and what is handed out now. It is cluster-scoped and has its Node's name.
//
// Spec and status are written together, by the agent of that node alone, in one server-side apply:
// a reader never sees the tables of one configuration beside another. There is therefore no status
// subresource.
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

	// Malformed says why what is stored could not be read as this release writes it; nothing but
	// the metadata is set then.
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

// Authority says whose decision counts on a node.
//
// +kubebuilder:validation:Enum=kubelet;berth
type Authority string

const (
	// AuthorityKubelet: the kubelet's managers pin; Berth predicts them.
	AuthorityKubelet Authority = "kubelet"
	// AuthorityBerth: the scheduler decides and the agent pins; the kubelet's managers are off.
	AuthorityBerth Authority = "berth"
)

// Enforcer says who carries decisions out on a node with authority berth.
//
// +kubebuilder:validation:Enum=agent;koordlet
type Enforcer string

const (
	// EnforcerAgent: Berth's agent, through the container runtime's NRI.
	EnforcerAgent Enforcer = "agent"
	// EnforcerKoordlet: Koordinator's koordlet, by the annotation resource-status of pods.
	EnforcerKoordlet Enforcer = "koordlet"
)

// NodeTopologySpec is the machine and how it is handed out: what stays the same until the kubelet
// restarts.
type NodeTopologySpec struct {
	// Machine is the hardware as a compact machine string (package topology: Parse,
	// Machine.String).
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Machine string `json:"machine"`

	// Devices are the PCI devices of the machine that pods may ask for and the links between them:
	// the items dev and link of a machine string. Absent: the ones in Machine.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	Devices string `json:"devices,omitempty"`

	// KubeletView says where the kubelet's idea of the machine, frozen when it started, differs
	// from what Machine makes one expect. Absent: it does not.
	// +optional
	KubeletView *KubeletView `json:"kubeletView,omitempty"`

	// Authority says whose decision counts on this node.
	Authority Authority `json:"authority"`

	// Enforcer says who carries decisions out where Authority is berth; absent: the agent.
	// +optional
	Enforcer Enforcer `json:"enforcer,omitempty"`

	// KubeletVersion is the kubelet's release as in Node.status.nodeInfo.kubeletVersion
	// ("v1.36.3"). Decisions differ between minor releases.
	// +kubebuilder:validation:Pattern=`^v1\.[0-9]{1,3}(\.[0-9]{1,4})?([-+].{0,60})?$`
	// +kubebuilder:validation:MaxLength=80
	KubeletVersion string `json:"kubeletVersion"`

	// CPUManager is the kubelet's CPU manager.
	// +optional
	CPUManager CPUManager `json:"cpuManager,omitzero"`
	// MemoryManager is the kubelet's memory manager.
	// +optional
	MemoryManager MemoryManager `json:"memoryManager,omitzero"`
	// TopologyManager is the kubelet's topology manager.
	// +optional
	TopologyManager TopologyManager `json:"topologyManager,omitzero"`

	// Defaults hold on a node with authority berth where a pod says nothing.
	// +optional
	Defaults *Defaults `json:"defaults,omitempty"`

	// FeatureGates are the kubelet's gates that were set explicitly and matter for placement.
	// +optional
	// +mapType=atomic
	// +kubebuilder:validation:MaxProperties=64
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
}

// KubeletView lists deviations of the kubelet's reading of the machine. An absent field does not
// deviate.
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
	// Memory replaces the memory of the nodes that it names.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Memory []ViewMemory `json:"memory,omitempty"`
}

// ViewMemory is the memory of one NUMA node as the kubelet saw it when it started.
type ViewMemory struct {
	// NUMA is the operating system's number of the node.
	NUMA NUMAID `json:"numa"`
	// Bytes is MemTotal.
	Bytes Bytes `json:"bytes"`
	// HugePages are the pools of the node.
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

// CPUManager is the CPU manager's part of a KubeletConfiguration, in its spelling.
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
	// ReservedMilliCPU is kubeReserved + systemReserved CPU, in thousandths of a CPU; it counts
	// when ReservedCPUs is empty.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1024000
	ReservedMilliCPU int64 `json:"reservedMilliCPU,omitempty"`
}

// MemoryManager is the memory manager's part of a KubeletConfiguration, in its spelling.
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
	// NodeReserved is what Reserved must add up to: kubeReserved + systemReserved + the hard
	// eviction threshold, by resource, in bytes. Absent: not known.
	// +optional
	// +mapType=atomic
	// +kubebuilder:validation:MaxProperties=16
	NodeReserved map[string]Bytes `json:"nodeReserved,omitempty"`
}

// ReservedMemory is memory of one NUMA node that no container gets.
type ReservedMemory struct {
	// NUMA is the operating system's number of the node.
	NUMA NUMAID `json:"numa"`
	// Limits is bytes by resource: memory, hugepages-2Mi, ...
	// +mapType=atomic
	// +kubebuilder:validation:MaxProperties=16
	Limits map[string]Bytes `json:"limits"`
}

// TopologyManager is the topology manager's part of a KubeletConfiguration, in its spelling.
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

// Defaults are what holds on a node with authority berth where a pod says nothing. A policy of the
// kubelet's comes before them.
type Defaults struct {
	// Policy is a policy as the kubelet spells it; absent: none.
	// +optional
	// +kubebuilder:validation:Enum=none;best-effort;restricted;single-numa-node
	Policy string `json:"policy,omitempty"`
	// Scope is what the policy is applied to; absent: container.
	// +optional
	// +kubebuilder:validation:Enum=container;pod
	Scope string `json:"scope,omitempty"`
	// CPUs says how CPUs of a container's own lie on cores, whatever the pod prefers; absent: as
	// the pod says. A pod that asks for whole CPUs then has them to itself, unless it wants shares.
	// +optional
	// +kubebuilder:validation:Enum=full-cores;spread
	CPUs string `json:"cpus,omitempty"`
	// Strategy chooses between NUMA nodes that fit equally well; absent: MostAllocated.
	// If it is set, it also applies to the choice among nodes.
	// +optional
	// +kubebuilder:validation:Enum=MostAllocated;LeastAllocated
	Strategy string `json:"strategy,omitempty"`
}

// NodeTopologyStatus is what is handed out: the kubelet's books as one consistent reading.
// Quantities are the kubelet's own, also where pods that are gone still hold something.
type NodeTopologyStatus struct {
	// Sequence grows by at least one with every write.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Sequence int64 `json:"sequence,omitempty"`
	// ObservedTime is when the reading was made, by the node's clock: for people. Staleness is
	// judged by the heartbeat Lease.
	// +optional
	ObservedTime metav1.MicroTime `json:"observedTime,omitzero"`

	// SharedCPUs is defaultCpuSet of cpu_manager_state, a kernel CPU list: every CPU that no
	// container has to itself.
	// +optional
	SharedCPUs CPUList `json:"sharedCPUs,omitempty"`
	// Memory is machineState of memory_manager_state, ascending by NUMA node; absent with policy
	// None.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Memory []MemoryTable `json:"memory,omitempty"`
	// Devices are the pools of the device plugins, ascending by resource.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Devices []DevicePool `json:"devices,omitempty"`
	// Pods are all pods whose admission the kubelet has finished, pinned or not, and all others
	// that hold something; in order of admission where it is known.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Pods []PodAllocation `json:"pods,omitempty"`

	// Conditions: Ready says whether the report may be relied on.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MemoryTable is the memory manager's book of one NUMA node.
type MemoryTable struct {
	// NUMA is the operating system's number of the node.
	NUMA NUMAID `json:"numa"`
	// Assignments is numberOfAssignments.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Assignments int32 `json:"assignments,omitempty"`
	// Cells is the group of nodes that this one's memory is handed out with; absent: itself alone.
	// +optional
	Cells NUMAList `json:"cells,omitempty"`
	// Resources is ascending by resource.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Resources []MemoryAmounts `json:"resources"`
}

// MemoryAmounts is one row of a MemoryTable; what containers do not hold of Allocatable is free.
type MemoryAmounts struct {
	// Resource is memory, hugepages-2Mi, ...
	Resource ResourceName `json:"resource"`
	// Allocatable is what containers can get at all.
	Allocatable Bytes `json:"allocatable"`
	// Reserved is what containers hold.
	// +optional
	Reserved Bytes `json:"reserved,omitempty"`
}

// Preference says how a device plugin chooses among devices (GetPreferredAllocation).
//
// +kubebuilder:validation:Enum=None;Sorted;NVIDIA;Unknown
type Preference string

const (
	// PreferenceNone: no GetPreferredAllocation; the kubelet picks as Go's map order has it.
	PreferenceNone Preference = "None"
	// PreferenceSorted: the required devices, then the first free ones in order of their ids.
	PreferenceSorted Preference = "Sorted"
	// PreferenceNVIDIA: the order that NVIDIA publishes for its plugin. It goes by the addresses of
	// the devices, and the links of spec.devices.
	PreferenceNVIDIA Preference = "NVIDIA"
	// PreferenceUnknown: the plugin chooses by rules of its own.
	PreferenceUnknown Preference = "Unknown"
)

// DevicePool is the devices that a plugin offers under one resource name.
type DevicePool struct {
	// Resource is the extended resource, "nvidia.com/gpu".
	Resource ResourceName `json:"resource"`
	// Preference says how the plugin chooses.
	// +optional
	Preference Preference `json:"preference,omitempty"`
	// DecidedBy says who chooses among the devices for each pod. "berth" is for resources of
	// Berth's own device plugin on a node with authority berth: ids are then PCI addresses
	// ("0000:3b:00.0"), those of spec.devices where it knows the device, and each container gets
	// exactly the devices that the Binding names. Absent: the kubelet, and the plugin where it has
	// a preference.
	// +optional
	DecidedBy Authority `json:"decidedBy,omitempty"`
	// Groups are the devices by NUMA node and health, each device once.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Groups []DeviceGroup `json:"groups"`
}

// DeviceGroup is devices of one pool that share NUMA nodes and health.
type DeviceGroup struct {
	// NUMA is the list of nodes that the devices hang from; "" for a device with a topology but no
	// node. Absent: the plugin says nothing about topology.
	// +optional
	NUMA *NUMAList `json:"numa,omitempty"`
	// Unhealthy devices count as devices of their node but are not handed out.
	// +optional
	Unhealthy bool `json:"unhealthy,omitempty"`
	// IDs are the plugin's ids, ascending.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	IDs []DeviceID `json:"ids"`
	// Addresses are the PCI addresses of the devices ("0000:3b:00.0"), one for each id, "" where it
	// is not known. Absent: none is known, beyond ids that are addresses themselves.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Addresses []PCIAddress `json:"addresses,omitempty"`
}

// PodAllocation is what one pod holds. In JSON it is one line of text:
// "UID pod=NAMESPACE/NAME CONTAINER;cpus=2-3,66-67;mem=memory@0=4Gi;dev=nvidia.com/gpu=GPU-1".
//
// +kubebuilder:validation:Type=string
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=65536
type PodAllocation struct {
	// UID is metadata.uid of the pod in the API, for a static pod that of its mirror; what the
	// kubelet itself calls it where the API knows no such pod.
	UID string `json:"uid"`
	// Pod is NAMESPACE/NAME, where it is known and the pod holds something.
	Pod string `json:"pod,omitempty"`
	// State is absent for a pod that the kubelet has admitted and that runs or will.
	State PodState `json:"state,omitempty"`
	// Generation is that of the decision which the agent carries out for a pod that was resized in
	// place; only where Berth decides.
	Generation uint64 `json:"generation,omitempty"`
	// Whole is what the pod holds as a whole, by spec.resources: CPUs and memory of which its
	// containers have parts. It has no name. Absent where containers hold everything.
	Whole *ContainerAllocation `json:"whole,omitempty"`
	// Containers are the ones that hold something, in the order in which the kubelet allocates.
	Containers []ContainerAllocation `json:"containers,omitempty"`
	// Malformed is a line that could not be read; nothing else is set then.
	Malformed string `json:"-"`
}

// PodState says why a pod that is not admitted and alive is in the report.
//
// +kubebuilder:validation:Enum=Ended;Rejected;Unknown
type PodState string

const (
	// PodEnded: the pod has ended or is gone from the API, and the kubelet's books still hold its
	// resources.
	PodEnded PodState = "Ended"
	// PodRejected: the kubelet refused the pod and still holds what it had allocated to it on the
	// way.
	PodRejected PodState = "Rejected"
	// PodUnknown: the books name a pod that the agent has not seen in the API.
	PodUnknown PodState = "Unknown"
)

// ContainerKind says how long a container's resources are its own.
//
// +kubebuilder:validation:Enum=App;Init;Sidecar
type ContainerKind string

const (
	// KindApp is an ordinary container, and what an absent kind means.
	KindApp ContainerKind = "App"
	// KindInit runs to its end before the next container starts.
	KindInit ContainerKind = "Init"
	// KindSidecar is an init container with restartPolicy Always.
	KindSidecar ContainerKind = "Sidecar"
)

// ContainerAllocation is what one container holds.
type ContainerAllocation struct {
	// Name of the container.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Kind is absent for an ordinary container.
	// +optional
	Kind ContainerKind `json:"kind,omitempty"`
	// Started says that an init container has been started.
	// +optional
	Started bool `json:"started,omitempty"`
	// CPUs are the exclusive CPUs, a kernel CPU list.
	// +optional
	CPUs CPUList `json:"cpus,omitempty"`
	// Exclusive is the level at which nobody else gets CPUs beside these; only where Berth decides.
	// +optional
	Exclusive Exclusive `json:"exclusive,omitempty"`
	// Shares is CPU time on NUMA nodes, ascending by NUMA node; only where Berth decides.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Shares []CPUShare `json:"shares,omitempty"`
	// Memory is the pinned memory by resource, then NUMA nodes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Memory []MemoryBlock `json:"memory,omitempty"`
	// Devices are the devices, ascending by resource.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Devices []DeviceAllocation `json:"devices,omitempty"`
}

// Exclusive is a level at which CPUs are kept from others.
//
// +kubebuilder:validation:Enum=core;numa
type Exclusive string

// The levels.
const (
	// ExclusiveCore: the other threads of its cores stay idle.
	ExclusiveCore Exclusive = "core"
	// ExclusiveNUMA: the other CPUs of its NUMA nodes stay idle.
	ExclusiveNUMA Exclusive = "numa"
)

// CPUShare is CPU time on a NUMA node.
type CPUShare struct {
	// NUMA is the operating system's number of the node.
	NUMA NUMAID `json:"numa"`
	// MilliCPU is in thousandths of a CPU.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024000
	MilliCPU int64 `json:"milliCPU"`
}

// MemoryBlock is memory of one kind, pinned to a set of NUMA nodes: RESOURCE@NODES=QUANTITY,
// "memory@0-1=6Gi". A block of 0 is one whose memory a later container of the pod has taken over.
//
// +kubebuilder:validation:MaxLength=512
// +kubebuilder:validation:Pattern=`^[^@=]{1,253}@[0-9]{1,2}(-[0-9]{1,2})?(,[0-9]{1,2}(-[0-9]{1,2})?)*=[0-9]{1,19}([KMGTPE]i)?$`
type MemoryBlock string

// DeviceAllocation is devices of one resource.
type DeviceAllocation struct {
	// Resource is the extended resource.
	Resource ResourceName `json:"resource"`
	// IDs are the plugin's ids, ascending.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	IDs []DeviceID `json:"ids"`
	// Addresses are the PCI addresses of the devices ("0000:3b:00.0"), one for each id, "" where it
	// is not known. Absent: none is known, beyond ids that are addresses themselves.
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

// PCIAddress is the address of a PCI function, "0000:3b:00.0"; "" where it is not known.
//
// +kubebuilder:validation:MaxLength=16
// +kubebuilder:validation:Pattern=`^([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])?$`
type PCIAddress string

// ConditionReady is the type of the condition that says whether the report may be relied on. When
// it is False, its reason is one of those below, and its message names what is wrong and what would
// be right.
const ConditionReady = "Ready"

// Reasons of the Ready condition.
const (
	// ReasonConsistent: the kubelet's books agree with one another and with the machine (Ready is
	// True).
	ReasonConsistent = "Consistent"
	// ReasonUnsupported: the engine cannot predict a kubelet with this machine or configuration.
	ReasonUnsupported = "Unsupported"
	// ReasonUnreadable: a checkpoint cannot be read, or its checksum is wrong.
	ReasonUnreadable = "CheckpointUnreadable"
	// ReasonContradiction: the books contradict one another, the machine or the configuration.
	ReasonContradiction = "Contradiction"
	// ReasonAdmissionUnfinished: the kubelet has been admitting a pod for too long.
	ReasonAdmissionUnfinished = "AdmissionUnfinished"
	// ReasonDevicesUnknown: nobody tells which NUMA nodes the devices of a plugin hang from.
	ReasonDevicesUnknown = "DevicesUnknown"
	// ReasonMachineChanged: the machine has lost something since the kubelet started, which the
	// kubelet still hands out.
	ReasonMachineChanged = "MachineChanged"
)

// ReasonTooLarge is a reason of Ready: the API server has refused the report of what the node has
// handed out, which is left out.
const ReasonTooLarge = "TooLarge"

// ReasonNotEnforced is a reason of Ready: Berth decides on the node, and nothing carries decisions
// out there.
const ReasonNotEnforced = "NotEnforced"

// ConditionEnforced is the type of the condition that is False while a container does not run as it
// was decided, on a node where Berth decides. It is left out while all do.
const ConditionEnforced = "Enforced"

// ReasonAstray is the reason of ConditionEnforced.
const ReasonAstray = "ContainersAstray"

// ConditionSoleOwner is the type of the condition that is False while a pod of the node looks like
// another program that sets the CPUs of containers, on a node where Berth decides. It is a warning:
// anybody can give an image such a name. It is left out while there is nothing to say.
const ConditionSoleOwner = "SoleOwner"

// ReasonRivalSuspected is the reason of ConditionSoleOwner.
const ReasonRivalSuspected = "RivalSuspected"

// ConditionKubeletCurrent is the type of the condition that is False while the kubelet does not
// know its machine or its configuration as they are now: it reads both when it starts. It is left
// out while there is nothing to say. What the kubelet still hands out though it is gone also makes
// Ready False. It is Unknown while nobody can tell which configuration the kubelet has read: no
// decision for the node is exact then. Its reasons are ReasonMachineChanged and those below.
const ConditionKubeletCurrent = "KubeletCurrent"

const (
	// ReasonConfigurationChanged: the kubelet's configuration has changed since the kubelet
	// started.
	ReasonConfigurationChanged = "ConfigurationChanged"
	// ReasonConfigurationUnreadable: the kubelet's configuration cannot be read any more: a kubelet
	// that starts now would not come up.
	ReasonConfigurationUnreadable = "ConfigurationUnreadable"
	// ReasonConfigurationNewer: the kubelet's configuration was changed after the kubelet had
	// started and before the agent had.
	ReasonConfigurationNewer = "ConfigurationNewer"
)

// SequenceAnnotation on a node's heartbeat Lease is the sequence number of the report that still
// holds.
const SequenceAnnotation = "berth.dev/report-sequence"

// KubeletStartedAnnotation on a NodeTopology is when the kubelet made its sockets, by the node's
// clock, as RFC 3339 has it: another time is another kubelet, which admits pods anew. It is an
// annotation so that a definition of an earlier release keeps it.
const KubeletStartedAnnotation = "berth.dev/kubelet-started"

// HeartbeatNamespace is where heartbeat Leases are by default.
const HeartbeatNamespace = "berth-system"

// HeartbeatName is the name of the Lease that the agent of a node renews for as long as its last
// report holds.
func HeartbeatName(node string) string { return "berth-agent." + node }
