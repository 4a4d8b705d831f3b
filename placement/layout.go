package placement

import (
	"slices"

	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/topology"
)

type layout struct {
	// nodes has every NUMA node that the kubelet sees. space gives each NUMA node a position. On
	// machines with more than hint.MaxNodes NUMA nodes, space has positions for the NUMA nodes that
	// hints can name, and one for all others. If hints can name too many NUMA nodes, space is nil,
	// and NewModel refuses policies with hints.
	nodes topology.NUMASet
	space *hint.Space
	// nodeCPUs holds the CPUs of each NUMA node that has CPUs.
	nodeCPUs []nodeCPUs
	// distance[m] is the sum of the distances of all ordered pairs of NUMA nodes in mask m. It is
	// nil without prefer-closest-numa-nodes.
	distance []uint64
}

type nodeCPUs struct {
	id   topology.NUMAID
	cpus topology.CPUSet
}

// expand translates positions to NUMA node ids. Without a space it returns the empty set.
func (l *layout) expand(mask hint.Mask) topology.NUMASet {
	if l.space == nil {
		return 0
	}
	return l.space.Expand(mask)
}

// compact translates NUMA node ids to positions. It omits NUMA nodes without a position of their
// own. Without a space it returns the empty mask.
func (l *layout) compact(set topology.NUMASet) hint.Mask {
	if l.space == nil {
		return 0
	}
	return l.space.Compact(set)
}

func (l *layout) nodesOf(cpus *topology.CPUSet) (nodes topology.NUMASet) {
	for i := range l.nodeCPUs {
		if n := &l.nodeCPUs[i]; n.cpus.Intersects(cpus) {
			nodes |= 1 << n.id
		}
	}
	return nodes
}

// sumDistances fills the table of distances. As the kubelet does, it indexes each row by the id of
// a NUMA node, although sysfs lists only online NUMA nodes. If a set has NUMA nodes that no hint
// names, its distance is not used.
func (l *layout) sumDistances(rows [][]uint64) {
	l.distance = make([]uint64, len(l.space.BySize())+1)
	for _, mask := range l.space.BySize() {
		for i := range mask.All() {
			for j := range mask.All() {
				if rows[i] != nil {
					l.distance[mask] += rows[i][l.space.ID(j)]
				}
			}
		}
	}
}

// fewestForCPUs returns the kubelet's minAffinitySize for n CPUs. It counts all CPUs of the NUMA
// nodes, including reserved CPUs.
func (l *layout) fewestForCPUs(n int) int {
	sizes := make([]uint64, len(l.nodeCPUs))
	for i := range l.nodeCPUs {
		sizes[i] = uint64(l.nodeCPUs[i].cpus.Len())
	}
	return min(fewest(sizes, uint64(max(n, 0))), len(sizes))
}

// fewest returns the smallest number of amounts with a total of at least n. If all amounts together
// are less than n, fewest returns one more than their number. It sorts amounts.
func fewest(amounts []uint64, n uint64) int {
	slices.Sort(amounts)
	for sum, k := uint64(0), 1; k <= len(amounts); k++ {
		if sum += amounts[len(amounts)-k]; sum >= n {
			return k
		}
	}
	return len(amounts) + 1
}
