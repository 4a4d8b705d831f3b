package placement

import "github.com/berth-dev/berth/placement/hint"

// collect asks all managers for their hints for container c, or for the whole pod.
func (ad *admission) collect(c int, want hint.Want) Detail {
	ad.used = 0
	for _, m := range ad.managers {
		if ad.meanwhile != nil {
			ad.pass()
		}
		if d := m.hints(c, want); d != NoDetail {
			return d
		}
	}
	return NoDetail
}

// affinity reproduces the kubelet's Policy.Merge. It returns the hint for container c, or for the
// whole pod, and the reason if the policy refuses. Only best-effort uses hints that are not
// preferred.
func (ad *admission) affinity(c int) (hint.Hint, Detail) {
	want := hint.Preferred
	if ad.meanwhile != nil {
		want = hint.Offered // with events, ask the managers only once
	}
	if d := ad.collect(c, want); d != NoDetail {
		return hint.Hint{}, d
	}
	single := ad.rules.Policy == PolicySingleNUMANode
	if ad.m.guard && !single {
		if d := ad.guardMerge(c); d != NoDetail {
			return hint.Hint{}, d
		}
	}
	rules := mergeRules{single: single}
	if !single {
		rules.distance = ad.m.distance
	}
	if h, ok := ad.merge.preferred(ad.lists[:ad.used], rules); ok {
		if single && h.Mask == ad.m.space.All() {
			h = hint.Hint{Any: true, Preferred: true}
		}
		return h, NoDetail
	}
	if ad.rules.Policy != PolicyBestEffort {
		return hint.Hint{}, NotPreferred
	}
	if want != hint.Offered {
		if d := ad.collect(c, hint.Offered); d != NoDetail {
			return hint.Hint{}, d
		}
	}
	return ad.merge.unpreferred(ad.lists[:ad.used], rules), NoDetail
}

// maxCombinations is the maximum number of combinations of hints with Config.GuardDefects. A
// combination takes 150 to 200 ns (measured with 1.36), so this many take almost a minute, in which
// the kubelet admits no other pod.
const maxCombinations = 1 << 28

// guardMerge refuses hints that the kubelet would take too long to merge, because it tries every
// combination of one hint from each list. An exact count of the combinations needs complete lists.
// Usually an upper bound is enough, from the number of lists or the length of the memory lists.
func (ad *admission) guardMerge(c int) Detail {
	kept := ad.used
	defer func() { ad.used = kept }()
	lists := listCount(ad.lists[:kept])
	product := 1
	for i := managers - 1; i >= 0; i-- {
		if most := power(len(ad.m.space.BySize()), lists); product*most <= maxCombinations {
			return NoDetail
		}
		start := ad.used
		if d := ad.managers[i].hints(c, hint.Offered); d != NoDetail {
			return d
		}
		for j := start; j < ad.used; j++ {
			if ad.lists[j].Kind == hint.Masks {
				product = min(product*power(ad.lists[j].Offered.Len(), max(ad.lists[j].Times, 1)), maxCombinations+1)
			}
		}
		lists -= listCount(ad.lists[start:ad.used])
	}
	if product > maxCombinations {
		return DefectSlowMerge
	}
	return NoDetail
}

// listCount returns the number of hint lists that the kubelet would have: unlike a hint.List, a
// list of the kubelet serves only one resource.
func listCount(lists []hint.List) (n int) {
	for i := range lists {
		n += max(lists[i].Times, 1)
	}
	return n
}

// power returns base to the power of n, but at most maxCombinations+1.
func power(base, n int) int {
	p := 1
	for ; n > 0 && p <= maxCombinations; n-- {
		p *= base
	}
	return min(p, maxCombinations+1)
}

// run admits the first n containers of the request in the admission's copy of the state. If the
// kubelet would refuse, it returns the rule and the container. The decision keeps the assignments
// that were made before the refusal.
func (ad *admission) run(n int) (Detail, int) {
	if ad.rules.Policy == PolicyNone || ad.rules.Scope != PodScope {
		return ad.runContainers(n)
	}
	h, d := ad.affinity(wholePod)
	if d == NotPreferred && ad.whole && ad.leavesNone() {
		d = NoneToShare
	}
	if d != NoDetail {
		return d, 0
	}
	if ad.whole && n > 0 {
		return ad.allocateWhole(h), 0
	}
	for c := range n {
		if d := ad.allocate(c, h); d != NoDetail {
			return d, c
		}
	}
	return ad.guardRestart(), 0
}

// runContainers implements the container scope. It also implements the policy none, which asks for
// no hints.
func (ad *admission) runContainers(n int) (Detail, int) {
	for c := range n {
		h, d := hint.Hint{Any: true}, NoDetail
		if ad.rules.Policy != PolicyNone {
			h, d = ad.affinity(c)
		}
		if d == NoDetail {
			d = ad.allocate(c, h)
		}
		if d != NoDetail {
			return d, c
		}
	}
	return ad.guardRestart(), 0
}

func (ad *admission) allocate(c int, h hint.Hint) Detail {
	ad.setHint(c, h)
	for _, m := range ad.managers {
		if ad.meanwhile != nil {
			ad.pass()
		}
		if d := m.allocate(c, h); d != NoDetail {
			return d
		}
	}
	return NoDetail
}

// setHint records h as the hint that the topology manager stores for container c.
func (ad *admission) setHint(c int, h hint.Hint) {
	got := &ad.d.Containers[c].Hint
	*got = Hint{Any: h.Any, Preferred: h.Preferred}
	if !h.Any {
		got.NUMA = ad.m.expand(h.Mask)
	}
}
