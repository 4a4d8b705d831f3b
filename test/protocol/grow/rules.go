package grow

import "github.com/berth-dev/berth/test/protocol/explore"

// Rule is one behaviour of scheduler or agent. Each rule can be switched off separately.
type Rule = explore.Rules[ruleNames]

// The rules.
const (
	// KubeletFirst: the scheduler decides for the amounts that the kubelet has allocated. Off: for
	// the request, which the kubelet may never allocate.
	KubeletFirst Rule = 1 << iota
	// SettledFirst: the scheduler decides when a report shows that the agent knows the previous
	// decision. Off: at once.
	SettledFirst
	// CountShown: resources that a report shows for a pod are not free, even after a newer
	// decision. Off: the newest decision counts.
	CountShown
	// KeepBoth: while it is unknown whether a decision was written, its resources are not free.
	// Off: only the previous decision counts.
	KeepBoth
	// FenceResizes: a new leader makes sure that no decision of the previous leader arrives later.
	FenceResizes
	// TryAgain: a resize without room is tried again when a pod has left. Off: never.
	TryAgain
	// DecisionFirst: the agent refuses an update of the kubelet that exceeds the decision that the
	// agent knows. Off: it allows every update.
	DecisionFirst
	// ReadBackFrees: CPUs that a shrinking container leaves are free for the agent when its cgroup
	// shows that. Off: when the runtime was asked to move it.
	ReadBackFrees
	// NewerOnly: the agent ignores a decision that is not newer than the one it knows.
	NewerOnly
	// BeginDecided: a container that starts again gets no more than the decision. Off: the amounts
	// that the kubelet has allocated.
	BeginDecided
	// CarryAmounts: the agent itself sets the decided memory of a container. Off: only the kubelet
	// does, and it does not repeat an earlier request.
	CarryAmounts
	// RememberDecisions: a restarted agent knows the newest decision that it has carried out. Off:
	// it knows the decision of the Binding, which the runtime reports.
	RememberDecisions

	endOfRules
)

// AllRules are the rules that scheduler and agent must keep.
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
	MadeToWait          // a valid decision must wait, because another pod has its CPUs
	LeftStanding        // no further step is possible, and a resize or a pod that fits is not carried out
)

var breachNames = [...]string{"kept", "given twice", "outgrown", "made to wait", "left standing"}

func (b Breach) String() string { return breachNames[b] }
