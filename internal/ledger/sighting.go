package ledger

import (
	"time"

	"github.com/berth-dev/berth/placement"
)

// Sighting is what the API says about a bound pod.
type Sighting struct {
	UID     string
	Request *placement.Request
	// Created is as in Candidate.
	Created int64
	// Promise is the decision that its Binding carried; nil when there was none.
	Promise *Promise
	// Turn is its Binding's place in the order, from its annotation; 0 when it has none.
	Turn int64
	// Report is the sequence of the report on which it was decided, from the same annotation; 0
	// where there is none.
	Report int64
	// Ending says that it is being deleted or has ended.
	Ending bool
	// Over says that it has ended for good: its containers have stopped, and none starts again.
	Over bool
	// Mortal says that it can end by itself.
	Mortal bool
	// Inherited says that it was bound before anyone here began to watch. Others that nobody knows
	// of may have been bound before it, and have left since. Until a report lists it, other pods
	// wait.
	Inherited bool
	// Elsewhere says that it is bound to another node; only the UID matters then. A pod whose
	// Binding to this node was in doubt is forgotten.
	Elsewhere bool
}

// See takes in what the API says about a bound pod. It says whether anything changed, and how its
// promise turned out if only this was missing to know it.
func (n *Node) See(s Sighting) (changed bool, outcome *PromiseOutcome) {
	n.mu.Lock()
	defer n.mu.Unlock()
	outcome = n.settleSuspect(s.UID)
	if changed = n.see(&s); changed {
		n.changed()
	}
	return changed, outcome
}

// see says whether anything follows from the sighting.
func (n *Node) see(s *Sighting) bool {
	p := n.pods[s.UID]
	if s.Elsewhere {
		if p == nil || p.stage != afloat {
			return false
		}
		n.leave(p)
		return true
	}
	if s.Ending && (p == nil || !p.ending) {
		n.excuseUnseen(s.UID)
	}
	switch {
	case p == nil && s.Over && n.decides() && !n.report.Has(s.UID):
		return false // it has left the node
	case p == nil:
		n.appear(s, n.report.Has(s.UID))
	case p.stage == reserved || s.Turn > 0 && (p.stage == afloat && !p.listed || p.isOther(s.Turn)):
		// The Binding was written after all, in the order that it says.
		n.leave(p)
		n.appear(s, n.report.Has(s.UID))
	default:
		return p.show(s)
	}
	return true
}

// Glance is See for a pod that the ledger knows well: it says true when there is nothing to be
// learned.
func (n *Node) Glance(uid string, ending, mortal bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pods[uid]
	if p == nil || p.stage != reported && p.stage != posted ||
		p.ending != ending || p.mortal != mortal || p.gone || p.suspect != nil || p.doubted() {
		return false
	}
	p.shown = true
	return true
}

// Gone says that the API does not have the pod any more, as of now. What the node holds for it
// stays held until a report drops it. A pod that no report has listed is forgotten as ForgetGone
// says. It returns the outcome that See does.
func (n *Node) Gone(uid string, now time.Time) (outcome *PromiseOutcome) {
	n.mu.Lock()
	defer n.mu.Unlock()
	outcome = n.settleSuspect(uid)
	p := n.pods[uid]
	if p == nil || p.gone {
		return outcome
	}
	if !p.ending {
		n.excuseUnseen(uid)
	}
	if p.stage == reported && !n.report.Has(uid) {
		n.leave(p)
	} else {
		p.vanish(now)
	}
	n.changed()
	return outcome
}

// ForgetGone forgets the pods in flight that the API has not had for that long, and says whether
// there were any. It is for the moment at which the agent gives a sign of life: a pod that it does
// not list by then never reached the kubelet or has left it. Where there is no report, and may be
// no agent, it is for a time after which no kubelet comes upon a pod: its watch has told it, or was
// broken and begun again. Where there is no Node either, a short while is enough: nothing is
// decided before a Node and a report have come.
func (n *Node) ForgetGone(now time.Time, after time.Duration) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	forgotten := false
	for _, p := range n.pods {
		if p.gone && p.stage != reported && now.Sub(p.goneAt) >= after {
			n.leave(p)
			forgotten = true
		}
	}
	if !mayBeginAdmission(n.pods) {
		n.lingerers = lingerers{}
	}
	if forgotten {
		n.changed()
	}
	return forgotten
}
