package simulate

import (
	"cmp"
	"container/heap"
	"slices"
)

// entry is a pod that needs a node, or a gang of which all members need nodes.
type entry struct {
	// seq is the order in which pods were created: the order of the scheduler's queue.
	seq int64
	job int32
	// pod is one pod; -1 means all members of the job.
	pod int32
	// life is the job's life to which the entry belongs. Each move of a job begins another life.
	life int32
}

// waitClass identifies entries to which every node gives the same answer.
type waitClass struct{ shape, members int32 }

// queue has the entries without a node, by class, each in the order of seq. Every node has refused
// every class in the queue. When a node changes, the simulation asks it only once per class, and
// not once per pod.
type queue struct {
	byClass map[waitClass][]entry
	// classes are the keys of byClass, in an order that is the same in each run.
	classes []waitClass
}

// has reports whether entries of the class wait.
func (q *queue) has(c waitClass) bool { return len(q.byClass[c]) > 0 }

// add appends an entry to its class.
func (q *queue) add(c waitClass, e entry) {
	if q.byClass == nil {
		q.byClass = map[waitClass][]entry{}
	}
	if len(q.byClass[c]) == 0 {
		at, _ := slices.BinarySearchFunc(q.classes, c, waitClass.compare)
		q.classes = slices.Insert(q.classes, at, c)
	}
	q.byClass[c] = append(q.byClass[c], e)
}

// pop takes the first entry of a class out.
func (q *queue) pop(c waitClass) {
	if left := q.byClass[c][1:]; len(left) > 0 {
		q.byClass[c] = left
		return
	}
	q.drop(c)
}

func (q *queue) drop(c waitClass) {
	delete(q.byClass, c)
	at, _ := slices.BinarySearchFunc(q.classes, c, waitClass.compare)
	q.classes = slices.Delete(q.classes, at, at+1)
}

func (c waitClass) compare(d waitClass) int {
	return cmp.Or(cmp.Compare(c.shape, d.shape), cmp.Compare(c.members, d.members))
}

// event is an event at a second of the simulation.
type event struct {
	at   int64
	kind eventKind
	seq  int64 // orders events of the same second and kind by the time when they were planned
	entry
}

// eventKind is the kind of an event. The kinds are in the order in which events of the same second
// happen.
type eventKind uint8

const (
	// jobEnds means that a job has run for its time.
	jobEnds eventKind = iota
	// moveEnds means that a pod has left its place for another one.
	moveEnds
	// defragBegins means that it is time to move pods for waiting pods. Before later events,
	// waiting pods are tried first.
	defragBegins
	// podCreated means that a controller has created pods again.
	podCreated
)

// events are in the order of time.
type events []event

func (e events) Len() int      { return len(e) }
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e events) Less(i, j int) bool {
	a, b := &e[i], &e[j]
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.kind, b.kind), cmp.Compare(a.seq, b.seq)) < 0
}
func (e *events) Push(x any) { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

var _ heap.Interface = (*events)(nil)
