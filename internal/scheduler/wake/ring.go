package wake

import "slices"

// ring is an order of classes in which namespaces take turns: one class of each namespace, then a
// second class of each, and so on. So a namespace with many classes does not delay the few classes
// of another namespace.
type ring struct {
	order
	lanes map[string]*lanes
}

// order has classes of a ring, sorted by their place.
type order struct{ sorted []*members }

// lanes has the lane numbers of one namespace.
type lanes struct {
	// Lanes 0 to used-1 were assigned at some time. free has those of them that no class has now.
	used int
	free []int
}

// take returns the lowest free lane.
func (l *lanes) take() int {
	if len(l.free) == 0 {
		l.used++
		return l.used - 1
	}
	lowest := slices.Index(l.free, slices.Min(l.free))
	lane := l.free[lowest]
	l.free = slices.Delete(l.free, lowest, lowest+1)
	return lane
}

func (r *ring) add(m *members) {
	l := r.lanes[m.class.namespace]
	if l == nil {
		l = new(lanes)
		r.lanes[m.class.namespace] = l
	}
	m.place = place{l.take(), m.class.namespace}
	r.order.add(m)
}

func (r *ring) remove(m *members) {
	r.order.remove(m)
	l := r.lanes[m.place.namespace]
	if l.free = append(l.free, m.place.lane); len(l.free) == l.used {
		delete(r.lanes, m.place.namespace)
	}
}

func (o *order) find(p place) (int, bool) {
	return slices.BinarySearchFunc(o.sorted, p, func(m *members, p place) int { return m.place.compare(p) })
}

// add adds a class, unless it is already in the order.
func (o *order) add(m *members) {
	if i, in := o.find(m.place); !in {
		o.sorted = slices.Insert(o.sorted, i, m)
	}
}

// remove removes a class, if it is in the order.
func (o *order) remove(m *members) {
	if i, in := o.find(m.place); in {
		o.sorted = slices.Delete(o.sorted, i, i+1)
	}
}

// after returns at most limit classes after a place. last means that no more classes follow.
func (o *order) after(p place, limit int) (found []*members, last bool) {
	i, here := o.find(p)
	if here {
		i++
	}
	end := min(i+limit, len(o.sorted))
	return o.sorted[i:end], end == len(o.sorted)
}
