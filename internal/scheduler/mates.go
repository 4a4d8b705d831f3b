package scheduler

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	quotacore "k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/gangfit"
	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/gang"
	"github.com/berth-dev/berth/internal/wire"
)

var (
	_ fwk.PreEnqueuePlugin = (*Plugin)(nil)
	_ fwk.PermitPlugin     = (*Plugin)(nil)
)

func newGangs(ctx context.Context, args *Args, handle fwk.Handle, c *core, logger klog.Logger) *gang.Groups {
	budgets := handle.SharedInformerFactory().Policy().V1().PodDisruptionBudgets().Lister()
	return gang.New(gang.Options{
		Clock: c.clock, Logger: logger, Timeout: args.GangTimeout.Duration, Client: handle.ClientSet(), Events: c.events,
		Activate: func(pods map[string]*corev1.Pod) { handle.Activate(logger, pods) },
		Waiting:  handle.GetWaitingPod,
		Budgets:  func() ([]*policyv1.PodDisruptionBudget, error) { return budgets.List(labels.Everything()) },
		Forgo:    c.forgoFor(handle),
		Ours:     c.profiles.ours,
		Room:     c.roomOn(handle), Lead: c.lead,
		Terms: func(profile string) gang.Terms {
			s, _ := c.profiles.of(profile)
			return s.gangs
		},
		Countable: func(list amounts.List) amounts.List { return gang.Countable(handle, list, nil) },
		Protects:  args.ProtectedNamespaces.Allow,
		Quotas:    quotasOf(ctx, handle.ClientSet()),
		OwnGroup:  c.ownGroupOf,
	})
}

// OwnGroup has the fields of a Kubernetes PodGroup that Berth reads. The zero value is a group that
// is not a gang.
type OwnGroup struct {
	// Least is the group's minCount.
	Least int
	// Priority decides which pods may evict the group's pods. nil means that the priority of each
	// pod counts.
	Priority *int32
	// Whole means that its pods may only be evicted together.
	Whole bool
}

// ownGroupOf implements gang.Options.OwnGroup. As in kube-scheduler, a pod whose PodGroup is not
// known is a single pod.
func (c *core) ownGroupOf(pod *corev1.Pod) (whole string, priority int32) {
	priority = corev1helpers.PodPriority(pod)
	key := ownGroup(pod)
	if key == "" {
		return "", priority
	}
	g, err := c.group(pod.Namespace, *pod.Spec.SchedulingGroup.PodGroupName)
	if err != nil {
		return "", priority
	}
	if g.Whole {
		whole = "Kubernetes PodGroup " + key
	}
	if g.Priority != nil {
		priority = *g.Priority
	}
	return whole, priority
}

// quotasOf returns a function that reads the quotas of a namespace. The watch of quotas starts at
// the first call of that function, because most clusters have no groups with minResources and so
// never need it. Until the watch has shown the quotas, the function returns none.
func quotasOf(ctx context.Context, client kubernetes.Interface) func(namespace string) []gang.Quota {
	factory := informers.NewSharedInformerFactory(client, 0)
	quotas := factory.Core().V1().ResourceQuotas().Lister()
	watch := sync.OnceFunc(func() { factory.Start(ctx.Done()) })
	return func(namespace string) []gang.Quota {
		watch()
		all, err := quotas.ResourceQuotas(namespace).List(labels.Everything())
		if err != nil {
			return nil // impossible: the lister reads memory
		}
		return readQuotas(all)
	}
}

// readQuotas returns the quotas, those with scopes first.
func readQuotas(all []*corev1.ResourceQuota) []gang.Quota {
	pods := quotacore.NewPodEvaluator(nil, clock.RealClock{})
	var scoped, others []gang.Quota
	for _, q := range all {
		read := gang.Quota{Left: wire.ReadQuota(q), Covers: func(pod *corev1.Pod) bool {
			ok, err := pods.Matches(q, pod)
			return ok && err == nil
		}}
		if len(q.Spec.Scopes) > 0 || q.Spec.ScopeSelector != nil {
			scoped = append(scoped, read)
		} else {
			others = append(others, read)
		}
	}
	return append(scoped, others...)
}

// forgoFor returns a function that removes a pod's nomination from the scheduling queue, and then
// wakes other pods as if the pod had left the node.
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

// roomOn returns a function that counts the resources that the nodes have for pods, as the
// scheduler's watches show them.
func (c *core) roomOn(handle fwk.Handle) func() (*gangfit.Room, error) {
	core := handle.SharedInformerFactory().Core().V1()
	nodes, pods := core.Nodes().Lister(), core.Pods().Lister()
	return func() (*gangfit.Room, error) {
		all, err := nodes.List(labels.Everything())
		if err != nil {
			return nil, err
		}
		there, err := pods.List(labels.Everything())
		if err != nil {
			return nil, err
		}
		return gangs.RoomOn(all, there, c.gangs.Occupant), nil
	}
}

// FollowMates wraps next, the function that takes the first entry from the scheduling queue. With
// the returned function, the scheduler tries the members of a gang one after another. The function
// take takes a given pod from the queue.
func FollowMates[L any, E comparable](in Parts, next func(L) (E, error), take func(L, *corev1.Pod) E) func(L) (E, error) {
	return gang.Follow(in.core.gangs, next, take)
}

// PreEnqueue holds pods that the scheduler must not try yet, such as members of a gang that waits.
func (p *Plugin) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	if status := p.core.pauses.hold(pod); status != nil {
		return status
	}
	p.core.delays.Queued(pod)
	if status := p.core.annotating.hold(pod); status != nil {
		return status
	}
	return p.core.gangs.PreEnqueue(pod)
}

// Permit makes members of a gang wait for each other.
func (p *Plugin) Permit(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) (*fwk.Status, time.Duration) {
	return p.core.gangs.Permit(pod)
}

const evictsNobody = "Berth: no pods are evicted for a Reservation"

// makeRoom decides about evictions for a pod that is not in a gang. If the returned status is nil,
// kube-scheduler's own preemption runs. Otherwise the status prevents it, for one of two reasons.
// Either the pod must not evict pods, or members of a gang or protected pods could be among the
// victims; in that case makeRoom evicts pods itself, if that helps. The parameter text explains why
// the nodes refuse the pod.
func (p *Plugin) makeRoom(ctx context.Context, pod *corev1.Pod, text string) (*fwk.PostFilterResult, *fwk.Status) {
	if p.args.EvictsNobody {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, text)
	}
	if wire.OfReservation(pod) {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, cmp.Or(text, evictsNobody))
	}
	node, asked := p.core.gangs.MakeRoom(ctx, p.gangProfile(), pod)
	switch {
	case !asked:
		return nil, nil
	case node != "":
		return framework.NewPostFilterResultWithNominatedNode(node), fwk.NewStatus(fwk.Success, text)
	}
	if text != "" { // otherwise another plugin has refused the pod and explains it
		text += "; no preemption helps"
	}
	return framework.NewPostFilterResultWithNominatedNode(""), fwk.NewStatus(fwk.UnschedulableAndUnresolvable, text)
}

// gangProfile returns the parts of this profile that a trial needs.
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
		BestFirst: p.bestFirst,
		Account:   func(node string) *ledger.Node { return p.core.table.Named(node).Account() },
		Check:     wire.CheckPlacement,
		Devices:   p.devices,
	}
}

// weighing has the plugins that score nodes by preferences of the pod or the profile. If there are
// no preferences, these plugins return Skip in PreScore.
var weighing = []string{names.NodeAffinity, names.InterPodAffinity, names.PodTopologySpread}

// bestFirst returns the indexes of the nodes that admit a pod, in Berth's order. It returns nil if
// other plugins compare nodes by preferences or taints PreferNoSchedule, or if Berth does not
// decide about the pod.
func (p *Plugin) bestFirst(state fwk.CycleState, infos []fwk.NodeInfo) []int {
	c := cycleOf(state)
	if c == nil || c.unpinned || !state.GetSkipScorePlugins().HasAll(weighing...) {
		return nil
	}
	orders := make([]uint64, 0, len(infos))
	for i, info := range infos {
		n := p.core.table.Of(info.Node())
		if n.Shunned() {
			return nil
		}
		if a := c.verdict(n); a.Admits() {
			orders = append(orders, uint64(c.query.OrderOf(n, a))<<32|uint64(i))
		}
	}
	slices.Sort(orders)
	places := make([]int, len(orders))
	for i, order := range orders {
		places[i] = int(uint32(order))
	}
	return places
}
