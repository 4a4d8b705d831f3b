package protocol

import "slices"

// verdict is the scheduler's answer for a pod on a node.
type verdict uint8

const (
	no   verdict = iota // no outcome admits the pod
	wait                // some outcome admits it, a report will tell
	yes                 // every outcome admits it
)

// answer is a verdict and, for yes, the CPUs: exact when every outcome gives these.
type answer struct {
	verdict verdict
	cpus    CPUs
	exact   bool
}

// question is all that a decision depends on. It is the key of the memo.
type question struct {
	node    NodeID
	pod     PodID
	held    [Pods]CPUs // reported and still counted, by pod
	todo    [Pods]PodID
	n       int        // pods in todo: admissions ahead, in the order of the Bindings, the pod itself last
	ghosts  PodSet     // those of todo that left before any report showed them
	leaving PodSet     // pods known to be leaving
	planned [Pods]CPUs // CPUs promised to the pods of todo
	exact   PodSet     // those whose promise must hold to the CPU
}

// ask builds the question for p on n from what the scheduler knows. With committed only Bindings
// count, without it reservations that precede it too.
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

// count enters pod o into the question, where it is: reported, ahead, a ghost, or nowhere. A report
// that holds the pod comes first, wherever else the scheduler believes the pod to be.
func (m *Model) count(s *State, q *question, o PodID, committed bool) {
	on, departed := m.locate(s, o, committed)
	seen := s.seen[q.node]
	if seen.held.has(o) && m.Rules.Has(StateFromReports) {
		departed = departed || on != int(q.node)
		if !departed || m.Rules.Has(ReleaseByEvidence) {
			q.hold(o, s.alloc[o], departed)
		}
		return
	}
	if on != int(q.node) || departed && !m.tracksGhosts() || m.Rules.Has(WatchBarrier|StateFromReports) && seen.passed.has(o) {
		return // elsewhere, gone, or admitted and released between two reports
	}
	q.expect(o, m.promiseOf(s, o), departed)
}

// tracksGhosts reports whether a bound pod that left before any report showed it still counts.
func (m *Model) tracksGhosts() bool {
	return m.Rules.Has(WatchBarrier | StateFromReports | ReleaseByEvidence)
}

func (q *question) hold(o PodID, c CPUs, leaving bool) {
	q.held[o] = c
	if leaving {
		q.leaving.add(o)
	}
}

func (q *question) expect(o PodID, b promise, ghost bool) {
	q.todo[q.n] = o
	q.n++
	q.planned[o] = b.cpus
	if b.exact {
		q.exact.add(o)
	}
	if ghost {
		q.ghosts.add(o)
		q.leaving.add(o)
	}
}

// locate returns the node on which the scheduler counts the pod, -1 for none, and whether the pod
// has left.
func (m *Model) locate(s *State, o PodID, committed bool) (int, bool) {
	if s.view[o] == bound || s.view[o] == terminal || s.view[o] == gone && s.known.has(o) {
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

// promiseOf is the placement that the scheduler knows for a pod: its own until the watch has shown
// the pod's, without CPUs when the pod is bound and its placement was never stored.
func (m *Model) promiseOf(s *State, o PodID) promise {
	if s.stage[o] >= reserved {
		return s.plan[o]
	}
	if s.marked.has(o) {
		return s.rec[o]
	}
	return promise{node: s.rec[o].node}
}

// decide answers whether p fits on n. It is a function of what the scheduler knows.
func (m *Model) decide(s *State, n NodeID, p PodID, committed bool) answer {
	if m.Rules.Has(WatchBarrier) && s.seen[n].barrier < s.epoch {
		return answer{verdict: wait}
	}
	return m.answer(m.ask(s, n, p, committed))
}

// evaluator answers questions. Beside the Config it needs nothing, and remembers what it answered.
type evaluator struct {
	*Config
	memo map[question]answer
}

func (e *evaluator) answer(q question) answer {
	if a, ok := e.memo[q]; ok {
		return a
	}
	a := e.evaluate(q)
	e.memo[q] = a
	return a
}

func (e *evaluator) evaluate(q question) answer {
	if e.Nodes[q.node] == Berth || !e.Rules.Has(StateFromReports) {
		return e.evaluatePlanned(q)
	}
	o := e.enumerate(q, e.Rules.Has(EnumerateUnknown))
	if e.Cautious {
		o.all, o.same = e.cautious(q)
	}
	if o.all {
		return answer{verdict: yes, cpus: o.first, exact: o.same}
	}
	if e.enumerate(q, false).some {
		return answer{verdict: wait}
	}
	return answer{}
}

// evaluatePlanned adds up promises: the state of a node whose CPUs the scheduler hands out,
// whatever the order.
func (e *evaluator) evaluatePlanned(q question) answer {
	var used, uncertain CPUs
	for o := PodID(0); o < Pods; o++ {
		used |= q.held[o] | q.planned[o]
		if q.leaving.has(o) {
			uncertain |= q.held[o] | q.planned[o]
		}
	}
	if c := fit(e.Pods[q.pod], used); c != 0 {
		return answer{verdict: yes, cpus: c, exact: true}
	}
	if fit(e.Pods[q.pod], used&^uncertain) != 0 {
		return answer{verdict: wait}
	}
	return answer{}
}

// outcomes sums up an enumeration.
type outcomes struct {
	all   bool // every outcome admits the pod (and, with PredecessorsToo, those ahead of it)
	some  bool // one outcome admits the pod
	same  bool // always on the same CPUs
	first CPUs // in the order of the Bindings, with nobody leaving
}

// enumerate tries every order and every moment of release. With anyone set, every pod may leave,
// else only those known to.
func (e *evaluator) enumerate(q question, anyone bool) outcomes {
	o := outcomes{all: true, same: true}
	for _, order := range e.orders(q.todo[:q.n]) {
		for skip := PodSet(0); skip < 1<<Pods; skip++ {
			if skip&^q.ghosts == 0 {
				w := walk{e: e, q: &q, order: order, skip: skip, anyone: anyone, out: &o}
				w.step(0, q.held, 0)
			}
		}
	}
	return o
}

// orders returns the orders in which the kubelet may admit the pods: that of the Bindings first,
// then those of a relist, which sorts a batch by creation time in whole seconds and leaves ties in
// any order.
func (e *evaluator) orders(todo []PodID) [][]PodID {
	if len(todo) == 0 {
		return [][]PodID{nil}
	}
	var all [][]PodID
	for _, rest := range e.orders(todo[1:]) {
		all = append(all, append([]PodID{todo[0]}, rest...))
	}
	for n := 2; n <= len(todo) && e.Rules.Has(EnumerateKnown); n++ {
		for _, batch := range e.batches(todo[:n]) {
			for _, rest := range e.orders(todo[n:]) {
				all = append(all, append(slices.Clone(batch), rest...))
			}
		}
	}
	return all
}

// batches returns the permutations of pods that are sorted by creation time.
func (e *evaluator) batches(pods []PodID) [][]PodID {
	if len(pods) == 0 {
		return [][]PodID{nil}
	}
	oldest := e.Pods[slices.MinFunc(pods, func(a, b PodID) int { return e.Pods[a].Second - e.Pods[b].Second })].Second
	var all [][]PodID
	for i, p := range pods {
		if e.Pods[p].Second != oldest {
			continue
		}
		for _, rest := range e.batches(slices.Delete(slices.Clone(pods), i, i+1)) {
			all = append(all, append([]PodID{p}, rest...))
		}
	}
	return all
}

// walk is one order of admissions, with releases in between.
type walk struct {
	e      *evaluator
	q      *question
	order  []PodID
	skip   PodSet // ghosts that never arrive
	anyone bool
	out    *outcomes
}

// step lets every possible set of pods leave, then admits the i-th pod.
func (w *walk) step(i int, held [Pods]CPUs, cpus CPUs) {
	if i == len(w.order) {
		w.finish(cpus)
		return
	}
	var may PodSet
	for p := PodID(0); p < Pods; p++ {
		if held[p] != 0 && p != w.q.pod && (w.anyone || w.q.leaving.has(p) && w.e.Rules.Has(EnumerateKnown)) {
			may.add(p)
		}
	}
	for left := PodSet(0); left <= may; left++ {
		if left&^may == 0 {
			w.admit(i, release(held, left), cpus)
		}
	}
}

func release(held [Pods]CPUs, leaving PodSet) [Pods]CPUs {
	for p := range held {
		if leaving.has(PodID(p)) {
			held[p] = 0
		}
	}
	return held
}

func (w *walk) admit(i int, held [Pods]CPUs, cpus CPUs) {
	p := w.order[i]
	if w.skip.has(p) {
		w.step(i+1, held, cpus)
		return
	}
	got := fit(w.e.Pods[p], held[0]|held[1]|held[2])
	held[p] = got
	switch {
	case p == w.q.pod && got == 0:
		w.out.all = false
		return
	case p == w.q.pod:
		cpus = got
		w.out.some = true
	case w.e.Rules.Has(PredecessorsToo) && !w.q.kept(p, got):
		w.out.all = false
	}
	w.step(i+1, held, cpus)
}

// kept reports whether a pod that is ahead, and gets these CPUs, gets what it was promised. Nobody
// misses a ghost.
func (q *question) kept(p PodID, got CPUs) bool {
	return q.ghosts.has(p) || got != 0 && (!q.exact.has(p) || got == q.planned[p])
}

func (w *walk) finish(cpus CPUs) {
	if w.out.first == 0 {
		w.out.first = cpus
	}
	w.out.same = w.out.same && cpus == w.out.first
}
