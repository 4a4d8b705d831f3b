package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/apiclient"
	"github.com/berth-dev/berth/internal/brief"
	dra "github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/internal/scheduler/gang"
	"github.com/berth-dev/berth/internal/scheduler/handover"
	"github.com/berth-dev/berth/internal/scheduler/lead"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/scheduler/outcome"
	"github.com/berth-dev/berth/internal/scheduler/refit"
	"github.com/berth-dev/berth/internal/scheduler/reservation"
	"github.com/berth-dev/berth/internal/scheduler/wake"
	"github.com/berth-dev/berth/internal/wire"
)

// core is shared by all profiles of a scheduler, because a node has one account (ledger.Node) for
// the pods of all profiles.
type core struct {
	clock    clock.WithDelayedExecution
	pods     pods
	table    *nodes.Table
	waiters  *wake.Waiters
	feed     *nodes.Feed
	delays   Delays
	outcomes *outcome.Writer
	pauses   *groupPauses
	gangs    *gang.Groups
	// trial is the first trial in the current group cycle of a Kubernetes PodGroup (groupTrial), or
	// nil outside of group cycles.
	trial *groupTrial
	// group returns a Kubernetes PodGroup.
	group func(namespace, name string) (OwnGroup, error)
	// annotating holds pods until Volcano's own controller gives them a group.
	annotating annotating
	onNodes    *onNodes
	// lead opens when this process takes its first pod from the scheduling queue, which only the
	// leader does.
	lead *lead.Gate
	// reservations has the Reservations, which hold places for future pods.
	reservations *reservation.Reservations
	// refits decides about pods that are resized on nodes where Berth decides.
	refits *refit.Refitter
	events events.EventRecorder
	// reserved is the last assigned cycle.number.
	reserved atomic.Uint64
	// ready means that the plugin has processed all objects that existed at its start.
	ready atomic.Bool
	// handover makes sure that, before this process places its first pod that could be pinned, the
	// API server can no longer accept a Binding of the previous leader.
	handover *handover.Handover
	// freed tells the scheduling queue that resources of a node have become free without an API
	// event. HoldReservations sets it before the scheduler runs.
	freed    Freed
	profiles profiles
}

// profiles has the settings of a scheduler's profiles.
type profiles struct {
	// byName has the settings (type *settings) by the name of the profile.
	byName sync.Map
	// common has the arguments that must be equal in all profiles.
	common commonArgs
}

// settings are the arguments of a profile that are needed outside of the profile's own Plugin.
type settings struct {
	// maxNodes is the result of Args.looksAt.
	maxNodes int
	gangs    gang.Terms
	// claims is the mode of pods that have claims but not wire.ClaimsAnnotation. sources are the
	// attributes in which drivers publish the NUMA node of a device.
	claims  dra.Mode
	sources dra.Sources
}

func (p *profiles) add(name string, args *Args) {
	terms, _ := args.terms() // args have been validated
	mode, _ := dra.ParseMode(args.Claims)
	p.byName.Store(name, &settings{args.looksAt(), gang.Terms{Admission: args.Admission, EvictsNobody: args.EvictsNobody}, mode, terms.Sources()})
}

// of returns the settings of a profile. The result ours is false if no profile with the plugin has
// this name.
func (p *profiles) of(name string) (s *settings, ours bool) {
	if found, ours := p.byName.Load(name); ours {
		return found.(*settings), true
	}
	return &settings{sources: dra.DefaultSources()}, false
}

// ours reports whether a profile with the plugin has this name.
func (p *profiles) ours(name string) bool {
	_, ours := p.byName.Load(name)
	return ours
}

type commonArgs struct {
	namespace, settle, stale, volcanoLease string
	ownersNeedNamespace                    bool
}

func (c commonArgs) String() string {
	return fmt.Sprintf("heartbeatNamespace %q, settleAfter %s, staleAfter %s, volcanoLease %q, reservationOwnersNeedNamespace %t",
		c.namespace, c.settle, c.stale, c.volcanoLease, c.ownersNeedNamespace)
}

func commonOf(a *Args) commonArgs {
	return commonArgs{a.HeartbeatNamespace, a.SettleAfter.Duration.String(), a.StaleAfter.Duration.String(), a.VolcanoLease, a.ReservationOwnersNeedNamespace}
}

// cores maps the informers of each scheduler in this process to the scheduler's core. The framework
// makes one plugin for every profile, and the informers are the only thing by which a plugin can
// find the core that it shares with the other profiles.
var cores struct {
	sync.Mutex
	byInformers map[informers.SharedInformerFactory]*core
}

// coreOf returns the core of the scheduler with these informers, or nil if no profile has the
// plugin.
func coreOf(shared informers.SharedInformerFactory) *core {
	cores.Lock()
	defer cores.Unlock()
	return cores.byInformers[shared]
}

// Parts gives access to the state that all profiles of one scheduler share.
type Parts struct{ core *core }

// PartsOf returns the Parts of the scheduler with these informers. It returns false if no profile
// has the plugin, or if the scheduler's context has ended.
func PartsOf(shared informers.SharedInformerFactory) (Parts, bool) {
	c := coreOf(shared)
	return Parts{c}, c != nil
}

// Delays returns the Delays of the scheduler, which measure how long pods wait, by cause.
func (p Parts) Delays() *Delays { return &p.core.delays }

// Outcomes returns the Writer of the results of attempts.
func (p Parts) Outcomes() *outcome.Writer { return p.core.outcomes }

// Decides reports whether Berth may place or refuse the pod. All other pods are left to
// kube-scheduler.
func (p Parts) Decides(pod *corev1.Pod) bool {
	return wire.MightPin(pod) || wire.MayCountNUMANodes(pod) || wire.InGang(pod) || wire.OfReservation(pod) || p.core.table.Obeying()
}

// Surplus reports whether the pod belongs to a gang that already has its minimum without the pod.
func (p Parts) Surplus(pod *corev1.Pod) bool { return p.core.gangs.Surplus(pod.UID) }

// MemberFailed must be called for each pod whose attempt failed, before kube-scheduler puts it back
// into the queue. It informs the pod's gang or Kubernetes PodGroup, if the pod has one.
func (p Parts) MemberFailed(pod *corev1.Pod) {
	c := p.core
	c.gangs.Failed(pod.UID, "the attempt to place pod "+pod.Name+" failed")
	if ownGroup(pod) != "" {
		c.pauses.failed(pod, c.decidesInGroup(pod))
	}
}

// decidesInGroup reports whether Berth may refuse nodes, or the pod itself, when kube-scheduler
// places the pod's PodGroup: the pod could be pinned, or its request is invalid.
func (c *core) decidesInGroup(pod *corev1.Pod) bool {
	if !wire.MightPin(pod) {
		return false
	}
	ask, err := c.pods.read(pod)
	return err != nil || ask.Request.Pinnable()
}

// sharedCore returns the core of the scheduler that the handle belongs to. The first call for a
// scheduler makes the core.
func sharedCore(ctx context.Context, args Args, handle fwk.Handle, o Options) (*core, error) {
	cores.Lock()
	defer cores.Unlock()
	key := handle.SharedInformerFactory()
	if c, ok := cores.byInformers[key]; ok {
		c.profiles.add(handle.ProfileName(), &args)
		if c.profiles.common != commonOf(&args) {
			return nil, fmt.Errorf("arguments of plugin %s: two profiles have (%v) and (%v): want the same values of these arguments in every profile",
				Name, c.profiles.common, commonOf(&args))
		}
		return c, nil
	}
	c := newCore(ctx, args, handle, o)
	c.profiles.add(handle.ProfileName(), &args)
	if err := c.start(ctx, args, handle); err != nil {
		return nil, err
	}
	if cores.byInformers == nil {
		cores.byInformers = map[informers.SharedInformerFactory]*core{}
	}
	cores.byInformers[key] = c
	context.AfterFunc(ctx, func() {
		cores.Lock()
		defer cores.Unlock()
		delete(cores.byInformers, key)
	})
	return c, nil
}

func newCore(ctx context.Context, args Args, handle fwk.Handle, o Options) *core {
	c := o.Clock
	if c == nil {
		c = clock.RealClock{}
	}
	logger := klog.LoggerWithName(klog.FromContext(ctx), Name)
	w := wake.New(&wakeEdge{clock: c, activator: handle, logger: logger})
	table := nodes.NewTable(c, args.StaleAfter.Duration, o.Providers...)
	lister := handle.SharedInformerFactory().Core().V1().Pods().Lister()
	made := &core{clock: c, pods: newPods(lister), table: table, waiters: w, lead: new(lead.Gate)}
	made.delays.clock, made.delays.waits = c, made.pods.waits
	made.events = newLeading(brief.Recorder(handle.EventRecorder()), made.lead, c)
	made.group = func(string, string) (OwnGroup, error) { return OwnGroup{}, nil }
	made.profiles.common = commonOf(&args)
	made.outcomes = outcome.NewWriter(outcome.Options{Client: handle.ClientSet(), Pods: lister, Clock: c, Logger: logger})
	made.onNodes = newOnNodes(handle, logger)
	made.gangs = newGangs(ctx, &args, handle, made, logger)
	made.annotating.clock, made.annotating.logger, made.annotating.waits = c, logger, made.delays.waits
	made.annotating.activate = func(pods map[string]*corev1.Pod) { handle.Activate(logger, pods) }
	made.reservations = newReservations(&args, made, logger)
	made.pauses = newGroupPauses(made.clock, func(pods map[string]*corev1.Pod) { handle.Activate(logger, pods) })
	made.feed = nodes.NewFeed(nodes.FeedOptions{
		Table: table, Waiters: w, Beside: made.onNodes.beside, Changed: made.stir, SettleAfter: args.SettleAfter.Duration, Exists: made.onNodes.exists, Logger: logger, Events: made.events, Metrics: feedMetrics{},
	})
	made.takeOverBy(handover.Options{
		Leases: handle.ClientSet().CoordinationV1().Leases(args.HeartbeatNamespace), Pods: handle.ClientSet().CoreV1(),
		Clock: c, Logger: logger, SettleAfter: args.SettleAfter.Duration,
	})
	made.refits = refit.New(refit.Options{
		Client: handle.ClientSet().CoreV1(), Pods: lister, Table: table, Handover: made.handover, Clock: c, Logger: logger, Events: made.events,
		Ready: func(ctx context.Context) bool { return made.lead.Leads() && made.notYet(ctx) == "" },
	})
	made.lead.Then(made.refits.Stir)
	return made
}

// takeOverBy creates the core's Handover from o and from functions of the core.
func (c *core) takeOverBy(o handover.Options) {
	o.BindTimeout, o.Ours, o.Decided = handover.BindTimeout, c.couldBind, wire.HasPlacement
	o.Resizing = func() []*corev1.Pod { return c.refits.Resizing() }
	o.Done = func() {
		c.waiters.WakeAll()
		c.refits.Stir()
	}
	c.handover = handover.New(o)
}

// WhoLeads sets the function that asks the API server whether this process leads, for the scheduler
// with these informers. Call it before the scheduler runs. It does nothing if no profile has the
// plugin.
func WhoLeads(shared informers.SharedInformerFactory, leads func(context.Context) (bool, error)) {
	if c := coreOf(shared); c != nil {
		c.handover.Leads = leads
	}
}

// couldBind reports whether another scheduler with the same profiles, such as the previous leader,
// could be binding this pod with a decision. The pod has no node yet.
func (c *core) couldBind(pod *corev1.Pod) bool {
	return c.profiles.ours(pod.Spec.SchedulerName) && (wire.MightPin(pod) || c.table.Obeying())
}

const (
	waitReports  = "Berth has not read all NodeTopologies yet"
	waitTakeover = "Berth makes sure that no Binding of the previous scheduler is under way"
)

// notYet returns the reason why the scheduler must not yet place pods that could be pinned, or "".
// Only the leader calls it.
func (c *core) notYet(ctx context.Context) string {
	switch {
	case !c.ready.Load():
		return waitReports
	case !c.handover.Ready(ctx):
		return waitTakeover
	default:
		return ""
	}
}

// MerelyWaits reports whether the pod of a failed attempt waits for a node's report, for the
// initial reports or for the takeover. It returns true even if other nodes have refused the pod.
func MerelyWaits(status *fwk.Status) bool {
	var none *framework.FitError
	if !errors.As(status.AsError(), &none) {
		return status.Code() == fwk.Pending
	}
	d := &none.Diagnosis
	return d.PendingPlugins.HasAny(Name, ClaimsName) || d.PreFilterMsg == waitReports || d.PreFilterMsg == waitTakeover
}

// refusesAlone reports whether only the plugin Berth has refused nodes in a failed attempt.
func refusesAlone(status *fwk.Status) bool {
	var none *framework.FitError
	if !errors.As(status.AsError(), &none) {
		return false
	}
	refusing := none.Diagnosis.UnschedulablePlugins.Union(none.Diagnosis.PendingPlugins)
	return refusing.Len() == 1 && refusing.Has(Name)
}

// start starts the watches, which end with ctx.
func (c *core) start(ctx context.Context, args Args, handle fwk.Handle) error {
	sources, err := nodes.NewSources(handle.KubeConfig(), handle.ClientSet(), args.HeartbeatNamespace)
	if err != nil {
		return err
	}
	namespaces := handle.SharedInformerFactory().Core().V1().Namespaces().Lister()
	pods, err := handle.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(c)
	if err != nil {
		return err
	}
	if err := c.watchNodes(handle.SharedInformerFactory().Core().V1().Nodes().Informer()); err != nil {
		return err
	}
	gang.WatchObjects(ctx, handle.KubeConfig(), c.gangs)
	if err := gang.WatchEnded(ctx, handle.ClientSet(), c.gangs); err != nil {
		return err
	}
	if err := c.reservations.Watch(ctx, handle.KubeConfig()); err != nil {
		return err
	}
	reports := c.feed.Watch(ctx, sources)
	synced := func() bool { return cache.WaitForCacheSync(ctx.Done(), pods.HasSynced, reports) }
	go c.begin(synced)
	go func() {
		if synced() {
			c.table.FollowDemand(ctx, c.onNodes.node)
		}
	}()
	go c.annotating.follow(ctx, handle.ClientSet(), args.volcanoLease())
	go c.gangs.Sweep(ctx, c.pods.uid, func(namespace string) (gone bool) {
		_, err := namespaces.Get(namespace)
		return apierrors.IsNotFound(err)
	})
	go c.reservations.Sweep(ctx, c.pods.uid)
	go c.feed.Sweep(ctx)
	go c.refits.Run(ctx)
	return nil
}

// maxTakeover is the maximum time for which the scheduler waits for the end of the takeover before
// it tries the first pod. Within that time, the API server usually answers the three requests of a
// takeover that fences no pods (package handover). After that time, the scheduler tries pods, but
// until the takeover ends, it places only pods for which nothing is pinned.
const maxTakeover = 2 * time.Second

// begin permits placements after all existing objects have been read.
func (c *core) begin(synced func() bool) {
	if synced() {
		c.table.DoubtSilent()
		c.handover.Synced()
		c.ready.Store(true)
		c.gangs.Synced()
		c.waiters.WakeAll()
		c.lead.Then(func() { c.handover.Await(context.Background(), maxTakeover) })
	}
}

var _ cache.ResourceEventHandler = (*core)(nil)

// OnAdd records a pod. The informer calls it in the order of the API server's writes, except for
// the pods that existed at the start.
func (c *core) OnAdd(obj any, initial bool) {
	pod := obj.(*corev1.Pod)
	if !initial {
		c.feed.Took(pod)
	}
	c.seen(pod, initial)
}

func (c *core) seen(pod *corev1.Pod, initial bool) {
	if pod.Spec.NodeName != "" {
		c.delays.bound(pod.UID)
		c.pods.forget(pod.UID)
	}
	c.outcomes.Shown(pod)
	c.feed.PodSeen(pod, initial)
	c.refits.Shown(pod)
	c.table.Demand.Seen(pod)
	c.annotating.shown(pod)
	c.gangs.PodSeen(pod)
	c.reservations.PodSeen(pod)
	c.handover.Seen(pod)
}

// OnUpdate records a change. After a broken watch, old may be a deleted pod, and obj a new pod with
// the same name (cache.ResourceEventHandler).
func (c *core) OnUpdate(old, obj any) {
	was, now := old.(*corev1.Pod), obj.(*corev1.Pod)
	if was.UID != now.UID {
		c.OnDelete(old)
	}
	if was.UID != now.UID || was.Spec.NodeName != now.Spec.NodeName || was.Generation != now.Generation {
		c.feed.Took(now)
	}
	c.seen(now, false)
}

// OnDelete records a deletion.
func (c *core) OnDelete(obj any) {
	if pod, ok := apiclient.Last(obj).(*corev1.Pod); ok {
		c.delays.forget(pod.UID)
		c.pods.forget(pod.UID)
		c.outcomes.Forget(pod.UID)
		c.feed.PodGone(pod)
		c.refits.Gone(pod.UID)
		c.table.Demand.Gone(pod.UID)
		c.annotating.gone(pod)
		c.gangs.PodGone(pod)
		c.reservations.PodGone(pod)
		c.handover.Gone(pod.UID)
	}
}
