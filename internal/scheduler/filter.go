package scheduler

import (
	"cmp"
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	dra "github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/gang"
	"github.com/berth-dev/berth/internal/suppose"
	"github.com/berth-dev/berth/internal/wire"
)

// PreFilter parses the pod and chooses the way that handles it. It skips pods about which Berth
// decides nothing.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	switch {
	case p.lacksSteerer(pod):
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, noSteerer)
	case gang.InTrial(state):
		return nil, p.preFilterInTrial(state, pod)
	}
	p.core.tellIgnored(pod)
	if wire.InGang(pod) {
		return p.preFilterMember(ctx, state, pod)
	}
	return p.preFilterAlone(ctx, state, pod)
}

// preFilterAlone is PreFilter for a pod that is not planned with a gang now.
func (p *Plugin) preFilterAlone(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status) {
	from, heldOn := p.core.reservations.Open(pod)
	if status := p.core.onlyHeld(ctx, pod, from); status != nil {
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
	if from == "" && !ask.Request.Pinnable() && (!p.core.table.Obeying() && !ask.Request.Rules.CountsNUMANodes() || state.IsPodGroupSchedulingCycle()) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if ask.RulesErr != nil {
		podsRefused.WithLabelValues("policy").Inc()
		return nil, unreadable(ask.RulesErr)
	}
	c := p.cycleFor(pod, &ask)
	if err := c.choose(state, pod, from, heldOn); err != nil {
		return nil, fwk.AsStatus(err)
	}
	state.Write(cycleKey, c)
	why := p.core.notYet(ctx)
	if g, ok := c.way.(*inGroup); ok {
		why = cmp.Or(why, g.spares(p.core))
	}
	switch {
	case why != "":
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
	case from != "":
		return &fwk.PreFilterResult{NodeNames: sets.New(heldOn)}, nil
	}
	return nil, nil
}

// choose sets the way of a pod that has no planned node. The parameter from is the UID of the pod's
// Reservation, and heldOn is the node of the Reservation. Both are "" for a pod without a
// Reservation.
func (c *cycle) choose(state fwk.CycleState, pod *corev1.Pod, from, heldOn string) (err error) {
	switch {
	case state.IsPodGroupSchedulingCycle():
		c.way, err = c.plugin.joinTrial(state, pod)
	case from != "":
		o := &owner{from: from, heldOn: heldOn}
		c.query.Candidate.Request = c.query.Candidate.Request.Settled() // the pod uses held resources
		o.wait(c, pod)
		c.way = o
	default:
		a := &alone{}
		a.wait(c, pod)
		c.query.Share(c.plugin.profile)
		c.way = a
	}
	return err
}

// preFilterMember plans the gang of the pod, or finds the pod's planned node.
func (p *Plugin) preFilterMember(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status) {
	if status := p.core.onlyHeld(ctx, pod, ""); status != nil {
		return nil, status
	}
	state.Write(cycleKey, &cycle{plugin: p, way: &gangMember{}})
	if why := p.core.notYet(ctx); why != "" {
		if ask, err := p.read(pod); err == nil {
			new(alone).wait(p.cycleFor(pod, &ask), pod) // otherwise nothing would wake the pod
		}
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
	}
	p.core.waiters.Done(uidOf(pod))
	turn := p.core.gangs.PreFilter(ctx, p.gangProfile(), pod)
	switch {
	case turn.Held != nil:
		return nil, turn.Held
	case turn.Node == "":
		state.Delete(cycleKey)
		return p.preFilterAlone(ctx, state, pod)
	}
	ask, err := p.read(pod)
	if err != nil {
		return nil, unreadable(err)
	}
	c := p.cycleFor(pod, &ask)
	c.way = &gangMember{node: turn.Node}
	state.Write(cycleKey, c)
	return &fwk.PreFilterResult{NodeNames: sets.New(turn.Node)}, nil
}

// preFilterInTrial is PreFilter for a gang's trial. It has no side effects.
func (p *Plugin) preFilterInTrial(state fwk.CycleState, pod *corev1.Pod) *fwk.Status {
	ask, err := p.read(pod)
	switch {
	case err != nil:
		return unreadable(err)
	case !ask.Request.Pinnable():
		return nil
	case ask.RulesErr != nil:
		return unreadable(ask.RulesErr)
	}
	state.Write(cycleKey, p.cycleFor(pod, &ask))
	return nil
}

// read parses the request of a pod according to the profile's arguments.
func (p *Plugin) read(pod *corev1.Pod) (wire.Ask, error) {
	return p.readBy(p.core.pods.read, pod)
}

// readBy parses the pod with the given function, which is wire.ReadPending or a cache of it, and
// applies the profile's arguments to the result.
func (p *Plugin) readBy(read func(*corev1.Pod) (wire.Ask, error), pod *corev1.Pod) (wire.Ask, error) {
	ask, err := read(pod)
	if ask.Claims == dra.Free && p.args.Claims != "" && dra.MayClaim(pod) {
		ask.Claims, _ = dra.ParseMode(p.args.Claims)
	}
	p.terms.Impose(pod.Namespace, &ask.Request.Rules)
	return ask, err
}

// cycleFor returns the state of a new attempt. Its way is alone until the caller sets another way.
func (p *Plugin) cycleFor(pod *corev1.Pod, ask *wire.Ask) *cycle {
	c := &cycle{
		way: &alone{}, pod: pod, ask: ask, plugin: p, began: p.core.clock.Now(), unpinned: !ask.Request.Pinnable(),
		query: p.profile.Begin(p.core.table.Candidate(pod, &ask.Request), pod.Status.NominatedNodeName),
	}
	if ask.Claims != dra.Free {
		c.kept = new(kept)
	}
	return c
}

// PreFilterExtensions returns the plugin. Its AddPod and RemovePod are called for preemption and
// nominated pods.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod adds a pod to a node in the cycle's state.
func (p *Plugin) AddPod(_ context.Context, state fwk.CycleState, _ *corev1.Pod, add fwk.PodInfo, n fwk.NodeInfo) *fwk.Status {
	pod := add.GetPod()
	c := cycleOf(state)
	if c == nil || !p.counts(pod, n) || gang.MateInTrial(state, pod.UID) {
		return nil
	}
	if g, ok := c.way.(*inGroup); ok && g.placed[pod.UID] != nil {
		return nil // a member that was tried already has its place
	}
	on, added := p.core.table.Of(n.Node()), &suppose.Pod{UID: uidOf(pod)}
	if assumed := c.assumed(on); !assumed.Without(added.UID) { // otherwise the pod need not be parsed
		ask, err := p.read(pod)
		if err != nil || !ask.Request.Pinnable() && !on.Obeys() {
			return nil
		}
		added.Candidate = &ledger.Candidate{Request: ask.Request.Settled()}
	}
	c.assume().At(on).Put(added)
	return nil
}

// RemovePod removes a pod from a node in the cycle's state.
func (p *Plugin) RemovePod(_ context.Context, state fwk.CycleState, toPlace *corev1.Pod, remove fwk.PodInfo, n fwk.NodeInfo) *fwk.Status {
	pod := remove.GetPod()
	c := cycleOf(state)
	if c == nil || !p.counts(pod, n) || gang.MateInTrial(state, pod.UID) {
		return nil
	}
	c.take(toPlace, pod, p.core.table.Of(n.Node()))
	return nil
}

// counts reports whether a pod may have pinned resources on the node.
func (p *Plugin) counts(pod *corev1.Pod, info fwk.NodeInfo) bool {
	return wire.MightPin(pod) || wire.HasPlacement(pod) || p.core.table.Of(info.Node()).Obeys()
}
