package wire

// PolicyAnnotation asks for a policy of the pod's own: POLICY or POLICY,scope=SCOPE, in the words
// of the kubelet's Topology Manager ("single-numa-node,scope=pod"). A node with authority berth
// keeps it. On a node with authority kubelet the kubelet's own policy counts, and must be the same
// or a stricter one.
const PolicyAnnotation = "berth.dev/policy"

// How a pod wants its CPUs, memory and devices to lie, in Berth's own annotations. Each may be
// followed by ",required", which is meant without it, or ",preferred".
const (
	// CPUsAnnotation: "full-cores" gives all threads of each core, "spread" one thread of each;
	// "shares" gives CPU time on NUMA nodes, and no CPUs of the pod's own.
	CPUsAnnotation = "berth.dev/cpus"
	// ExclusiveAnnotation: "core" leaves the other threads of its cores idle, "numa" the other CPUs
	// of its NUMA nodes.
	ExclusiveAnnotation = "berth.dev/exclusive"
	// L3Annotation: "required" or "preferred": as few level-3 caches as can be.
	L3Annotation = "berth.dev/l3"
	// MemoryAnnotation: "pinned" keeps memory to its NUMA nodes (cpuset.mems).
	MemoryAnnotation = "berth.dev/memory"
	// NUMANodesAnnotation: "2" gives exactly so many NUMA nodes, the nearest ones that have room.
	// It has no strength.
	NUMANodesAnnotation = "berth.dev/numa-nodes"
	// DevicesAnnotation: "same-switch" or "same-root" gives one device of each kind at each PCI
	// switch, or root complex, that gives any; "one-switch" or "one-root" gives all from one.
	// "perNUMANode=2" gives exactly so many of each resource on each NUMA node, and has no
	// strength.
	DevicesAnnotation = "berth.dev/devices"
	// FunctionsAnnotation: "one-per-card" gives no two virtual functions of one physical one.
	FunctionsAnnotation = "berth.dev/functions"
)

// WishKeys are the annotations that say how CPUs, memory and devices are to lie.
var WishKeys = []string{CPUsAnnotation, ExclusiveAnnotation, L3Annotation, MemoryAnnotation, NUMANodesAnnotation, DevicesAnnotation, FunctionsAnnotation}
