package gangs

import (
	"fmt"
	"slices"
)

// The size of the model.
const (
	Gangs   = 2
	Members = 2
	Room    = 3
)

// stage is the progress of a member.
type stage uint8

const (
	absent  stage = iota // not created yet, or gone
	pending              // wants a node
	held                 // has a place, and waits in Permit
	passed               // its Binding is under way
	bound
)

// Budget counts the events that may still happen.
type Budget struct {
	Failures uint8 // members that fail before they pass Permit
	Bindings uint8 // Bindings that fail
	Crashes  uint8 // schedulers that die, each followed by a new leader
	Deaths   uint8 // members that die after their gang is complete
	Raises   uint8 // minimums of gang a that are raised from 1 to 2
	// Ordered is how many gangs have a plan that works in only one order: both members have the
	// same kubelet, which must admit the first member first. Silences is how many agents of such
	// nodes may stop forever.
	Ordered, Silences uint8
	// Lows is how many pods of lower priority have a place at the start, at most Room.
	Lows uint8
}

// Config is one model.
type Config struct {
	Rules  Rule
	Budget Budget
	// Look is the breach to look for; Kept means all.
	Look Breach
}

// State is the memory of all actors. It is comparable: equal states are one state.
type State struct {
	pod [Gangs][Members]stage

	// The minimum in the API, and as the scheduler's watch has shown it.
	minimum, shown [Gangs]uint8
	// The minimum of the last plan, and the minimum in the API at that time.
	planned, lawful [Gangs]uint8
	// whole means that the scheduler knows that the gang was complete. stored means that the API
	// has recorded it.
	whole, stored [Gangs]bool
	// closed means that the member's Binding completed its gang.
	closed [Gangs][Members]bool
	// was means that the gang was complete, by the API's minimum at the time of the plan.
	was [Gangs]bool
	// low counts places of pods of lower priority, leaving places of evicted pods.
	low, leaving uint8
	// For ordered gangs: members that their kubelet has admitted, members in a report, and silent
	// agents.
	admitted, listed [Gangs][Members]bool
	silent           [Gangs]bool
	// hurt means that a Binding has failed, a scheduler has died, or an agent is silent.
	hurt bool

	left   Budget
	broken Breach
}

func initial(c *Config) State {
	s := State{minimum: [Gangs]uint8{2, 2}, shown: [Gangs]uint8{2, 2}, low: c.Budget.Lows, left: c.Budget}
	if c.Budget.Raises > 0 {
		s.minimum[0], s.shown[0] = 1, 1
	}
	return s
}

func (s *State) count(g int, what stage) (n uint8) {
	for _, p := range s.pod[g] {
		if p == what {
			n++
		}
	}
	return n
}

// free returns the room that is left.
func (s *State) free() uint8 {
	n := uint8(Room) - s.low - s.leaving
	for g := range Gangs {
		n -= s.count(g, held) + s.count(g, passed) + s.count(g, bound)
	}
	return n
}

// gone removes all knowledge about a member on its node.
func (s *State) gone(g, m int, to stage) {
	s.pod[g][m], s.admitted[g][m], s.listed[g][m], s.closed[g][m] = to, false, false, false
}

// marked reports whether a Binding in the API records that the gang was complete.
func (s *State) marked(c *Config, g int) bool {
	return c.Rules.Has(ClosingMark) && slices.Contains(s.closed[g][:], true)
}

// ordered reports whether the gang's plan works in only one order.
func (c *Config) ordered(g int) bool { return g < int(c.Budget.Ordered) }

// coming reports whether a bound member of an ordered gang is in no report yet. Until a report
// lists the member, its node admits no other member.
func (s *State) coming(c *Config, g int) bool {
	for m := range Members {
		if c.ordered(g) && s.pod[g][m] == bound && !s.listed[g][m] {
			return true
		}
	}
	return false
}

// waits reports whether a permitted member waits for the member before it.
func (s *State) waits(c *Config, g, m int) bool {
	if !c.ordered(g) || m == 0 || s.pod[g][m] != passed {
		return false
	}
	return s.pod[g][0] == passed || c.Rules.Has(InOrder) && s.pod[g][0] == bound && !s.listed[g][0]
}

// needed returns the minimum with which the scheduler plans.
func (s *State) needed(c *Config, g int) uint8 {
	if c.Rules.Has(FreshObject) {
		return s.minimum[g]
	}
	return s.shown[g]
}

// name returns a member's name: a0, a1, b0 or b1.
func name(g, m int) string { return fmt.Sprintf("%c%d", 'a'+g, m) }

func gang(g int) string { return string(rune('a' + g)) }
