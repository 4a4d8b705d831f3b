package ledger

import "github.com/berth-dev/berth/placement"

// Decide answers as Ask does, and also returns the decision. It reserves nothing. d receives the
// decision of the likeliest state or, for a pod that already has a place on the node, the promised
// decision.
func (v View) Decide(c *Candidate, d *placement.Decision) Answer {
	o := v.n.lock()
	defer v.n.mu.Unlock()
	if o.facts.report == nil {
		return Answer{}
	}
	if p := o.facts.pods.byUID[c.Request.UID]; p != nil {
		if p.promise == nil {
			return waiting(Undecided)
		}
		*d = p.promise.Decision.Clone()
		return Answer{Outcome: Admitted, Exact: p.promise.Exact, Certain: p.promise.Exact}
	}
	a := o.consultBeside(c, d)
	a.Exact = a.Exact && (!c.Loose || o.facts.decides())
	return a
}
