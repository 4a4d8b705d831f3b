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

// groupTrial is the plugin's state in one trial of a Kubernetes group cycle, which places a
// PodGroup (feature gate GenericWorkload).
//
// A group cycle first tries the members one after another: it reserves each member, and then
// unreserves all of them. During this trial, the plugin reserves members on forks of the accounts,
// so that other pods are neither refused nor woken because of them. The commit then reserves the
// members again, on the accounts and in the same order. It gets the same answers unless a node has
// changed.
//
// To find victims, the cycle removes pods from the snapshot without calling RemovePod. Then it puts
// the pods back one after another. For each of them, it tries all members again. Kubernetes up to
// 1.36 tries them in the same cycle state, and from 1.37 on in a new cycle state. The plugin finds
// the removed pods by a comparison with the earlier snapshot, and asks how the nodes would answer
// without them (dryRun).
type groupTrial struct {
	handle          fwk.Handle
	namespace, name string
	// least is the minimum number of members that the group needs.
	least int
	// byName returns the nodes of the snapshot, by name, with the pods that the cycle may have
	// removed since.
	byName func() map[string]fwk.NodeInfo

	// nodes has copies of the nodes on which members are tried. A copy reserves a place for each
	// member. While the cycle looks for victims, the copy only assumes that the members are on the
	// node.
	nodes suppose.Field[*nodes.Node]
	// placed has the members that were tried, by UID.
	placed map[types.UID]*suppose.Pod
	// evicting means that this is not the first trial of the cycle, but a later one that looks for
	// victims.
	evicting bool
	// waited means that a member found a node that must report before it can answer.
	waited atomic.Bool
	// waitsFrom is the time since which every attempt has found a node that waits for a report. It
	// is zero if this attempt has found no node that waits.
	waitsFrom time.Time
	// lost counts the members that did not get their nodes in the commit.
	lost atomic.Int64
}

// key returns the group's name in the form of ownGroup.
func (g *groupTrial) key() string { return g.namespace + "/" + g.name }

const groupKey fwk.StateKey = Name + "Group"

// Clone implements fwk.StateData. All members share the trial.
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
			g.waitsFrom = p.core.pauses.waits(g.key())
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
	of, err := p.core.group(pod.Namespace, g.name)
	if err != nil {
		return nil, err
	}
	g.least = of.Least
	return g, nil
}

// inGroup implements the extension points for a member in a Kubernetes group cycle. During the
// trial, the member is reserved on the trial's copies of nodes, without an effect on other pods. In
// the commit, it is reserved on the account.
type inGroup struct {
	*groupTrial
	// evicting means that the cycle removes pods from the snapshot to find out whether their
	// eviction helps.
	evicting bool
}

var _ way = (*inGroup)(nil)

// missing returns the UIDs of the pods that the cycle has removed from the node in the snapshot. It
// omits pods that could not be pinned.
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

// filter asks the trial's copy of the node, or the node itself if the trial has not changed it.
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
// A cycle that looks for victims spares a pod only if the group certainly fits next to it, and
// evicts all others. If it is not certain which CPUs the kubelet gives the pods in flight, which
// the node's report does not list yet, the cycle might evict pods without need. In this case the
// group waits for the node's report.
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

// account returns the node's account, or its fork if members were tried there.
func (g *inGroup) account(n *nodes.Node) *ledger.Node {
	if on := g.nodes.Known(n); on != nil && on.Promised() > 0 {
		return on.Account()
	}
	return n.Account()
}

// rank returns the rank of a node after the trial's reservations. A trial that looks for victims
// ignores them.
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
			core.pauses.placed(g.key())
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
	core.pauses.placed(g.key())
	return nil
}

// try reserves the member on the node during the trial.
func (g *inGroup) try(c *cycle, pod *corev1.Pod, n *nodes.Node) *fwk.Status {
	tried := &suppose.Pod{Candidate: c.candidateOn(n.Name())}
	g.placed[pod.UID] = tried
	on := g.nodes.At(n)
	if g.evicting {
		on.Put(tried)
		return nil // Filter has just asked the node
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
	c.giveBack(pod, n) // the pod then waits for the end of its back-off
	g.lose()
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

// postFilter ends the attempt without evictions, because Kubernetes' own code evicts pods for a
// group as a whole, not for single members (in 1.36 and earlier only with the feature gate
// WorkloadAwarePreemption).
func (g *inGroup) postFilter(_ context.Context, c *cycle, _ *corev1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	d, core := &diagnosis{c, statuses}, c.plugin.core
	waiting, err := d.with(fwk.Pending)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if len(waiting) > 0 {
		g.waitsFrom = core.pauses.waits(g.key())
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

// spares returns the reason why no pod is evicted for the group yet, or "". The reason is a node
// that must report first, because its report may show enough room.
func (g *inGroup) spares(core *core) string {
	if !g.evicting {
		return ""
	}
	if from := g.waitsFrom; !from.IsZero() && core.clock.Now().Sub(from) < wake.ReportLimit {
		return "a node waits for a report; no pod is preempted before that report"
	}
	core.pauses.waited(g.key()) // the group may preempt in this attempt only
	return ""
}

// lose records that a member did not get its node in the commit. If the group cannot reach its
// minimum without this member, lose rejects the members that wait in Permit, which would otherwise
// keep their places for up to five minutes.
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

const lostMate = "another member of its group did not get a node"

// broken reports whether the group can no longer reach its minimum in this attempt.
func (g *groupTrial) broken() bool {
	lost := int(g.lost.Load())
	if lost == 0 {
		return false
	}
	group, err := g.handle.PodGroupManager().PodGroupStates().Get(g.namespace, g.name)
	return err == nil && group.AllPodsCount()-lost < g.least
}
