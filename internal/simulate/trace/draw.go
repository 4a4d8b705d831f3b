package trace

import (
	"cmp"
	"math/rand"
	"slices"
)

// Draw is the random part of one run: the order in which pods of a list arrive, and the order of
// nodes with equal scores.
type Draw struct {
	// Arrivals are indices into the list of pods, in the order of arrival.
	Arrivals []int32
	// Order is a random order of the nodes, as indices into the list of nodes. A strategy with
	// simulate.FirstOfOrder chooses the first of several equally good nodes in this order.
	Order []int32
	// Rand is the random generator in the state after the draw.
	Rand *rand.Rand
}

// NewDraw lets all pods of the list arrive once, in random order. The function `change`, if not
// nil, may change the Arrivals. It is called before Order is drawn.
//
// It draws as the simulator of the FGD paper does (USENIX ATC'23), so the same seed gives the same
// order of arrival. That simulator gives every node a new random name. Among nodes with equal
// scores, it chooses the node whose name comes first; Order is the order of these names. Without
// this rule, the percentage of GPUs that the lab's strategy GpuPacking serves is 0.7 points lower.
// math/rand always returns the same numbers for the same seed.
func NewDraw(nodes []Node, pods []Pod, seed int64, change func(*Draw)) *Draw {
	d := &Draw{Rand: rand.New(rand.NewSource(seed))}
	d.Rand.Int() // the simulator of the paper draws a number here and only logs it
	d.Arrivals = ByName(pods)
	d.Rand.Shuffle(len(pods), func(i, j int) { d.Arrivals[i], d.Arrivals[j] = d.Arrivals[j], d.Arrivals[i] })
	if change != nil {
		change(d)
	}
	d.Order = make([]int32, len(nodes))
	place := d.Rand.Perm(len(nodes))
	for i, node := range sorted(len(nodes), func(i int32) string { return nodes[i].Name }) {
		d.Order[place[i]] = node
	}
	return d
}

// ByName returns the indices of the pods in the order of their names.
func ByName(pods []Pod) []int32 {
	return sorted(len(pods), func(i int32) string { return pods[i].Name })
}

// AskedGPU returns the pod's total request for GPUs, in thousandths of a GPU.
func (p *Pod) AskedGPU() int64 { return int64(p.GPUs) * p.MilliGPU }

// AskGPUs reports whether any pod asks for GPUs.
func AskGPUs(pods []Pod) bool {
	return slices.ContainsFunc(pods, func(p Pod) bool { return p.GPUs > 0 })
}

// CapacityOf returns the number of GPUs of all nodes in thousandths, or of their CPUs if gpus is
// false.
func CapacityOf(nodes []Node, gpus bool) (sum int64) {
	for i := range nodes {
		if gpus {
			sum += int64(nodes[i].GPUs) * Thousandths
		} else {
			sum += nodes[i].MilliCPU
		}
	}
	return sum
}

// sorted returns the indices below n in the order of their names.
func sorted(n int, name func(int32) string) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(i)
	}
	slices.SortFunc(out, func(a, b int32) int { return cmp.Compare(name(a), name(b)) })
	return out
}
