package scheduler

import (
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

// groupTrial is what Kubernetes' own group cycle (feature gate GenericWorkload) has tried so far.
//
// That cycle tries the members one after the other, reserves each, and takes all of them back
// before it commits. So while it tries, members are reserved on forks of the accounts: nobody else
// sees them, wakes up for them or counts them. The commit reserves again, on the accounts, in the
// order of the trial, and gets the same answers unless a node has changed.
//
// To find out whom to evict the cycle takes pods from the snapshot, without a call of RemovePod,
// and tries all members again, for each pod that it spares. These pods are told apart from those of
// the snapshot before, and places are asked for as in any dry run.
type groupTrial struct {
	namespace, name string
	// least is how many members the group needs.
	least int
	// before is the snapshot as it was before pods were taken from it.
	before []fwk.NodeInfo
	// byName is before by the nodes' names, once somebody has asked.
	byName func() map[string]fwk.NodeInfo

	// nodes are the nodes that members are tried on. A node promises them their places, except
	// while pods are taken away: then they are merely put there.
	nodes suppose.Field[*nodes.Node]
	// placed are the members that are tried, by UID.
	placed map[types.UID]*suppose.Pod
	// waitsFrom is the time from which every attempt has found some node that waits for a report;
	// zero: this one has found none.
	waitsFrom time.Time
	// lost counts the members that the commit could not place.
	lost atomic.Int64
}

// key names the group, as ownGroup does.
func (g *groupTrial) key() string { return g.namespace + "/" + g.name }

const groupKey fwk.StateKey = Name + "Group"

// Clone implements fwk.StateData: a group cycle has one trial.
func (g *groupTrial) Clone() fwk.StateData { return g }

// joinTrial makes the cycle a part of its group's trial. The first member begins it.
func (p *Plugin) joinTrial(c *cycle, state fwk.CycleState, pod *corev1.Pod) error {
	c.member.evicting = state.ShouldSkipAllPostFilterPlugins()
	shared := state.GetPodGroupSchedulingCycle()
	if data, err := shared.Read(groupKey); err == nil {
		c.member.group = data.(*groupTrial)
		return nil
	}
	g, err := p.newGroupTrial(pod)
	if err != nil {
		return err
	}
	shared.Write(groupKey, g)
	c.member.group = g
	return nil
}

func (p *Plugin) newGroupTrial(pod *corev1.Pod) (*groupTrial, error) {
	before, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, err
	}
	g := &groupTrial{
		namespace: pod.Namespace, name: *pod.Spec.SchedulingGroup.PodGroupName, before: before,
		nodes: suppose.Field[*nodes.Node]{Bare: bare}, placed: map[types.UID]*suppose.Pod{},
	}
	g.byName = sync.OnceValue(func() map[string]fwk.NodeInfo {
		m := make(map[string]fwk.NodeInfo, len(before))
		for _, info := range before {
			m[info.Node().Name] = info
		}
		return m
	})
	// Where there is a group cycle, the scheduler watches PodGroups.
	group, err := p.handle.SharedInformerFactory().Scheduling().V1alpha2().PodGroups().Lister().PodGroups(g.namespace).Get(g.name)
	if err != nil {
		return nil, err
	}
	if gang := group.Spec.SchedulingPolicy.Gang; gang != nil {
		g.least = int(gang.MinCount)
	}
	return g, nil
}

// member is a cycle's part in a trial; the zero value is that of a pod without a group.
type member struct {
	group *groupTrial
	// evicting: pods are taken from the snapshot, to find out whether that helps.
	evicting bool
}

// try says whether the cycle only tries: its group's trial, and not the commit after it.
func (m *member) try(state fwk.CycleState) bool {
	return m.group != nil && state.IsPodGroupSchedulingCycle()
}

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

// askGroup asks a node as the trial has it; false where the trial has left the node alone.
func (c *cycle) askGroup(n *nodes.Node, info fwk.NodeInfo) (ledger.Answer, bool) {
	assumed, on := c.assumed(n), c.member.group.nodes.Known(n)
	t := assumed.Trial()
	if c.member.evicting {
		t.Without = slices.Concat(c.member.group.missing(info), t.Without)
	}
	if on == nil {
		alone := bare(n)
		on = &alone
	}
	if on.Promised() == 0 && !on.Came() && t.IsZero() {
		return ledger.Answer{}, false
	}
	return on.AskUnder(&c.query.Candidate, &t), true
}

// filterGroup is Filter in a group's trial: what is tried is asked, and nobody is told.
func (p *Plugin) filterGroup(c *cycle, n *nodes.Node, info fwk.NodeInfo) *fwk.Status {
	if a, ok := c.askGroup(n, info); ok {
		return c.status(nodes.Pack(0, &a), false)
	}
	if a, ok := c.query.Recall(n); ok {
		return c.status(a, false)
	}
	return c.status(c.query.Ask(n), false)
}

// rankInGroup is the rank of a node in a group's trial.
func (c *cycle) rankInGroup(n *nodes.Node) rank.Rank {
	if on := c.member.group.nodes.Known(n); on != nil && on.Promised() > 0 && !c.member.evicting {
		return c.query.RankOn(n, on.Account())
	}
	return c.query.Rank(n)
}

// reserveInGroup tries the node for a member.
func (p *Plugin) reserveInGroup(c *cycle, pod *corev1.Pod, n *nodes.Node) *fwk.Status {
	g, tried := c.member.group, &suppose.Pod{Candidate: &c.query.Candidate}
	g.placed[pod.UID] = tried
	on := g.nodes.At(n)
	if c.member.evicting {
		on.Put(tried)
		return nil // Filter has just asked for it
	}
	var d placement.Decision
	a := on.Promise(tried, &d)
	if status := c.status(nodes.Pack(0, &a), false); status != nil {
		return status
	}
	return p.writable(pod, n, &d)
}

// unreserveInGroup takes back what reserveInGroup did.
func (c *cycle) unreserveInGroup(pod *corev1.Pod, n *nodes.Node) {
	g := c.member.group
	tried, on := g.placed[pod.UID], g.nodes.At(n)
	delete(g.placed, pod.UID)
	switch {
	case tried == nil:
	case c.member.evicting:
		on.Take(tried)
	default:
		on.Withdraw(tried)
	}
}

// postFilterGroup ends the attempt of a member: nobody is evicted for a part of a group. Evictions
// for the whole of it are Kubernetes' own (feature gate WorkloadAwarePreemption).
func (p *Plugin) postFilterGroup(c *cycle, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	waiting, err := p.withStatus(statuses, fwk.Pending)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if len(waiting) > 0 {
		c.member.group.waitsFrom = p.core.pauses.waits.begin(c.member.group.key(), p.core.clock.Now())
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Berth: "+whatWaits(len(waiting), false))
	}
	refusing, err := p.withStatus(statuses, fwk.Unschedulable)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if text := p.explain(c, refusing); text != "" {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Berth: "+text)
	}
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
}

// spares says why nobody is evicted for the group yet; "" when somebody may be. A report that some
// node waits for may show that there is room.
func (p *Plugin) spares(m *member) string {
	if !m.evicting {
		return ""
	}
	if from := m.group.waitsFrom; !from.IsZero() && p.core.clock.Now().Sub(from) < wake.ReportLimit {
		return "a node waits for a report; nobody is preempted before"
	}
	p.core.pauses.waits.end(m.group.key()) // it may preempt, this once
	return ""
}

// loseMate notes that the commit could not place a member. The ones that wait for it in Permit, up
// to five minutes, give their places back if the group cannot be whole without it.
func (p *Plugin) loseMate(g *groupTrial) {
	g.lost.Add(1)
	if !p.broken(g) {
		return
	}
	p.handle.IterateOverWaitingPods(func(w fwk.WaitingPod) {
		if ownGroup(w.GetPod()) == g.key() {
			w.Reject(Name, lostMate)
		}
	})
}

const lostMate = "another member of its group did not get its place"

// broken says whether the group cannot be whole any more in this attempt.
func (p *Plugin) broken(g *groupTrial) bool {
	lost := int(g.lost.Load())
	if lost == 0 {
		return false
	}
	group, err := p.handle.PodGroupManager().PodGroupStates().Get(g.namespace, g.name)
	return err == nil && group.AllPodsCount()-lost < g.least
}
