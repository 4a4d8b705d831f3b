package placement

import "github.com/berth-dev/berth/placement/hint"

// collect asks all providers for their hints for container c, or for the whole pod.
func (t *trial) collect(c int, want hint.Want) Detail {
	t.used = 0
	for _, p := range providers {
		if d := p.hints(t, c, want); d != NoDetail {
			return d
		}
	}
	return NoDetail
}

// affinity is Policy.Merge: the hint for container c, or for the whole pod, and whether the policy admits it. Only
// best-effort ever needs more than what is preferred.
func (t *trial) affinity(c int) (hint.Hint, Detail) {
	if d := t.collect(c, hint.Preferred); d != NoDetail {
		return hint.Hint{}, d
	}
	single := t.rules.Policy == PolicySingleNUMANode
	if t.m.guard && !single {
		if d := t.guardMerge(c); d != NoDetail {
			return hint.Hint{}, d
		}
	}
	rules := mergeRules{single: single}
	if !single {
		rules.distance = t.m.distance
	}
	if h, ok := t.merge.preferred(t.lists[:t.used], rules); ok {
		if single && h.Mask == t.m.space.All() {
			h = hint.Hint{Any: true, Preferred: true}
		}
		return h, NoDetail
	}
	if t.rules.Policy != PolicyBestEffort {
		return hint.Hint{}, NotPreferred
	}
	if d := t.collect(c, hint.Offered); d != NoDetail {
		return hint.Hint{}, d
	}
	return t.merge.unpreferred(t.lists[:t.used], rules), NoDetail
}

// maxCombinations is how many combinations of hints a guarded kubelet may have to try. It takes 150 to 200 ns for each (measured
// with 1.36), and admits no other pod meanwhile: this is the better part of a minute.
const maxCombinations = 1 << 28

// guardMerge refuses what the kubelet would take too long to merge: it tries every combination of one hint from each list. That
// takes complete lists to find out, but mostly one look at how many there are is enough, or at how long those of memory are.
func (t *trial) guardMerge(c int) Detail {
	kept := t.used
	defer func() { t.used = kept }()
	lists := listCount(t.lists[:kept])
	product := 1
	for i := len(providers) - 1; i >= 0; i-- {
		if most := power(len(t.m.space.BySize()), lists); product*most <= maxCombinations {
			return NoDetail
		}
		start := t.used
		if d := providers[i].hints(t, c, hint.Offered); d != NoDetail {
			return d
		}
		for j := start; j < t.used; j++ {
			if t.lists[j].Kind == hint.Masks {
				product = min(product*power(t.lists[j].Offered.Len(), max(t.lists[j].Times, 1)), maxCombinations+1)
			}
		}
		lists -= listCount(t.lists[start:t.used])
	}
	if product > maxCombinations {
		return DefectSlowMerge
	}
	return NoDetail
}

// listCount is the number of lists that the kubelet would have.
func listCount(lists []hint.List) (n int) {
	for i := range lists {
		n += max(lists[i].Times, 1)
	}
	return n
}

// power is base to the n-th, or a little over maxCombinations.
func power(base, n int) int {
	p := 1
	for ; n > 0 && p <= maxCombinations; n-- {
		p *= base
	}
	return min(p, maxCombinations+1)
}

// run admits the first n containers of the request on the trial's books. On refusal it returns the rule and the container
// at which the kubelet stopped; what earlier providers and containers got stays in the decision.
func (t *trial) run(n int) (Detail, int) {
	if t.rules.Policy == PolicyNone || t.rules.Scope != PodScope {
		return t.runContainers(n)
	}
	h, d := t.affinity(wholePod)
	if d != NoDetail {
		return d, 0
	}
	for c := range n {
		if d := t.allocate(c, h); d != NoDetail {
			return d, c
		}
	}
	return t.guardRestart(), 0
}

// runContainers is the container scope, and the policy none, which asks for no hints.
func (t *trial) runContainers(n int) (Detail, int) {
	for c := range n {
		h, d := hint.Hint{Any: true}, NoDetail
		if t.rules.Policy != PolicyNone {
			h, d = t.affinity(c)
		}
		if d == NoDetail {
			d = t.allocate(c, h)
		}
		if d != NoDetail {
			return d, c
		}
	}
	return t.guardRestart(), 0
}

// allocate lets all providers give container c what the hint allows.
func (t *trial) allocate(c int, h hint.Hint) Detail {
	got := &t.d.Containers[c].Hint
	*got = Hint{Any: h.Any, Preferred: h.Preferred}
	if !h.Any {
		got.NUMA = t.m.expand(h.Mask)
	}
	for _, p := range providers {
		if d := p.allocate(t, c, h); d != NoDetail {
			return d
		}
	}
	return NoDetail
}
