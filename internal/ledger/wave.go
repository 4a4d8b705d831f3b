package ledger

import "slices"

// The kubelet may admit pods that were created in the same second in any order. If some pods that
// are reserved together would be refused in another order, the scheduler divides the pods into
// numbered waves. It posts the pods of a wave only after a report lists the pods of all earlier
// waves, so the kubelet admits them in this order. Until then the pods stay reserved, and all other
// pods that the node could pin must wait. Other pods may leave in the meantime, so Post decides
// again.

// waveOf returns the number of the last wave to which any of the pods belongs, or 0.
func waveOf(flight []*pod) int {
	last := 0
	for _, p := range flight {
		last = max(last, p.wave)
	}
	return last
}

// follows reports whether the candidate comes after all of these pods in every order in which the
// kubelet may admit them. The pods must not belong to later waves.
func (c *Candidate) follows(flight []*pod) bool {
	return !slices.ContainsFunc(flight, func(p *pod) bool { return p.wave == c.Wave && p.created >= c.Created })
}

// Due reports whether Post may be called for a reserved pod: a report shows that all pods of
// earlier waves were admitted, or they were removed. For a pod that is not reserved it returns
// true, and Post returns the error.
func (v View) Due(uid string) bool {
	o := v.n.lock()
	defer v.n.mu.Unlock()
	p := o.facts.pods.byUID[uid]
	return p == nil || p.stage != reserved || o.facts.report == nil || o.facts.due(p)
}

// wave returns the last wave that has a pod in flight, or 0.
func (f *facts) wave() int {
	if f.decides() {
		return 0
	}
	return max(waveOf(f.pods.posted), waveOf(f.pods.reserved))
}

// due implements Due for a reserved pod. It returns false if pods are afloat, because they may come
// before or after it.
func (f *facts) due(p *pod) bool {
	if p.wave == 0 || f.decides() {
		return true
	}
	for _, q := range f.pods.byUID {
		before := q.stage == afloat || (q.stage == posted || q.stage == reserved) && q.wave < p.wave
		if before && q != p && !f.isInert(q) {
			return false
		}
	}
	return true
}
