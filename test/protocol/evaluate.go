package protocol

import "slices"

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

// evaluatePlanned adds up promises. On a node with authority berth, their order does not matter.
func (e *evaluator) evaluatePlanned(q question) answer {
	var used, uncertain CPUs
	for o := PodID(0); o < Pods; o++ {
		used |= q.held[o] | q.planned[o]
		if q.leaving.Has(o) {
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
	some  bool // some outcome admits the pod
	same  bool // the pod always gets the same CPUs
	first CPUs // the pod's CPUs if pods come in the order of the Bindings and none leaves
}

// enumerate tries every order and every moment of release. If anyone is true, every pod may leave.
// Otherwise only pods that are known to be leaving may leave.
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

// orders returns the orders in which the kubelet may admit the pods: first the order of the
// Bindings, then the orders of a relist. A relist sorts a batch by creation time in whole seconds,
// with ties in any order.
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
		if held[p] != 0 && p != w.q.pod && (w.anyone || w.q.leaving.Has(p) && w.e.Rules.Has(EnumerateKnown)) {
			may.Add(p)
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
		if leaving.Has(PodID(p)) {
			held[p] = 0
		}
	}
	return held
}

func (w *walk) admit(i int, held [Pods]CPUs, cpus CPUs) {
	p := w.order[i]
	if w.skip.Has(p) {
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

func (w *walk) finish(cpus CPUs) {
	if w.out.first == 0 {
		w.out.first = cpus
	}
	w.out.same = w.out.same && cpus == w.out.first
}
