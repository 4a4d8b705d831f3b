package ledger

import (
	"cmp"
	"slices"
)

// maxOrders is the maximum number of orders of the pods in flight that the ledger considers. If
// there are more orders, pods wait for a report.
const maxOrders = 24

// sameness reports whether two pods in flight can exchange positions without any effect: in both
// orders, the two pods and all other pods get the same resources. If orders differ only by such an
// exchange, the ledger considers one of them. The pods of a ReplicaSet are often created in the
// same second. Without this rule, five of them would have too many orders.
type sameness func(a, b *pod) bool

// interchangeable is the sameness of pods with equal requests.
func interchangeable(a, b *pod) bool {
	return a == b || a.ending() == b.ending() && a.requestKey() == b.requestKey()
}

// interchangeableInDebt is like interchangeable, but pods with promised CPUs cannot exchange
// positions, because each must get the CPUs that it was promised.
func interchangeableInDebt(a, b *pod) bool {
	return a == b || !a.promisedExact() && !b.promisedExact() && interchangeable(a, b)
}

// except returns a sameness in which the given pods cannot be exchanged with others.
func (same sameness) except(apart ...*pod) sameness {
	return func(a, b *pod) bool {
		return a == b || !slices.Contains(apart, a) && !slices.Contains(apart, b) && same(a, b)
	}
}

// arrivalOrders returns every order in which the kubelet may admit the pods, beginning with the
// given order, which is the order of their Bindings. While the kubelet's watch works, this is the
// only order. When the watch breaks, or the kubelet restarts, the kubelet receives all pods that it
// has not admitted in one batch. The kubelet sorts the batch by creation time in whole seconds; the
// order of pods with equal times is arbitrary (pkg/kubelet/kubelet.go, HandlePodAdditions). If
// orders differ only by exchanges of pods, arrivalOrders returns one of them. The pods of a wave
// come after those of earlier waves. arrivalOrders returns nil if there are more than maxOrders
// orders.
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

// firstWave returns how many of the pods in flight belong to the first wave. The pods are in the
// order of their waves, because no pod is posted or reserved before the pods of earlier waves.
func firstWave(flight []*pod) int {
	for i := range flight {
		if flight[i].wave != flight[0].wave {
			return i
		}
	}
	return len(flight)
}

// inOneOrder reports whether arrivalOrders would return only one order.
func inOneOrder(flight []*pod, mayChange sameness) bool {
	for i, p := range flight {
		if !comesLast(flight[:i], p, mayChange) {
			return false
		}
	}
	return true
}

// comesLast reports whether the kubelet admits the pod after all of the other pods, in every order.
// Pods with which it can exchange positions do not count.
func comesLast(flight []*pod, p *pod, mayChange sameness) bool {
	return !slices.ContainsFunc(flight, func(q *pod) bool {
		return q.wave == p.wave && q.created >= p.created && !mayChange(q, p)
	})
}

// ordersOfWave does what arrivalOrders does for the pods of one wave.
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

// batchOrders counts the orders that arrangements would return, and stops counting above maxOrders.
func batchOrders(batch []*pod, mayChange sameness) int {
	count := 1
	for i, p := range batch {
		second, same := 1, 1 // both count p itself
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

// arrangements returns the orders of a batch, at most maxOrders+1 of them. Pods that can exchange
// positions stay in the given order.
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

// agreement returns the length of the longest common prefix of both orders.
func agreement(a, b []*pod) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
