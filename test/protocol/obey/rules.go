package obey

import "github.com/berth-dev/berth/test/protocol/explore"

// Rule is one behaviour of scheduler, agent or cluster. Each rule can be switched off separately.
type Rule = explore.Rules[ruleNames]

// The rules.
const (
	// DecisionBinds: the agent pins a container to the CPUs of its Binding. Off: to the lowest CPUs
	// that are free.
	DecisionBinds Rule = 1 << iota
	// PromiseHolds: a bound pod keeps its CPUs for the scheduler, whether or not a report shows it.
	// Off: CPUs that the newest report does not show are free.
	PromiseHolds
	// ReleaseByEvidence: CPUs of a deleted pod are free when a report shows that the node has
	// released them. Off: when the API shows that the pod is gone.
	ReleaseByEvidence
	// ShrinkFirst: shared containers leave the CPUs before the pinned container starts, in the same
	// reply to the runtime. Off: some time later.
	ShrinkFirst
	// SettledMove: only a shared container that has started is moved. A pinned container that needs
	// CPUs of a starting container is not created yet. Off: starting containers are moved too, and
	// the runtime loses the move.
	SettledMove
	// GrowAfterStop: shared containers get the CPUs back when the pinned container has stopped.
	// Off: when the agent learns that its pod is gone.
	GrowAfterStop
	// Synchronize: a starting agent reads the running containers from the runtime, and confines
	// unadjusted ones. Off: it starts without knowledge.
	Synchronize
	// PinnedNeedAgent: the Binding demands the plugin, so that the runtime starts no pinned
	// container without the agent.
	PinnedNeedAgent
	// SilenceIsNo: if the agent does not answer in time, the container is not created. Off: the
	// runtime drops the agent's plugin and creates the container unadjusted.
	SilenceIsNo
	// OthersNeedAgent: the runtime starts no container without a decision while the agent is down.
	OthersNeedAgent
	// CollisionsWait: a container is not created while another container has its CPUs. Off: both
	// containers are pinned to these CPUs.
	CollisionsWait
	// EmptyPoolWaits: a shared container is not created while the pool has no CPU. Off: it gets an
	// empty set, which the kernel reads as all CPUs.
	EmptyPoolWaits
	// ReadBack: a report has the content of the cgroup. Off: the decision.
	ReadBack
	// SynchronizeFirst: a starting agent answers and reports nothing before it has read the running
	// containers. Off: it reads them some time later.
	SynchronizeFirst
	// SilentKeep: if the runtime does not report its sandbox, a container keeps the CPUs that the
	// agent remembers or, if the agent has also restarted, the CPUs on which it runs. Off: it
	// counts as a container without a decision.
	SilentKeep
	// ProcessesKeep: a container that the runtime does not report keeps its CPUs while it has
	// processes. Off: for the agent it does not exist.
	ProcessesKeep
	// RemovalFrees: if nothing reports that a sandbox has stopped, its CPUs are free when its
	// containers are removed. Off: never.
	RemovalFrees
	// HoldingHolds: only owners get the CPUs of a Reservation. Off: other pods get them until an
	// owner comes.
	HoldingHolds
	// ReuseInPlace: an owner gets CPUs of its Reservation. Off: any free CPUs.
	ReuseInPlace
	// OwnersCount: CPUs that owners took from a Reservation are unavailable to the next owner until
	// a report shows that the node has released them. Off: until the API shows that the owner is
	// gone.
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
