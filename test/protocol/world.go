package protocol

// bindingSteps are the outcomes of the Bindings in progress.
func (m *Model) bindingSteps(s *State, p PodID, emit func(Step, *State)) {
	if s.stage[p] == binding {
		m.replies(s, p, emit)
	}
	if !s.stray.Has(p) {
		return
	}
	t := *s
	t.stray.Drop(p)
	t.astray[p] = promise{}
	late := t
	emit(Step{Action: ExpireLate, Pod: p}, &t)
	if s.api[p] == pending {
		m.apply(&late, p, s.astray[p])
		emit(Step{Action: ApplyLate, Pod: p, Node: s.astray[p].node}, &late)
	}
}

// replies are the results of a Binding for which the scheduler waits: it is applied, refused,
// applied without a reply, or the client gives up while the server still has it.
func (m *Model) replies(s *State, p PodID, emit func(Step, *State)) {
	n := s.plan[p].node
	if s.api[p] != pending {
		t := *s
		t.settle(p)
		t.wake()
		emit(Step{Action: ApplyBinding, Pod: p, Node: n, Variant: 1}, &t)
		return
	}
	t := *s
	m.apply(&t, p, s.plan[p])
	lost := t
	t.stage[p] = assumed
	emit(Step{Action: ApplyBinding, Pod: p, Node: n}, &t)
	if s.left.Failures > 0 {
		f := *s
		f.left.Failures--
		f.requeue(p)
		emit(Step{Action: FailBinding, Pod: p, Node: n}, &f)
	}
	if s.left.Unknowns == 0 {
		return
	}
	lost.stage[p] = unknown
	lost.left.Unknowns--
	emit(Step{Action: ApplyUnheard, Pod: p, Node: n}, &lost)
	late := *s
	late.left.Unknowns--
	late.stage[p] = unknown
	late.stray.Add(p)
	late.astray[p] = s.plan[p]
	emit(Step{Action: TimeOut, Pod: p, Node: n}, &late)
}

// apply writes a Binding: node and placement at once, and the next event of the node's watch.
func (m *Model) apply(s *State, p PodID, b promise) {
	if s.promisedTwice(p, b) {
		m.note(s, DoublePromise)
	}
	s.api[p] = bound
	s.rec[p] = b
	s.placed.Add(p)
	if m.Rules.Has(StoredWithBinding) {
		s.marked.Add(p)
	}
	s.watch[b.node].push(addEvent + event(p))
}

// promisedTwice reports whether exact CPUs of b belong to a bound pod that has not released them.
func (s *State) promisedTwice(p PodID, b promise) bool {
	for o := PodID(0); o < Pods; o++ {
		r := s.rec[o]
		if o == p || !s.placed.Has(o) || r.node != b.node || !b.exact {
			continue
		}
		switch {
		case s.holds(o) && s.alloc[o]&b.cpus != 0:
			return true
		case s.life[o] == unseen && s.api[o] == bound && r.exact && r.cpus&b.cpus != 0:
			return true
		}
	}
	return false
}

// kubeletPodSteps are a kubelet's late release of a pod's CPUs and its status.
func (m *Model) kubeletPodSteps(s *State, p PodID, emit func(Step, *State)) {
	n := s.rec[p].node
	if s.life[p] == ended {
		t := *s
		t.life[p] = freed
		emit(Step{Action: KubeletFrees, Pod: p, Node: n}, &t)
	}
	if s.api[p] == bound && (s.life[p] == ended || s.life[p] == freed) {
		t := *s
		t.api[p] = terminal
		emit(Step{Action: KubeletPosts, Pod: p, Node: n}, &t)
	}
}

// worldPodSteps are pods that end on their own, and deletions by users.
func (m *Model) worldPodSteps(s *State, p PodID, emit func(Step, *State)) {
	if s.left.Departures == 0 {
		return
	}
	t := *s
	t.left.Departures--
	if s.life[p] == running {
		e := t
		e.life[p] = ended
		emit(Step{Action: PodEnds, Pod: p, Node: s.rec[p].node}, &e)
	}
	if s.api[p] == gone {
		return
	}
	by := DeleteByForce
	if s.api[p] == terminal {
		by = CollectTerminal
	}
	if s.placed.Has(p) {
		t.watch[s.rec[p].node].push(goneEvent + event(p))
	}
	t.api[p] = gone
	emit(Step{Action: by, Pod: p}, &t)
}

// nodeSteps are the events of a node's watch, its agent's reports, and their delivery to the
// scheduler.
func (m *Model) nodeSteps(s *State, n NodeID, emit func(Step, *State)) {
	if s.watch[n][0] != noEvent {
		t := *s
		p := m.kubeletSees(&t, n)
		emit(Step{Action: KubeletSees, Pod: p, Node: n, Variant: uint8(s.watch[n][0])}, &t)
	}
	if r := s.capture(n); r != s.posted[n] {
		t := *s
		t.posted[n], t.misled[n] = r, false
		emit(Step{Action: AgentReports, Node: n}, &t)
	}
	if s.seen[n] != s.posted[n] && !s.misled[n] {
		t := *s
		t.seen[n] = s.posted[n]
		m.wakeByReport(&t)
		emit(Step{Action: SeeReport, Node: n}, &t)
	}
	m.lateReport(s, n, emit)
}

// wakeByReport wakes pods after a report, as the plugin's queueing hint does. Without
// WaitIsPending, a waiting pod is in back-off instead.
func (m *Model) wakeByReport(s *State) {
	for p := range s.stage {
		if s.stage[p] == refused || s.stage[p] == waiting && m.Rules.Has(WaitIsPending) {
			s.stage[p] = queued
		}
	}
}

// lateReport delivers the node's first report, of an empty node, once more.
func (m *Model) lateReport(s *State, n NodeID, emit func(Step, *State)) {
	if s.seen[n] == (report{}) {
		return
	}
	t := *s
	if !m.Rules.Has(ReportSequence) {
		if s.left.Unknowns == 0 {
			return
		}
		t.left.Unknowns--
		t.seen[n], t.misled[n] = report{}, true
		m.wakeByReport(&t)
	}
	emit(Step{Action: LateReport, Node: n}, &t)
}

// kubeletSees handles the oldest event of the node's watch and returns its pod.
func (m *Model) kubeletSees(s *State, n NodeID) PodID {
	e := s.watch[n].pop()
	switch {
	case e == barrier:
		s.barrier[n]++
		return 0
	case e >= goneEvent:
		p := PodID(e - goneEvent)
		if s.life[p] == running {
			s.life[p] = ended
		}
		return p
	}
	p := PodID(e - addEvent)
	m.admit(s, n, p)
	return p
}

// admit is the kubelet's admission, or the agent's pinning where Berth decides.
func (m *Model) admit(s *State, n NodeID, p PodID) {
	used := s.heldOn(n, p)
	got := fit(m.Pods[p], used)
	if m.Nodes[n] == Berth && s.marked.Has(p) {
		got = s.rec[p].cpus
	}
	switch {
	case got == 0:
		s.life[p] = freed
		if s.api[p] == bound {
			m.note(s, Refusal)
		}
		return
	case got&used != 0:
		m.note(s, DoublePromise)
	case s.marked.Has(p) && s.rec[p].exact && got != s.rec[p].cpus:
		m.note(s, Misprediction)
	}
	s.life[p], s.alloc[p] = running, got
}

// relists emits the states after a list that replaces the pending events of a kubelet's watch:
// removals first, then additions by creation time in whole seconds, with ties in any order. The
// kubelet never sees a pod that came and left meanwhile. A restarted kubelet also lists, and keeps
// its allocations from its checkpoint.
func (m *Model) relists(s *State, n NodeID, emit func(Step, *State)) {
	if s.left.Relists == 0 || s.watch[n][0] == noEvent {
		return
	}
	var rest queue
	var adds []PodID
	barriers := 0
	for _, e := range s.watch[n] {
		switch {
		case e == barrier:
			barriers++
		case e >= goneEvent:
			if s.life[PodID(e-goneEvent)] != unseen {
				rest.push(e)
			}
		case e >= addEvent && s.api[e-addEvent] != gone:
			adds = append(adds, PodID(e-addEvent))
		}
	}
	for i, batch := range m.batches(adds) {
		t := *s
		t.left.Relists--
		t.watch[n] = rest
		for _, p := range batch {
			t.watch[n].push(addEvent + event(p))
		}
		for range barriers {
			t.watch[n].push(barrier)
		}
		emit(Step{Action: WatchBreaks, Node: n, Variant: uint8(i)}, &t)
		emit(Step{Action: KubeletRestarts, Node: n, Variant: uint8(i)}, &t)
	}
}

// fitsInTruth reports whether some node would admit the pod after all pending events have arrived.
func (m *Model) fitsInTruth(s *State, p PodID) bool {
	for n := NodeID(0); n < Nodes; n++ {
		if m.fitsOn(*s, n, p) {
			return true
		}
	}
	return false
}

func (m *Model) fitsOn(s State, n NodeID, p PodID) bool {
	for o := PodID(0); o < Pods; o++ {
		if s.life[o] == ended {
			s.life[o] = freed
		}
	}
	for s.watch[n][0] != noEvent {
		m.kubeletSees(&s, n)
	}
	used := s.heldOn(n, p)
	for o := PodID(0); o < Pods; o++ {
		if st := s.stage[o]; o != p && s.api[o] == pending && st >= reserved && st < assumed && s.plan[o].node == n {
			used |= s.plan[o].cpus
		}
	}
	return fit(m.Pods[p], used) != 0
}
