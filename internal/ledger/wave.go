package ledger

import "slices"

// Of pods that are reserved together some may be refused in another order than theirs, and those of
// one second come in any order. They get waves then. The pods of a later wave are not posted before
// a report lists those of the waves before: who is admitted cannot be overtaken any more. Until
// then their places are reserved as those of others are, and nobody else comes between: the node
// makes all others wait. What may change meanwhile is what may change anyway: pods leave. Post
// decides again.

// waveOf is the last wave in a flight; 0 if there are none.
func waveOf(flight []*pod) int {
	last := 0
	for _, p := range flight {
		last = max(last, p.wave)
	}
	return last
}

// follows reports whether the candidate comes after all pods of a flight in every order. None of
// them is of a later wave.
func (c *Candidate) follows(flight []*pod) bool {
	return !slices.ContainsFunc(flight, func(p *pod) bool { return p.wave == c.Wave && p.created >= c.Created })
}

// Due reports whether Post may be called for a reserved pod: a report shows that all pods of
// earlier waves were admitted, or they were removed. For a pod that is not reserved it returns
// true, and Post returns the error.
func (n *Node) Due(uid string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pods[uid]
	return p == nil || p.stage != reserved || n.report == nil || n.due(p)
}

// wave returns the last wave that has a pod in flight; 0 if no pod is.
func (f *facts) wave() int {
	if f.decides() {
		return 0
	}
	return max(waveOf(f.posted), waveOf(f.reserved))
}

// due is Due of a reserved pod. One afloat may come before it, or after.
func (f *facts) due(p *pod) bool {
	if p.wave == 0 || f.decides() {
		return true
	}
	for _, q := range f.pods {
		before := q.stage == afloat || (q.stage == posted || q.stage == reserved) && q.wave < p.wave
		if before && q != p && !f.isInert(q) {
			return false
		}
	}
	return true
}
