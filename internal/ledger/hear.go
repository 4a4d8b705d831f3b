package ledger

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-dev/berth/placement"
)

// See records the API's view of a bound pod. changed reports whether the node's states may have
// changed. outcome is the result of the pod's promise if it is now known, otherwise nil.
func (n *Node) See(s Sighting) (changed bool, outcome *PromiseOutcome) {
	o := n.lock()
	defer n.mu.Unlock()
	outcome = o.facts.pods.settleSuspect(s.UID)
	if changed = o.facts.see(&s); changed {
		o.changed()
	}
	if p := o.facts.pods.byUID[s.UID]; p != nil && s.Phase == Ended {
		o.facts.pods.noteEnd(p)
	}
	return changed, outcome
}

// Glimpse is the part of a Sighting that can be read without translating the pod to a Request.
type Glimpse struct {
	UID                   string
	Ending, Ended, Mortal bool
	// Generation counts the decisions about the pod, as Sighting.Generation does.
	Generation uint64
	// Asks reports whether the pod asks for the same amounts as a request.
	Asks func(*placement.Request) bool
}

// Glance is a fast check before See. If See would only note that the API has shown the pod, Glance
// notes this and returns true.
func (n *Node) Glance(g Glimpse) bool {
	o := n.lock()
	defer n.mu.Unlock()
	f := &o.facts
	p := f.pods.byUID[g.UID]
	if p == nil || p.stage != reported && p.stage != posted ||
		p.ending() != g.Ending || g.Ended && p.phase < Ended && f.witnessing || p.mortal != g.Mortal || p.gone || p.suspect != nil || p.doubted() {
		return false
	}
	if f.decides() && max(g.Generation, 1) > max(p.generation, 1) || !f.decides() && !g.Asks(p.req) {
		return false
	}
	p.shown = true
	return true
}

// Gone records that the API no longer has the pod, at the time now. The node keeps the pod's
// resources until a report no longer lists it. ForgetGone later removes a pod that the last report
// does not list. Gone returns an outcome as See does.
func (n *Node) Gone(uid string, now time.Time) (outcome *PromiseOutcome) {
	o := n.lock()
	defer n.mu.Unlock()
	f := &o.facts
	outcome = f.pods.settleSuspect(uid)
	p := f.pods.byUID[uid]
	if p == nil || p.gone {
		return outcome
	}
	if p.phase != Ended {
		// The pod was deleted by force: otherwise the API would have shown its end much earlier.
		// The kubelet releases such a pod at once, although its containers still run
		// (HandlePodRemoves and GetActivePods of pkg/kubelet). If the kubelet's watch was broken,
		// the kubelet even releases the pod before it admits pods that were bound earlier.
		f.pods.contend(uid)
	}
	if p.stage == reported && !f.report.Has(uid) {
		f.pods.leave(p)
	} else {
		p.vanish(now)
		f.pods.noteEnd(p)
	}
	o.changed()
	return outcome
}

// Accept records a report and returns the outcomes of the promises that it settles, sorted by UID.
// For the node's first report it returns no outcomes, because the ledger does not know the earlier
// events. The caller must check that the report is newer than the last one.
func (n *Node) Accept(r *Report) []PromiseOutcome {
	o := n.lock()
	defer n.mu.Unlock()
	f := &o.facts
	if !r.Model.Decides() {
		f.pods.forgetHeld()
		if len(f.pods.afloat()) > 0 || f.hasStrangers(r) {
			f.pods.contend("")
		}
	}
	if f.hasNewcomers(r) {
		f.pods.strangers = r.Sequence
	}
	admitted := slices.ContainsFunc(f.pods.posted, func(p *pod) bool { return r.Has(p.uid) || slices.Contains(r.rejected, p.uid) })
	outcomes := append(f.settleListed(r), f.settleRejected(r)...)
	if !f.begun {
		outcomes = nil
	}
	f.findLingerers(r, admitted)
	f.report, f.begun = r, true
	f.concludeUnlisted()
	for _, p := range f.pods.posted {
		p.underway = true
	}
	o.changed()
	slices.SortFunc(outcomes, func(a, b PromiseOutcome) int { return cmp.Compare(a.UID, b.UID) })
	return outcomes
}

// Withdraw records that the node has no usable report. It removes pods that the last report listed
// and that have left the API, because there may never be another report that shows their end.
func (n *Node) Withdraw() {
	o := n.lock()
	defer n.mu.Unlock()
	f := &o.facts
	f.report, f.lingerers = nil, lingerers{}
	for _, p := range f.pods.byUID {
		if p.stage == reported && p.gone {
			f.pods.leave(p)
		}
	}
	o.changed()
}

// ForgetGone removes the pods in flight that left the API no later than now minus after, and
// reports whether there were any. Call it when the agent has reported or renewed its Lease. If the
// agent does not list a pod by then, the pod never reached the kubelet or has left it. If the node
// has no report, after must be so long that the kubelet's watch has certainly delivered the
// deletion. If the Node object is missing, a short time is enough, because the scheduler places no
// pods before the Node and a report exist.
func (n *Node) ForgetGone(now time.Time, after time.Duration) bool {
	o := n.lock()
	defer n.mu.Unlock()
	f := &o.facts
	forgotten := false
	for _, p := range f.pods.byUID {
		if p.gone && p.stage != reported && now.Sub(p.goneAt) >= after {
			f.pods.leave(p)
			forgotten = true
		}
	}
	if !mayBeginAdmission(f.pods.byUID) {
		f.lingerers = lingerers{}
	}
	if forgotten {
		o.changed()
	}
	return forgotten
}
