package obey

import "github.com/berth-dev/berth/test/protocol/explore"

// Rule is one behaviour of scheduler, agent or cluster that can be switched off alone.
type Rule = explore.Rules[ruleNames]

// The rules.
const (
	// DecisionBinds: the agent pins a container to the CPUs of its Binding. Off: to the lowest that
	// the agent finds free.
	DecisionBinds Rule = 1 << iota
	// PromiseHolds: a bound pod keeps its CPUs for the scheduler, whether or not a report shows it.
	// Off: CPUs that the newest report does not show are free.
	PromiseHolds
	// ReleaseByEvidence: CPUs of a deleted pod are free when a report says that the node has
	// released them. Off: when the API says that the pod is gone.
	ReleaseByEvidence
	// ShrinkFirst: shared containers leave the CPUs before the pinned one begins, in the same reply
	// to the runtime. Off: some time after it.
	ShrinkFirst
	// SettledMove: only a shared container that has started is moved. A pinned container that needs
	// CPUs of a starting one is not created yet. Off: the runtime loses such a move.
	SettledMove
	// GrowAfterStop: shared containers return when the pinned one has stopped. Off: when the agent
	// learns that its pod is gone.
	GrowAfterStop
	// Synchronize: a starting agent learns from the runtime what runs before it answers anything,
	// and confines unadjusted containers. Off: it begins with no knowledge.
	Synchronize
	// PinnedNeedAgent: the Binding demands the plugin, so that the runtime starts no pinned
	// container without the agent.
	PinnedNeedAgent
	// SilenceIsNo: a container about which the agent does not answer in time is not created. Off:
	// the runtime drops the agent's plugin, and creates the container unadjusted.
	SilenceIsNo
	// OthersNeedAgent: the runtime starts no other container without the agent.
	OthersNeedAgent
	// CollisionsWait: a container whose CPUs another one holds is not created. Off: both containers
	// are pinned to these CPUs.
	CollisionsWait
	// EmptyPoolWaits: a shared container is not created while there is no CPU for it. Off: it is
	// given an empty set, which the kernel takes for all CPUs.
	EmptyPoolWaits
	// ReadBack: a report has the content of the cgroup. Off: the decision.
	ReadBack
	// SynchronizeFirst: a starting agent answers and reports nothing before it has learned what
	// runs. Off: it learns that some time later.
	SynchronizeFirst
	// SilentKeep: a container keeps its CPUs when the runtime does not report its sandbox: those
	// that the agent remembers or, if the agent has also restarted, those on which it runs. Off: it
	// counts as a container without a decision.
	SilentKeep
	// ProcessesKeep: a container that the runtime does not report keeps its CPUs while it has
	// processes. Off: for the agent it does not exist.
	ProcessesKeep
	// RemovalFrees: if nothing reports that a sandbox has stopped, its CPUs are free when its
	// containers are removed. Off: never.
	RemovalFrees
	// HoldingHolds: the CPUs of a Reservation are unavailable to others. Off: they are available
	// until an owner comes.
	HoldingHolds
	// ReuseInPlace: an owner gets CPUs of its Reservation. Off: any that are free.
	ReuseInPlace
	// OwnersCount: CPUs that owners took from a Reservation are unavailable to the next owner until
	// a report says that the node has released them. Off: until the API does.
	OwnersCount

	endOfRules
)

// AllRules are the rules of nodes on which Berth decides, and of their scheduler.
const AllRules Rule = endOfRules - 1

type ruleNames struct{}

func (ruleNames) Names() []string {
	return []string{
		"decision-binds", "promise-holds", "release-by-evidence", "shrink-first", "settled-move", "grow-after-stop", "synchronize",
		"pinned-need-agent", "silence-is-no", "others-need-agent", "collisions-wait", "empty-pool-waits", "read-back",
		"synchronize-first", "silent-keep", "processes-keep", "removal-frees", "holding-holds", "reuse-in-place", "owners-count",
	}
}
