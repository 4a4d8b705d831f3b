package judge

import "github.com/berth-dev/berth/test/protocol/explore"

// Rule is one thing that shadow mode does, and that can be switched off alone.
type Rule = explore.Rules[ruleNames]

// The rules.
const (
	// ReportBefore: nothing is predicted on a report that was written after the Binding.
	ReportBefore Rule = 1 << iota
	// ListsHaveNoOrder: nothing is predicted for a pod of which a list tells, nor for others until
	// a report shows it. Off: the pods of a list are taken to be bound now, in its order.
	ListsHaveNoOrder
	// KnowStart: a prediction needs a report that says when the kubelet started.
	KnowStart
	// RestartDoubts: pods whose kubelet has started before its answer are not judged.
	RestartDoubts
	// AnswerWaits: an answer that the API shows counts when the agent has been heard.
	AnswerWaits
	// WrittenAfter: only what the agent has written after the answer counts for that.
	WrittenAfter
	// SameCompany: a pod is judged if a report still lists all pods that its prediction counted
	// with.
	SameCompany
	// GoneUnseen: a pod that is deleted before its answer is not judged.
	GoneUnseen
	// ManagersOnly: a rejection for another reason than the resource managers' is not judged.
	ManagersOnly
	// CountOnce: a list tells nothing new of a pod that is known.
	CountOnce
	// TimeOut: a pod without an answer is given up.
	TimeOut

	endOfRules
)

// AllRules is what shadow mode must do.
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
	Hindsight           // counted, and its answer was known before it was predicted
	Unanswered          // counted, and the kubelet has not answered
	AcrossStart         // counted, and the kubelet started between prediction and answer
	CountedTwice        // a pod is counted twice
	LeftOpen            // nothing is left to happen, and a pod is not counted
)

var breachNames = [...]string{"kept", "called wrong", "hindsight", "counted without an answer", "counted across a start", "counted twice", "left open"}

func (b Breach) String() string { return breachNames[b] }
