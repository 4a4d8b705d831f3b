package protocol

import "slices"

// ask builds the question for p on n from the scheduler's knowledge. If committed is true, only
// Bindings count. Otherwise earlier reservations count too.
func (m *Model) ask(s *State, n NodeID, p PodID, committed bool) question {
	q := question{node: n, pod: p}
	for o := PodID(0); o < Pods; o++ {
		if o != p {
			m.count(s, &q, o, committed)
		}
	}
	todo := q.todo[:q.n]
	slices.SortStableFunc(todo, func(a, b PodID) int { return int(m.promiseOf(s, a).order) - int(m.promiseOf(s, b).order) })
	q.todo[q.n] = p
	q.n++
	return q
}

// count adds pod o to the question as reported, ahead, a ghost, or not at all. A report with the
// pod has precedence over all other knowledge of the scheduler.
func (m *Model) count(s *State, q *question, o PodID, committed bool) {
	on, departed := m.locate(s, o, committed)
	seen := s.seen[q.node]
	if seen.held.Has(o) && m.Rules.Has(StateFromReports) {
		departed = departed || on != int(q.node)
		if !departed || m.Rules.Has(ReleaseByEvidence) {
			q.hold(o, s.alloc[o], departed)
		}
		return
	}
	if on != int(q.node) || departed && !m.tracksGhosts() || m.Rules.Has(WatchBarrier|StateFromReports) && seen.passed.Has(o) {
		return // on another node, gone, or admitted and released between two reports
	}
	q.expect(o, m.promiseOf(s, o), departed)
}

// tracksGhosts reports whether a bound pod that left before any report showed it still counts.
func (m *Model) tracksGhosts() bool {
	return m.Rules.Has(WatchBarrier | StateFromReports | ReleaseByEvidence)
}

// locate returns the node on which the scheduler counts the pod, -1 for none, and whether the pod
// has left.
func (m *Model) locate(s *State, o PodID, committed bool) (int, bool) {
	if s.view[o] == bound || s.view[o] == terminal || s.view[o] == gone && s.known.Has(o) {
		return int(m.promiseOf(s, o).node), s.view[o] != bound
	}
	if st := s.stage[o]; st == binding || st == unknown || st == assumed {
		return int(s.plan[o].node), false
	}
	if s.stage[o] == reserved && !committed && m.Rules.Has(ReserveVisible) {
		return int(s.plan[o].node), false
	}
	return -1, false
}

// promiseOf returns the placement of a pod that the scheduler knows: its own decision until the
// watch has shown the pod's annotation. It has no CPUs if the pod is bound and its placement was
// never stored.
func (m *Model) promiseOf(s *State, o PodID) promise {
	if s.stage[o] >= reserved {
		return s.plan[o]
	}
	if s.marked.Has(o) {
		return s.rec[o]
	}
	return promise{node: s.rec[o].node}
}

// decide answers whether p fits on n. It is a function of the scheduler's knowledge.
func (m *Model) decide(s *State, n NodeID, p PodID, committed bool) answer {
	if m.Rules.Has(WatchBarrier) && s.seen[n].barrier < s.epoch {
		return answer{verdict: wait}
	}
	return m.answer(m.ask(s, n, p, committed))
}
