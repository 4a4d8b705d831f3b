package ledger

import (
	"slices"

	"github.com/berth-dev/berth/placement"
)

// PromiseOutcome says how a promise turned out once a report listed the pod.
type PromiseOutcome struct {
	UID string
	// Exact says that CPUs, memory and devices were promised.
	Exact bool
	// Refused says that the kubelet refused the pod.
	Refused bool
	// Kept says that the node handed out what was promised.
	Kept bool
	// Contended says that a pod whose place in the order was not known was on its way at the same time, or turned up after
	// the decision, or that a pod of the node was ending before the Binding and the watch told of it after, so that a broken
	// promise is nobody's mistake.
	Contended bool
	// Promised and Found are the two sides.
	Promised placement.Decision
	Found    placement.PodAllocation
}

// Accept takes a newer report in and says how the promises turned out that it settles. An older one, and the same
// one again, is ignored. The first one settles what was bound before we began, and tells nothing: what came between is not known.
func (n *Node) Accept(r *Report) []PromiseOutcome {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.report != nil && r.Sequence <= n.report.Sequence {
		return nil
	}
	return n.accept(r)
}

// Replace takes a report in whatever its sequence: the object was deleted and made anew, or its spec changed.
func (n *Node) Replace(r *Report) []PromiseOutcome {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.accept(r)
}

// Withdraw says that there is no report that can be relied on. Pods that it listed, and that the API does not have any more, are
// forgotten: the next report lists those that the kubelet still holds, and there need not be a next one.
func (n *Node) Withdraw() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.report = nil
	for uid, p := range n.pods {
		if p.stage == landedStage && p.gone {
			delete(n.pods, uid)
		}
	}
	n.changed()
}

func (n *Node) accept(r *Report) []PromiseOutcome {
	if len(n.afloat()) > 0 || n.hasStrangers(r) {
		n.contend()
	}
	first := !n.begun
	n.report, n.begun = r, true
	var landings []PromiseOutcome
	newest := int64(0)
	for _, p := range n.pods {
		if !r.Has(p.uid) {
			continue
		}
		newest = max(newest, p.turn)
		l, told := p.land(r)
		switch {
		case !told || first:
		case l.Exact && !l.Kept && !l.Contended && !p.seen:
			p.suspect = &l // See tells
		default:
			landings = append(landings, l)
		}
	}
	for _, uid := range r.rejected {
		if p := n.pods[uid]; p != nil && p.promise != nil && !first {
			landings = append(landings, PromiseOutcome{UID: uid, Exact: p.promise.Exact, Refused: true, Contended: p.contended,
				Promised: p.promise.Decision})
		}
		n.forget(uid)
	}
	n.posted = slices.DeleteFunc(n.posted, landed)
	n.reserved = slices.DeleteFunc(n.reserved, landed)
	n.settle(newest)
	n.changed()
	return landings
}

// hasStrangers says whether a pod holds something that the report before did not tell of. Nobody
// has told of it, as the watch of pods can be later than that of reports. Or it held nothing: its
// kubelet had let go of it, forgot why when it was killed, and has admitted it anew
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

func landed(p *pod) bool { return p.stage == landedStage }

// settle draws conclusions about the pods that the report does not list. Pods that were listed once and are no more
// have left, or the kubelet has forgotten them for the moment: gone ones are forgotten, others are afloat. Pods that
// are gone, and whose Binding was written before one that has landed, are never going to land.
func (n *Node) settle(newest int64) {
	for uid, p := range n.pods {
		switch {
		case n.report.Has(uid):
		case p.stage == landedStage && p.gone, p.stage == postedStage && p.gone && p.turn < newest:
			delete(n.pods, uid)
			n.dropPosted(p)
		case p.stage == landedStage:
			p.stage = afloatStage
		}
	}
}

// land notes that the report lists the pod, and says how its promise turned out if that is known by
// that. A pod that is listed with nothing, or with part of what was promised, may have been
// released already, or be under way to that: the kubelet's managers let go one after the other. We
// are about to hear of its deletion then.
func (p *pod) land(r *Report) (l PromiseOutcome, told bool) {
	found, promise := r.pods[p.uid].alloc, p.promise
	again := promise == nil
	if again {
		promise = p.owed
	}
	p.stage, p.promise, p.owed, p.listed = landedStage, nil, nil, true
	if promise == nil {
		return l, false
	}
	l = PromiseOutcome{
		UID: p.uid, Exact: promise.Exact, Kept: Kept(&promise.Decision, &found), Contended: p.contended,
		Promised: promise.Decision, Found: found,
	}
	if l.Kept || !part(&promise.Decision, &found) {
		return l, true
	}
	if !again && !p.ending {
		p.owed = promise
	}
	return l, again && !p.ending
}

// Kept says whether the node handed out what was promised. Containers that hold nothing need not be
// listed. Memory of init containers that have finished is freed before anyone looks: it is not compared.
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
		var c placement.ContainerDecision
		if k := slices.IndexFunc(d.Containers, func(c placement.ContainerDecision) bool { return c.Name == f.Name }); k >= 0 {
			c = d.Containers[k]
		}
		if !(f.CPUs.IsEmpty() || f.CPUs == c.CPUs) || !(len(f.Memory) == 0 || slices.Equal(f.Memory, c.Memory)) ||
			!(len(f.Devices) == 0 || slices.EqualFunc(f.Devices, c.Devices, sameDevices)) {
			return false
		}
	}
	return true
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
