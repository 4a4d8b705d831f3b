package obey

import "github.com/berth-dev/berth/test/protocol/explore"

// Result is the result of Check.
type Result struct {
	explore.Result[State, Step, Breach]
	Steps   [actions]uint64 // steps taken, by action
	Running int             // states in which a pinned and another container run
}

// search is a Model that can be explored, with counts.
type search struct {
	m *Model
	Result
}

// Check visits every reachable state, until a promise is broken or no state is left. It returns an
// error only for a Config that does not Validate.
func Check(c Config) (Result, error) {
	if err := c.Validate(); err != nil {
		return Result{}, err
	}
	s := &search{m: &Model{c}}
	s.Result.Result = explore.Walk(s, initial(&c))
	return s.Result, nil
}

func (s *search) Steps(state *State, emit func(Step, *State)) {
	s.m.successors(state, func(step Step, next *State) {
		s.Result.Steps[step.Action]++
		emit(step, next)
	})
}

func (*search) World(step Step) bool { return step.Action.world() }

func (s *search) See(state *State) Breach {
	if state.runs[0] != 0 && (state.runs[1] != 0 || state.runs[2] != 0) {
		s.Running++
	}
	return state.broken
}

func (s *search) Rest(state *State) (Breach, string) {
	for p := PodID(0); p < Pods; p++ {
		if state.api[p] == pending && s.m.fits(state, p) {
			return LeftStanding, ""
		}
		if state.touched.Has(p) && state.runs[p] != state.rec[p] && state.seen.on[p] == state.rec[p] {
			return Unnoticed, ""
		}
	}
	return Kept, ""
}

func (*search) Tell(m explore.Moment[State, Step]) string { return moment(m).String() }

// fits reports whether the node has room for the pod when nothing is in progress.
func (m *Model) fits(s *State, p PodID) bool {
	room := allCPUs
	switch {
	case m.Pods[p].Owns:
		room = m.Held
	case m.Held != 0:
		room &^= m.Held
	}
	for o := PodID(0); o < Pods; o++ {
		if s.api[o] != bound {
			continue
		}
		if m.Pods[o].Owns == m.Pods[p].Owns {
			room &^= s.rec[o] // the CPUs of the other pods' decisions
		}
	}
	return room.Len() >= m.Pods[p].N
}
