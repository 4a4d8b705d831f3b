package judge

import (
	"fmt"

	"github.com/berth-dev/berth/test/protocol/explore"
)

// Result is the result of Check.
type Result struct {
	explore.Result[State, step, Breach]
	// Right and Refused count the steps that count an accepted pod, and a rejected pod, as
	// predicted correctly.
	Right, Refused int
}

// search makes a Config explorable by package explore.
type search struct {
	c *Config
	Result
}

// Check visits the reachable states until one breaks a promise, or until all have been visited.
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

// Rest checks that all pods have been counted.
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
