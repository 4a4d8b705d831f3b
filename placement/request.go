package placement

// Request is what a pod asks of the kubelet's resource managers: independent of any node, built
// once.
type Request struct {
	// UID names the pod; State keys allocations by it.
	UID string
	// Containers are in the order in which the kubelet allocates: init containers as declared, then
	// app containers.
	Containers []ContainerRequest
	// Guaranteed is the pod's QoS class (status.qosClass, else computed): only then do CPU and
	// memory managers pin.
	Guaranteed bool
	// PodLevel means that spec.resources is set: since 1.34, without the PodLevelResourceManagers
	// gate, the CPU and memory managers then leave the whole pod alone.
	PodLevel bool
	// Level is what spec.resources says; kubelets with that gate read it. Zero without PodLevel.
	Level LevelRequest
	// EmptyLevel means that spec.resources is there, names nothing that counts, and no
	// status.qosClass says the class. Before 1.37, and with the PodLevelResourcesFixKubeletQOSClass
	// gate off since, such a pod is not Guaranteed, whatever its containers ask for.
	EmptyLevel bool
	// Rules are how the pod wants to be placed.
	Rules Rules
}

// Pinnable reports whether some kubelet could pin something for the request. CPU and memory
// managers handle Guaranteed pods only, the device manager all pods that ask for devices.
func (r *Request) Pinnable() bool {
	return r.Guaranteed || r.Level.Guaranteed || r.AsksDevices()
}

// LevelRequest is what a pod asks for as a whole: the requests in spec.resources.
type LevelRequest struct {
	// Guaranteed is the pod's QoS class by spec.resources (status.qosClass, else computed).
	Guaranteed bool
	MilliCPU   int64
	// Memory is as a container's.
	Memory []MemoryRequest
}

// ContainerKind is the kind of a container, which determines how long it holds its resources.
type ContainerKind uint8

const (
	// App is an ordinary container; the zero value.
	App ContainerKind = iota
	// Init runs to its end before the next container starts.
	Init
	// Sidecar is an init container with restartPolicy Always.
	Sidecar
)

// ContainerRequest is what one container asks for.
type ContainerRequest struct {
	Name string
	Kind ContainerKind
	// Guaranteed means that its limits of CPU and memory equal its requests, and are not 0
	// (IsContainerEquivalentQOSGuaranteed of pkg/kubelet/cm/qos). It is set only if the pod has
	// PodLevel: managers with the gate PodLevelResourceManagers then give it what is its own.
	Guaranteed bool
	// MilliCPU is the CPU request in thousandths. Only whole CPUs of a Guaranteed pod are
	// exclusive.
	MilliCPU int64
	// Memory holds requests of "memory" and "hugepages-*", ascending by resource name, in bytes.
	Memory []MemoryRequest
	// Devices holds limits of extended resources, ascending by resource name. Whether a resource is
	// managed by a device plugin is the node's to say.
	Devices []DeviceRequest
}

// MemoryRequest is an amount of one kind of memory.
type MemoryRequest struct {
	Resource string // "memory", "hugepages-2Mi", "hugepages-1Gi", ...
	Bytes    uint64
	// Fraction means that the quantity is no whole number of bytes ("100m"): the kubelet's memory
	// manager refuses it.
	Fraction bool
}

// DeviceRequest is a number of devices of one resource.
type DeviceRequest struct {
	Resource string // "nvidia.com/gpu"
	Count    int64
	// Claimed means that Dynamic Resource Allocation provides the devices
	// (status.extendedResourceClaimStatus): since 1.36 the device manager still hints at NUMA nodes
	// for them but allocates none, unless the gate DRAExtendedResource is off.
	Claimed bool
}

// Bytes is how much the container asks for of a kind of memory.
func (r *ContainerRequest) Bytes(kind string) uint64 {
	bytes, _ := r.memory(kind)
	return bytes
}
