package scheduler

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	corev1informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/gang"
	"github.com/berth-dev/berth/internal/wire"
)

var (
	_ fwk.PreEnqueuePlugin = (*Plugin)(nil)
	_ fwk.PermitPlugin     = (*Plugin)(nil)
)

// newGangs makes the groups of a scheduler.
func newGangs(args *Args, handle fwk.Handle, c *core, logger klog.Logger) *gang.Groups {
	return gang.New(gang.Options{
		Clock: c.clock, Logger: logger, Timeout: args.GangTimeout.Duration, Client: handle.ClientSet(), Events: handle.EventRecorder(),
		Activate: func(pods map[string]*corev1.Pod) { handle.Activate(logger, pods) },
		Waiting:  handle.GetWaitingPod,
		Budgets:  budgetsOf(handle),
		Forgo:    c.forgoFor(handle),
		Ours: func(name string) bool {
			_, ours := c.profiles.Load(name)
			return ours
		},
		Room: roomOn(handle.SharedInformerFactory().Core().V1()), Lead: c.lead,
	})
}

// forgoFor returns what ends a nomination, as the scheduling queue has it. To others it is as if
// the pod had left the node.
func (c *core) forgoFor(handle fwk.Handle) func(pod *corev1.Pod, node string) {
	return func(pod *corev1.Pod, node string) {
		handle.DeleteNominatedPodIfExists(pod)
		if c.freed != nil {
			left := pod.DeepCopy()
			left.Spec.NodeName = node
			c.freed(node, left)
		}
	}
}

// roomOn counts what is free on the nodes that pods may go to, by what the scheduler watches.
func roomOn(core corev1informers.Interface) gang.Room {
	nodes, pods := core.Nodes().Lister(), core.Pods().Lister()
	return func(asked corev1.ResourceList) bool {
		if len(asked) == 0 {
			return true
		}
		all, err := nodes.List(labels.Everything())
		if err != nil {
			return false
		}
		has, open := amounts.List{}, map[string]bool{}
		for _, n := range all {
			if open[n.Name] = !n.Spec.Unschedulable; open[n.Name] {
				for name, amount := range wire.ReadResources(n.Status.Allocatable) {
					has[name] += amount
				}
			}
		}
		there, err := pods.List(labels.Everything())
		if err != nil {
			return false
		}
		together := amounts.NewNode(has)
		for _, p := range there {
			if open[p.Spec.NodeName] && !wire.Ended(p) {
				together.Add(wire.ReadAmounts(p))
			}
		}
		return together.Has(wire.ReadResources(asked))
	}
}

// budgetsOf lists the cluster's PodDisruptionBudgets.
func budgetsOf(handle fwk.Handle) func() ([]*policyv1.PodDisruptionBudget, error) {
	lister := handle.SharedInformerFactory().Policy().V1().PodDisruptionBudgets().Lister()
	return func() ([]*policyv1.PodDisruptionBudget, error) { return lister.List(labels.Everything()) }
}

// watchForGangs tells the groups of their objects, and of nodes that may help them.
func (c *core) watchForGangs(ctx context.Context, handle fwk.Handle) error {
	gang.WatchObjects(ctx, handle.KubeConfig(), c.gangs)
	_, err := handle.SharedInformerFactory().Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			c.feed.NodeSeen(obj.(*corev1.Node).Name)
			c.gangs.Stir()
		},
		UpdateFunc: func(old, obj any) {
			if was, now := old.(*corev1.Node), obj.(*corev1.Node); was.Status.NodeInfo.KubeletVersion != now.Status.NodeInfo.KubeletVersion {
				c.feed.NodeSeen(now.Name)
			}
			if mayHelp(old.(*corev1.Node), obj.(*corev1.Node)) {
				c.gangs.Stir()
			}
		},
	})
	return err
}

// mayHelp says whether a change of a node can let pods in.
func mayHelp(old, now *corev1.Node) bool {
	return old.Spec.Unschedulable != now.Spec.Unschedulable || !equality.Semantic.DeepEqual(old.Spec.Taints, now.Spec.Taints) ||
		!equality.Semantic.DeepEqual(old.Labels, now.Labels) || !equality.Semantic.DeepEqual(old.Status.Allocatable, now.Status.Allocatable)
}

// FollowMates makes the members of a gang leave the scheduling queue one after another: next is the
// scheduler's NextPod, take its queue's PopSpecificPod, and the result the new NextPod. The
// informers are those of the scheduler.
func FollowMates[L, P any](shared informers.SharedInformerFactory, next func(L) (*P, error), take func(L, *corev1.Pod) *P) func(L) (*P, error) {
	cores.Lock()
	defer cores.Unlock()
	c := cores.byInformers[shared]
	if c == nil { // no profile has the plugin
		return next
	}
	return gang.Follow(c.gangs, next, take)
}

// PreEnqueue holds members of a gang until it is their turn.
func (p *Plugin) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	if status := p.core.pauses.hold(pod); status != nil {
		return status
	}
	return p.core.gangs.PreEnqueue(pod)
}

// preFilterMember plans the gang of the pod, or tells the pod its planned node.
func (p *Plugin) preFilterMember(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status) {
	if gang.InTrial(state) {
		return nil, p.preFilterInTrial(state, pod)
	}
	p.tellIgnored(pod)
	if status := p.onlyHeld(ctx, pod, ""); status != nil {
		return nil, status
	}
	gang.Mark(state, "")
	if why := p.core.notYet(ctx); why != "" {
		if ask, err := p.read(pod); err == nil {
			p.waitForNodes(p.cycleFor(pod, &ask), pod) // nothing else would wake it
		}
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
	}
	p.core.waiters.Done(uidOf(pod))
	turn := p.core.gangs.PreFilter(ctx, p.gangProfile(), pod)
	switch {
	case turn.Held != nil:
		return nil, turn.Held
	case turn.Node == "":
		gang.Unmark(state)
		return p.preFilterAlone(ctx, state, pod)
	}
	gang.Mark(state, turn.Node)
	ask, err := p.read(pod)
	if err != nil {
		return nil, unreadable(err)
	}
	if ask.Request.Pinnable() {
		c := p.cycleFor(pod, &ask)
		c.planned = turn.Node
		state.Write(cycleKey, c)
	}
	return &fwk.PreFilterResult{NodeNames: sets.New(turn.Node)}, nil
}

// preFilterInTrial is PreFilter without consequences.
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

// gangProfile is what a trial asks of this profile.
func (p *Plugin) gangProfile() gang.Profile {
	return gang.Profile{
		Handle: p.handle,
		Candidate: func(pod *corev1.Pod) (*ledger.Candidate, error) {
			if !wire.MightPin(pod) {
				return nil, nil //nolint:nilnil // nothing is pinned, and nothing is wrong
			}
			ask, err := p.read(pod)
			if err != nil || !ask.Request.Pinnable() {
				return nil, err
			}
			c := p.core.table.Candidate(pod, &ask.Request)
			return &c, ask.RulesErr
		},
		Account:      func(node string) *ledger.Node { return p.core.table.Named(node).Account() },
		Check:        wire.CheckPlacement,
		EvictsNobody: p.args.EvictsNobody,
	}
}

// filterPlanned lets a member have its planned node alone. A node that the pod was nominated to
// before comes before what PreFilter says. The ledger has held the place since the plan was made.
func (p *Plugin) filterPlanned(planned string, info fwk.NodeInfo) *fwk.Status {
	name := info.Node().Name
	if name != planned {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "another node is planned for the pod")
	}
	if why := p.core.table.Unusable(p.core.table.Of(info.Node())); why != nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why.Text)
	}
	return nil
}

// filterUnpinned is Filter for pods for which nothing is pinned: only members of gangs, which have
// a planned node, come there.
func filterUnpinned(state fwk.CycleState, info fwk.NodeInfo) *fwk.Status {
	if planned, _ := gang.Planned(state); planned != "" && planned != info.Node().Name {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "another node is planned for the pod")
	}
	return nil
}

// reserveUnpinned is Reserve for pods for which nothing is pinned.
func (p *Plugin) reserveUnpinned(state fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	if !wire.InGang(pod) {
		return nil
	}
	if planned, _ := gang.Planned(state); planned == "" {
		return nil
	}
	return p.core.gangs.Reserve(pod, nodeName, nil)
}

// reservePlanned is Reserve for a member whose place the ledger holds.
func (p *Plugin) reservePlanned(c *cycle, pod *corev1.Pod, nodeName string) *fwk.Status {
	n := p.core.table.Named(nodeName)
	if why := p.core.table.Unusable(n); why != nil {
		return fwk.NewStatus(fwk.Unschedulable, why.Text)
	}
	if status := p.core.gangs.Reserve(pod, nodeName, n.Account()); status != nil {
		return status
	}
	c.number = p.core.reserved.Add(1)
	return nil
}

// unreserveMember tells the gang that a member's attempt has failed.
func (p *Plugin) unreserveMember(pod *corev1.Pod) {
	if wire.InGang(pod) {
		p.core.gangs.Failed(pod.UID, "pod "+pod.Name+" did not get its place")
	}
}

// postFilterMember ends the attempt of a member: nobody is evicted for a part of a gang. Whom the
// whole gang needs gone was found when it was planned; the leader keeps its place there.
func (p *Plugin) postFilterMember(state fwk.CycleState, pod *corev1.Pod) (result *fwk.PostFilterResult, status *fwk.Status, member bool) {
	if !wire.InGang(pod) {
		return nil, nil, false
	}
	if _, member := gang.Planned(state); !member && p.core.gangs.Alone(pod) {
		return nil, nil, false
	}
	p.core.gangs.Failed(pod.UID, "pod "+pod.Name+" does not get its planned node")
	if node := p.core.gangs.Nominated(pod.UID); node != "" || pod.Status.NominatedNodeName != "" {
		result = framework.NewPostFilterResultWithNominatedNode(node)
	}
	return result, fwk.NewStatus(fwk.UnschedulableAndUnresolvable), true
}

// Permit makes members of a gang wait for each other.
func (p *Plugin) Permit(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) (*fwk.Status, time.Duration) {
	return p.core.gangs.Permit(pod)
}
