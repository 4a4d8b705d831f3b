package placement

import "github.com/berth-dev/berth/placement/hint"

// merger finds the hint that the kubelet's HintMerger finds
// (pkg/kubelet/cm/topologymanager/policy.go). The HintMerger tries every combination of one hint
// from each list. Its result does not depend on the order in which it tries them. There are two
// cases:
//
//   - If some mask is preferred in every list, the combination that takes it from every list is
//     preferred. The result is the smallest such mask; among several, fittest chooses.
//   - Otherwise the kubelet chooses among the intersections of hints. The wanted size is the
//     maximum, over all lists, of the size of the list's smallest hint. The kubelet takes a mask of
//     this size, otherwise the largest smaller mask, otherwise the smallest larger mask.
//
// The first case needs one AND of bitmaps, and the second a few passes over the 2^n masks. Neither
// tries every combination.
type merger struct {
	space         *hint.Space
	common, reach hint.Set
	// a and b are working memory of intersect: a count for each mask.
	a, b []uint64
}

func (g *merger) init(space *hint.Space) {
	g.space = space
	g.common, g.reach = space.NewSet(), space.NewSet()
	g.a, g.b = make([]uint64, len(space.BySize())+1), make([]uint64, len(space.BySize())+1)
}

// mergeRules describe how a policy compares masks.
type mergeRules struct {
	// single means that only masks with one NUMA node are used (single-numa-node).
	single bool
	// distance is indexed by mask. It is nil without prefer-closest-numa-nodes.
	distance []uint64
}

// preferred returns the fittest mask that is preferred in every list, and false if there is none.
// If no list names NUMA nodes, it returns all NUMA nodes.
func (g *merger) preferred(lists []hint.List, r mergeRules) (hint.Hint, bool) {
	named := false
	for i := range lists {
		switch l := &lists[i]; {
		case l.Kind == hint.Impossible:
			return hint.Hint{}, false
		case l.Kind == hint.NoPreference:
		case !named:
			named = true
			copy(g.common, l.Preferred)
		default:
			for w := range g.common {
				g.common[w] &= l.Preferred[w]
			}
		}
	}
	if !named {
		return hint.Hint{Mask: g.space.All(), Preferred: true}, true
	}
	last := g.space.Len()
	if r.single {
		last = 1
	}
	for k := 1; k <= last; k++ {
		if mask, ok := g.fittest(g.common, k, r.distance); ok {
			return hint.Hint{Mask: mask, Preferred: true}, true
		}
	}
	return hint.Hint{}, false
}

// fittest returns the mask of the set that has this size and the smallest distance. Of several such
// masks it returns the lowest.
func (g *merger) fittest(set hint.Set, size int, distance []uint64) (best hint.Mask, found bool) {
	for _, mask := range g.space.OfSize(size) {
		if !set.Has(mask) {
			continue
		}
		if distance == nil {
			return mask, true
		}
		if !found || distance[mask] < distance[best] {
			best, found = mask, true
		}
	}
	return best, found
}

// unpreferred returns the kubelet's choice if no mask is preferred in every list. If no mask is
// possible, the kubelet chooses all NUMA nodes.
func (g *merger) unpreferred(lists []hint.List, r mergeRules) hint.Hint {
	g.reachable(lists)
	want := neediest(g.space, lists)
	for size := want; size >= 1; size-- {
		if mask, ok := g.fittest(g.reach, size, r.distance); ok {
			return hint.Hint{Mask: mask}
		}
	}
	for size := want + 1; size <= g.space.Len(); size++ {
		if mask, ok := g.fittest(g.reach, size, r.distance); ok {
			return hint.Hint{Mask: mask}
		}
	}
	return hint.Hint{Mask: g.space.All()}
}

// neediest reproduces the kubelet's maxOfMinAffinityCounts.
func neediest(space *hint.Space, lists []hint.List) int {
	most := 0
	for i := range lists {
		if lists[i].Kind == hint.Masks {
			most = max(most, smallest(space, lists[i].Offered))
		}
	}
	return most
}

func smallest(space *hint.Space, set hint.Set) int {
	for _, mask := range space.BySize() {
		if set.Has(mask) {
			return mask.Len()
		}
	}
	return 0
}

// reachable sets g.reach to the intersections of one mask from each list.
func (g *merger) reachable(lists []hint.List) {
	clear(g.reach)
	g.reach.Add(g.space.All())
	first := true
	for i := range lists {
		l := &lists[i]
		if l.Kind != hint.Masks {
			continue
		}
		for range max(l.Times, 1) {
			if first {
				copy(g.reach, l.Offered)
				first = false
				continue
			}
			g.intersect(l.Offered)
		}
	}
}

// intersect makes g.reach the set of a∩b with a in g.reach and b in o. The number of pairs whose
// intersection includes m is the number of masks a that include m, times the number of masks b that
// include m. The principle of inclusion and exclusion then gives the number of pairs whose
// intersection is exactly m.
func (g *merger) intersect(o hint.Set) {
	count(g.a, g.reach)
	count(g.b, o)
	n := g.space.Len()
	for i := range n {
		for m := range g.a {
			if m>>i&1 == 0 {
				g.a[m] += g.a[m|1<<i]
				g.b[m] += g.b[m|1<<i]
			}
		}
	}
	for m := range g.a {
		g.a[m] *= g.b[m]
	}
	for i := range n {
		for m := range g.a {
			if m>>i&1 == 0 {
				g.a[m] -= g.a[m|1<<i]
			}
		}
	}
	clear(g.reach)
	for m, ways := range g.a {
		if ways != 0 {
			g.reach.Add(hint.Mask(m))
		}
	}
}

func count(ways []uint64, set hint.Set) {
	for m := range ways {
		ways[m] = set[m/64] >> (m % 64) & 1
	}
}
