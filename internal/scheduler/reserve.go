package scheduler

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/scheduler/wake"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// Reserve decides on the current state of the node and takes the pod in.
func (p *Plugin) Reserve(_ context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	c := cycleOf(state)
	if c == nil {
		return p.reserveUnpinned(state, pod, nodeName)
	}
	if c.planned != "" {
		return p.reservePlanned(c, pod, nodeName)
	}
	n := p.core.table.Named(nodeName)
	if c.unpinned && p.passes(c, n) {
		c.untouched = true
		if c.from != "" {
			p.core.reservations.Took(pod)
		}
		p.core.waiters.Done(uidOf(pod))
		return nil
	}
	if why := p.core.table.Unusable(n); why != nil {
		return c.refuse(fwk.NewStatus(fwk.Unschedulable, why.Text))
	}
	if c.from != "" {
		return p.reserveOwner(c, pod, n)
	}
	if c.member.try(state) {
		return p.reserveInGroup(c, pod, n)
	}
	if g := c.member.group; g != nil && p.broken(g) {
		return fwk.NewStatus(fwk.Unschedulable, lostMate)
	}
	if c.betterFor = p.better(c, pod, n); c.betterFor > 0 {
		verdicts.WithLabelValues("Reserve", ledger.Waiting.String(), "BetterNode").Inc()
		return c.refuse(fwk.NewStatus(fwk.Pending, waitBetter))
	}
	var d placement.Decision
	a := n.Account().Reserve(&c.query.Candidate, &d)
	verdicts.WithLabelValues("Reserve", a.Outcome.String(), reasonOf(&a)).Inc()
	if status := c.status(nodes.Pack(0, &a), false); status != nil {
		c.again = p.core.table.Large()
		return c.refuse(status)
	}
	if status := p.writable(pod, n, &d); status != nil {
		return status
	}
	c.number = p.core.reserved.Add(1)
	p.core.delays.is(pod.UID, inBinding)
	if c.member.group != nil {
		p.core.delays.is(pod.UID, forMates)
		p.core.pauses.waits.end(c.member.group.key())
		p.core.pauses.placed(pod)
	}
	p.core.waiters.Done(uidOf(pod))
	if left := pod.Status.NominatedNodeName; left != "" && left != nodeName {
		// What was kept for it there is free, and no event says so.
		if n := p.core.table.Known(left); n != nil {
			p.core.waiters.NodeReturned(n.Account())
		}
		p.core.gangs.Stir()
	}
	return nil
}

// betterPatience is how often its patience a pod waits for better nodes in all. Pods of one second
// often come to a node one for each report, so that the last of a burst waits for several.
const betterPatience = 5

// better returns for how long the pod still leaves the node for another that merely waits, and that
// would likely take it on fewer NUMA nodes or leave more devices their CPUs; 0 where it takes what
// it can have.
func (p *Plugin) better(c *cycle, pod *corev1.Pod, n *nodes.Node) time.Duration {
	if c.waiting == nil || c.member.group != nil || c.query.Better(n, c.waiting.list) == nil {
		return 0
	}
	since := p.core.waiters.Tempted(uidOf(pod))
	return max(0, betterPatience*p.args.Patience.Duration-p.core.clock.Now().Sub(since))
}

// writable says whether the decision can be written. Bind would be too late to find out: plugins
// before it may tie the pod to the node, as its volumes do.
func (p *Plugin) writable(pod *corev1.Pod, n *nodes.Node, d *placement.Decision) *fwk.Status {
	check := wire.CheckPlacement
	if n.Obeys() {
		check = wire.CheckOwnPlacement
	}
	if err := check(pod, d); err != nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Berth cannot write the placement: "+err.Error())
	}
	return nil
}

// refuse notes that it is the node which refuses the pod.
func (c *cycle) refuse(status *fwk.Status) *fwk.Status {
	c.refused = true
	return status
}

// Unreserve takes a pod back whose Binding was not written. A pod whose Binding may have been
// written stays. If the node refused, the pod waits for nodes: what kept it off may end before its
// back-off does. If something else refused, its back-off counts, and no node cuts it short.
func (p *Plugin) Unreserve(_ context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) {
	defer p.unreserveMember(pod)
	c := cycleOf(state)
	if c != nil && c.from != "" {
		defer p.core.reservations.GaveBack(pod, c.from)
	}
	if c == nil || c.untouched {
		return
	}
	n := p.core.table.Named(nodeName)
	if c.member.try(state) {
		c.unreserveInGroup(pod, n)
		return
	}
	n.Account().Forget(uidOf(pod))
	if !c.refused {
		p.core.waiters.Done(uidOf(pod))
	}
	if c.betterFor == 0 { // else the node was not even asked
		p.core.waiters.NodeChanged(n.Account()) // before the pod waits too: it would be woken for its own place
		p.core.gangs.Stir()
	}
	if c.member.group != nil {
		p.loseMate(c.member.group)
		return // its back-off counts
	}
	if !c.refused || c.planned != "" {
		return
	}
	p.core.waiters.Add(waiterOf(pod), &c.query.Candidate)
	p.core.waiters.Tried(uidOf(pod))
	p.forgetIfGone(pod)
	p.tryAgain(pod, c)
}

// tryAgain wakes a pod that the node has refused in Reserve or Bind. Filter found nodes that take
// it, and nothing need change about those for it to have one of them.
func (p *Plugin) tryAgain(pod *corev1.Pod, c *cycle) {
	switch {
	case c.again:
		p.core.waiters.WakeOne(uidOf(pod))
		return
	case c.betterFor > 0: // a report of the better node wakes it before
		p.core.waiters.WakeOneAfter(c.betterFor, uidOf(pod))
		return
	}
	p.core.waiters.WakeOneAfter(wake.RoundPause, uidOf(pod))
}
