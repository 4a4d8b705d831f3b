package ledger

import (
	"slices"

	"github.com/berth-dev/berth/placement"
)

// A pod on a node where Berth decides can be resized in place (docs/protocol.md, "Resizes in
// place"). Each new decision for the pod has a larger generation. From Refit until the decision is
// written, the pod holds both its old and its new resources.

// refitting is the progress of the decisions about a resized pod.
type refitting struct {
	// generation is the number of the decision in held; 0 means 1.
	generation uint64
	// was and next are the allocations before and after a decision while the scheduler writes it,
	// otherwise nil. During the write, held has both.
	was, next *placement.PodAllocation
}

// RefitOutcome is the result of Node.Refit in one word.
type RefitOutcome uint8

const (
	// RefitWaits, the zero value: the ledger cannot decide now. For example, no report has shown
	// yet that the node has carried out the previous decision, or the scheduler is still writing
	// that decision.
	RefitWaits RefitOutcome = iota
	// RefitSame: the pod already has the requested amounts.
	RefitSame
	// RefitDecided: the caller must write the new decision.
	RefitDecided
	// RefitRefused: the node has no room, or the pod's rules do not allow the change. Refit.Verdict
	// has the reason.
	RefitRefused
)

// Refit is the result of Node.Refit.
type Refit struct {
	Outcome RefitOutcome
	Verdict placement.Verdict
	// Generation is the number of the decision. Report is the sequence number of the report on
	// which the decision is based.
	Generation uint64
	Report     int64
}

// Refit decides which resources a resized pod gets for its new amounts. Berth must decide on the
// node, and a report must list the pod. If the outcome is RefitDecided, d has the decision. The
// caller must write it, and then call Refitted or NotRefitted.
func (n *Node) Refit(r *placement.Request, d *placement.Decision) Refit {
	o := n.lock()
	defer n.mu.Unlock()
	p := o.facts.pods.byUID[r.UID]
	if o.facts.report == nil || !o.facts.decides() || p == nil || p.stage != reported || p.held == nil || p.next != nil || p.ending() ||
		max(o.facts.report.pods[r.UID].alloc.Generation, 1) != max(p.generation, 1) {
		return Refit{}
	}
	o.compute()
	if p.displaced != "" {
		return Refit{}
	}
	state := o.afterReserved().all[0].state.Clone()
	state.Release(p.uid) // only this pod may use the resources that it gives up
	state.Hold(p.held)
	v := placement.Refit(state, r, d)
	if !v.OK() {
		return Refit{Outcome: RefitRefused, Verdict: v}
	}
	next := d.Held()
	if sameAllocations(p.held, next) {
		return Refit{Outcome: RefitSame}
	}
	p.was, p.next = p.held, next
	p.held = withShown(next, p.was)
	o.changed()
	return Refit{Outcome: RefitDecided, Verdict: v, Generation: max(p.generation, 1) + 1, Report: o.facts.report.Sequence}
}

// Refitted records that the decision of Refit was written.
func (n *Node) Refitted(uid string) {
	o := n.lock()
	defer n.mu.Unlock()
	if p := o.facts.pods.byUID[uid]; p != nil && p.next != nil {
		p.held, p.was, p.next = p.next, nil, nil
		p.generation = max(p.generation, 1) + 1
		o.changed()
	}
}

// NotRefitted records that the decision of Refit was not written, and never will be.
func (n *Node) NotRefitted(uid string) {
	o := n.lock()
	defer n.mu.Unlock()
	if p := o.facts.pods.byUID[uid]; p != nil && p.next != nil {
		p.held, p.was, p.next = p.was, nil, nil
		o.changed()
	}
}

// refitted adopts the decision that the API shows if it is newer, and reports whether it is.
func (p *pod) refitted(s *Sighting) bool {
	if s.Promise == nil || max(s.Generation, 1) <= max(p.generation, 1) {
		return false
	}
	p.held, p.promise, p.unconfirmed = s.Promise.Decision.Held(), nil, nil
	p.refitting = refitting{generation: s.Generation}
	return true
}

// sameAllocations reports whether two allocations of a pod give its containers equal CPUs and
// memory.
func sameAllocations(a, b *placement.PodAllocation) bool {
	return slices.EqualFunc(a.Containers, b.Containers, func(x, y placement.ContainerAllocation) bool {
		return x.Name == y.Name && x.CPUs == y.CPUs && slices.Equal(x.Memory, y.Memory)
	})
}

// Misfits reports whether the amounts of any container differ from Berth's last decision about the
// pod. It returns false if Berth has made no decision about the pod. amounts returns the amounts of
// an app container or sidecar; told must be false if the amounts are not known.
func (v View) Misfits(uid string, amounts func(container string) (milliCPU int64, bytes uint64, told bool)) bool {
	o := v.n.lock()
	defer v.n.mu.Unlock()
	p := o.facts.pods.byUID[uid]
	if p == nil || p.held == nil || p.ending() {
		return false
	}
	return slices.ContainsFunc(p.held.Containers, func(c placement.ContainerAllocation) bool {
		if c.Kind == placement.Init {
			return false
		}
		milli, bytes, told := amounts(c.Name)
		hasMilli, hasBytes := 1000*int64(c.CPUs.Len()), uint64(0)
		for _, s := range c.Shares {
			hasMilli += s.MilliCPU
		}
		for _, b := range c.Memory {
			if b.Resource == "memory" {
				hasBytes += b.Bytes
			}
		}
		return told && (milli != hasMilli || bytes != hasBytes)
	})
}
