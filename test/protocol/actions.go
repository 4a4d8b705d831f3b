package protocol

// successors calls emit for every step that is possible in s, with the state after the step.
func (m *Model) successors(s *State, emit func(Step, *State)) {
	for p := PodID(0); p < Pods; p++ {
		m.schedulerSteps(s, p, emit)
		m.bindingSteps(s, p, emit)
		m.kubeletPodSteps(s, p, emit)
		m.worldPodSteps(s, p, emit)
	}
	for n := NodeID(0); n < Nodes; n++ {
		m.nodeSteps(s, n, emit)
		m.relists(s, n, emit)
	}
	m.leaderSteps(s, emit)
}

func (m *Model) schedulerSteps(s *State, p PodID, emit func(Step, *State)) {
	switch s.stage[p] {
	case queued:
		if !s.takeover && !s.inCycle() {
			m.filter(s, p, emit)
		}
	case filtered:
		t := *s
		m.reserve(&t, p)
		emit(Step{Action: Reserve, Pod: p, Node: s.plan[p].node}, &t)
	case reserved:
		if !m.Rules.Has(OneBinding) || !s.bindingTo(s.plan[p].node) {
			t := *s
			m.bind(&t, p)
			emit(Step{Action: Bind, Pod: p, Node: s.plan[p].node}, &t)
		}
	case unknown:
		t := *s
		m.readBack(&t, p)
		emit(Step{Action: ReadBackBinding, Pod: p}, &t)
	case assumed:
		if s.api[p] == bound && !s.marked.Has(p) {
			t := *s
			t.marked.Add(p)
			emit(Step{Action: StorePlacement, Pod: p}, &t)
		}
	}
	if s.view[p] != s.api[p] {
		t := *s
		m.seePod(&t, p)
		emit(Step{Action: SeePod, Pod: p}, &t)
	}
}

// filter asks for a verdict on every node. The model may choose any node that admits the pod.
func (m *Model) filter(s *State, p PodID, emit func(Step, *State)) {
	best := no
	for n := NodeID(0); n < Nodes; n++ {
		a := m.decide(s, n, p, false)
		best = max(best, a.verdict)
		if a.verdict == yes {
			t := *s
			t.stage[p] = filtered
			t.plan[p] = promise{node: n, cpus: a.cpus, exact: a.exact}
			emit(Step{Action: Filter, Pod: p, Node: n}, &t)
		}
	}
	if best == yes {
		return
	}
	t := *s
	t.park(p, best)
	emit(Step{Action: Filter, Pod: p, Variant: 1}, &t)
	if best == wait && m.Preemption && !m.Rules.Has(WaitIsPending) {
		m.preempt(s, p, emit)
	}
}

// preempt evicts a pod whose removal makes room, as the default preemption does for a pod without a
// feasible node.
func (m *Model) preempt(s *State, p PodID, emit func(Step, *State)) {
	for v := PodID(0); v < Pods; v++ {
		on, departed := m.locate(s, v, false)
		if on < 0 || departed || v == p || !s.seen[on].held.Has(v) {
			continue
		}
		dry := *s
		dry.seen[on].held.Drop(v)
		dry.seen[on].passed.Add(v)
		if m.decide(&dry, NodeID(on), p, false).verdict != yes {
			continue
		}
		t := *s
		if m.fitsInTruth(s, p) {
			m.note(&t, NeedlessPreemption)
		}
		emit(Step{Action: Preempt, Pod: p, Node: NodeID(on), Variant: uint8(v)}, &t)
	}
}

func (m *Model) reserve(s *State, p PodID) {
	n := s.plan[p].node
	if m.Rules.Has(ReserveVisible) {
		a := m.decide(s, n, p, false)
		if a.verdict != yes {
			s.park(p, a.verdict)
			return
		}
		s.plan[p] = promise{node: n, cpus: a.cpus, exact: a.exact}
	}
	s.plan[p].order = m.nextOrder(s, n, p, false)
	s.stage[p] = reserved
	m.renumber(s, n)
}

// nextOrder returns one more than the highest number that the scheduler knows among the node's
// other pods.
func (m *Model) nextOrder(s *State, n NodeID, p PodID, committed bool) uint8 {
	next := uint8(0)
	for o := PodID(0); o < Pods; o++ {
		if on, _ := m.locate(s, o, committed); o != p && on == int(n) {
			next = max(next, m.promiseOf(s, o).order+1)
		}
	}
	return next
}

// renumber closes the gaps in the numbers of the node's reservations, so that equal situations are
// equal states.
func (m *Model) renumber(s *State, n NodeID) {
	var ranks [16]PodSet
	base := uint8(0)
	for o := PodID(0); o < Pods; o++ {
		switch on, _ := m.locate(s, o, true); {
		case s.stage[o] == reserved && s.plan[o].node == n:
			ranks[s.plan[o].order].Add(o)
		case on == int(n):
			base = max(base, m.promiseOf(s, o).order+1)
		}
	}
	for _, set := range ranks {
		for o := PodID(0); o < Pods; o++ {
			if set.Has(o) {
				s.plan[o].order = base
				base++
			}
		}
	}
}

func (m *Model) bind(s *State, p PodID) {
	n := s.plan[p].node
	if m.Rules.Has(BindDecidesAgain) && m.Nodes[n] == Kubelet {
		a := m.decide(s, n, p, true)
		if a.verdict != yes {
			s.requeue(p)
			m.renumber(s, n)
			return
		}
		s.plan[p] = promise{node: n, cpus: a.cpus, exact: a.exact}
	}
	s.plan[p].order = m.nextOrder(s, n, p, true)
	s.stage[p] = binding
	m.renumber(s, n)
}

// readBack resolves a Binding with an unknown result. Without the rule ReadBack, the Binding counts
// as failed.
func (m *Model) readBack(s *State, p PodID) {
	switch {
	case m.Rules.Has(ReadBack) && s.api[p] != pending && s.placed.Has(p):
		s.stage[p] = assumed
		if m.Rules.Has(StoredWithBinding) {
			s.plan[p] = s.rec[p]
		}
	case m.Rules.Has(ReadBack) && s.api[p] != pending:
		s.giveUp(p)
	default:
		if m.Rules.Has(ReadBack | Fence) {
			s.stray.Drop(p)
			s.astray[p] = promise{}
		}
		s.requeue(p)
	}
}

// seePod delivers the scheduler's next event about a pod: its newest state, without states in
// between.
func (m *Model) seePod(s *State, p PodID) {
	now := s.api[p]
	s.view[p] = now
	if s.placed.Has(p) && (now != gone || s.stage[p] >= binding || s.known.Has(p)) {
		s.known.Add(p)
	}
	switch s.stage[p] {
	case binding, unknown: // the reply to the Binding decides
	case assumed:
		if s.marked.Has(p) || now == gone {
			s.settle(p)
		}
	default:
		s.settle(p)
		s.wake() // a dropped reservation makes room, like a departure
	}
	if now != bound {
		s.wake()
	}
}

func (m *Model) leaderSteps(s *State, emit func(Step, *State)) {
	if s.left.Restarts > 0 {
		t := *s
		t.left.Restarts--
		m.crash(&t)
		emit(Step{Action: SchedulerCrashes}, &t)
	}
	if s.takeover && s.stray == 0 {
		t := *s
		m.takeOver(&t)
		emit(Step{Action: TakeOver}, &t)
	}
}

// crash replaces the scheduler by a new leader that has just listed pods and reports.
func (m *Model) crash(s *State) {
	for p := PodID(0); p < Pods; p++ {
		if s.stage[p] == binding {
			s.stray.Add(p)
			s.astray[p] = s.plan[p]
		}
	}
	s.takeover = m.Rules.Has(LeaderWaits)
	m.list(s)
	if !s.takeover {
		m.askBarriers(s)
	}
}

// list rebuilds the scheduler from pods and reports.
func (m *Model) list(s *State) {
	s.scheduler = scheduler{seen: s.posted, view: s.api, takeover: s.takeover}
	for p := PodID(0); p < Pods; p++ {
		switch s.api[p] {
		case pending:
			s.stage[p] = queued
		case bound, terminal:
			s.known.Add(p)
		}
	}
}

// takeOver ends a new leader's wait, because no Binding of the old leader is in progress any more.
func (m *Model) takeOver(s *State) {
	s.takeover = false
	m.askBarriers(s)
}

// askBarriers asks every agent to report when its kubelet's watch is up to date.
func (m *Model) askBarriers(s *State) {
	if !m.Rules.Has(WatchBarrier) {
		return
	}
	s.epoch++
	for n := range s.watch {
		s.watch[n].push(barrier)
	}
}

// park makes a pod wait after the verdict v.
func (s *scheduler) park(p PodID, v verdict) {
	s.plan[p] = promise{}
	s.stage[p] = refused
	if v == wait {
		s.stage[p] = waiting
	}
}
