package grow

import "github.com/berth-dev/berth/test/protocol/explore"

// Rule is one thing that scheduler or agent does, and that can be switched off alone.
type Rule = explore.Rules[ruleNames]

// The rules.
const (
	// KubeletFirst: the scheduler decides for what the kubelet has allocated. Off: for what the pod
	// asks for, which the kubelet may never allocate.
	KubeletFirst Rule = 1 << iota
	// SettledFirst: the scheduler decides when a report shows that the agent knows the decision
	// before. Off: at once.
	SettledFirst
	// CountShown: what a report shows of a pod is not free, whatever was decided since. Off: the
	// newest decision counts.
	CountShown
	// KeepBoth: while it is not known if a decision was written, what it takes is not free. Off:
	// the decision before counts.
	KeepBoth
	// FenceResizes: a new leader makes sure that no decision of the leader before arrives later.
	FenceResizes
	// TryAgain: a resize without room is tried again when something has left. Off: never.
	TryAgain
	// DecisionFirst: the agent refuses an update of the kubelet's to more than was decided until it
	// knows the decision for that. Off: it lets every update pass.
	DecisionFirst
	// ReadBackFrees: what a shrinking container leaves is free for the agent when its cgroup shows
	// that. Off: when the runtime was asked to move it.
	ReadBackFrees
	// NewerOnly: the agent ignores a decision that is not newer than the one it knows.
	NewerOnly
	// BeginDecided: a container that begins again gets no more than was decided. Off: what the
	// kubelet has allocated.
	BeginDecided
	// CarryAmounts: the agent itself brings the memory of a container to what was decided. Off: the
	// kubelet alone does, and it takes what it once asked for as done.
	CarryAmounts
	// RememberDecisions: a restarted agent knows the newest decision that it has carried out. Off:
	// the one with which the pod was bound, which the runtime tells.
	RememberDecisions

	endOfRules
)

// AllRules is what scheduler and agent must do.
const AllRules Rule = endOfRules - 1

type ruleNames struct{}

func (ruleNames) Names() []string {
	return []string{
		"kubelet-first", "settled-first", "count-shown", "keep-both", "fence-resizes", "try-again", "decision-first",
		"read-back-frees", "newer-only", "begin-decided", "carry-amounts", "remember-decisions",
	}
}

// Breach is a broken promise.
type Breach uint8

// The breaches that Check looks for.
const (
	Kept         Breach = iota
	TwiceGiven          // two containers on one CPU
	Outgrown            // more memory than the NUMA node has
	MadeToWait          // a genuine decision finds its CPUs with another pod
	LeftStanding        // nothing is left to happen, and a resize or a pod that fits is not carried out
)

var breachNames = [...]string{"kept", "given twice", "outgrown", "made to wait", "left standing"}

func (b Breach) String() string { return breachNames[b] }
