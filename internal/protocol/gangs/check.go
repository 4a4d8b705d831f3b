package gangs

import (
	"fmt"
	"slices"
	"strings"
)

// Result is what Check found.
type Result struct {
	// States is how many were visited, Rest in how many of them nothing is left to happen, Whole in
	// how many both gangs were whole once.
	States, Rest, Whole int
	Breach              Breach
	// Trace is the shortest run to the breach, a step a line.
	Trace []string
}

// String tells the run.
func (r Result) String() string {
	var b strings.Builder
	for i, line := range r.Trace {
		fmt.Fprintf(&b, "%3d. %s\n", i+1, line)
	}
	fmt.Fprintf(&b, "     => %v\n", r.Breach)
	return b.String()
}

func (c *Config) looksFor(b Breach) bool { return c.Look == Kept || c.Look == b }

// visit is how a state was reached.
type visit struct {
	parent State
	line   string
	root   bool
}

// Check walks every reachable state.
func Check(c Config) Result {
	first := initial(&c)
	seen := map[State]visit{first: {root: true}}
	queue := []State{first}
	var r Result
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		r.States++
		if s.was[0] && s.was[1] {
			r.Whole++
		}
		moves := false
		w := walk{c: &c, from: s, out: func(st step, next State) {
			moves = moves || !st.chance
			if _, ok := seen[next]; !ok {
				seen[next] = visit{parent: s, line: fmt.Sprintf("%-10s %s", st.who, st.describe(&s, &next))}
				queue = append(queue, next)
			}
		}}
		broken := s.broken
		if broken == Kept {
			w.all()
		}
		if !moves && broken == Kept {
			r.Rest++
			broken = s.rest()
		}
		if broken != Kept && c.looksFor(broken) {
			r.Breach, r.Trace = broken, trace(seen, s)
			return r
		}
	}
	return r
}

func trace(seen map[State]visit, s State) (lines []string) {
	for v := seen[s]; !v.root; v = seen[s] {
		lines = append(lines, v.line)
		s = v.parent
	}
	slices.Reverse(lines)
	return lines
}
