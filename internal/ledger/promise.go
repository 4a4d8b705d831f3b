package ledger

import (
	"cmp"
	"slices"

	"github.com/berth-dev/berth/placement"
)

// Promise is the decision that a Binding carried.
type Promise struct {
	Decision placement.Decision
	// Exact says that CPUs, memory and devices were promised, not only the admission.
	Exact bool
}

// PromiseOutcome says how a promise turned out once a report listed the pod.
type PromiseOutcome struct {
	UID string
	// Exact says that CPUs, memory and devices were promised.
	Exact bool
	// Refused says that the kubelet refused the pod.
	Refused bool
	// Kept says that the node handed out what was promised.
	Kept bool
	// Contended says that a broken promise is nobody's mistake. A pod whose place in the order was
	// not known was on its way at the same time, or turned up after the decision. Or a pod of the
	// node was ending before the Binding, and the watch showed that after.
	Contended bool
	// Promised and Found are the two sides.
	Promised placement.Decision
	Found    placement.PodAllocation
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
			n.contend()
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

// forgetHeld is for a node on which a kubelet decides.
func (n *Node) forgetHeld() {
	for _, p := range n.pods {
		p.held, p.displaced = nil, ""
	}
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

// hasStrangers says whether a pod holds something that the report before did not list. Nobody has
// reported it, as the watch of pods can be later than that of reports. Or it held nothing: its
// kubelet had let go of it, forgot why when it was killed, and has admitted it again
// (docs/kubelet-defects.md).
func (n *Node) hasStrangers(r *Report) bool {
	for uid := range r.pods {
		if !r.pods[uid].holds {
			continue
		}
		if n.pods[uid] == nil && !n.report.Has(uid) || n.report.Has(uid) && !n.report.pods[uid].holds {
			return true
		}
	}
	return false
}

// hasNewcomers says whether the report is the first to list a pod that has no turn, or that the API
// has not shown.
func (n *Node) hasNewcomers(r *Report) bool {
	for uid := range r.pods {
		if p := n.pods[uid]; !n.report.Has(uid) && r.pods[uid].holds && (p == nil || p.turn == 0) {
			return true
		}
	}
	return false
}

// settleListed settles the promises of the pods that the report lists.
func (n *Node) settleListed(r *Report) []PromiseOutcome {
	var outcomes []PromiseOutcome
	for _, p := range n.pods {
		if !r.Has(p.uid) {
			continue
		}
		n.become(p, reported)
		o, settled := p.settlePromise(r)
		if !n.begun {
			p.unconfirmed = nil
		}
		switch {
		case !settled || !n.begun:
		case o.Exact && !o.Kept && !o.Contended && !p.shown:
			p.suspect = &o // See tells
		default:
			outcomes = append(outcomes, o)
		}
	}
	return outcomes
}

// settleRejected settles the promises of the pods that the kubelet has refused, and forgets the
// pods.
func (n *Node) settleRejected(r *Report) []PromiseOutcome {
	var outcomes []PromiseOutcome
	for _, uid := range r.rejected {
		p := n.pods[uid]
		if p == nil {
			continue
		}
		if p.promise != nil {
			outcomes = append(outcomes, PromiseOutcome{
				UID: uid, Exact: p.promise.Exact, Refused: true, Contended: p.contended, Promised: p.promise.Decision,
			})
		}
		n.leave(p)
	}
	return outcomes
}

// concludeUnlisted draws conclusions about the pods that the report does not list. Pods that were
// listed once have left, or the kubelet has forgotten them for the moment: gone ones are forgotten,
// others are afloat. A pod that is gone, and whose Binding was written before that of a listed one,
// is never going to be listed.
func (n *Node) concludeUnlisted() {
	var newest int64
	for _, p := range n.pods {
		if p.stage == reported && n.report.Has(p.uid) {
			newest = max(newest, p.turn)
		}
	}
	for _, p := range n.pods {
		switch {
		case n.report.Has(p.uid):
		case p.over && n.decides():
			n.leave(p)
		case p.gone && (p.stage == reported || p.stage == posted && p.turn < newest && !n.decides()):
			n.leave(p)
		case p.stage == reported:
			n.become(p, afloat)
		}
	}
}

// settlePromise says how the promise of a listed pod turned out, if that is known by this report. A
// pod that is listed with nothing, or with part of what was promised, may have been released
// already, or be under way to that: the kubelet's managers let go one after the other. We are about
// to hear of its deletion then, except for one that ends by itself while its kubelet cannot reach
// the API: nobody may ever hear of its end, and it is judged by what it has, or not at all.
func (p *pod) settlePromise(r *Report) (o PromiseOutcome, settled bool) {
	shown, promise := r.pods[p.uid].alloc, p.promise
	again := promise == nil
	if again {
		promise = p.unconfirmed
	}
	p.promise, p.unconfirmed = nil, nil
	if promise == nil {
		return o, false
	}
	o = PromiseOutcome{
		UID: p.uid, Exact: promise.Exact, Contended: p.contended,
		Promised: promise.Decision, Found: shown,
	}
	if r.Model.Decides() {
		o.Kept = Obeyed(&promise.Decision, &shown)
		return o, true
	}
	o.Kept = Kept(&promise.Decision, &shown)
	if o.Kept || !part(&promise.Decision, &shown) {
		return o, true
	}
	judged := again && !p.ending && !p.mortal
	if !judged && !p.ending {
		p.unconfirmed = promise
	}
	return o, judged
}

// Kept says whether the node handed out what was promised. Containers that hold nothing need not be
// listed. Memory of init containers that have finished is freed before anyone looks, so it is not
// compared.
func Kept(d *placement.Decision, found *placement.PodAllocation) bool {
	for i := range d.Containers {
		c := &d.Containers[i]
		if !keptContainer(c, containerOf(found, c.Name)) {
			return false
		}
	}
	return true
}

// part says whether nothing was found but what was promised, all of a kind or none of it.
func part(d *placement.Decision, found *placement.PodAllocation) bool {
	for i := range found.Containers {
		f := &found.Containers[i]
		c := decisionOf(d, f.Name)
		if !(f.CPUs.IsEmpty() || f.CPUs == c.CPUs) ||
			!(len(f.Memory) == 0 || slices.Equal(f.Memory, c.Memory)) ||
			!(len(f.Devices) == 0 || slices.EqualFunc(f.Devices, c.Devices, sameDevices)) {
			return false
		}
	}
	return true
}

func decisionOf(d *placement.Decision, container string) placement.ContainerDecision {
	for i := range d.Containers {
		if d.Containers[i].Name == container {
			return d.Containers[i]
		}
	}
	return placement.ContainerDecision{}
}

func keptContainer(c *placement.ContainerDecision, f placement.ContainerAllocation) bool {
	if c.CPUs != f.CPUs || !slices.EqualFunc(c.Devices, f.Devices, sameDevices) {
		return false
	}
	return c.Kind == placement.Init || slices.Equal(c.Memory, f.Memory)
}

func containerOf(p *placement.PodAllocation, name string) placement.ContainerAllocation {
	for i := range p.Containers {
		if p.Containers[i].Name == name {
			return p.Containers[i]
		}
	}
	return placement.ContainerAllocation{}
}

// Same says whether two decisions hand out the same CPUs, memory and devices.
func Same(a, b *placement.Decision) bool {
	return slices.EqualFunc(a.Containers, b.Containers, func(x, y placement.ContainerDecision) bool {
		return x.CPUs == y.CPUs && slices.Equal(x.Memory, y.Memory) &&
			slices.EqualFunc(x.Devices, y.Devices, sameDevices)
	})
}

func sameDevices(x, y placement.DeviceAllocation) bool {
	return x.Resource == y.Resource && slices.Equal(x.IDs, y.IDs)
}
