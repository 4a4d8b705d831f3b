package nodes

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
)

// byObject finds a node by its object. The scheduler's snapshot holds the same object in cycle
// after cycle, and comparing pointers costs less than comparing names. The zero value is empty and
// ready.
type byObject struct {
	slots atomic.Pointer[[]slot] // a power of two of them, at most half taken
	mu    sync.Mutex
	taken int
}

// slot is free while object is nil; afterwards it does not change any more.
type slot struct {
	object atomic.Pointer[corev1.Node]
	node   atomic.Pointer[Node]
}

// minSlots is the least number of slots.
const minSlots = 64

var objectSeed = maphash.MakeSeed()

// find returns the object's node; nil where it has no slot.
func (b *byObject) find(object *corev1.Node) *Node {
	slots := b.slots.Load()
	if slots == nil {
		return nil
	}
	// A slot that was free a moment ago may be another's by now.
	if at := probe(*slots, object); at.object.Load() == object {
		return at.node.Load()
	}
	return nil
}

// probe returns the object's slot, or a free one.
func probe(slots []slot, object *corev1.Node) *slot {
	mask := uint64(len(slots) - 1)
	for i := maphash.Comparable(objectSeed, object); ; i++ {
		at := &slots[i&mask]
		if o := at.object.Load(); o == object || o == nil {
			return at
		}
	}
}

// add gives the object a slot. A node has one object at a time; those before it lose theirs when
// the slots run out.
func (b *byObject) add(object *corev1.Node, n *Node) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n.object.Store(object)
	slots := b.slots.Load()
	if slots == nil || 2*(b.taken+1) > len(*slots) {
		slots = b.rebuild(slots)
	}
	at := probe(*slots, object)
	if at.object.Load() != nil {
		return
	}
	at.node.Store(n)
	at.object.Store(object)
	b.taken++
}

// rebuild makes slots with room for as many objects again as are present.
func (b *byObject) rebuild(old *[]slot) *[]slot {
	var present []*slot
	if old != nil {
		for i := range *old {
			at := &(*old)[i]
			if o := at.object.Load(); o != nil && at.node.Load().object.Load() == o {
				present = append(present, at)
			}
		}
	}
	size := minSlots
	for size < 4*(len(present)+1) {
		size *= 2
	}
	next := make([]slot, size)
	for _, from := range present {
		to := probe(next, from.object.Load())
		to.node.Store(from.node.Load())
		to.object.Store(from.object.Load())
	}
	b.taken = len(present)
	b.slots.Store(&next)
	return &next
}
