package protocol

import "github.com/berth-dev/berth/test/protocol/explore"

// Law is the number of a law of the cluster (docs/protocol.md).
type Law uint8

// The modelled laws.
const (
	LawState    Law = 1 // the state of a node is computed, never counted up
	LawReserve  Law = 2 // Reserve decides, and the Binding stores the decision
	LawOrder    Law = 3 // the order of Bindings is recorded, and unknown orders are enumerated
	LawWait     Law = 4 // a pod that waits for a report is pending, not unschedulable
	LawEvidence Law = 5 // CPUs are released on evidence, and a new leader waits
)

// Rule is one part of a law. Each rule can be switched off separately.
type Rule = explore.Rules[ruleNames]

// The rules, by law.
const (
	// StateFromReports (law 1): a node's state is its report plus later releases and admissions.
	// Off: a running total of the scheduler's own promises.
	StateFromReports Rule = 1 << iota
	// ReportSequence (law 1): a report with an older sequence number is ignored.
	ReportSequence
	// ReserveVisible (law 2): a reservation counts for the next pod at once, and Reserve decides on
	// the current state. Off: the Binding has the answer of Filter.
	ReserveVisible
	// StoredWithBinding (law 2): pod and placement are one write. Off: the placement follows in a
	// second write.
	StoredWithBinding
	// OneBinding (law 3): Bindings to one node are sent one at a time.
	OneBinding
	// BindDecidesAgain (law 3): Bind decides again under the node's lock, and fails after a
	// refusal.
	BindDecidesAgain
	// ReadBack (law 3): an unknown result of a Binding is read back before anything else happens to
	// the pod.
	ReadBack
	// EnumerateKnown (law 3): the scheduler tries every order that a relist could produce, and
	// every moment at which a pod that is known to be leaving could free its CPUs. Off: only the
	// order of the Bindings.
	EnumerateKnown
	// PredecessorsToo (law 3): a pod is placed only if every outcome also admits every pod bound
	// before it that no report shows yet. Such a pod must get the same CPUs if its decision is
	// exact.
	PredecessorsToo
	// EnumerateUnknown (law 3): any pod may end on its own before the kubelet sees the Binding.
	EnumerateUnknown
	// Fence (law 3): after a Binding was read back as not applied, it can no longer be applied. The
	// Binding carries the pod's resource version, and the pod is written once before its next
	// decision.
	Fence
	// WaitIsPending (law 4): a node that waits for a report does not lead to preemption, and its
	// report wakes the pod.
	WaitIsPending
	// ReleaseByEvidence (law 5): a deleted pod holds its CPUs until a report drops it.
	ReleaseByEvidence
	// LeaderWaits (law 5): a new leader waits until no Binding of the old one can still arrive.
	LeaderWaits
	// WatchBarrier (laws 1 and 5): a report has the position of the kubelet's watch. A pod that was
	// bound and left before any report showed it stays uncertain until the watch has delivered its
	// Binding. A new leader uses a node only after a report that was requested after it took over.
	WatchBarrier

	endOfRules
)

// AllRules are the rules that the scheduler must keep.
const AllRules Rule = endOfRules - 1

// Rules returns the rules that make up the law, 0 for an unknown law.
func (l Law) Rules() Rule {
	switch l {
	case LawState:
		return StateFromReports | ReportSequence
	case LawReserve:
		return ReserveVisible | StoredWithBinding
	case LawOrder:
		return OneBinding | BindDecidesAgain | ReadBack | EnumerateKnown | PredecessorsToo | EnumerateUnknown | Fence
	case LawWait:
		return WaitIsPending
	case LawEvidence:
		return ReleaseByEvidence | LeaderWaits | WatchBarrier
	}
	return 0
}

type ruleNames struct{}

func (ruleNames) Names() []string {
	return []string{
		"state-from-reports", "report-sequence", "reserve-visible", "stored-with-binding", "one-binding",
		"bind-decides-again", "read-back", "enumerate-known", "predecessors-too", "enumerate-unknown", "fence",
		"wait-is-pending", "release-by-evidence", "leader-waits", "watch-barrier",
	}
}
