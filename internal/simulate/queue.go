package simulate

import (
	"cmp"
	"container/heap"
	"slices"
)

// entry is a pod that needs a node, or a gang whose members all need nodes.
type entry struct {
	// seq is the order in which pods were created: the order of the scheduler's queue.
	seq int64
	job int32
	// pod is one pod; -1 means all members of the job.
	pod int32
	// life is the number of the job's moves (job.life) when the entry was made. After a further
	// move, the entry has no effect.
	life int32
}

// waitClass identifies entries with identical requests, to which every node gives the same answer.
type waitClass struct{ shape, members int32 }

// queue has the entries that wait for a node, by class, each class in the order of seq. Every node
// has refused every class in the queue. When a node changes, the simulation asks the node once for
// each class, and not once for each pod.
type queue struct {
	byClass map[waitClass][]entry
	// classes are the keys of byClass, in an order that is the same in each run.
	classes []waitClass
}

func (q *queue) has(c waitClass) bool { return len(q.byClass[c]) > 0 }

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

type event struct {
	at   int64
	kind eventKind
	seq  int64 // orders events of the same second and kind: the event planned first comes first
	entry
}

// eventKind is the kind of an event. The kinds are in the order in which events of the same second
// happen.
type eventKind uint8

const (
	// jobEnds means that a job has run for its time.
	jobEnds eventKind = iota
	// moveEnds means that a pod leaves its old place and continues in its new one.
	moveEnds
	// defragBegins means that it is time to move pods for waiting pods. Before an event of this or
	// a later kind, the simulation tries waiting pods on nodes that have released resources.
	defragBegins
	// podCreated means that a controller has created pods again.
	podCreated
)

// events is a heap (container/heap) with the next event first.
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
