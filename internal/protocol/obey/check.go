package obey

import "slices"

// Result is what Check found.
type Result struct {
	States   int             // distinct states visited
	Steps    [actions]uint64 // steps taken, by action
	Running  int             // states in which a pinned and another container run
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

type visit struct {
	state  State
	parent int32
	step   Step
}

type search struct {
	m      *Model
	index  map[State]struct{}
	visits []visit
	result Result
	breach int32 // the first visit that breaks a promise, -1
}

// Check visits every reachable state, breadth first, until a promise is broken or none is left. It
// returns an error only for a Config that does not Validate.
func Check(c Config) (Result, error) {
	if err := c.Validate(); err != nil {
		return Result{}, err
	}
	s := &search{m: &Model{c}, index: map[State]struct{}{}, breach: -1}
	first := initial(&c)
	s.enter(&first, -1, Step{})
	for at := 0; at < len(s.visits) && s.breach < 0; at++ {
		s.expand(int32(at))
	}
	s.result.States = len(s.visits)
	s.result.Complete = s.breach < 0
	for at := s.breach; at > 0; at = s.visits[at].parent {
		v := &s.visits[at]
		s.result.Trace = append(s.result.Trace, Moment{Step: v.step, before: s.visits[v.parent].state, after: v.state})
	}
	slices.Reverse(s.result.Trace)
	return s.result, nil
}

func (s *search) enter(state *State, parent int32, step Step) {
	if _, ok := s.index[*state]; ok {
		return
	}
	s.index[*state] = struct{}{}
	at := int32(len(s.visits))
	s.visits = append(s.visits, visit{*state, parent, step})
	s.judge(at, state.broken)
	if state.runs[0] != 0 && (state.runs[1] != 0 || state.runs[2] != 0) {
		s.result.Running++
	}
}

func (s *search) judge(at int32, b Breach) {
	if b != Kept && s.breach < 0 {
		s.breach, s.result.Breach = at, b
	}
}

// expand enters the successors of a state, and judges it when nothing is left to do.
func (s *search) expand(at int32) {
	state := s.visits[at].state
	quiet := true
	s.m.successors(&state, func(step Step, next *State) {
		s.result.Steps[step.Action]++
		quiet = quiet && step.Action.world()
		s.enter(next, at, step)
	})
	if !quiet {
		return
	}
	s.result.Quiet++
	for p := PodID(0); p < Pods; p++ {
		if state.api[p] == pending && s.m.fits(&state, p) {
			s.judge(at, LeftStanding)
		}
		if state.touched.has(p) && state.runs[p] != state.rec[p] && state.seen.on[p] == state.rec[p] {
			s.judge(at, Unnoticed)
		}
	}
}

// fits reports whether the node has room for the pod, now that nothing is under way.
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
			room &^= s.rec[o] // the others have theirs elsewhere, or should
		}
	}
	return room.len() >= m.Pods[p].N
}
