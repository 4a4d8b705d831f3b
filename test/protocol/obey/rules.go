package obey

import "github.com/berth-dev/berth/test/protocol/explore"

// Rule is one thing that scheduler, agent or cluster does, and that can be switched off alone.
type Rule = explore.Rules[ruleNames]

// The rules.
const (
	// DecisionBinds: the agent pins a container to the CPUs of its Binding. Off: to the lowest that
	// the agent finds free.
	DecisionBinds Rule = 1 << iota
	// PromiseHolds: a bound pod keeps its CPUs for the scheduler, whether or not a report shows it.
	// Off: what the newest report does not show is free.
	PromiseHolds
	// ReleaseByEvidence: CPUs of a pod that is gone are free when a report says that the node is
	// through with it. Off: when the API says that it is gone.
	ReleaseByEvidence
	// ShrinkFirst: shared containers leave the CPUs before the pinned one begins, in the same reply
	// to the runtime. Off: some time after it.
	ShrinkFirst
	// SettledMove: only a shared container that has started is moved, and a pinned one that needs
	// the CPUs of one that is just beginning is not created yet. Off: the runtime loses such a
	// move.
	SettledMove
	// GrowAfterStop: shared containers come back when the pinned one has stopped. Off: when the
	// agent hears that its pod is gone.
	GrowAfterStop
	// Synchronize: an agent that starts learns from the runtime what runs, before it answers
	// anything, and confines what nobody adjusted. Off: it begins with nothing.
	Synchronize
	// PinnedNeedAgent: the Binding demands the plugin, so that the runtime starts no pinned
	// container without the agent.
	PinnedNeedAgent
	// SilenceIsNo: a container about which the agent does not answer in time is not created. Off:
	// the runtime drops the agent's plugin, and creates the container unadjusted.
	SilenceIsNo
	// OthersNeedAgent: the runtime starts no other container without the agent.
	OthersNeedAgent
	// CollisionsWait: a container whose CPUs another one holds is not created. Off: it is pinned
	// beside the other.
	CollisionsWait
	// EmptyPoolWaits: a shared container is not created while there is no CPU for it. Off: it is
	// given an empty set, which the kernel takes for all CPUs.
	EmptyPoolWaits
	// ReadBack: a report says what the cgroup says. Off: what was decided.
	ReadBack
	// SynchronizeFirst: an agent that starts answers and reports nothing before it has learned what
	// runs. Off: it learns that some time later.
	SynchronizeFirst
	// SilentKeep: a container keeps its CPUs when the runtime does not report its sandbox: the ones
	// that the agent remembers, and where the agent has started again as well, the CPUs that it
	// runs on. Off: it is taken for one without a decision.
	SilentKeep
	// ProcessesKeep: a container that the runtime does not report keeps its CPUs while it has
	// processes. Off: for the agent it is not there.
	ProcessesKeep
	// RemovalFrees: where nobody says that a sandbox has stopped, its CPUs are free when its
	// containers are removed. Off: never.
	RemovalFrees
	// HoldingHolds: what a Reservation holds is nobody else's. Off: it is, until an owner comes.
	HoldingHolds
	// ReuseInPlace: an owner gets CPUs of its Reservation. Off: any that are free.
	ReuseInPlace
	// OwnersCount: what owners took from a Reservation is not there for the next one, until a
	// report says that the node is through with them. Off: until the API does.
	OwnersCount

	endOfRules
)

// AllRules is what nodes that obey, and their scheduler, must do.
const AllRules Rule = endOfRules - 1

type ruleNames struct{}

func (ruleNames) Names() []string {
	return []string{
		"decision-binds", "promise-holds", "release-by-evidence", "shrink-first", "settled-move", "grow-after-stop", "synchronize",
		"pinned-need-agent", "silence-is-no", "others-need-agent", "collisions-wait", "empty-pool-waits", "read-back",
		"synchronize-first", "silent-keep", "processes-keep", "removal-frees", "holding-holds", "reuse-in-place", "owners-count",
	}
}
