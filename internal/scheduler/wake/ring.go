package wake

import "slices"

// ring is an order of classes in which namespaces take turns: one class of each namespace, then a
// second class of each, and so on. So a namespace with many classes does not delay the few classes
// of another namespace.
type ring struct {
	// sorted has the classes, sorted by their place.
	sorted []*members
	lanes  map[string]*lanes
}

// lanes assigns lane numbers to the classes of one namespace.
type lanes struct {
	// Lanes 0 to used-1 were assigned at some time. free has the lanes among them that no class has
	// now.
	used int
	free []int
}

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
	i, _ := r.find(m.place)
	r.sorted = slices.Insert(r.sorted, i, m)
}

func (r *ring) remove(m *members) {
	i, _ := r.find(m.place)
	r.sorted = slices.Delete(r.sorted, i, i+1)
	l := r.lanes[m.place.namespace]
	if l.free = append(l.free, m.place.lane); len(l.free) == l.used {
		delete(r.lanes, m.place.namespace)
	}
}

func (r *ring) find(p place) (int, bool) {
	return slices.BinarySearchFunc(r.sorted, p, func(m *members, p place) int { return m.place.compare(p) })
}

// after returns at most limit classes after a place. The result last means that no more classes
// follow.
func (r *ring) after(p place, limit int) (found []*members, last bool) {
	i, here := r.find(p)
	if here {
		i++
	}
	end := min(i+limit, len(r.sorted))
	return r.sorted[i:end], end == len(r.sorted)
}
