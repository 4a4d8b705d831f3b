package protocol

// cautious answers the same question as enumerate without enumerating: whether the kubelet admits
// the pod in every outcome and keeps the promises to the pods ahead, and whether the pod's CPUs are
// exact. It may return false if enumerate returns true, but never the reverse.
//
// Each unreported pod must fit with every reported pod still there, wherever the other unreported
// pods have got their CPUs. Then it also fits after a pod has left, because more room never makes a
// single admission fail. The cost is the number of NUMA nodes to the power of the pods ahead,
// independent of the number of reported pods. A scheduler can afford this on a node with sixty
// pods, where trying all subsets of leaving pods is impossible.
func (e *evaluator) cautious(q question) (all, exact bool) {
	for _, v := range q.todo[:q.n] {
		if q.ghosts.Has(v) || v != q.pod && e.Pods[v].Second < e.Pods[q.pod].Second {
			continue // no other pod depends on it, or the pod is never admitted before it
		}
		if v != q.pod && q.exact.Has(v) || !e.fitsAnyhow(&q, v, 0, e.usedPerNode(&q)) {
			return false, false
		}
	}
	held := q.held[0] | q.held[1] | q.held[2]
	return true, q.n == 1 && fit(e.Pods[q.pod], held) == fit(e.Pods[q.pod], 0)
}

func (e *evaluator) usedPerNode(q *question) (used [len(numaNodes)]int) {
	for n, all := range numaNodes {
		used[n] = ((q.held[0] | q.held[1] | q.held[2]) & all).Len()
	}
	return used
}

// fitsAnyhow places the other pods of todo, from the i-th on, on every NUMA node that they may get,
// and reports whether v fits each time.
func (e *evaluator) fitsAnyhow(q *question, v PodID, i int, used [len(numaNodes)]int) bool {
	if i < q.n && q.todo[i] == v {
		i++
	}
	if i >= q.n {
		return fitsCount(e.Pods[v], used)
	}
	o := e.Pods[q.todo[i]]
	for n := range numaNodes {
		if o.Device && n != 0 {
			continue
		}
		then := used
		then[n] += o.CPUs
		if !e.fitsAnyhow(q, v, i+1, then) {
			return false
		}
	}
	return true
}

func fitsCount(p Pod, used [len(numaNodes)]int) bool {
	for n, all := range numaNodes {
		if free := all.Len() - used[n]; free >= p.CPUs && !(p.Device && n != 0) {
			return true
		}
	}
	return false
}
