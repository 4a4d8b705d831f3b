package protocol

import (
	"fmt"
	"strings"

	"github.com/berth-dev/berth/test/protocol/explore"
)

// Result is the result of Check.
type Result struct {
	explore.Result[State, Step, Breach]
	Steps    [actions]uint64 // steps taken, by action
	Exact    int             // states in which a pod runs on CPUs that were promised exactly
	Verdicts int             // states in which a pod runs whose CPUs were not promised
	Running  int             // states in which every pod runs
	Waiting  int             // states in which a pod waits for a report
}

// search is a Model that can be explored, with counts that show that a search was not trivial.
type search struct {
	m *Model
	Result
}

// Check visits every reachable state until a promise is broken or no state is left. It returns an
// error only for a Config that does not Validate.
func Check(c Config) (Result, error) {
	if err := c.Validate(); err != nil {
		return Result{}, err
	}
	s := &search{m: NewModel(c)}
	s.Result.Result = explore.Walk(s, initial(&c))
	return s.Result, nil
}

func (s *search) Steps(state *State, emit func(Step, *State)) {
	s.m.successors(state, func(step Step, next *State) {
		s.Result.Steps[step.Action]++
		s.m.forget(next)
		emit(step, next)
	})
}

func (*search) World(step Step) bool { return step.Action.world() }

func (s *search) See(state *State) Breach {
	run, exact, open, waits := 0, false, false, false
	for p := PodID(0); p < Pods; p++ {
		waits = waits || state.stage[p] == waiting
		if state.life[p] != running {
			continue
		}
		run++
		exact = exact || state.rec[p].exact
		open = open || !state.rec[p].exact
	}
	s.Running += count(run == Pods)
	s.Exact += count(exact)
	s.Verdicts += count(open)
	s.Waiting += count(waits)
	return state.broken
}

func (s *search) Rest(state *State) (Breach, string) {
	var names []string
	left := Kept
	for p := PodID(0); p < Pods; p++ {
		if state.api[p] != pending {
			continue
		}
		names = append(names, p.String())
		if s.m.looksFor(LeftWaiting) && s.m.fitsInTruth(state, p) {
			left = LeftWaiting
		}
	}
	return left, fmt.Sprintf("nothing is left to happen, and still pending: %s", strings.Join(names, ", "))
}

func (*search) Tell(m explore.Moment[State, Step]) string { return moment(m).String() }
