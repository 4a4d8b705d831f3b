package steer

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Lying is where the containers of a pod lie on a node: the NUMA nodes of their CPUs, or of their
// memory if no CPUs are theirs, by name. Containers that the node does not pin are left out.
type Lying map[string]topology.NUMASet

// Known is how much is known of where a pod would lie.
type Known uint8

// The degrees of knowledge.
const (
	// Unasked: nothing is to be known, as in a dry run. The node is taken as the original takes it.
	Unasked Known = iota
	// Unforeseen: it cannot be told before the node's next report.
	Unforeseen
	// Foreseen: there are ways.
	Foreseen
)

// Way is one way for a pod to lie on a node.
type Way struct {
	Lying Lying
	// Near are the devices that Berth has followed for it; nil if the pod lies so by itself.
	Near *placement.Claimed
}

// Ways are the ways for a pod to lie on a node.
type Ways struct {
	Known Known
	// Why explains Unforeseen.
	Why string
	// All yields the ways, the best first. A way that is refuted (placement.Claimed) does not come
	// again.
	All iter.Seq[Way]
}

// Berth answers what the plugin has to know of decisions.
type Berth interface {
	// Mode is what the pod asks about its claims. The error names the annotation.
	Mode(pod *corev1.Pod) (claims.Mode, error)
	// Sources are the attributes in which drivers say where a device is.
	Sources() *claims.Sources
	// Machine is what the agent of a node reported; nil for none.
	Machine(node string) *topology.Machine
	// Ways are asked in Filter, for several nodes at a time. stock counts the node's devices for
	// the pod's claims; nil if there is nothing to follow.
	Ways(state fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo, mode claims.Mode, stock func() *placement.Claimed) Ways
	// Keep keeps the pod near its devices if it gets the node; nil lets it lie as it would.
	Keep(state fwk.CycleState, node string, near *placement.Claimed)
	// Free tells states of a node apart by what is free there; 0 if it is not known.
	Free(node string) uint64
	// Refused tells that the node of the pod was refused after Berth had decided: another node may
	// do at once.
	Refused(state fwk.CycleState)
	// Bound tells how the devices of a pod lie that was bound.
	Bound(mode claims.Mode, a claims.Alignment)
	// Doubtful reports whether the pod's Binding may have been written though Bind failed.
	Doubtful(state fwk.CycleState) bool
	// Waits is told before a pod that has the node waits for its devices to become ready, which may
	// take minutes: others may come to the node before the pod.
	Waits(pod *corev1.Pod, node string)
	// Decided is how the pod lies on a node that is reserved for it; false if nothing is decided.
	Decided(pod *corev1.Pod, node string) (Lying, bool)
}
