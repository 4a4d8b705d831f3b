package placement

import (
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

// Reason is the reason why the kubelet or Berth refuses a pod. A reason of the kubelet has the name
// that the kubelet writes to pod.status.reason.
type Reason uint8

const (
	// Admitted, the zero value, means that the pod is not refused.
	Admitted Reason = iota
	// TopologyAffinityError: the merged hint is not acceptable to the policy.
	TopologyAffinityError
	// SMTAlignmentError: the option full-pcpus-only cannot be fulfilled.
	SMTAlignmentError
	// UnexpectedAdmissionError: a manager failed to allocate after the hints were merged.
	UnexpectedAdmissionError
	// EmptyPodSharedPoolError: spec.resources decides the pod's placement, and its containers with
	// exclusive resources leave nothing for the containers that share the rest.
	EmptyPodSharedPoolError
	// PodLevelResourcesNotSupported: the pod has spec.resources, and the kubelet's gate
	// PodLevelResources is off.
	PodLevelResourcesNotSupported
	// KubeletDefect: the kubelet would hang, crash or corrupt its state. KubeletDefect is a reason
	// of Berth; the kubelet never gives this reason.
	KubeletDefect
	// InvalidRequest: the node could not place this request even if it had no pods. For example,
	// the node cannot apply the requested policy, or an amount is negative or too large. The
	// kubelet never gives this reason.
	InvalidRequest
	// NoBerth: the pod does not fit on a node where Berth decides, or Berth refuses a pod that the
	// kubelet would admit. The kubelet never gives this reason.
	NoBerth
)

// String returns the name of the reason.
func (r Reason) String() string {
	return [...]string{"Admitted", "TopologyAffinityError", "SMTAlignmentError", "UnexpectedAdmissionError",
		"EmptyPodSharedPoolError", "PodLevelResourcesNotSupported", "KubeletDefect", "InvalidRequest", "NoBerth", "Reason(?)"}[min(r, NoBerth+1)]
}

// Verdict is the answer of Admit. It has a fixed size and is comparable.
type Verdict struct {
	Reason Reason
	// Container is the index in Request.Containers of the refused container. It has no meaning if
	// the pod is admitted.
	Container int16
	// Detail is the rule that refused the pod.
	Detail Detail
	// Random is true if the kubelet makes a random choice, for example among devices without
	// GetPreferredAllocation. The CPUs, the devices or the Detail may then differ, but not the
	// Reason.
	Random bool
	// Cut is true if a search of Berth ended because it ran out of steps (joint.Steps). An admitted
	// pod may have a better place, and a refused pod may have a place.
	Cut bool
	// Scarcity tells if removing pods could change the answer.
	Scarcity Scarcity
	// NUMA has the NUMA nodes of the pod's exclusive CPUs, CPU shares, memory blocks and devices.
	// It is 0 if the pod has none of these. In a refusal with KeptForDevices, NUMA is the NUMA node
	// with too few CPUs.
	NUMA topology.NUMASet
}

// OK reports whether the pod is admitted.
func (v *Verdict) OK() bool { return v.Reason == Admitted }

// Scarcity tells if removing pods from the node could resolve a refusal.
type Scarcity uint8

const (
	// NotScarce, the zero value, is the Scarcity of admitted pods.
	NotScarce Scarcity = iota
	// Resolvable: the node would admit the request if it were empty, or might admit it without some
	// of its pods.
	Resolvable
	// Unresolvable: the node refuses the request whichever of its pods are removed, even if all
	// are.
	Unresolvable
)

// Decision has the resources that the node will assign to an admitted pod. The next Decide with the
// same Decision reuses its slices.
type Decision struct {
	UID string
	// Whole has the resources of the pod as a whole. It is usually nil.
	Whole      *Whole
	Containers []ContainerDecision // in the order of Request.Containers

	room *wholeRoom // memory that the next Decide reuses for Whole
}

// ContainerDecision has the resources that the node will assign to one container.
type ContainerDecision struct {
	Name string
	Kind ContainerKind
	Hint Hint
	// CPUs are the exclusive CPUs; empty means the shared pool.
	CPUs    topology.CPUSet
	Memory  []MemoryBlock
	Devices []DeviceAllocation
	// Shares, Exclusive and Bounds are used only if Berth decides.
	Shares    []CPUShare
	Exclusive joint.Exclusive
	Bounds    Bounds
	Provided  []Provided // by provider, then by place
}

// Bounds are the kinds of resources of a container, other than exclusive CPUs, that the node binds
// to NUMA nodes.
type Bounds uint8

// The bits of Bounds.
const (
	// BoundCPUs: the container runs on the shared CPUs of the NUMA nodes of its Shares only.
	BoundCPUs Bounds = 1 << iota
	// BoundMemory: the container's memory comes only from the NUMA nodes of its blocks in Memory.
	BoundMemory
)

// CPUShare is CPU time on the shared CPUs of a NUMA node.
type CPUShare struct {
	NUMA     topology.NUMAID
	MilliCPU int64
}

// Hint is a topology hint (pkg/kubelet/cm/topologymanager.TopologyHint).
type Hint struct {
	NUMA topology.NUMASet
	// Any is the kubelet's nil affinity: no preference for NUMA nodes. NUMA is then 0.
	Any       bool
	Preferred bool
}

// MemoryBlock is memory of one kind, pinned to a set of NUMA nodes (memorymanager/state.Block).
type MemoryBlock struct {
	Resource string
	NUMA     topology.NUMASet
	Bytes    uint64
}

// DeviceAllocation has the devices of one resource that are assigned to a container.
type DeviceAllocation struct {
	Resource string
	// IDs are the device plugin's ids, ascending.
	IDs []string
}
