package placement

// Request is a pod's request to the kubelet's resource managers. It does not depend on a node.
type Request struct {
	// UID identifies the pod. A State finds a pod's allocation by its UID.
	UID string
	// Containers are in the order in which the kubelet allocates: init containers as declared, then
	// app containers.
	Containers []ContainerRequest
	// Guaranteed is true if the QoS class is Guaranteed (from status.qosClass, or computed from the
	// containers). The CPU and memory managers pin only such pods.
	Guaranteed bool
	// PodLevel means that spec.resources is set. Since 1.34, without the gate
	// PodLevelResourceManagers, the CPU and memory managers then ignore the whole pod.
	PodLevel bool
	// Level is the content of spec.resources, which kubelets with the gate PodLevelResourceManagers
	// read. It is zero without PodLevel.
	Level LevelRequest
	// EmptyLevel means that spec.resources names no relevant resource and that status.qosClass is
	// not set. Before 1.37, a kubelet with the gate PodLevelResources treats such a pod as not
	// Guaranteed, whatever its containers request. Since 1.37 it does so only if the gate
	// PodLevelResourcesFixKubeletQOSClass is off.
	EmptyLevel bool
	// Rules are the pod's requirements for its placement.
	Rules Rules
}

// Pinnable reports whether some kubelet could pin CPUs, memory or devices for the request. The CPU
// and memory managers handle only Guaranteed pods, and the device manager all pods that name
// devices: it also refuses a pod that asks for 0 devices of a resource without healthy ones.
func (r *Request) Pinnable() bool {
	return r.Guaranteed || r.Level.Guaranteed || r.anyDevices(0)
}

// LevelRequest is the request of a pod as a whole, in spec.resources.
type LevelRequest struct {
	// Guaranteed is true if the QoS class is Guaranteed (from status.qosClass, or computed from
	// spec.resources).
	Guaranteed bool
	MilliCPU   int64
	// Memory has the requests as in ContainerRequest.Memory.
	Memory []MemoryRequest
}

// ContainerKind is the kind of a container, which determines how long it holds its resources.
type ContainerKind uint8

const (
	// App, the zero value, is an ordinary container.
	App ContainerKind = iota
	// Init runs to its end before the next container starts.
	Init
	// Sidecar is an init container with restartPolicy Always.
	Sidecar
)

// ContainerRequest is the request of one container.
type ContainerRequest struct {
	Name string
	Kind ContainerKind
	// Guaranteed means that the container's limits of CPU and memory equal its requests, and are
	// not 0 (IsContainerEquivalentQOSGuaranteed of pkg/kubelet/cm/qos). It is set only if the pod
	// has PodLevel. With the gate PodLevelResourceManagers, the managers then allocate exclusive
	// resources to the container.
	Guaranteed bool
	// MilliCPU is the CPU request in thousandths. A kubelet gives a container exclusive CPUs only
	// for whole CPUs in a Guaranteed pod.
	MilliCPU int64
	// Memory holds requests of "memory" and "hugepages-*", ascending by resource name, in bytes.
	Memory []MemoryRequest
	// Devices holds limits of extended resources, ascending by resource name. The Request does not
	// show if a device plugin manages a resource, because this differs between nodes.
	Devices []DeviceRequest
}

// MemoryRequest is an amount of one kind of memory.
type MemoryRequest struct {
	Resource string // "memory", "hugepages-2Mi", "hugepages-1Gi", ...
	Bytes    uint64
	// Fraction means that the quantity is not a whole number of bytes ("100m"). The kubelet's
	// memory manager refuses it.
	Fraction bool
}

// DeviceRequest is a number of devices of one resource.
type DeviceRequest struct {
	Resource string // such as "nvidia.com/gpu"
	Count    int64
	// Claimed means that Dynamic Resource Allocation provides the devices
	// (status.extendedResourceClaimStatus). Since 1.36 the device manager still gives topology
	// hints for them but allocates none, unless the gate DRAExtendedResource is off.
	Claimed bool
}

// Bytes returns the container's request for a kind of memory.
func (r *ContainerRequest) Bytes(kind string) uint64 {
	bytes, _ := r.memory(kind)
	return bytes
}
