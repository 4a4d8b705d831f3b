package ledger

import (
	"cmp"
	"slices"
)

// maxOrders bounds in how many orders the pods in flight are considered; with more, pods wait for a report.
const maxOrders = 24

// landingOrders returns every order in which the kubelet may admit the pods, which are in the order of their Bindings;
// that one comes first. As long as the kubelet's watch holds, it is the only one. When the watch breaks, or the kubelet
// restarts, whatever it has not admitted comes in one batch, sorted by creation time in whole seconds, equal ones in any
// order (pkg/kubelet/kubelet.go, HandlePodAdditions). Of orders that differ only in the places of pods that are alike, one is
// returned. Nil means that there are too many orders.
func landingOrders(flight []*pod, alike func(a, b *pod) bool) [][]*pod {
	orders := [][]*pod{flight}
	if ascending(flight) {
		return orders
	}
	for kept := range flight {
		for _, rest := range arrangements(flight[kept:], alike) {
			order := slices.Concat(flight[:kept], rest)
			if !slices.ContainsFunc(orders, func(o []*pod) bool { return slices.EqualFunc(o, order, alike) }) {
				orders = append(orders, order)
			}
			if len(orders) > maxOrders {
				return nil
			}
		}
	}
	return orders
}

// ascending says whether each pod was created in a later second than the one before: a batch keeps their order.
func ascending(flight []*pod) bool {
	for i := 1; i < len(flight); i++ {
		if flight[i].created <= flight[i-1].created {
			return false
		}
	}
	return true
}

// arrangements returns the orders of a batch, at most maxOrders+1 of them; pods that are alike stay in theirs.
func arrangements(batch []*pod, alike func(a, b *pod) bool) [][]*pod {
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
			if slices.ContainsFunc(left[:i], func(p *pod) bool { return alike(p, left[i]) }) {
				continue
			}
			others := slices.Delete(slices.Clone(left), i, i+1)
			arrange(append(done[:len(done):len(done)], left[i]), others)
		}
	}
	arrange(nil, sorted)
	return out
}
