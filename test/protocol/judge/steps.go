package judge

import "fmt"

// step is one possible transition.
type step struct {
	who, what string
	// chance means that the step may happen or not. A state in which only such steps are left is at
	// rest.
	chance bool
}

// walk explores the steps of one state.
type walk struct {
	c       *Config
	from    State
	out     func(step, *State)
	certain bool // a step without chance is possible
	// right and refused count the accepted and the rejected pods that were predicted correctly.
	right, refused int
}

func (w *walk) all() {
	w.bind()
	w.kubelet()
	w.agent()
	w.watches()
	w.world()
	if !w.certain {
		w.timeOut()
	}
}

func (w *walk) emit(who, what string, chance bool, change func(*State)) {
	next := w.from
	change(&next)
	if next != w.from {
		w.certain = w.certain || !chance
		w.out(step{who, what, chance}, &next)
	}
}

// show changes a pod's phase in the API, and sends the event to shadow mode's watch.
func (s *State) show(p Pod, now phase) {
	s.rev++
	s.api[p], s.posted[p] = now, s.rev
	s.toShadow.push(event{now, p, s.rev})
}

func (w *walk) bind() {
	for p := range Pod(pods) {
		if w.from.api[p] == none {
			w.emit("scheduler", fmt.Sprintf("binds %v", p), false, func(s *State) {
				s.show(p, bound)
				s.toKubelet.push(event{what: bound, pod: p})
			})
		}
	}
}

// kubelet handles the events of its watch in order, and posts the pods' status later.
func (w *walk) kubelet() {
	s := &w.from
	if next := s.toKubelet[0]; next.what != none {
		p, got := next.pod, fit(next.pod, s.taken())
		switch {
		case next.what == gone:
			w.emit("kubelet", fmt.Sprintf("sees that %v is gone", p), false, func(s *State) { s.toKubelet.pop(); s.held[p] = 0 })
		case got != 0:
			w.emit("kubelet", fmt.Sprintf("admits %v on %v", p, got), false, func(s *State) { s.toKubelet.pop(); s.did[p], s.held[p] = admitted, got })
		default:
			w.emit("kubelet", fmt.Sprintf("refuses %v", p), false, func(s *State) { s.toKubelet.pop(); s.did[p] = refused })
		}
		if next.what == bound && s.left.Others > 0 {
			w.emit("kubelet", fmt.Sprintf("refuses %v for another reason", p), true, func(s *State) {
				s.left.Others--
				s.toKubelet.pop()
				s.did[p] = refusedOtherwise
			})
		}
	}
	for p := range Pod(pods) {
		if s.did[p] != none && s.api[p] != gone && s.api[p] != s.did[p] {
			w.emit("kubelet", fmt.Sprintf("posts that %v is %v", p, s.did[p]), false, func(s *State) { s.show(p, s.did[p]) })
		}
	}
}

func (s *State) taken() (all CPUs) {
	for _, cpus := range s.held {
		all |= cpus
	}
	return all
}

// agent writes a report of the kubelet's allocations if anything was written after the last report.
func (w *walk) agent() {
	s := &w.from
	now := report{held: s.held, written: true, start: s.start, rev: s.rev}
	if w.c.Older {
		now.start = 0
	}
	if !s.agentLost && s.report != now {
		w.emit("agent", "reports "+now.String(), false, func(s *State) { s.report = now })
	}
}

// watches deliver pods and reports to shadow mode.
func (w *walk) watches() {
	s := &w.from
	if e := s.toShadow[0]; e.what != none {
		w.emit("shadow", fmt.Sprintf("sees that %v is %v", e.pod, e.what), false, func(s *State) { s.toShadow.pop(); w.seePod(s, e) })
	}
	if s.seen != s.report {
		w.emit("shadow", "sees the report: "+s.report.String(), false, func(s *State) { w.seeReport(s) })
	}
}

func (w *walk) world() {
	s := &w.from
	if s.left.Starts > 0 {
		w.starts()
	}
	if s.left.Breaks > 0 && s.toShadow[0].what != none {
		w.emit("world", "shadow mode's watch breaks, it lists", true, func(s *State) {
			s.left.Breaks--
			w.list(s)
		})
	}
	if s.left.Losses > 0 && !s.agentLost {
		w.emit("world", "the agent is gone for good", true, func(s *State) { s.left.Losses--; s.agentLost = true })
	}
	for p := range Pod(pods) {
		if s.left.Ends > 0 && s.held[p] != 0 {
			w.emit("world", fmt.Sprintf("%v ends by itself, its CPUs are free", p), true, func(s *State) {
				s.left.Ends--
				s.did[p], s.held[p] = ended, 0
			})
		}
		if s.left.Deletes > 0 && s.api[p] != none && s.api[p] != gone {
			w.emit("world", fmt.Sprintf("%v is deleted by force", p), true, func(s *State) {
				s.left.Deletes--
				s.show(p, gone)
				s.toKubelet.push(event{what: gone, pod: p})
			})
		}
	}
}

// starts restarts the kubelet. It gets the pending events as a list in any order, without pods that
// are gone by then.
func (w *walk) starts() {
	var rest []event
	for _, e := range w.from.toKubelet {
		if e.what == gone && w.from.did[e.pod] != none || e.what == bound && w.from.api[e.pod] != gone {
			rest = append(rest, e)
		}
	}
	for _, order := range orders(rest) {
		text := "the kubelet starts, nothing is new to it"
		if len(order) > 0 {
			text = "the kubelet starts, it lists:"
			for _, e := range order {
				text += fmt.Sprintf(" %v", e.pod)
			}
		}
		w.emit("world", text, true, func(s *State) {
			s.left.Starts--
			s.start++
			s.toKubelet = queue{}
			for _, e := range order {
				s.toKubelet.push(e)
			}
			for p := range Pod(pods) {
				if e := &s.entries[p]; e.open && !e.unjudged && s.did[p] == none {
					e.across = true
				}
			}
		})
	}
}

func orders(of []event) [][]event {
	if len(of) == 0 {
		return [][]event{nil}
	}
	var all [][]event
	for i, first := range of {
		rest := append(append([]event{}, of[:i]...), of[i+1:]...)
		for _, order := range orders(rest) {
			all = append(all, append([]event{first}, order...))
		}
	}
	return all
}

// list replaces the pending events of the watch with a list of the existing pods, ordered by name.
func (w *walk) list(s *State) {
	s.toShadow = queue{}
	for p := range Pod(pods) {
		known := s.knows(p)
		switch now := s.api[p]; {
		case now == none:
		case now == gone && known:
			s.toShadow.push(event{gone, p, s.posted[p]})
		case now == gone:
		default:
			if !known || !w.c.Rules.Has(CountOnce) {
				s.toShadow.push(event{listed, p, s.posted[p]})
			}
			if now != bound {
				s.toShadow.push(event{now, p, s.posted[p]})
			}
		}
	}
}

// timeOut stops waiting for the answers of open pods.
func (w *walk) timeOut() {
	w.emit("shadow", "gives up the pods that have no answer", false, func(s *State) {
		for p := range s.entries {
			if w.c.Rules.Has(TimeOut) && s.entries[p].open {
				s.entries[p] = entry{closed: true}
			}
		}
	})
}
