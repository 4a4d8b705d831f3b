package scheduler

import (
	"cmp"
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/gang"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/suppose"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// PreFilter translates the pod. Pods for which no kubelet pins anything are skipped.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if wire.InGang(pod) {
		return p.preFilterMember(ctx, state, pod)
	}
	if gang.InTrial(state) { // a pod of no gang, for which others may be evicted
		return nil, p.preFilterInTrial(state, pod)
	}
	if state.IsPodGroupSchedulingCycle() {
		p.core.pauses.tried(pod)
	}
	p.tellIgnored(pod)
	return p.preFilterAlone(ctx, state, pod)
}

// preFilterAlone is PreFilter for pods that wait for no others.
func (p *Plugin) preFilterAlone(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status) {
	from, heldOn := p.core.reservations.Open(pod)
	if status := p.onlyHeld(ctx, pod, from); status != nil {
		return nil, status
	}
	if from == "" && !wire.MightPin(pod) && !wire.MayCountNUMANodes(pod) && !p.core.table.Obeying() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	ask, err := p.read(pod)
	if err != nil {
		podsRefused.WithLabelValues("request").Inc()
		return nil, unreadable(err)
	}
	unpinned := !ask.Request.Pinnable()
	if from == "" && unpinned && (!p.core.table.Obeying() && !ask.Request.Rules.CountsNUMANodes() || state.IsPodGroupSchedulingCycle()) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if ask.RulesErr != nil {
		podsRefused.WithLabelValues("policy").Inc()
		return nil, unreadable(ask.RulesErr)
	}
	c := p.cycleFor(pod, &ask)
	c.unpinned, c.from, c.heldOn = unpinned, from, heldOn
	if state.IsPodGroupSchedulingCycle() {
		err = p.joinTrial(c, state, pod)
	} else {
		p.waitForNodes(c, pod)
	}
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	state.Write(cycleKey, c)
	if why := cmp.Or(p.core.notYet(ctx), p.spares(&c.member)); why != "" {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
	}
	if from != "" {
		return &fwk.PreFilterResult{NodeNames: sets.New(heldOn)}, nil
	}
	return nil, nil
}

// read translates a pod to place, as the profile's arguments have it.
func (p *Plugin) read(pod *corev1.Pod) (wire.Ask, error) {
	ask, err := p.args.ExclusiveNamespaces.ReadPod(pod)
	if err == nil && p.args.BestEffortAnywhere {
		ask.Request.Rules = wire.BestEffortAnywhere(ask.Request.Rules)
	}
	return ask, err
}

func unreadable(err error) *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Berth cannot read the pod: "+err.Error())
}

// cycleFor returns what the plugin keeps of an attempt to place a pod.
func (p *Plugin) cycleFor(pod *corev1.Pod, ask *wire.Ask) *cycle {
	return &cycle{plugin: p, began: p.core.clock.Now(), said: ask.Said, query: p.profile.Begin(p.core.table.Candidate(pod, &ask.Request), pod.Status.NominatedNodeName)}
}

// waitForNodes makes the pod wait for nodes from the begin of its attempt on. Members of a group do
// not: kube-scheduler tries them again when their back-off ends.
func (p *Plugin) waitForNodes(c *cycle, pod *corev1.Pod) {
	c.patientUntil = p.core.waiters.Add(waiterOf(pod), &c.query.Candidate).Add(p.args.Patience.Duration)
	p.forgetIfGone(pod)
	c.patient = p.core.clock.Now().Before(c.patientUntil)
	if p.args.Patience.Duration > 0 && pod.Status.NominatedNodeName == "" {
		c.waiting = &waitingNodes{}
	}
}

// PreFilterExtensions returns the plugin: dry runs of preemption and nominated pods are trials.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod assumes that a pod is on the node.
func (p *Plugin) AddPod(_ context.Context, state fwk.CycleState, _ *corev1.Pod, add fwk.PodInfo, n fwk.NodeInfo) *fwk.Status {
	pod := add.GetPod()
	c := cycleOf(state)
	if c == nil || !p.counts(pod, n) || gang.MateInTrial(state, pod.UID) ||
		c.member.group != nil && c.member.group.placed[pod.UID] != nil {
		return nil // a mate that is tried has its place already
	}
	on, added := p.core.table.Of(n.Node()), &suppose.Pod{UID: uidOf(pod)}
	if assumed := c.assumed(on); !assumed.Without(added.UID) { // else it need not be read
		ask, err := p.read(pod)
		if err != nil || !ask.Request.Pinnable() && !on.Obeys() {
			return nil
		}
		added.Candidate = &ledger.Candidate{Request: &ask.Request}
	}
	c.assume().At(on).Put(added)
	return nil
}

// RemovePod assumes that a pod is not on the node.
func (p *Plugin) RemovePod(_ context.Context, state fwk.CycleState, toPlace *corev1.Pod, remove fwk.PodInfo, n fwk.NodeInfo) *fwk.Status {
	pod := remove.GetPod()
	c := cycleOf(state)
	if c == nil || !p.counts(pod, n) || gang.MateInTrial(state, pod.UID) {
		return nil
	}
	c.take(toPlace, pod, p.core.table.Of(n.Node()))
	return nil
}

// Filter asks the node for its verdict. It changes nothing. Once the attempt has ended, as when
// enough other nodes take the pod, it asks nothing any more. It says that without an error: that
// would end the attempt of others, and nobody looks at what the node said.
func (p *Plugin) Filter(ctx context.Context, state fwk.CycleState, _ *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
	c := cycleOf(state)
	if c == nil {
		return filterUnpinned(state, info)
	}
	if c.planned != "" {
		return p.filterPlanned(c.planned, info)
	}
	n := p.core.table.Of(info.Node())
	switch {
	case c.from != "":
		return p.filterOwner(c, n)
	case c.unpinned && p.passes(c, n):
		return nil
	}
	if c.member.group == nil && c.dry == nil {
		if a, ok := c.query.Recall(n); ok {
			return c.say(n, a)
		}
	}
	if ctx.Err() != nil {
		return fwk.NewStatus(fwk.Unschedulable, attemptEnded)
	}
	if why := p.core.table.Unusable(n); why != nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why.Text)
	}
	if why := n.Unmet(c.query.Candidate.Request); why != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, c.said.In(wire.OfNodes(why)))
	}
	switch {
	case c.member.group != nil:
		return p.filterGroup(c, n, info)
	case c.dry != nil:
		return p.suppose(c, n, info)
	}
	return c.say(n, c.query.Ask(n))
}

// attemptEnded is the answer for nodes that were not asked.
const attemptEnded = "the attempt to place the pod has ended"

// say says a node's answer in the framework's words, and notes that the node waits.
func (c *cycle) say(n *nodes.Node, a nodes.PackedAnswer) *fwk.Status {
	if a.Kind() == nodes.Takes {
		return nil // which is what is said most
	}
	status := c.status(a, c.patient)
	if status.Code() == fwk.Pending {
		c.waiting.add(n)
	}
	return status
}

// passes says whether a pod for which no kubelet pins anything is nothing to Berth on the node: a
// kubelet decides there; or the node cannot be relied on, and the pod wants nothing in particular.
// Such a pod runs on what is shared there. One of them is the agent that the node waits for. A pod
// that wants so many NUMA nodes, or whole ones, is told that the kubelet does not see to that.
func (p *Plugin) passes(c *cycle, n *nodes.Node) bool {
	return !n.Obeys() && !c.query.Candidate.Request.Rules.CountsNUMANodes() || c.query.Candidate.Request.Rules == (placement.Rules{}) && p.core.table.Unusable(n) != nil
}

// counts says whether a pod might hold anything on the node.
func (p *Plugin) counts(pod *corev1.Pod, info fwk.NodeInfo) bool {
	return wire.MightPin(pod) || wire.HasPlacement(pod) || p.core.table.Of(info.Node()).Obeys()
}

// suppose asks the node under the cycle's assumptions. In a dry run nobody is patient.
func (p *Plugin) suppose(c *cycle, n *nodes.Node, info fwk.NodeInfo) *fwk.Status {
	a := c.askWithoutSome(n, info)
	if a.Outcome == ledger.Waiting {
		p.core.waiters.BlameToo(c.query.Candidate.Request.UID, n.Account())
	}
	return c.status(nodes.Pack(0, &a), false)
}
