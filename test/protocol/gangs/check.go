package gangs

import (
	"fmt"

	"github.com/berth-dev/berth/test/protocol/explore"
)

// Result is the result of Check.
type Result struct {
	explore.Result[State, step, Breach]
	Whole int // states in which both gangs have been complete
}

// search is a Config that can be explored.
type search struct {
	c     *Config
	whole int
}

// Check visits every reachable state, until a promise is broken or none is left.
func Check(c Config) Result {
	s := &search{c: &c}
	r := explore.Walk(s, initial(&c))
	return Result{r, s.whole}
}

func (s *search) Steps(state *State, emit func(step, *State)) {
	w := walk{c: s.c, from: *state, out: emit}
	w.all()
}

func (*search) World(st step) bool { return st.chance }

func (s *search) See(state *State) Breach {
	if state.was[0] && state.was[1] {
		s.whole++
	}
	return state.broken
}

func (s *search) Rest(state *State) (Breach, string) {
	if b := state.rest(); s.c.looksFor(b) {
		return b, ""
	}
	return Kept, ""
}

func (*search) Tell(m explore.Moment[State, step]) string {
	return fmt.Sprintf("%-10s %s", m.Step.who, m.Step.describe(&m.Before, &m.After))
}

func (c *Config) looksFor(b Breach) bool { return c.Look == Kept || c.Look == b }
