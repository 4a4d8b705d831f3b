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

// run admits the request on the trial's books. On refusal it returns the rule and the container at which the kubelet
// stopped; what earlier providers and containers got stays in the decision.
func (t *trial) run() (Detail, int) {
	if t.m.set.policy == policyNone || !t.m.set.podScope {
		return t.runContainers()
	}
	h, d := t.affinity(wholePod)
	if d != NoDetail {
		return d, 0
	}
	for c := range t.r.Containers {
		if d := t.allocate(c, h); d != NoDetail {
			return d, c
		}
	}
	return NoDetail, 0
}

// runContainers is the container scope, and the policy none, which asks for no hints.
func (t *trial) runContainers() (Detail, int) {
	for c := range t.r.Containers {
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
