package ledger

import (
	"slices"
	"sync"

	"github.com/berth-dev/berth/placement"
)

// Outcome is what a node answers to a request.
type Outcome uint8

const (
	// Unreported: the node has no report, so nothing is known.
	Unreported Outcome = iota
	// Admitted: every state that the node may be in admits the request.
	Admitted
	// Refused: no state that the node may be in admits the request.
	Refused
	// Waiting: some states admit the request and some do not, or there are too many of them: the next report tells.
	Waiting
)

// String returns the outcome in lower case.
func (o Outcome) String() string {
	switch o {
	case Unreported:
		return "unreported"
	case Admitted:
		return "admitted"
	case Refused:
		return "refused"
	case Waiting:
		return "waiting"
	}
	return "outcome(?)"
}

// Answer is what a node says to a request. It is comparable.
type Answer struct {
	Outcome Outcome
	// Verdict is that of the likeliest state; where an outcome is Refused and removing pods could help in any state,
	// its Scarcity says Resolvable.
	Verdict placement.Verdict
	// Certain says that there is but one state that the node may be in.
	Certain bool
	// Exact says that every state gives the same CPUs, memory and devices. Only Reserve and Post find out.
	Exact bool
}

// OK says whether the request is admitted.
func (a *Answer) OK() bool { return a.Outcome == Admitted }

var decisions = sync.Pool{New: func() any { return new(placement.Decision) }}

// ask asks every world for its verdict.
func (w *worlds) ask(r *placement.Request) Answer {
	if w.uncertain() {
		return Answer{Outcome: Waiting}
	}
	first := placement.Admit(w.model, w.all[0].state, r)
	tally := tally{answer: Answer{Verdict: first, Certain: len(w.all) == 1}}
	tally.count(&first)
	for i := 1; i < len(w.all); i++ {
		v := placement.Admit(w.model, w.all[i].state, r)
		tally.count(&v)
	}
	return tally.result()
}

// decide asks every world for its decision; d is that of the first.
func (w *worlds) decide(r *placement.Request, d *placement.Decision) Answer {
	if w.uncertain() {
		return Answer{Outcome: Waiting}
	}
	first := placement.Decide(w.model, w.all[0].state, r, d)
	tally := tally{answer: Answer{Verdict: first, Certain: len(w.all) == 1, Exact: !first.Random}}
	tally.count(&first)
	other := decisions.Get().(*placement.Decision)
	defer decisions.Put(other)
	for i := 1; i < len(w.all); i++ {
		v := placement.Decide(w.model, w.all[i].state, r, other)
		tally.count(&v)
		tally.answer.Exact = tally.answer.Exact && v.OK() && !v.Random && Same(d, other)
	}
	return tally.result()
}

// tally counts verdicts.
type tally struct {
	answer   Answer
	yes, no  int
	scarcity placement.Scarcity
}

func (t *tally) count(v *placement.Verdict) {
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
	switch {
	case t.no == 0:
		t.answer.Outcome = Admitted
	case t.yes == 0:
		t.answer.Outcome = Refused
		t.answer.Verdict.Scarcity = t.scarcity
	default:
		t.answer.Outcome = Waiting
	}
	t.answer.Exact = t.answer.Exact && t.answer.OK()
	return t.answer
}

// Same says whether two decisions hand out the same CPUs, memory and devices.
func Same(a, b *placement.Decision) bool {
	return slices.EqualFunc(a.Containers, b.Containers, func(x, y placement.ContainerDecision) bool {
		return x.CPUs == y.CPUs && slices.Equal(x.Memory, y.Memory) &&
			slices.EqualFunc(x.Devices, y.Devices, sameDevices)
	})
}

func sameDevices(x, y placement.DeviceAllocation) bool {
	return x.Resource == y.Resource && slices.Equal(x.IDs, y.IDs)
}
