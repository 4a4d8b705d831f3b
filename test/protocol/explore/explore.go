// Package explore visits every reachable state of a model, breadth first, and returns the shortest
// run to a broken promise.
package explore

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// Space is a model that can be explored: states S, steps T, and promises B that can be broken.
// Equal values of S are one state. The zero value of B means that all promises are kept.
type Space[S comparable, T any, B comparable] interface {
	// Steps calls emit for every step that is possible in the state, always in the same order, with
	// the state after the step.
	Steps(s *S, emit func(T, *S))
	// World reports whether the step may never happen: a failure, or an action of a user.
	World(T) bool
	// See returns the promise that is broken in a state. It is called once for each state.
	See(*S) B
	// Rest returns the promise that is broken in a state without further steps, and a sentence
	// about it if necessary.
	Rest(*S) (B, string)
	// Tell returns the actor and the action.
	Tell(Moment[S, T]) string
}

// Result is the result of Walk.
type Result[S comparable, T any, B comparable] struct {
	States   int            // distinct states visited
	Depth    int            // largest number of steps from the first state to a state
	Quiet    int            // states without further steps
	Complete bool           // every reachable state was visited
	Breach   B              // zero when no reachable state breaks a promise
	Trace    []Moment[S, T] // the shortest run to the breach
	lines    []string       // the results of Tell for each moment, and of Rest for the last state
}

// Moment is one step of a trace and the states around it.
type Moment[S, T any] struct {
	Step          T
	Before, After S
}

// String returns the run to the breach, one step per line.
func (r Result[S, T, B]) String() string {
	var b strings.Builder
	for i, line := range r.lines {
		if i < len(r.Trace) {
			fmt.Fprintf(&b, "%3d. %s\n", i+1, line)
		} else {
			fmt.Fprintf(&b, "     %s\n", line)
		}
	}
	fmt.Fprintf(&b, "     => %v\n", r.Breach)
	return b.String()
}

// digest identifies a visited state. Two different states have the same digest with a probability
// of about n*n/2^129, which is 10^-24 for the largest model here. In this case a search could miss
// a breach.
type digest [2]uint64

// visit describes how a state was reached: by the nth step of its parent.
type visit struct{ parent, nth int32 }

// reached is a state that is still to be expanded.
type reached[S any] struct {
	at    int32
	state S
}

// search is one breadth-first walk.
type search[S comparable, T any, B comparable] struct {
	m      Space[S, T, B]
	seeds  [2]maphash.Seed
	index  map[digest]struct{}
	visits []visit
	next   []reached[S]
	result Result[S, T, B]
	breach int32 // the first visit that breaks a promise; -1 for none
}

// Walk visits the states that are reachable from the first, until a state breaks a promise or all
// have been visited.
func Walk[S comparable, T any, B comparable](m Space[S, T, B], first S) Result[S, T, B] {
	s := &search[S, T, B]{m: m, index: map[digest]struct{}{}, breach: -1}
	s.seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	s.enter(&first, visit{parent: -1})
	for len(s.next) > 0 && s.breach < 0 {
		level := s.next
		s.next = make([]reached[S], 0, len(level)*2)
		for i := 0; i < len(level) && s.breach < 0; i++ {
			s.expand(&level[i])
		}
		s.result.Depth++
	}
	s.result.States = len(s.visits)
	s.result.Complete = s.breach < 0
	if s.breach >= 0 {
		s.replay(first)
	}
	return s.result
}

func (s *search[S, T, B]) enter(state *S, by visit) {
	key := digest{maphash.Comparable(s.seeds[0], *state), maphash.Comparable(s.seeds[1], *state)}
	if _, ok := s.index[key]; ok {
		return
	}
	s.index[key] = struct{}{}
	at := int32(len(s.visits))
	s.visits = append(s.visits, by)
	s.next = append(s.next, reached[S]{at, *state})
	s.judge(at, s.m.See(state))
}

// judge keeps the first breach.
func (s *search[S, T, B]) judge(at int32, b B) {
	var kept B
	if b != kept && s.breach < 0 {
		s.breach, s.result.Breach = at, b
	}
}

// expand adds the successors of a state, and judges a state without further steps.
func (s *search[S, T, B]) expand(from *reached[S]) {
	quiet := true
	by := visit{parent: from.at}
	s.m.Steps(&from.state, func(step T, next *S) {
		quiet = quiet && s.m.World(step)
		s.enter(next, by)
		by.nth++
	})
	if quiet {
		s.result.Quiet++
		b, why := s.m.Rest(&from.state)
		if s.judge(from.at, b); s.breach == from.at && why != "" {
			s.result.lines = []string{why}
		}
	}
}

// replay repeats the steps from the first state to the breach.
func (s *search[S, T, B]) replay(state S) {
	var path []int32
	for at := s.breach; s.visits[at].parent >= 0; at = s.visits[at].parent {
		path = append(path, s.visits[at].nth)
	}
	slices.Reverse(path)
	var lines []string
	for _, nth := range path {
		moment := Moment[S, T]{Before: state}
		s.m.Steps(&moment.Before, func(step T, next *S) {
			if nth == 0 {
				moment.Step, moment.After = step, *next
			}
			nth--
		})
		state = moment.After
		s.result.Trace = append(s.result.Trace, moment)
		lines = append(lines, s.m.Tell(moment))
	}
	s.result.lines = append(lines, s.result.lines...)
}
