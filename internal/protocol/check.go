package protocol

import (
	"hash/maphash"
	"slices"
)

// Result is what Check found.
type Result struct {
	States   int             // distinct states visited
	Depth    int             // steps in the longest shortest run
	Steps    [actions]uint64 // steps taken, by action
	Exact    int             // states in which a pod runs on CPUs that were promised exactly
	Verdicts int             // states in which a pod runs whose CPUs were left open
	Running  int             // states in which every pod runs
	Waiting  int             // states in which a pod waits for a report
	Quiet    int             // states in which nothing is left to do
	Breach   Breach          // Kept when no reachable state breaks a promise
	Trace    []Moment        // the shortest run to the breach
	Complete bool            // every reachable state was visited
}

// Moment is one step of a trace and the states around it.
type Moment struct {
	Step          Step
	before, after State
}

// digest stands for a state in the set of those visited. Two different states share one with a
// probability of about n*n/2^129, 10^-24 for the largest model here: a search that finds nothing
// could then have overlooked something.
type digest [2]uint64

// visit is how a state was reached.
type visit struct {
	parent int32
	step   Step
}

// reached is a state that is still to be expanded.
type reached struct {
	at    int32
	state State
}

// search is one breadth-first walk.
type search struct {
	m      *Model
	seeds  [2]maphash.Seed
	index  map[digest]struct{}
	visits []visit
	next   []reached
	result Result
	breach int32 // the first visit that breaks a promise, -1
}

// Check visits every reachable state, breadth first, until a promise is broken, none is left, or
// limit states were visited (0: no limit). It returns an error only for a Config that does not
// Validate.
func Check(c Config, limit int) (Result, error) {
	if err := c.Validate(); err != nil {
		return Result{}, err
	}
	return newSearch(c).run(limit), nil
}

func newSearch(c Config) *search {
	s := &search{m: NewModel(c), index: map[digest]struct{}{}, breach: -1}
	s.seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	return s
}

func (s *search) run(limit int) Result {
	first := initial(&s.m.Config)
	s.enter(&first, -1, Step{})
	for len(s.next) > 0 && s.breach < 0 && (limit == 0 || len(s.visits) < limit) {
		level := s.next
		s.next = make([]reached, 0, len(level)*2)
		for i := range level {
			s.expand(&level[i])
		}
		s.result.Depth++
	}
	s.result.States = len(s.visits)
	s.result.Complete = len(s.next) == 0 && s.breach < 0
	if s.breach >= 0 {
		s.result.Trace = s.replay(first)
	}
	return s.result
}

func (s *search) enter(state *State, parent int32, step Step) {
	key := digest{maphash.Comparable(s.seeds[0], *state), maphash.Comparable(s.seeds[1], *state)}
	if _, ok := s.index[key]; ok {
		return
	}
	s.index[key] = struct{}{}
	at := int32(len(s.visits))
	s.visits = append(s.visits, visit{parent, step})
	s.next = append(s.next, reached{at, *state})
	s.judge(at, state.broken)
	s.observe(state)
}

func (s *search) judge(at int32, b Breach) {
	if b != Kept && s.breach < 0 {
		s.breach = at
		s.result.Breach = b
	}
}

// expand enters the successors of a state, and judges it when nothing is left to do.
func (s *search) expand(from *reached) {
	quiet := true
	s.m.successors(&from.state, func(step Step, next *State) {
		s.result.Steps[step.Action]++
		quiet = quiet && step.Action.world()
		s.m.forget(next)
		s.enter(next, from.at, step)
	})
	if !quiet {
		return
	}
	s.result.Quiet++
	for p := PodID(0); p < Pods; p++ {
		if from.state.api[p] == pending && s.m.looksFor(LeftWaiting) && s.m.fitsInTruth(&from.state, p) {
			s.judge(from.at, LeftWaiting)
		}
	}
}

// observe counts what a search must have seen to mean anything.
func (s *search) observe(state *State) {
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
	s.result.Running += count(run == Pods)
	s.result.Exact += count(exact)
	s.result.Verdicts += count(open)
	s.result.Waiting += count(waits)
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// replay repeats the steps from the first state to the breach.
func (s *search) replay(first State) []Moment {
	var steps []Step
	for at := s.breach; s.visits[at].parent >= 0; at = s.visits[at].parent {
		steps = append(steps, s.visits[at].step)
	}
	slices.Reverse(steps)
	var run []Moment
	state := first
	for _, want := range steps {
		moment := Moment{Step: want, before: state}
		s.m.successors(&moment.before, func(step Step, next *State) {
			if step == want {
				state = *next
				s.m.forget(&state)
			}
		})
		moment.after = state
		run = append(run, moment)
	}
	return run
}
