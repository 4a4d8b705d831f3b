package steer

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Lying and Way are types of package claims. A Lying has the NUMA nodes of a pod's containers, and
// a Way is a possible placement for which devices are then chosen.
type (
	Lying = claims.Lying
	Way   = claims.Way
)

// Known describes how well Berth knows the NUMA nodes that a pod would get on a node.
type Known uint8

// The values of Known.
const (
	// Unasked means that Berth does not predict NUMA nodes, for example in a dry run. Only
	// DynamicResources filters the node then.
	Unasked Known = iota
	// Unforeseen means that Berth does not know the NUMA nodes now, usually because only the node's
	// next report will show them.
	Unforeseen
	// Foreseen means that Ways.All yields the ways.
	Foreseen
)

// Ways is a node's answer: the possible placements of a pod on its NUMA nodes.
type Ways struct {
	Known Known
	// Why explains Unforeseen.
	Why string
	// All yields the ways, the best first. The caller must report a failed way with
	// Way.Near.Refute, so that All does not yield the same placement again.
	All iter.Seq[Way]
}

// Berth answers the plugin's questions about decisions.
type Berth interface {
	// Mode returns the pod's mode for its claims. The error names the annotation.
	Mode(pod *corev1.Pod) (claims.Mode, error)
	// Sources returns the attributes in which drivers publish the NUMA node of a device.
	Sources() *claims.Sources
	// Machine returns the machine in a node's report, or nil.
	Machine(node string) *topology.Machine
	// Ways returns the pod's possible placements on the node. It is called in Filter, for several
	// nodes in parallel. The function stock counts the node's devices for the pod's claims. It
	// returns nil if devices do not restrict the placement.
	Ways(state fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo, mode claims.Mode, stock func() *placement.Claimed) Ways
	// Keep makes Berth place the pod near the given devices if the pod gets the node; nil means no
	// restriction.
	Keep(state fwk.CycleState, node string, near *placement.Claimed)
	// Free returns a number that identifies the free resources of a node, or 0 if they are unknown.
	Free(node string) uint64
	// Refused tells Berth that the plugin refused the pod's node after Berth had decided. The pod
	// may fit on another node now.
	Refused(state fwk.CycleState)
	// Bound tells Berth how the devices of a bound pod are aligned.
	Bound(mode claims.Mode, a claims.Alignment)
	// Doubtful reports whether the pod's Binding may have been written although Bind failed.
	Doubtful(state fwk.CycleState) bool
	// Waits is called before a pod with a reserved node waits for its devices to become ready,
	// possibly for minutes. Meanwhile other pods may start on the node.
	Waits(pod *corev1.Pod, node string)
	// Decided returns the pod's placement on its reserved node, or false if Berth has not decided.
	Decided(pod *corev1.Pod, node string) (Lying, bool)
}
