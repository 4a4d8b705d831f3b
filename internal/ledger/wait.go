package ledger

import "fmt"

// Wait is the reason for the answer Waiting.
type Wait uint8

const (
	// WaitsForNothing is the Wait of every answer whose Outcome is not Waiting.
	WaitsForNothing Wait = iota
	// Undecided: some of the possible states admit the pod, and others do not. Or the pod is
	// already on the node and its allocation is not known.
	Undecided
	// ManyEvents: more events may happen at any moment than the ledger considers.
	ManyEvents
	// ManyOrders: the kubelet may admit the pods in flight in more orders than the ledger
	// considers.
	ManyOrders
	// ManyStates: more states are possible than the ledger considers.
	ManyStates
	// Unpredictable: a pod in flight triggers a defect of the kubelet, whose state then cannot be
	// predicted.
	Unpredictable
	// Inherited: a pod in flight was bound before this scheduler started, and its CPUs are not
	// known.
	Inherited
	// Resized: a pod in flight was resized, and the kubelet may admit the old or the new request.
	Resized
	// PromiseAtRisk: the promise to a pod in flight could be broken.
	PromiseAtRisk
	// AfterOthers: in some possible state, the pods that come before this pod, such as nominated
	// pods, do not all fit.
	AfterOthers
	// InWaves: while the pods of a gang are posted in waves (wave.go), the node accepts no other
	// pods that it could pin.
	InWaves
	// Unshown: the report lists pods that the API has not shown. Witness returns Unshown if the
	// kubelet may have admitted them after the pod. The scheduler uses Unshown if the node has too
	// few CPUs for these pods and the new pod.
	Unshown

	waitCount = iota
)

// Waits yields all reasons except WaitsForNothing.
func Waits(yield func(Wait) bool) {
	for w := Undecided; w < waitCount; w++ {
		if !yield(w) {
			return
		}
	}
}

// Flood reports whether the reason is that the node's states cannot be computed, so that every pod
// waits.
func (w Wait) Flood() bool {
	return w == ManyEvents || w == ManyOrders || w == ManyStates || w == Unpredictable || w == Inherited || w == Resized
}

var waitNames = [waitCount]string{"", "Undecided", "ManyEvents", "ManyOrders", "ManyStates", "Unpredictable", "Inherited", "Resized",
	"PromiseAtRisk", "AfterOthers", "InWaves", "Unshown"}

// String returns the name, for a metric.
func (w Wait) String() string { return waitNames[min(w, waitCount-1)] }

var waitTexts = [waitCount]string{"",
	"whether the pod fits depends on pods that are coming to the node or leaving it",
	fmt.Sprintf("more than %d pods or containers of the node may arrive, start or end at any moment", maxEvents),
	fmt.Sprintf("pods on their way to the node can arrive in more than %d orders", maxOrders),
	fmt.Sprintf("there are more than %d possibilities for the node's free CPUs and memory", maxWorlds),
	"a pod on its way to the node triggers a defect of its kubelet",
	"a pod that was bound before this scheduler began is on its way to the node",
	"a pod on its way to the node was resized, and the node may admit it with its old or its new requests",
	"a pod on its way to the node could lose its promised CPUs",
	"pods that are nominated to the node come first",
	"members of a gang come to the node one after another, in a fixed order",
	"the node reports pods that the API has not shown yet, and with them it may have too few CPUs",
}

// Text describes the reason for users. It returns "" for WaitsForNothing.
func (w Wait) Text() string { return waitTexts[min(w, waitCount-1)] }
