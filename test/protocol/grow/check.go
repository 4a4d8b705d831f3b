package grow

import (
	"fmt"

	"github.com/berth-dev/berth/test/protocol/explore"
)

// Result is the result of Check.
type Result struct {
	explore.Result[State, step, Breach]
	Grown, Shrunk int // states in which pod a has grown, or shrunk, and all actors agree
}

// search is a Config that can be explored.
type search struct {
	c *Config
	Result
}

// Check visits every reachable state, until a promise is broken or none is left.
func Check(c Config) Result {
	s := &search{c: &c}
	s.Result.Result = explore.Walk(s, initial(&c))
	return s.Result
}

func (s *search) Steps(state *State, emit func(step, *State)) {
	w := walk{c: s.c, from: *state, out: emit}
	w.all()
}

func (*search) World(st step) bool { return st.chance }

func (s *search) See(state *State) Breach {
	done := state.runs == state.api.cpus && state.limit == state.api.size() && state.spec == state.api.size()
	switch {
	case !done || state.api.gen == 1:
	case state.api.size() == 2:
		s.Grown++
	default:
		s.Shrunk++
	}
	return state.broken
}

// Rest checks that every resize that fits is carried out, and that pod b runs if it fits.
func (s *search) Rest(state *State) (Breach, string) {
	room := state.b == pending || state.b == gone
	switch {
	case state.alloc != state.api.size() && (state.alloc == 1 || room):
		return LeftStanding, "a is not resized"
	case state.api.size() == state.alloc && (state.runs != state.api.cpus || state.limit != state.alloc):
		return LeftStanding, "a does not get what was decided"
	case state.b == pending && state.alloc == 1 && state.limit == 1:
		return LeftStanding, "b is not placed"
	}
	return Kept, ""
}

func (*search) Tell(m explore.Moment[State, step]) string {
	return fmt.Sprintf("%-9s %s", m.Step.who, m.Step.what)
}
