package nodes

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
)

// byObject finds a Node by its Node object. The scheduler's snapshot keeps the same object over
// many cycles, and comparing pointers costs less than comparing names.
type byObject struct {
	slots atomic.Pointer[slots]
	mu    sync.Mutex
	taken int
}

func (b *byObject) init() { b.slots.Store(new(make(slots, minSlots))) }

// slots is a hash table of nodes with linear probing, by the address of the Node object.
// hotFields.object shows whether a node still has that object. The number of slots is a power of
// two, and at most half are used. Slots are never cleared.
type slots []atomic.Pointer[Node]

const minSlots = 64

// place returns the index at which the search for the object begins. It hashes only the address,
// which costs a tenth of a Go hash. If the Go runtime moved an object in memory, Table.Of would
// find its node by name and add the object again.
func (s slots) place(object *corev1.Node) uint64 {
	const spread = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio: it spreads neighbouring addresses
	return uint64(uintptr(unsafe.Pointer(object))) * spread >> 32
}

func (s slots) at(i uint64) *atomic.Pointer[Node] { return &s[i&uint64(len(s)-1)] }

// add gives the node a slot for the object, and returns true. It returns false if the node has that
// slot already.
func (s slots) add(object *corev1.Node, n *Node) bool {
	for i := s.place(object); ; i++ {
		switch at := s.at(i); at.Load() {
		case nil:
			at.Store(n)
			return true
		case n:
			return false
		}
	}
}

// find returns the object's node, or nil if the object has no slot.
func (b *byObject) find(object *corev1.Node) *Node {
	all := *b.slots.Load()
	for i := all.place(object); ; i++ {
		if n := all.at(i).Load(); n == nil || n.hot.object.Load() == object {
			return n
		}
	}
}

// add gives the object a slot. A node has one object at a time. Earlier objects lose their slots
// when the slots run out.
func (b *byObject) add(object *corev1.Node, n *Node) {
	b.mu.Lock()
	defer b.mu.Unlock()
	taint := uint32(0)
	if slices.ContainsFunc(object.Spec.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectPreferNoSchedule }) {
		taint = shunned
	}
	n.hot.traits.set(shunned, taint)
	n.hot.object.Store(object)
	all := *b.slots.Load()
	if 2*(b.taken+1) > len(all) {
		all = b.rebuild(all)
	}
	if all.add(object, n) {
		b.taken++
	}
}

// rebuild makes new slots for the present nodes, with room for twice as many.
func (b *byObject) rebuild(old slots) slots {
	present := map[*Node]*corev1.Node{}
	for i := range old {
		n := old[i].Load()
		if n == nil {
			continue
		}
		if object := n.hot.object.Load(); object != nil { // it is nil if the node is gone
			present[n] = object
		}
	}
	size := minSlots
	for size < 4*(len(present)+1) {
		size *= 2
	}
	next := make(slots, size)
	for n, object := range present {
		next.add(object, n)
	}
	b.taken = len(present)
	b.slots.Store(&next)
	return next
}
