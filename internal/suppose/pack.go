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

// Needs is how many equal, empty nodes a load needs.
type Needs struct {
	// Nodes is how many nodes Pack fills.
	Nodes int `json:"nodes"`
	// ByAmounts is the same if amounts were all that counts, as autoscalers reckon.
	ByAmounts int `json:"byAmounts"`
	// Pods is how many have a place on these nodes.
	Pods int `json:"pods"`
}

// NeedsOf counts the nodes that a load needs. another and take are as for Pack; counted makes a
// node that knows only amounts.
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

// Pack fills nodes that are all alike and empty, and returns how many the load needs. The largest
// pods come first, and each goes to the first node that takes it. Another order may need fewer.
//
// another makes a node; take puts the i-th pod that is like load[kind] on it, or says that it does
// not take the pod. Callers leave out pods that an empty node refuses. No pod leaves, so a
// node that has refused one is not asked again about others like it.
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
			if fresh { // no node would ever take it
				break
			}
			at++
		}
	}
	return len(nodes)
}
