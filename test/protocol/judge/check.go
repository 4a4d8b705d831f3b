package judge

import (
	"fmt"

	"github.com/berth-dev/berth/test/protocol/explore"
)

// Result is what Check found.
type Result struct {
	explore.Result[State, step, Breach]
	// Right and Refused are steps by which a pod was counted as right, and as refused rightly.
	Right, Refused int
}

// search is a Config that can be explored.
type search struct {
	c *Config
	Result
}

// Check visits every reachable state, until a promise is broken or none is left.
func Check(c Config) Result {
	s := &search{c: &c}
	s.Result.Result = explore.Walk(s, State{left: c.Budget})
	return s.Result
}

func (s *search) Steps(state *State, emit func(step, *State)) {
	w := walk{c: s.c, from: *state, out: emit}
	w.all()
	s.Right += w.right
	s.Refused += w.refused
}

func (*search) World(st step) bool { return st.chance }

func (*search) See(state *State) Breach { return state.broken }

// Rest asks if all pods have been counted.
func (*search) Rest(state *State) (Breach, string) {
	for p := range Pod(pods) {
		if state.entries[p].open {
			return LeftOpen, fmt.Sprintf("%v is not counted", p)
		}
	}
	return Kept, ""
}

func (*search) Tell(m explore.Moment[State, step]) string {
	return fmt.Sprintf("%-9s %s", m.Step.who, m.Step.what)
}
