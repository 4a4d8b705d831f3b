package ledger

import (
	"cmp"
	"slices"
)

// maxOrders bounds in how many orders the pods in flight are considered; with more, pods wait for a
// report.
const maxOrders = 24

// sameness tells whether two pods in flight may change places without any effect: whichever the
// kubelet admits first gets the same, and the rest for other pods is the same. If orders, or sets
// of pods that have come, differ only in this, the ledger considers one of them. A replica set's
// pods come to a node in one second; without this five of them were more orders than it considers.
type sameness func(a, b *pod) bool

// interchangeable is the sameness of pods that ask for the same.
func interchangeable(a, b *pod) bool {
	return a == b || a.ending() == b.ending() && a.requestKey() == b.requestKey()
}

// interchangeableInDebt is interchangeable if each pod is to get what it was promised.
func interchangeableInDebt(a, b *pod) bool {
	return a == b || !a.promisedExact() && !b.promisedExact() && interchangeable(a, b)
}

// except tells the given pods apart from all others.
func (same sameness) except(apart ...*pod) sameness {
	return func(a, b *pod) bool {
		return a == b || !slices.Contains(apart, a) && !slices.Contains(apart, b) && same(a, b)
	}
}

// arrivalOrders returns every order in which the kubelet may admit the pods, which are in the order
// of their Bindings; that one comes first. As long as the kubelet's watch holds, it is the only
// one. When the watch breaks, or the kubelet restarts, whatever it has not admitted comes in one
// batch, sorted by creation time in whole seconds, equal ones in any order (pkg/kubelet/kubelet.go,
// HandlePodAdditions). Of orders that differ only in the places of pods that may change them, one
// is returned. Waves follow one another. Nil means that there are too many orders.
func arrivalOrders(flight []*pod, mayChange sameness) [][]*pod {
	first := firstWave(flight)
	orders := ordersOfWave(flight[:first], mayChange)
	if first == len(flight) || orders == nil {
		return orders
	}
	later := arrivalOrders(flight[first:], mayChange)
	if later == nil || len(orders)*len(later) > maxOrders {
		return nil
	}
	out := make([][]*pod, 0, len(orders)*len(later))
	for _, order := range orders {
		for _, rest := range later {
			out = append(out, slices.Concat(order, rest))
		}
	}
	return out
}

// firstWave is how many pods of a flight are of the wave that comes first. Flights are in the order
// of their waves: nothing is posted, or reserved, before what is of an earlier one.
func firstWave(flight []*pod) int {
	for i := range flight {
		if flight[i].wave != flight[0].wave {
			return i
		}
	}
	return len(flight)
}

// inOneOrder reports whether arrivalOrders would return one order alone: any two pods may change
// places, or come in the order in which they are.
func inOneOrder(flight []*pod, mayChange sameness) bool {
	for i, p := range flight {
		if !comesLast(flight[:i], p, mayChange) {
			return false
		}
	}
	return true
}

// comesLast reports whether it has no effect if the pod comes before some of the flight.
func comesLast(flight []*pod, p *pod, mayChange sameness) bool {
	return !slices.ContainsFunc(flight, func(q *pod) bool {
		return q.wave == p.wave && q.created >= p.created && !mayChange(q, p)
	})
}

// ordersOfWave is arrivalOrders for pods of one wave.
func ordersOfWave(flight []*pod, mayChange sameness) [][]*pod {
	orders := [][]*pod{flight}
	switch {
	case inOneOrder(flight, mayChange):
		return orders
	case batchOrders(flight, mayChange) > maxOrders:
		return nil
	}
	for kept := range flight {
		for _, rest := range arrangements(flight[kept:], mayChange) {
			order := slices.Concat(flight[:kept], rest)
			if !slices.ContainsFunc(orders, func(o []*pod) bool { return slices.EqualFunc(o, order, mayChange) }) {
				orders = append(orders, order)
			}
			if len(orders) > maxOrders {
				return nil
			}
		}
	}
	return orders
}

// batchOrders counts the orders that arrangements would return, or stops at a number above
// maxOrders.
func batchOrders(batch []*pod, mayChange sameness) int {
	count := 1
	for i, p := range batch {
		second, same := 1, 1 // with p
		for _, q := range batch[:i] {
			if q.created == p.created {
				second++
				if mayChange(q, p) {
					same++
				}
			}
		}
		if count = count * second / same; count > maxOrders {
			return count
		}
	}
	return count
}

// arrangements returns the orders of a batch, at most maxOrders+1 of them. Pods that may change
// places stay in theirs.
func arrangements(batch []*pod, mayChange sameness) [][]*pod {
	sorted := slices.Clone(batch)
	slices.SortStableFunc(sorted, func(a, b *pod) int { return cmp.Compare(a.created, b.created) })
	var out [][]*pod
	var arrange func(done, left []*pod)
	arrange = func(done, left []*pod) {
		if len(left) == 0 {
			out = append(out, slices.Clone(done))
			return
		}
		for i := 0; i < len(left) && left[i].created == left[0].created && len(out) <= maxOrders; i++ {
			if slices.ContainsFunc(left[:i], func(p *pod) bool { return mayChange(p, left[i]) }) {
				continue
			}
			others := slices.Delete(slices.Clone(left), i, i+1)
			arrange(append(done[:len(done):len(done)], left[i]), others)
		}
	}
	arrange(nil, sorted)
	return out
}

// agreement is how many pods come first in both orders.
func agreement(a, b []*pod) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
