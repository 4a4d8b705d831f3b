package ledger

import (
	"sync"

	"github.com/berth-dev/berth/placement"
)

// Outcome tells whether a node admits a request.
type Outcome uint8

const (
	// Unreported: the node has no report, so its state is not known.
	Unreported Outcome = iota
	// Admitted: every state that the node may be in admits the request.
	Admitted
	// Refused: no state that the node may be in admits the request, or the resources are held for
	// other pods (Answer.Held).
	Refused
	// Waiting: the pod must wait for the node's next report, for the reason in Answer.Wait. For
	// example, some states admit the request and some do not.
	Waiting
)

// String returns the outcome in lower case.
func (o Outcome) String() string {
	return [...]string{"unreported", "admitted", "refused", "waiting", "outcome(?)"}[min(o, Waiting+1)]
}

// Answer is a node's answer to a request: the outcome, and how certain it is. It is comparable.
type Answer struct {
	Outcome Outcome
	// Wait is the reason if the outcome is Waiting.
	Wait Wait
	// Verdict is the verdict of the likeliest state. If the outcome is Refused, and removing pods
	// could help in some state, its Scarcity is Resolvable.
	Verdict placement.Verdict
	// Certain means that the node can be in only one state when it admits the pod.
	Certain bool
	// Exact means that the pod gets the same CPUs, memory and devices in every state. Post,
	// Reconsider and Witness also consider states in which pods have ended by themselves; Ask and
	// Reserve do not.
	Exact bool
	// Amounts means that the node's report has only amounts. An answer with Amounts is never exact.
	Amounts bool
	// Held means that the request is refused because the resources are held for other pods
	// (Holding).
	Held bool
}

func waiting(why Wait) Answer { return Answer{Outcome: Waiting, Wait: why} }

// OK reports whether the request is admitted.
func (a *Answer) OK() bool { return a.Outcome == Admitted }

// tally combines the verdicts of several states into an Answer. The likeliest state comes first.
type tally struct {
	answer   Answer
	yes, no  int
	scarcity placement.Scarcity
	// decided means that decisions were compared. differ means that not all of them were equal.
	decided, differ bool
}

func (t *tally) first() bool { return t.yes+t.no == 0 }

func (t *tally) count(v *placement.Verdict) {
	if t.first() {
		t.answer.Verdict = *v
	}
	if v.OK() {
		t.yes++
		return
	}
	t.no++
	if t.scarcity != placement.Resolvable {
		t.scarcity = v.Scarcity
	}
}

func (t *tally) result() Answer {
	a := t.answer
	a.Certain = t.yes+t.no == 1
	switch {
	case t.no == 0:
		a.Outcome = Admitted
		a.Exact = !t.differ && (t.decided || a.Certain) && !a.Verdict.Random
	case t.yes == 0:
		a.Outcome = Refused
		a.Verdict.Scarcity = t.scarcity
	default:
		a.Outcome, a.Wait = Waiting, Undecided
	}
	return a
}

var decisions = sync.Pool{New: func() any { return new(placement.Decision) }}
