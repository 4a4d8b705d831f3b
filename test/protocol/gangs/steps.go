package gangs

import (
	"fmt"
	"slices"
)

// step is one possible event.
type step struct {
	who, what string
	// chance means that the event may never happen.
	chance bool
}

// walk explores the steps of one state.
type walk struct {
	c    *Config
	from State
	out  func(step, *State)
}

func (w *walk) all() {
	for g := range Gangs {
		w.plan(g)
		w.evict(g)
		w.pass(g)
		w.timeout(g)
		w.deadline(g)
		w.store(g)
		w.silence(g)
		for m := range Members {
			w.create(g, m)
			w.bind(g, m)
			w.admit(g, m)
			w.giveUp(g, m)
			w.fail(g, m)
			w.die(g, m)
		}
	}
	w.leave()
	w.object()
	w.crash()
}

func (w *walk) emit(who, what string, chance bool, change func(*State)) {
	next := w.from
	change(&next)
	if w.c.looksFor(Part) {
		next.judge()
	}
	w.out(step{who, what, chance}, &next)
}

// create makes a controller create a member. The second member of a gang with a raised minimum
// comes after the raise.
func (w *walk) create(g, m int) {
	s := &w.from
	if s.pod[g][m] != absent || m >= int(s.minimum[g]) {
		return
	}
	w.emit("controller", "creates "+name(g, m), false, func(s *State) { s.pod[g][m] = pending })
}

// plan reserves places for members of a gang.
func (w *walk) plan(g int) {
	s := &w.from
	least, have, want := s.needed(w.c, g), s.count(g, bound)+s.count(g, passed)+s.count(g, held), s.count(g, pending)
	switch rules := w.c.Rules; {
	case want == 0 || w.free() == 0 || s.count(g, passed) > 0 || s.coming(w.c, g):
		return
	case rules.Has(CompleteFirst) && have+want < least:
		return
	case rules.Has(PlanWhole) && s.count(g, held) > 0:
		return
	case rules.Has(PlanWhole) && have < least && have+min(want, w.free()) < least && have+want >= least:
		return // the gang does not fit as a whole
	}
	take := min(want, w.free())
	if !w.c.Rules.Has(PlanWhole) {
		take = 1
	}
	w.emit("scheduler", "", false, func(s *State) {
		s.planned[g], s.lawful[g] = least, s.minimum[g]
		for m := range Members {
			if s.pod[g][m] == pending && take > 0 {
				s.pod[g][m] = held
				take--
			}
		}
	})
}

// evict makes room for a gang by evicting the smallest sufficient number of pods of lower priority.
func (w *walk) evict(g int) {
	s := &w.from
	have, want := s.count(g, bound)+s.count(g, passed)+s.count(g, held), s.count(g, pending)
	least := s.needed(w.c, g)
	if want == 0 || have >= least || have+want < least && w.c.Rules.Has(CompleteFirst) || s.count(g, held)+s.count(g, passed) > 0 || s.low == 0 {
		return
	}
	short, coming := least-have, s.free()
	if w.c.Rules.Has(CountLeaving) {
		coming += s.leaving
	}
	if coming >= short || w.c.Rules.Has(EvictForWhole) && coming+s.low < short {
		return
	}
	n := min(s.low, short-coming)
	w.emit("scheduler", fmt.Sprintf("evicts %d of lower priority for %s", n, gang(g)), false, func(s *State) {
		if w.c.looksFor(Evicted) && (s.free()+s.leaving >= short || s.free()+s.leaving+s.low < short) {
			s.broken = Evicted
		}
		s.low -= n
		s.leaving += n
	})
}

// leave ends a pod that was evicted.
func (w *walk) leave() {
	if w.from.leaving > 0 {
		w.emit("world", "an evicted pod is gone", false, func(s *State) { s.leaving-- })
	}
}

// pass lets members through Permit.
func (w *walk) pass(g int) {
	s := &w.from
	least, all := s.needed(w.c, g), s.count(g, held)+s.count(g, passed)+s.count(g, bound)
	if s.count(g, held) == 0 || w.c.Rules.Has(Barrier) && all < least {
		return
	}
	if !w.c.Rules.Has(Barrier) {
		for m := range Members {
			if s.pod[g][m] == held {
				w.emit("scheduler", "lets "+name(g, m)+" pass", false, func(s *State) { s.pod[g][m] = passed })
			}
		}
		return
	}
	w.emit("scheduler", "lets the members of "+gang(g)+" that have places pass", false, func(s *State) {
		for m := range Members {
			if s.pod[g][m] == held {
				s.pod[g][m] = passed
			}
		}
	})
}

// free returns the room that a plan may use.
func (w *walk) free() uint8 {
	n := w.from.free()
	for g := range Gangs {
		for m := range Members {
			if !w.c.Rules.Has(KeepRoom) && w.from.waits(w.c, g, m) {
				n++
			}
		}
	}
	return n
}

func (w *walk) bind(g, m int) {
	if w.from.pod[g][m] != passed || w.from.waits(w.c, g, m) {
		return
	}
	if w.from.free() > Room { // the subtraction wrapped around: the others have more than was left
		w.emit("scheduler", "finds no room for "+name(g, m)+" any more", false, func(s *State) { s.pod[g][m] = pending })
		return
	}
	w.emit("api", "binds "+name(g, m), false, func(s *State) {
		s.pod[g][m] = bound
		s.closed[g][m] = s.count(g, bound) >= s.planned[g]
		s.whole[g] = s.whole[g] || s.count(g, bound) >= s.planned[g]
		s.was[g] = s.was[g] || s.count(g, bound) >= s.lawful[g]
	})
	if w.from.left.Bindings == 0 {
		return
	}
	w.emit("api", "refuses the Binding of "+name(g, m), true, func(s *State) {
		s.left.Bindings--
		s.pod[g][m], s.hurt = pending, true
		if w.c.ordered(g) && m == 0 && s.pod[g][1] == passed {
			s.pod[g][1] = pending // its place is valid only after the first member
		}
	})
}

// admit makes the kubelet of an ordered gang admit a member, and its agent report the member. A
// member that is admitted too early takes the place of another.
func (w *walk) admit(g, m int) {
	s := &w.from
	switch {
	case !w.c.ordered(g) || s.pod[g][m] != bound:
	case !s.admitted[g][m]:
		w.emit("kubelet", "admits "+name(g, m), false, func(s *State) {
			s.admitted[g][m] = true
			if m == 1 && s.pod[g][0] == bound && !s.admitted[g][0] && w.c.looksFor(Refused) {
				s.broken = Refused
			}
		})
	case !s.listed[g][m] && !s.silent[g]:
		w.emit("agent", "reports "+name(g, m), false, func(s *State) { s.listed[g][m] = true })
	}
}

// silence stops the reports of the agent of a gang's node.
func (w *walk) silence(g int) {
	if !w.c.ordered(g) || w.from.left.Silences == 0 || w.from.silent[g] {
		return
	}
	w.emit("world", "the agent of "+gang(g)+"'s node falls silent", true, func(s *State) {
		s.left.Silences--
		s.silent[g], s.hurt = true, true
	})
}

// giveUp ends a member's wait for the members before it. It assumes that reports come before the
// deadline unless agents are silent.
func (w *walk) giveUp(g, m int) {
	if w.c.Rules.Has(WaitEnds) && w.from.silent[g] && w.from.waits(w.c, g, m) {
		w.emit("scheduler", "lets "+name(g, m)+" wait for its turn no longer", false, func(s *State) { s.pod[g][m] = pending })
	}
}

// fail makes a member lose its place before it passes Permit.
func (w *walk) fail(g, m int) {
	if w.from.pod[g][m] != held || w.from.left.Failures == 0 {
		return
	}
	w.emit("world", name(g, m)+" fails in its cycle", true, func(s *State) {
		s.left.Failures--
		s.pod[g][m] = pending
		if w.c.Rules.Has(DropOnFailure) && s.count(g, held)+s.count(g, passed)+s.count(g, bound) < s.planned[g] {
			s.release(g)
		}
	})
}

func (s *State) release(g int) {
	for m := range Members {
		if s.pod[g][m] == held {
			s.pod[g][m] = pending
		}
	}
}

// timeout ends the wait in Permit of too few members.
func (w *walk) timeout(g int) {
	s := &w.from
	if !w.c.Rules.Has(Deadline) || s.count(g, held) == 0 || s.count(g, held)+s.count(g, passed)+s.count(g, bound) >= s.needed(w.c, g) {
		return
	}
	w.emit("scheduler", "lets "+gang(g)+" wait in Permit no longer", false, func(s *State) { s.release(g) })
}

// deadline deletes the bound members of an incomplete gang.
func (w *walk) deadline(g int) {
	s := &w.from
	n := s.count(g, bound)
	if !w.c.Rules.Has(Deadline) || n == 0 || n >= s.needed(w.c, g) || s.count(g, passed) > 0 || w.c.Rules.Has(WholeStays) && s.whole[g] {
		return
	}
	w.emit("scheduler", "deletes what is bound of "+gang(g)+": its deadline has passed", false, func(s *State) {
		switch {
		case s.was[g] && w.c.looksFor(Torn):
			s.broken = Torn
		case !s.hurt && w.c.looksFor(InVain):
			s.broken = InVain
		}
		s.release(g)
		for m := range Members {
			if s.pod[g][m] == bound {
				s.gone(g, m, absent)
			}
		}
	})
}

// store records in the API that a gang was complete.
func (w *walk) store(g int) {
	if !w.c.Rules.Has(WholeStored) || !w.from.whole[g] || w.from.stored[g] {
		return
	}
	w.emit("scheduler", "stores that "+gang(g)+" was whole", false, func(s *State) { s.stored[g] = true })
}

// die ends a member. The model assumes that the last member, whose Binding completes the gang, does
// not die before this is stored.
func (w *walk) die(g, m int) {
	s := &w.from
	if s.pod[g][m] != bound || s.left.Deaths == 0 || !s.was[g] || w.c.Rules.Has(WholeStored) && !s.stored[g] && s.closed[g][m] && !s.closed[g][1-m] {
		return
	}
	w.emit("world", name(g, m)+" dies", true, func(s *State) {
		s.left.Deaths--
		s.gone(g, m, absent)
	})
}

// object raises the minimum of gang a, and lets the watch show it.
func (w *walk) object() {
	if w.from.left.Raises > 0 {
		w.emit("controller", "raises the minimum of a from 1 to 2", true, func(s *State) {
			s.left.Raises--
			s.minimum[0] = 2
		})
	}
	if w.from.shown != w.from.minimum {
		w.emit("scheduler", "sees that the minimum of a is 2", false, func(s *State) { s.shown = s.minimum })
	}
}

// crash starts a new leader, which knows only the content of the API.
func (w *walk) crash() {
	if w.from.left.Crashes == 0 {
		return
	}
	w.emit("world", "the scheduler crashes, a new leader lists pods and groups", true, func(s *State) {
		s.left.Crashes--
		s.shown, s.hurt = s.minimum, true
		for g := range Gangs {
			for m := range Members {
				if s.pod[g][m] == held || s.pod[g][m] == passed {
					s.pod[g][m] = pending
				}
			}
			s.whole[g] = s.stored[g] || s.marked(w.c, g) || s.count(g, bound) >= s.minimum[g]
		}
	})
}

// judge looks for breaches in every state.
func (s *State) judge() {
	for g := range Gangs {
		n := s.count(g, held)
		if s.broken == Kept && !s.was[g] && n > 0 && n+s.count(g, passed)+s.count(g, bound) < s.planned[g] {
			s.broken = Part
		}
	}
}

// rest looks for breaches in a state in which no further event has to happen.
func (s *State) rest() Breach {
	for g := range Gangs {
		if n := s.count(g, bound); n > 0 && n < s.minimum[g] && !s.was[g] {
			return Partial
		}
		if s.count(g, bound) == 0 && s.free()+s.low >= s.minimum[g] {
			return Starved
		}
	}
	return Kept
}

// describe describes a step. The text may depend on the state after it.
func (st *step) describe(before, after *State) string {
	if st.what != "" {
		return st.what
	}
	var got []string
	for g := range Gangs {
		for m := range Members {
			if before.pod[g][m] == pending && after.pod[g][m] == held {
				got = append(got, name(g, m))
			}
		}
	}
	slices.Sort(got)
	return fmt.Sprintf("reserves places for %v", got)
}
