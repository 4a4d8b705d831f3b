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
	single := t.m.set.policy == policySingleNUMANode
	if t.m.guard && !single {
		if d := t.guardMerge(c); d != NoDetail {
			return hint.Hint{}, d
		}
	}
	rules := mergeRules{single: single, distance: t.m.distance}
	if h, ok := t.merge.preferred(t.lists[:t.used], rules); ok {
		if single && h.Mask == t.m.space.All() {
			h = hint.Hint{Any: true, Preferred: true}
		}
		return h, NoDetail
	}
	if t.m.set.policy != policyBestEffort {
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

// guardMerge refuses what the kubelet would take too long to merge: it tries every combination of one hint from each list. The
// lists have to be complete for that; where even full ones would be few enough they need not.
func (t *trial) guardMerge(c int) Detail {
	if combinations(t.lists[:t.used], func(*hint.List) int { return len(t.m.space.BySize()) }) <= maxCombinations {
		return NoDetail
	}
	if d := t.collect(c, hint.Offered); d != NoDetail {
		return d
	}
	if combinations(t.lists[:t.used], func(l *hint.List) int { return l.Offered.Len() }) > maxCombinations {
		return DefectSlowMerge
	}
	return NoDetail
}

// combinations is the product of the lists' lengths, at most a little over maxCombinations.
func combinations(lists []hint.List, length func(*hint.List) int) int {
	n := 1
	for i := range lists {
		if lists[i].Kind != hint.Masks {
			continue
		}
		for range max(lists[i].Times, 1) {
			if n *= length(&lists[i]); n > maxCombinations {
				return n
			}
		}
	}
	return n
}

// run admits the first n containers of the request on the trial's books. On refusal it returns the rule and the container
// at which the kubelet stopped; what earlier providers and containers got stays in the decision.
func (t *trial) run(n int) (Detail, int) {
	if t.m.set.policy == policyNone || !t.m.set.podScope {
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
	return NoDetail, 0
}

// runContainers is the container scope, and the policy none, which asks for no hints.
func (t *trial) runContainers(n int) (Detail, int) {
	for c := range n {
		h, d := hint.Hint{Any: true}, NoDetail
		if t.m.set.policy != policyNone {
			h, d = t.affinity(c)
		}
		if d == NoDetail {
			d = t.allocate(c, h)
		}
		if d != NoDetail {
			return d, c
		}
	}
	return NoDetail, 0
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
