package steer

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Lying and Way are those of package claims.
type (
	Lying = claims.Lying
	Way   = claims.Way
)

// Known is how much is known about where a pod would lie.
type Known uint8

// The degrees of knowledge.
const (
	// Unasked: nothing is to be known, as in a dry run. The node is taken as the original takes it.
	Unasked Known = iota
	// Unforeseen: it is unknown before the node's next report.
	Unforeseen
	// Foreseen: there are ways.
	Foreseen
)

// Ways are the ways for a pod to lie on a node.
type Ways struct {
	Known Known
	// Why explains Unforeseen.
	Why string
	// All yields the ways, the best first. A refuted way (placement.Claimed) does not come again.
	All iter.Seq[Way]
}

// Berth answers the plugin's questions about decisions.
type Berth interface {
	// Mode returns the pod's mode for its claims. The error names the annotation.
	Mode(pod *corev1.Pod) (claims.Mode, error)
	// Sources returns the attributes in which drivers publish where a device is.
	Sources() *claims.Sources
	// Machine returns the machine in a node's report; nil for none.
	Machine(node string) *topology.Machine
	// Ways are asked in Filter, for several nodes at a time. stock counts the node's devices for
	// the pod's claims; nil if there is nothing to follow.
	Ways(state fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo, mode claims.Mode, stock func() *placement.Claimed) Ways
	// Keep makes the pod stay near its devices if it gets the node; nil does not restrict it.
	Keep(state fwk.CycleState, node string, near *placement.Claimed)
	// Free returns a number that identifies the free resources of a node; 0 if unknown.
	Free(node string) uint64
	// Refused reports that the pod's node was refused after Berth had decided: another node may be
	// possible at once.
	Refused(state fwk.CycleState)
	// Bound reports the alignment of a bound pod's devices.
	Bound(mode claims.Mode, a claims.Alignment)
	// Doubtful reports whether the pod's Binding may have been written though Bind failed.
	Doubtful(state fwk.CycleState) bool
	// Waits is called before a pod that has the node waits for its devices to become ready. That
	// may take minutes, in which other pods may come to the node first.
	Waits(pod *corev1.Pod, node string)
	// Decided returns how the pod lies on its reserved node; false if nothing is decided.
	Decided(pod *corev1.Pod, node string) (Lying, bool)
}
