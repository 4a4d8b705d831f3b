package scheduler

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
)

// seats finds a node by its object. The scheduler's snapshot holds the same object in cycle after
// cycle, and comparing pointers costs less than comparing names: this is asked thousands of times
// per pod, from many goroutines. The zero value is empty and ready.
type seats struct {
	table atomic.Pointer[[]seat] // a power of two of them, at most half taken
	mu    sync.Mutex
	taken int
}

// seat is free while object is nil; afterwards it does not change any more.
type seat struct {
	object atomic.Pointer[corev1.Node]
	node   atomic.Pointer[node]
}

// minSeats is the size of the smallest table.
const minSeats = 64

var seatSeed = maphash.MakeSeed()

// of returns the node of the object.
func (n *nodes) of(object *corev1.Node) *node {
	if found := n.seats.find(object); found != nil {
		return found
	}
	found := n.get(object.Name)
	n.seats.take(object, found)
	return found
}

func (s *seats) find(object *corev1.Node) *node {
	table := s.table.Load()
	if table == nil {
		return nil
	}
	// A seat that was free a moment ago may be another's by now.
	if at := probe(*table, object); at.object.Load() == object {
		return at.node.Load()
	}
	return nil
}

// probe returns the object's seat, or a free one.
func probe(table []seat, object *corev1.Node) *seat {
	mask := uint64(len(table) - 1)
	for i := maphash.Comparable(seatSeed, object); ; i++ {
		at := &table[i&mask]
		if o := at.object.Load(); o == object || o == nil {
			return at
		}
	}
}

// take gives the object a seat. A node has one object at a time; those before it lose their seats
// when the table is full.
func (s *seats) take(object *corev1.Node, n *node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.object.Store(object)
	old := s.table.Load()
	if old == nil || 2*(s.taken+1) > len(*old) {
		old = s.rebuild(old)
	}
	at := probe(*old, object)
	if at.object.Load() != nil {
		return
	}
	at.node.Store(n)
	at.object.Store(object)
	s.taken++
}

// rebuild makes a table with room for as many objects again as are present.
func (s *seats) rebuild(old *[]seat) *[]seat {
	var present []*seat
	if old != nil {
		for i := range *old {
			at := &(*old)[i]
			if o := at.object.Load(); o != nil && at.node.Load().object.Load() == o {
				present = append(present, at)
			}
		}
	}
	size := minSeats
	for size < 4*(len(present)+1) {
		size *= 2
	}
	next := make([]seat, size)
	for _, from := range present {
		to := probe(next, from.object.Load())
		to.node.Store(from.node.Load())
		to.object.Store(from.object.Load())
	}
	s.taken = len(present)
	s.table.Store(&next)
	return &next
}
