package grow

import "fmt"

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
	w.kubelet()
	w.beginAgain()
	w.decide()
	w.written()
	w.fence()
	w.place()
	w.agent()
	w.reports()
	w.create()
	w.world()
}

func (w *walk) emit(who, what string, chance bool, change func(*State)) {
	next := w.from
	change(&next)
	next.judge()
	if next != w.from {
		w.out(step{who, what, chance}, &next)
	}
}

// kubelet allocates if the node's total suffices, and then changes the cgroup if the agent allows
// it.
func (w *walk) kubelet() {
	s := &w.from
	if s.alloc != s.spec && !s.crowded {
		w.emit("kubelet", fmt.Sprintf("allocates %d to a", s.spec), false, func(s *State) { s.alloc = s.spec })
	}
	switch {
	case s.acted == s.alloc:
	case s.down:
		w.emit("kubelet", fmt.Sprintf("updates a to %d: no agent refuses it", s.alloc), false, func(s *State) {
			s.acted, s.limit, s.loose = s.alloc, s.alloc, s.alloc > s.limit
		})
	case !w.c.Rules.Has(DecisionFirst) || s.alloc <= max(s.knows.size(), s.limit):
		w.emit("kubelet", fmt.Sprintf("updates a to %d, and the agent lets it", s.alloc), false, func(s *State) {
			s.acted, s.limit, s.loose = s.alloc, s.alloc, false
		})
	}
}

// beginAgain ends pod a's container and starts it again, as the kubelet does for a resize with the
// policy RestartContainer. The container does not start without an agent, or while pod b has its
// CPUs.
func (w *walk) beginAgain() {
	s := &w.from
	if s.left.Begins == 0 || s.down || s.b == running && s.bCPU&s.knows.cpus != 0 {
		return
	}
	gets := s.alloc
	if w.c.Rules.Has(BeginDecided) {
		gets = min(gets, s.knows.size())
	}
	w.emit("kubelet", fmt.Sprintf("begins a again with %d, and it gets %d", s.alloc, gets), true, func(s *State) {
		s.left.Begins--
		s.acted, s.limit, s.loose = s.alloc, gets, false
		s.runs, s.shut, s.sent = s.knows.cpus, s.knows.cpus, false
	})
}

// decide makes the scheduler write a decision for a resize.
func (w *walk) decide() {
	s, rules := &w.from, w.c.Rules
	want := s.alloc
	if !rules.Has(KubeletFirst) {
		want = s.spec
	}
	if s.new && rules.Has(FenceResizes) {
		return
	}
	if want == s.view.size() || s.wrote.gen != 0 && rules.Has(KeepBoth) || s.write.gen != 0 || s.gaveUp && !rules.Has(TryAgain) {
		return
	}
	if rules.Has(SettledFirst) && s.seen.gen != s.view.gen {
		return
	}
	free := allCPUs
	if s.b == bound || s.b == running {
		free &^= s.bCPU
	}
	if free.Len() < int(want) {
		w.emit("scheduler", "has no room for the resize of a", false, func(s *State) { s.gaveUp = true })
		return
	}
	to := decision{s.view.gen + 1, (s.view.cpus | free).Lowest(int(want))}
	w.emit("scheduler", "decides "+to.String(), false, func(s *State) { s.write, s.wrote, s.gaveUp = to, to, false })
}

// written is the fate of a write: it reaches the API with an answer, or the scheduler gets no
// answer and the write may arrive later.
func (w *walk) written() {
	s := &w.from
	if s.write.gen != 0 {
		w.emit("API", fmt.Sprintf("has %v", s.write), false, func(s *State) {
			s.api, s.write = s.write, decision{}
			if s.wrote == s.api {
				s.view, s.wrote = s.api, decision{}
			}
		})
		if s.left.Losses > 0 {
			w.emit("world", "the scheduler gets no answer from the API", true, func(s *State) {
				s.left.Losses--
				if !w.c.Rules.Has(KeepBoth) {
					s.wrote = decision{}
				}
			})
		}
	}
	if s.view != s.api && s.wrote.gen == 0 {
		w.emit("scheduler", fmt.Sprintf("sees %v", s.api), false, func(s *State) { s.view = s.api })
	}
}

// fence writes pod a, so that a write of the earlier leader fails.
func (w *walk) fence() {
	if w.from.new {
		w.emit("scheduler", "has taken over", false, func(s *State) {
			s.new = false
			if w.c.Rules.Has(FenceResizes) {
				s.write = decision{}
			}
			s.view = s.api
		})
	}
}

// place binds pod b.
func (w *walk) place() {
	s := &w.from
	cpus, memory := s.counted(w.c)
	free := allCPUs &^ cpus
	if s.b != pending || s.new || free == 0 || memory > 1 {
		return
	}
	w.emit("scheduler", fmt.Sprintf("binds b, decided: %v", free.Lowest(1)), false, func(s *State) { s.b, s.bCPU = bound, free.Lowest(1) })
}

// agent learns of decisions, moves the container and reads its cgroup.
func (w *walk) agent() {
	s, rules := &w.from, w.c.Rules
	switch {
	case s.down:
		w.emit("agent", "starts again", false, func(s *State) {
			s.down, s.knows = false, s.first
			if rules.Has(RememberDecisions) {
				s.knows = s.disk
			}
			s.shut = s.knows.cpus | s.runs
		})
		return
	case s.api.gen > s.knows.gen:
		w.emit("agent", fmt.Sprintf("learns of %v", s.api), false, func(s *State) { s.knows, s.disk, s.sent = s.api, s.api, false })
	}
	taken := s.b == running && s.bCPU&s.knows.cpus&^s.shut != 0
	if s.runs != s.knows.cpus && !s.sent && !taken {
		w.emit("runtime", fmt.Sprintf("moves a to %v", s.knows.cpus), false, func(s *State) {
			s.shut |= s.knows.cpus
			s.runs = s.knows.cpus
			if !rules.Has(ReadBackFrees) {
				s.shut, s.sent = s.knows.cpus, true
			}
		})
		if s.left.Slips > 0 {
			w.emit("runtime", fmt.Sprintf("does not move a to %v", s.knows.cpus), true, func(s *State) {
				s.left.Slips--
				if !rules.Has(ReadBackFrees) {
					s.shut, s.sent = s.knows.cpus, true
				}
			})
		}
	}
	if s.runs == s.knows.cpus && s.limit != s.knows.size() && rules.Has(CarryAmounts) {
		w.emit("agent", fmt.Sprintf("brings a to %d", s.knows.size()), false, func(s *State) { s.limit, s.loose = s.knows.size(), false })
	}
	if s.runs == s.knows.cpus && s.shut != s.runs {
		w.emit("agent", fmt.Sprintf("reads that a runs on %v", s.runs), false, func(s *State) { s.shut = s.runs })
	}
}

// reports sends the agent's reports about pod a to the scheduler. A report has the CPUs that the
// agent keeps for pod a, the memory that the kubelet may give it, and the decision that the agent
// knows.
func (w *walk) reports() {
	s := &w.from
	now := shown{s.knows.gen, s.runs | s.shut, max(s.limit, s.knows.size())}
	if !w.c.Rules.Has(ReadBackFrees) {
		now.cpus = s.shut
	}
	if !s.down && s.posted != now {
		w.emit("agent", "reports "+now.String(), false, func(s *State) { s.posted = now })
	}
	if s.seen != s.posted {
		w.emit("scheduler", "sees the report: "+s.posted.String(), false, func(s *State) { s.seen = s.posted })
	}
}

// create starts pod b, if the agent has its CPU for it.
func (w *walk) create() {
	s := &w.from
	switch {
	case s.b != bound || s.down:
	case s.shut&s.bCPU == 0:
		w.emit("runtime", fmt.Sprintf("begins b on %v", s.bCPU), false, func(s *State) { s.b = running })
	default:
		w.emit("agent", fmt.Sprintf("does not let b begin: %v is not free", s.bCPU), false, func(s *State) { s.broken = MadeToWait })
	}
}

func (w *walk) world() {
	s := &w.from
	if s.left.Wishes > 0 {
		w.emit("world", fmt.Sprintf("somebody resizes a to %d", 3-s.spec), true, func(s *State) {
			s.left.Wishes--
			s.spec = 3 - s.spec
		})
	}
	if s.left.Crowds > 0 {
		w.emit("world", "the kubelet's sums are full", true, func(s *State) { s.left.Crowds, s.crowded = 0, true })
	}
	if s.left.Crashes > 0 {
		w.emit("world", "the scheduler is restarted", true, func(s *State) {
			s.left.Crashes--
			s.scheduler = scheduler{view: s.api, new: true}
			s.seen = s.posted
		})
	}
	if s.left.Restarts > 0 && !s.down {
		w.emit("world", "the agent stops", true, func(s *State) {
			s.left.Restarts--
			s.agent = agent{down: true, disk: s.disk}
		})
	}
	if s.left.OldNews > 0 && !s.down && s.knows != s.first {
		w.emit("world", fmt.Sprintf("the agent is shown %v once more", s.first), true, func(s *State) {
			s.left.OldNews--
			if !w.c.Rules.Has(NewerOnly) {
				s.knows, s.sent = s.first, false
				s.shut |= s.first.cpus
			}
		})
	}
	if s.left.Leaves > 0 && s.b == running {
		w.emit("world", "b has left", true, func(s *State) {
			s.left.Leaves--
			s.b, s.bCPU = gone, 0
		})
	}
}
