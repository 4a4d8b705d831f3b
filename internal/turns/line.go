package turns

import (
	"cmp"
	"slices"
)

// Sort sorts a list by turns: the first item of each lane, then the second of each lane, and so on.
// The parameter lane returns the lane of an item, such as its namespace. Items with the same turn
// keep their order. The items must differ from each other.
func Sort[T, L comparable](list []T, lane func(T) L) {
	next, turn := map[L]int{}, make(map[T]int, len(list))
	for _, item := range list {
		in := lane(item)
		turn[item] = next[in]
		next[in]++
	}
	slices.SortStableFunc(list, func(a, b T) int { return cmp.Compare(turn[a], turn[b]) })
}

// Line has a queue for each namespace. Pop returns the items of one namespace in the order in which
// they were pushed, and namespaces take turns. The zero Line is empty. A Line is not safe for
// concurrent use.
type Line[T comparable] struct {
	// Each limits the number of items of a namespace in progress, from Pop until Done. 0 means no
	// limit.
	Each int

	lanes map[string]*lane[T]
	// order has the namespaces with an item that may start, in the order of their turns.
	order   []string
	waiting int
}

// lane has the waiting items of a namespace, and the number of its items in progress (under).
type lane[T any] struct {
	waiting []T
	under   int
	ordered bool // the namespace is in Line.order
}

// Push adds an item behind the other waiting items of its namespace.
func (l *Line[T]) Push(namespace string, item T) {
	if l.lanes == nil {
		l.lanes = map[string]*lane[T]{}
	}
	in := l.lanes[namespace]
	if in == nil {
		in = new(lane[T])
		l.lanes[namespace] = in
	}
	in.waiting = append(in.waiting, item)
	l.waiting++
	l.settle(namespace, in)
}

// Pop removes and returns the next item. It returns false if no item may start.
func (l *Line[T]) Pop() (namespace string, item T, ok bool) {
	if len(l.order) == 0 {
		return "", item, false
	}
	namespace, l.order = l.order[0], l.order[1:]
	in := l.lanes[namespace]
	var none T
	item, in.waiting[0] = in.waiting[0], none // frees the item's memory
	in.waiting, in.ordered = in.waiting[1:], false
	in.under++
	l.waiting--
	l.settle(namespace, in)
	return namespace, item, true
}

// Done records that an item of the namespace has ended.
func (l *Line[T]) Done(namespace string) {
	in := l.lanes[namespace]
	in.under--
	l.settle(namespace, in)
}

// Drop removes a waiting item, and reports whether the item was waiting.
func (l *Line[T]) Drop(namespace string, item T) bool {
	in := l.lanes[namespace]
	if in == nil {
		return false
	}
	i := slices.Index(in.waiting, item)
	if i < 0 {
		return false
	}
	in.waiting = slices.Delete(in.waiting, i, i+1)
	l.waiting--
	if in.ordered && len(in.waiting) == 0 {
		in.ordered = false
		l.order = slices.DeleteFunc(l.order, func(n string) bool { return n == namespace })
	}
	l.settle(namespace, in)
	return true
}

// settle adds the namespace to l.order if one of its items may start. It forgets a namespace that
// has neither waiting items nor items in progress.
func (l *Line[T]) settle(namespace string, in *lane[T]) {
	switch {
	case len(in.waiting) > 0 && !in.ordered && (l.Each == 0 || in.under < l.Each):
		in.ordered = true
		l.order = append(l.order, namespace)
	case len(in.waiting)+in.under == 0:
		delete(l.lanes, namespace)
	}
}

// Len returns the number of waiting items.
func (l *Line[T]) Len() int { return l.waiting }
