package ledger

import (
	"cmp"
	"slices"
	"time"
)

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

// Glance is See for a pod that the ledger knows well: it says true when there is nothing to be
// learned.
func (n *Node) Glance(uid string, ending, mortal bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pods[uid]
	if p == nil || p.stage != reported && p.stage != posted ||
		p.ending() != ending || p.mortal != mortal || p.gone || p.suspect != nil || p.doubted() {
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
	if p.phase != Ended {
		// Deleted by force, which shows it ending just before, if at all: a kubelet has it end
		// first. It lets go of such a pod at once, although its containers run (HandlePodRemoves
		// and GetActivePods of pkg/kubelet), and before it admits pods that were bound earlier, if
		// its watch had broken.
		n.contend(uid)
	}
	if p.stage == reported && !n.report.Has(uid) {
		n.leave(p)
	} else {
		p.vanish(now)
	}
	n.changed()
	return outcome
}

// Accept takes a report in, whatever its sequence, and says how the promises turned out that it
// settles, by UID. The first one settles what was bound before we began and tells nothing: nobody
// knows what came between. That it is newer than the one before is for the caller to judge.
func (n *Node) Accept(r *Report) []PromiseOutcome {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !r.Model.Decides() {
		n.forgetHeld()
		if len(n.afloat()) > 0 || n.hasStrangers(r) {
			n.contend("")
		}
	}
	if n.hasNewcomers(r) {
		n.strangers = r.Sequence
	}
	admitted := slices.ContainsFunc(n.posted, func(p *pod) bool { return r.Has(p.uid) || slices.Contains(r.rejected, p.uid) })
	outcomes := append(n.settleListed(r), n.settleRejected(r)...)
	if !n.begun {
		outcomes = nil
	}
	n.findLingerers(r, admitted)
	n.report, n.begun = r, true
	n.concludeUnlisted()
	for _, p := range n.posted {
		p.underway = true
	}
	n.changed()
	slices.SortFunc(outcomes, func(a, b PromiseOutcome) int { return cmp.Compare(a.UID, b.UID) })
	return outcomes
}

// Withdraw says that there is no report that can be relied on. Pods that it listed, and that the
// API no longer has, are forgotten: the next report lists the ones that the kubelet still holds,
// and there need not be a next one.
func (n *Node) Withdraw() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.report, n.lingerers = nil, lingerers{}
	for _, p := range n.pods {
		if p.stage == reported && p.gone {
			n.leave(p)
		}
	}
	n.changed()
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
