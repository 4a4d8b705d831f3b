package protocol

// forget clears data that no actor can ever read again, so that states that differ only in it
// become equal.
func (m *Model) forget(s *State) {
	for p := PodID(0); p < Pods; p++ {
		if s.life[p] == freed && !s.reported(p) {
			s.alloc[p] = 0
		}
		if m.forgotten(s, p) {
			m.erase(s, p)
		}
	}
	if s.left.Restarts == 0 && s.left.Unknowns == 0 && s.caughtUp() {
		s.epoch = 0
		for n := range s.watch {
			s.barrier[n], s.posted[n].barrier, s.seen[n].barrier = 0, 0, 0
		}
	}
}

func (s *State) reported(p PodID) bool {
	for n := range s.seen {
		if s.posted[n].held.Has(p) || s.seen[n].held.Has(p) {
			return true
		}
	}
	return false
}

// forgotten reports whether no actor and no message knows a deleted pod.
func (m *Model) forgotten(s *State, p PodID) bool {
	if s.api[p] != gone || s.view[p] != gone || s.holds(p) || s.stage[p] != done || s.stray.Has(p) || s.reported(p) {
		return false
	}
	for n := range s.watch {
		if s.watch[n].holds(addEvent+event(p)) || s.watch[n].holds(goneEvent+event(p)) {
			return false
		}
	}
	return !s.known.Has(p) || s.seen[s.rec[p].node].passed.Has(p) || !m.Rules.Has(WatchBarrier)
}

func (m *Model) erase(s *State, p PodID) {
	s.rec[p], s.alloc[p], s.life[p] = promise{}, 0, unseen
	s.placed.Drop(p)
	s.marked.Drop(p)
	s.known.Drop(p)
	for n := range s.seen {
		s.posted[n].passed.Drop(p)
		s.seen[n].passed.Drop(p)
	}
}

// caughtUp reports whether every requested barrier has been reported and seen.
func (s *State) caughtUp() bool {
	for n := range s.watch {
		if s.watch[n].holds(barrier) || s.seen[n].barrier != s.epoch || s.posted[n].barrier != s.epoch || s.barrier[n] != s.epoch {
			return false
		}
	}
	return true
}
