package scheduler

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/rank"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/scheduler/wake"
	"github.com/berth-dev/berth/internal/suppose"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// groupTrial is the progress of Kubernetes' own group cycle (feature gate GenericWorkload).
//
// That cycle tries the members one after the other, reserves each, and unreserves all of them
// before it commits. So during the trial, members are reserved on forks of the accounts, where no
// other pod sees them or wakes up for them. The commit reserves again, on the accounts, in the
// order of the trial. It gets the same answers unless a node has changed.
//
// To find victims, the cycle removes pods from the snapshot, without a call of RemovePod. It tries
// all members again for each pod that it spares: until 1.36 in the same state, since then each time
// in a new one. The removed pods are found by comparing with the earlier snapshot, and places are
// requested as in any dry run.
type groupTrial struct {
	handle          fwk.Handle
	namespace, name string
	// least is the number of members that the group needs.
	least int
	// byName has the snapshot before pods were removed from it, by node name. It is set at the
	// first request.
	byName func() map[string]fwk.NodeInfo

	// nodes are the nodes on which members are tried. A node promises them their places. While pods
	// are removed, members are only put there.
	nodes suppose.Field[*nodes.Node]
	// placed are the members that are tried, by UID.
	placed map[types.UID]*suppose.Pod
	// evicting: it is another trial of its cycle.
	evicting bool
	// waited means that a node must report first.
	waited atomic.Bool
	// waitsFrom is the time since when every attempt has found a node that waits for a report. It
	// is zero if this attempt has found none.
	waitsFrom time.Time
	// lost counts the members that the commit could not place.
	lost atomic.Int64
}

// key names the group, as ownGroup does.
func (g *groupTrial) key() string { return g.namespace + "/" + g.name }

const groupKey fwk.StateKey = Name + "Group"

// Clone implements fwk.StateData: a group cycle has one trial.
func (g *groupTrial) Clone() fwk.StateData { return g }

// joinTrial adds the pod to its group's trial. The first member begins the trial.
func (p *Plugin) joinTrial(state fwk.CycleState, pod *corev1.Pod) (way, error) {
	shared, evicting := state.GetPodGroupSchedulingCycle(), state.ShouldSkipAllPostFilterPlugins()
	if data, err := shared.Read(groupKey); err == nil {
		g := data.(*groupTrial)
		return &inGroup{g, evicting || g.evicting}, nil
	}
	g, err := p.newGroupTrial(pod)
	if err != nil {
		return nil, err
	}
	if first := p.core.trial; first != nil && first.key() == g.key() {
		g.evicting, g.byName = true, first.byName
		if first.waited.Load() {
			g.waitsFrom = p.core.pauses.waits.begin(g.key(), p.core.clock.Now())
		}
	} else {
		p.core.trial = g
	}
	shared.Write(groupKey, g)
	return &inGroup{g, evicting || g.evicting}, nil
}

func (p *Plugin) newGroupTrial(pod *corev1.Pod) (*groupTrial, error) {
	before, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, err
	}
	g := &groupTrial{
		handle: p.handle, namespace: pod.Namespace, name: *pod.Spec.SchedulingGroup.PodGroupName,
		nodes: suppose.Field[*nodes.Node]{Bare: bare}, placed: map[types.UID]*suppose.Pod{},
	}
	g.byName = sync.OnceValue(func() map[string]fwk.NodeInfo {
		m := make(map[string]fwk.NodeInfo, len(before))
		for _, info := range before {
			m[info.Node().Name] = info
		}
		return m
	})
	g.least, err = p.core.minimum(pod.Namespace, g.name)
	if err != nil {
		return nil, err
	}
	return g, nil
}

// inGroup is the way of a member of such a group. During the trial, which the state shows, the
// member is tried on the trial's nodes, and no other pod is affected. In the commit it is reserved.
type inGroup struct {
	*groupTrial
	// evicting means that pods are removed from the snapshot, to find out if their eviction helps.
	evicting bool
}

var _ way = (*inGroup)(nil)

// missing returns the pods that have been taken from the node.
func (g *groupTrial) missing(info fwk.NodeInfo) []string {
	before := g.byName()[info.Node().Name]
	if before == nil {
		return nil
	}
	there := sets.New[types.UID]()
	for _, pod := range info.GetPods() {
		there.Insert(pod.GetPod().UID)
	}
	var out []string
	for _, pod := range before.GetPods() {
		if p := pod.GetPod(); !there.Has(p.UID) && wire.MightPin(p) {
			out = append(out, uidOf(p))
		}
	}
	return out
}

// filter asks the trial's copy of the node, or otherwise the node itself.
func (g *inGroup) filter(ctx context.Context, c *cycle, info fwk.NodeInfo) *fwk.Status {
	n := c.plugin.core.table.Of(info.Node())
	if c.plugin.unexpected(info.Node()) {
		return nil
	}
	if ctx.Err() != nil {
		return fwk.NewStatus(fwk.Unschedulable, attemptEnded)
	}
	if status := c.unasked(n); status != nil {
		return status
	}
	var answer nodes.PackedAnswer
	if a, ok := g.ask(c, n, info); ok {
		answer = nodes.Pack(0, &a)
	} else if answer, ok = c.query.Recall(n); !ok {
		answer = c.query.Ask(n)
	}
	status := c.status(c.unlessOverlooked(answer, n, info), false)
	if status.Code() == fwk.Pending {
		g.waited.Store(true)
	}
	return status
}

// ask asks the trial's copy of a node. It returns false if the trial has not changed the node.
//
// The cycle evicts every pod with which the group does not certainly fit. If pods in flight may be
// placed in several ways, this could be a pod whose place the group does not need. In this case the
// report decides.
func (g *inGroup) ask(c *cycle, n *nodes.Node, info fwk.NodeInfo) (ledger.Answer, bool) {
	assumed, on := c.assumed(n), g.nodes.Known(n)
	t := assumed.Trial()
	if g.evicting {
		t.Without = slices.Concat(g.missing(info), t.Without)
	}
	if on == nil {
		alone := bare(n)
		on = &alone
	}
	if on.Promised() == 0 && !on.Came() && t.IsZero() {
		return ledger.Answer{}, false
	}
	a := on.AskUnder(&c.query.Candidate, &t)
	if g.evicting && a.OK() && !a.Certain && n.Account().View().Census().InFlight() > 0 {
		a = ledger.Answer{Outcome: ledger.Waiting, Wait: ledger.Undecided}
	}
	return a, true
}

// account is the node's, with the members that are tried there.
func (g *inGroup) account(n *nodes.Node) *ledger.Node {
	if on := g.nodes.Known(n); on != nil && on.Promised() > 0 {
		return on.Account()
	}
	return n.Account()
}

// rank is the rank of a node in the trial.
func (g *inGroup) rank(c *cycle, n *nodes.Node) rank.Rank {
	if on := g.nodes.Known(n); on != nil && on.Promised() > 0 && !g.evicting {
		return c.query.RankOn(n, on.Account())
	}
	return c.query.Rank(n)
}

func (g *inGroup) reserve(state fwk.CycleState, c *cycle, pod *corev1.Pod, n *nodes.Node) *fwk.Status {
	core := c.plugin.core
	if c.plugin.unexpectedNamed(n.Name()) {
		if !state.IsPodGroupSchedulingCycle() {
			core.pauses.waits.end(g.key())
			core.pauses.placed(pod)
			c.way = untouched{}
		}
		return nil
	}
	if why := core.table.Unusable(n); why != nil {
		return c.refuse(fwk.NewStatus(fwk.Unschedulable, why.Text))
	}
	if state.IsPodGroupSchedulingCycle() {
		return g.try(c, pod, n)
	}
	if g.broken() {
		return fwk.NewStatus(fwk.Unschedulable, lostMate)
	}
	if status := c.decide(pod, n, ""); status != nil {
		return status
	}
	c.placed(pod, n.Name())
	core.delays.is(pod.UID, forMates)
	core.pauses.waits.end(g.key())
	core.pauses.placed(pod)
	return nil
}

// try puts the member on the node during the trial.
func (g *inGroup) try(c *cycle, pod *corev1.Pod, n *nodes.Node) *fwk.Status {
	tried := &suppose.Pod{Candidate: c.candidateOn(n.Name())}
	g.placed[pod.UID] = tried
	on := g.nodes.At(n)
	if g.evicting {
		on.Put(tried)
		return nil // Filter has just asked for it
	}
	var d placement.Decision
	a := on.Promise(tried, &d)
	if status := c.status(nodes.Pack(0, &a), false); status != nil {
		return status
	}
	return writable(pod, n, &d)
}

func (g *inGroup) unreserve(state fwk.CycleState, c *cycle, pod *corev1.Pod, n *nodes.Node) {
	if state.IsPodGroupSchedulingCycle() {
		g.takeBack(pod, n)
		return
	}
	c.giveBack(pod, n) // and its back-off counts
	g.lose()
}

func (g *inGroup) bind(ctx context.Context, c *cycle, pod *corev1.Pod, nodeName string) *fwk.Status {
	return c.bind(ctx, pod, nodeName, "")
}

// takeBack reverts try.
func (g *inGroup) takeBack(pod *corev1.Pod, n *nodes.Node) {
	tried, on := g.placed[pod.UID], g.nodes.At(n)
	delete(g.placed, pod.UID)
	switch {
	case tried == nil:
	case g.evicting:
		on.Take(tried)
	default:
		on.Withdraw(tried)
	}
}

// postFilter ends the attempt without an eviction for a part of a group. Kubernetes' own code
// evicts for whole groups (until 1.36 feature gate WorkloadAwarePreemption).
func (g *inGroup) postFilter(_ context.Context, c *cycle, _ *corev1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	d, core := &diagnosis{c, statuses}, c.plugin.core
	waiting, err := d.with(fwk.Pending)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if len(waiting) > 0 {
		g.waitsFrom = core.pauses.waits.begin(g.key(), core.clock.Now())
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Berth: "+whatWaits(len(waiting), false))
	}
	refusing, err := d.with(fwk.Unschedulable)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if text := d.explain(refusing); text != "" {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Berth: "+text)
	}
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
}

// spares explains why no pod is evicted for the group yet, or returns "". A report that some node
// waits for may show that there is room.
func (g *inGroup) spares(core *core) string {
	if !g.evicting {
		return ""
	}
	if from := g.waitsFrom; !from.IsZero() && core.clock.Now().Sub(from) < wake.ReportLimit {
		return "a node waits for a report; no pod is preempted before"
	}
	core.pauses.waits.end(g.key()) // it may preempt, this once
	return ""
}

// lose records that the commit could not place a member. Other members wait for it in Permit, up to
// five minutes. They give up their places if the group needs the lost member.
func (g *groupTrial) lose() {
	g.lost.Add(1)
	if !g.broken() {
		return
	}
	g.handle.IterateOverWaitingPods(func(w fwk.WaitingPod) {
		if ownGroup(w.GetPod()) == g.key() {
			w.Reject(Name, lostMate)
		}
	})
}

const lostMate = "another member of its group did not get its place"

// broken reports whether the group cannot be whole any more in this attempt.
func (g *groupTrial) broken() bool {
	lost := int(g.lost.Load())
	if lost == 0 {
		return false
	}
	group, err := g.handle.PodGroupManager().PodGroupStates().Get(g.namespace, g.name)
	return err == nil && group.AllPodsCount()-lost < g.least
}
