package suppose

import (
	"cmp"
	"slices"

	"github.com/berth-dev/berth/internal/amounts"
)

// Alike are pods with equal requests.
type Alike struct {
	Asks  amounts.List
	Ports []amounts.Port
	Pods  int
}

// Needs is the number of identical nodes that a load needs.
type Needs struct {
	// Nodes is the number of nodes that Pack fills.
	Nodes int `json:"nodes"`
	// ByAmounts is the number of nodes that would be needed if only amounts mattered, as
	// autoscalers assume.
	ByAmounts int `json:"byAmounts"`
	// Pods is the number of pods of the load.
	Pods int `json:"pods"`
}

// NeedsOf returns the number of nodes that a load needs. It passes the callbacks `another` and
// `take` to Pack. The function `counted` creates an empty node that counts only amounts.
func NeedsOf[N any](load []Alike, another func() N, take func(on N, kind, i int) bool, counted func() *amounts.Node) (out Needs) {
	for i := range load {
		out.Pods += load[i].Pods
	}
	out.Nodes = Pack(load, another, take)
	out.ByAmounts = Pack(load, counted, func(on *amounts.Node, kind, _ int) bool {
		if on.Short(load[kind].Asks) != nil || on.Taken(load[kind].Ports) != "" {
			return false
		}
		on.Add(load[kind].Asks, load[kind].Ports...)
		return true
	})
	return out
}

// Pack fills identical nodes, and returns how many nodes the load needs. The largest pods come
// first, and each pod goes to the first node that admits it. In another order, the load might need
// fewer nodes.
//
// The function `another` creates a node without pods of the load. The function `take` puts the i-th
// pod of load[kind] on a node, or returns false if the node refuses the pod. The load must not
// contain pods that a new node refuses. No pod leaves, so Pack does not ask a node again about pods
// equal to one that it has refused.
func Pack[N any](load []Alike, another func() N, take func(on N, kind, i int) bool) int {
	var nodes []N
	order := make([]int, len(load))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(load[b].Asks.Size(), load[a].Asks.Size()) })
	for _, kind := range order {
		for at, i := 0, 0; i < load[kind].Pods; {
			fresh := at == len(nodes)
			if fresh {
				nodes = append(nodes, another())
			}
			if take(nodes[at], kind, i) {
				i++
				continue
			}
			if fresh { // even a node without pods of the load refuses the pod
				break
			}
			at++
		}
	}
	return len(nodes)
}
