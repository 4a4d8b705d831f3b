package protocol

// verdict is the scheduler's answer for a pod on a node.
type verdict uint8

const (
	no   verdict = iota // no outcome admits the pod
	wait                // some outcome admits it, and a report will decide
	yes                 // every outcome admits it
)

// answer is a verdict and, for yes, the CPUs. They are exact if every outcome gives these CPUs.
type answer struct {
	verdict verdict
	cpus    CPUs
	exact   bool
}

// question has everything on which a decision depends. It is the key of the cache.
type question struct {
	node    NodeID
	pod     PodID
	held    [Pods]CPUs // reported and still counted, by pod
	todo    [Pods]PodID
	n       int        // pods in todo: admissions ahead, in the order of the Bindings, the pod itself last
	ghosts  PodSet     // pods of todo that left before any report showed them
	leaving PodSet     // pods known to be leaving
	planned [Pods]CPUs // CPUs promised to the pods of todo
	exact   PodSet     // pods of todo that must get exactly their planned CPUs
}

func (q *question) hold(o PodID, c CPUs, leaving bool) {
	q.held[o] = c
	if leaving {
		q.leaving.Add(o)
	}
}

func (q *question) expect(o PodID, b promise, ghost bool) {
	q.todo[q.n] = o
	q.n++
	q.planned[o] = b.cpus
	if b.exact {
		q.exact.Add(o)
	}
	if ghost {
		q.ghosts.Add(o)
		q.leaving.Add(o)
	}
}

// evaluator answers questions. It needs only the Config, and caches its answers.
type evaluator struct {
	*Config
	memo map[question]answer
}

// kept reports whether these CPUs keep the promise to a pod ahead. A ghost has no promise.
func (q *question) kept(p PodID, got CPUs) bool {
	return q.ghosts.Has(p) || got != 0 && (!q.exact.Has(p) || got == q.planned[p])
}
