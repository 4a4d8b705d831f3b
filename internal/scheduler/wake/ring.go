package wake

import "slices"

// ring is an order of classes in which namespaces take turns: one class of each, then a second one
// of each, and so on. So no namespace with many classes delays the few classes of another.
type ring struct {
	order
	lanes map[string]*lanes
}

// order holds classes that have a place in a ring, by that.
type order struct{ sorted []*members }

// lanes are the lanes of one namespace.
type lanes struct {
	// used is the number of assigned lanes. free are the lanes that were returned.
	used int
	free []int
}

// take gives out the lowest lane that is free.
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

// add adds a class, unless it is already in the ring.
func (o *order) add(m *members) {
	if i, in := o.find(m.place); !in {
		o.sorted = slices.Insert(o.sorted, i, m)
	}
}

// remove takes a class out, if it is in.
func (o *order) remove(m *members) {
	if i, in := o.find(m.place); in {
		o.sorted = slices.Delete(o.sorted, i, i+1)
	}
}

// after returns at most limit classes behind a position, and whether these are the last ones.
func (o *order) after(p place, limit int) (found []*members, last bool) {
	i, here := o.find(p)
	if here {
		i++
	}
	end := min(i+limit, len(o.sorted))
	return o.sorted[i:end], end == len(o.sorted)
}
