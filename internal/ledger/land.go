package ledger

import (
	"slices"

	"github.com/berth-dev/berth/placement"
)

// Landing says how a promise turned out once a report listed the pod.
type Landing struct {
	UID string
	// Exact says that CPUs, memory and devices were promised.
	Exact bool
	// Refused says that the kubelet refused the pod.
	Refused bool
	// Kept says that the node handed out what was promised.
	Kept bool
	// Contended says that a pod whose place in the order was not known was on its way at the same time, so that a
	// broken promise is nobody's mistake.
	Contended bool
	// Promised and Found are the two sides.
	Promised placement.Decision
	Found    placement.PodAllocation
}

// Accept takes a newer report in and says how the promises turned out that it settles. An older one, and the same
// one again, is ignored.
func (n *Node) Accept(r *Report) []Landing {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.report != nil && r.Sequence <= n.report.Sequence {
		return nil
	}
	return n.accept(r)
}

// Replace takes a report in whatever its sequence: the object was deleted and made anew, or its spec changed.
func (n *Node) Replace(r *Report) []Landing {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.accept(r)
}

// Withdraw says that there is no report that can be relied on.
func (n *Node) Withdraw() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.report = nil
	n.changed()
}

func (n *Node) accept(r *Report) []Landing {
	contended := len(n.afloat()) > 0
	n.report = r
	var landings []Landing
	newest := int64(0)
	for _, p := range n.pods {
		if !r.Has(p.uid) {
			continue
		}
		newest = max(newest, p.turn)
		if p.promise != nil {
			landings = append(landings, p.landing(r, contended))
		}
		p.stage, p.promise = landedStage, nil
	}
	for _, uid := range r.rejected {
		if p := n.pods[uid]; p != nil && p.promise != nil {
			landings = append(landings, Landing{UID: uid, Exact: p.promise.Exact, Refused: true, Contended: contended,
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

func (p *pod) landing(r *Report, contended bool) Landing {
	found := r.pods[p.uid].alloc
	return Landing{
		UID: p.uid, Exact: p.promise.Exact, Kept: kept(&p.promise.Decision, &found), Contended: contended,
		Promised: p.promise.Decision, Found: found,
	}
}

// kept says whether the node handed out what was promised. Containers that hold nothing need not be listed; memory of
// init containers that have finished is freed before anyone looks, so it is not compared.
func kept(d *placement.Decision, found *placement.PodAllocation) bool {
	for i := range d.Containers {
		c := &d.Containers[i]
		if !keptContainer(c, containerOf(found, c.Name)) {
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
