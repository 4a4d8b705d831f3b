package wire

// PolicyAnnotation requests a policy for this pod: POLICY or POLICY,scope=SCOPE, spelled as in the
// kubelet's Topology Manager ("single-numa-node,scope=pod"). A node with authority berth applies
// this policy. On a node with authority kubelet, the kubelet's policy applies, and must be the same
// or stricter.
const PolicyAnnotation = "berth.dev/policy"

// Berth's annotations for the placement of a pod's CPUs, memory and devices. These values may end
// with ",required", which is the default, or ",preferred": full-cores, spread, core, numa,
// same-switch, same-root, one-switch and one-root.
const (
	// CPUsAnnotation: "full-cores" assigns all threads of each core, "spread" assigns one thread of
	// each core, and "shares" assigns CPU time on NUMA nodes, without exclusive CPUs.
	CPUsAnnotation = "berth.dev/cpus"
	// ExclusiveAnnotation: "core" leaves the other threads of the pod's cores idle, and "numa"
	// leaves the other CPUs of its NUMA nodes idle.
	ExclusiveAnnotation = "berth.dev/exclusive"
	// L3Annotation: "required" assigns CPUs on the minimum number of level-3 caches that the pod
	// would need on an empty machine. "preferred" does so if possible.
	L3Annotation = "berth.dev/l3"
	// MemoryAnnotation: "pinned" keeps the pod's memory on its NUMA nodes (cpuset.mems).
	MemoryAnnotation = "berth.dev/memory"
	// NUMANodesAnnotation: a number, such as "2", assigns exactly this many NUMA nodes that have
	// room. Of equally good choices, Berth takes NUMA nodes that are close to each other.
	NUMANodesAnnotation = "berth.dev/numa-nodes"
	// DevicesAnnotation: "same-switch" or "same-root" assigns at least one device of each kind at
	// each used PCI switch or root complex. "one-switch" or "one-root" assigns all devices at one
	// switch or root complex. "perNUMANode=2" assigns exactly two devices of each resource on each
	// NUMA node of the pod.
	DevicesAnnotation = "berth.dev/devices"
	// FunctionsAnnotation: "one-per-card" assigns at most one virtual function of each physical
	// function.
	FunctionsAnnotation = "berth.dev/functions"
	// ClaimsAnnotation: "near" chooses, if possible, devices for the pod's ResourceClaims on the
	// NUMA nodes of the containers that use them. "required" refuses nodes without such devices.
	ClaimsAnnotation = "berth.dev/claims"
)

// WishKeys are the annotations about the position of CPUs, memory and devices.
var WishKeys = []string{CPUsAnnotation, ExclusiveAnnotation, L3Annotation, MemoryAnnotation, NUMANodesAnnotation, DevicesAnnotation, FunctionsAnnotation, ClaimsAnnotation}
