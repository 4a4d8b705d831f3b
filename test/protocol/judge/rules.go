package judge

import "github.com/berth-dev/berth/test/protocol/explore"

// Rule is one rule of shadow mode. Each rule can be switched off separately.
type Rule = explore.Rules[ruleNames]

// The rules.
const (
	// ReportBefore: no prediction uses a report that was written after the Binding.
	ReportBefore Rule = 1 << iota
	// ListsHaveNoOrder: a pod that came with a list gets no prediction. Other pods get none either,
	// until a report lists the pod. Off: the pods of a list count as bound now, in the order of the
	// list.
	ListsHaveNoOrder
	// KnowStart: a prediction needs a report with the start time of the kubelet.
	KnowStart
	// RestartDoubts: a pod is not judged if the kubelet starts between prediction and answer.
	RestartDoubts
	// AnswerWaits: an answer in the API counts only after the agent's next report.
	AnswerWaits
	// WrittenAfter: that report must have been written after the answer.
	WrittenAfter
	// SameCompany: a pod is judged only if a report still lists all pods that its prediction took
	// into account.
	SameCompany
	// GoneUnseen: a pod is not judged if it is deleted before its answer.
	GoneUnseen
	// ManagersOnly: a rejection is judged only if its reason is a resource manager's.
	ManagersOnly
	// CountOnce: a pod that is already known is ignored in a list.
	CountOnce
	// TimeOut: a pod without an answer is not judged after a time limit.
	TimeOut

	endOfRules
)

// AllRules are all rules. Shadow mode must follow them.
const AllRules Rule = endOfRules - 1

type ruleNames struct{}

func (ruleNames) Names() []string {
	return []string{
		"report-before", "lists-have-no-order", "know-start", "restart-doubts", "answer-waits", "written-after", "same-company",
		"gone-unseen", "managers-only", "count-once", "time-out",
	}
}

// Breach is a broken promise.
type Breach uint8

// The breaches that Check looks for.
const (
	Kept         Breach = iota
	CalledWrong         // a prediction is counted as wrong
	Hindsight           // a pod is counted although its answer was known before its prediction
	Unanswered          // a pod is counted although the kubelet has not answered
	AcrossStart         // a pod is counted although the kubelet started between prediction and answer
	CountedTwice        // a pod is counted twice
	LeftOpen            // no further step is possible, and a pod is not counted
)

var breachNames = [...]string{"kept", "called wrong", "hindsight", "counted without an answer", "counted across a start", "counted twice", "left open"}

func (b Breach) String() string { return breachNames[b] }
