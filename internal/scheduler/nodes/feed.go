package nodes

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/scheduler/later"
	"github.com/berth-dev/berth/internal/scheduler/wake"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// FeedOptions are the inputs of a Feed.
type FeedOptions struct {
	Table   *Table
	Waiters *wake.Waiters
	// SettleAfter is the time after which a pod that has left the API is forgotten, if an active
	// agent does not list it.
	SettleAfter time.Duration
	// Exists reports whether there is a Node object of the given name.
	Exists func(node string) bool
	// Beside returns facts about a node that a report with only amounts (apiclient.CoarseKinds)
	// lacks, such as the node's pods. It is nil if the feed never reads such reports.
	Beside func(node string) *wire.Beside
	// Changed is called when a pod has left a node, when a report has arrived, or when a node is
	// reliable again.
	Changed func()
	Logger  klog.Logger
	Events  events.EventRecorder
	Metrics Metrics
	// Onlooker receives events about pods that other schedulers place; nil if this process places
	// pods.
	Onlooker Onlooker
}

// Metrics counts events of a Feed.
type Metrics interface {
	// PromiseSettled counts a decision that a report has settled.
	PromiseSettled(ledger.Result)
	// ReportRefused counts a report that is not reliable.
	ReportRefused()
	// PlacementIgnored counts a bound pod whose decision cannot be read.
	PlacementIgnored()
}

// Feed applies events from the API to the nodes, and wakes pods that the events may help. It is
// safe for concurrent use.
type Feed struct {
	FeedOptions
	// reports is held while a report is accepted or removed.
	reports sync.Mutex
	// coarse means that the feed has received a report with only amounts.
	coarse atomic.Bool
	// posted has, by UID, the pods (type post) whose Bindings may have been written, and which the
	// watch has not yet shown on a node.
	posted sync.Map
	// slow is the time at which a Binding was last found to be late (echo.go), or nil.
	slow atomic.Pointer[time.Time]
	// lowest is the result of LowestPriority.
	lowest atomic.Int32
}

// NewFeed returns a feed that has not received anything yet.
func NewFeed(o FeedOptions) *Feed { return &Feed{FeedOptions: o} }

// post is a pod whose Binding may have been written, with its node and the time of the decision.
// The time is zero if the Binding was sent again.
type post struct {
	pod  *corev1.Pod
	node *Node
	at   time.Time
}

// Posted records that the Binding of a pod to the node is about to be sent, so it may be written
// from now on.
func (f *Feed) Posted(pod *corev1.Pod, n *Node) {
	f.posted.Store(pod.UID, post{pod, n, f.Table.clock.Now()})
}

// PostedOn returns the pods whose Binding to the node may have been written, but which the watch
// has not shown there yet.
func (f *Feed) PostedOn(node string) (pods []*corev1.Pod) {
	f.posted.Range(func(_, v any) bool {
		if p := v.(post); p.node.name == node {
			pods = append(pods, p.pod)
		}
		return true
	})
	return pods
}

// Took records that a pod has appeared on its node, or that a pod on its node has new requests. It
// ignores pods that Posted has recorded, because the account has them already.
func (f *Feed) Took(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" {
		return
	}
	if _, ours := f.posted.Load(pod.UID); ours {
		return
	}
	if n := f.Table.Known(pod.Spec.NodeName); n != nil {
		n.took.Store(int64(since(f.Table.clock.Now())))
	}
}

// TakenBack records that the Binding of a pod was not written.
func (f *Feed) TakenBack(uid types.UID) { f.posted.Delete(uid) }

// LowestPriority returns the lowest priority of all pods that may have pinned resources and were
// ever seen on a node, but at most 0. A pod with this priority or a lower one cannot evict any of
// them.
func (f *Feed) LowestPriority() int32 { return f.lowest.Load() }

// PodGone records a deletion. If the watch was interrupted, pod is the last version that it showed,
// and the pod may have been bound since.
func (f *Feed) PodGone(pod *corev1.Pod) {
	f.podGone(pod)
	if f.coarse.Load() {
		f.amountsWithout(pod)
	}
}

func (f *Feed) podGone(pod *corev1.Pod) {
	f.Waiters.Done(string(pod.UID))
	name := pod.Spec.NodeName
	v, posted := f.posted.LoadAndDelete(pod.UID)
	if posted && name == "" {
		name = v.(post).node.name
	}
	if name == "" {
		return
	}
	if !posted && !counts(pod) { // a posted pod is in the account, even if this version shows no decision
		f.Changed() // no report will show that the pod is gone
		return
	}
	n := f.Table.Known(name)
	if n == nil {
		return
	}
	f.settle(n, n.account.Gone(string(pod.UID), f.Table.clock.Now()))
	f.Waiters.NodeChanged(n.account)
	f.Changed()
	f.forgetOfLost(n)
}

// counts reports whether the pod may have pinned resources: a kubelet might pin some for it, or
// Berth has decided for it.
func counts(pod *corev1.Pod) bool { return wire.MightPin(pod) || wire.HasPlacement(pod) }

// PodSeen records a version of a pod. The parameter initial means that the pod existed when the
// watch began.
func (f *Feed) PodSeen(pod *corev1.Pod, initial bool) {
	if f.coarse.Load() && f.amountsWith(pod) {
		return
	}
	if f.Onlooker == nil || !f.answered(pod) {
		f.podSeen(pod, initial)
	}
}

func (f *Feed) podSeen(pod *corev1.Pod, initial bool) {
	if pod.Spec.NodeName == "" {
		return
	}
	f.Waiters.Done(string(pod.UID))
	if !counts(pod) {
		return
	}
	f.lower(corev1helpers.PodPriority(pod))
	f.resolve(pod, pod.Spec.NodeName)
	n := f.Table.ofPod(pod.Spec.NodeName)
	if n == nil {
		f.Logger.V(2).Info("Pod names a node without a Node object or a report", "pod", klog.KObj(pod), "node", pod.Spec.NodeName)
		return
	}
	if n.account.Glance(ledger.Glimpse{UID: string(pod.UID), Ending: wire.Ending(pod), Ended: wire.Ended(pod), Mortal: wire.Mortal(pod), Generation: wire.GenerationOf(pod),
		Asks: func(r *placement.Request) bool { return wire.AsksFor(pod, r) }}) {
		return
	}
	s, err := nodestate.SightingOf(pod)
	switch {
	case errors.Is(err, nodestate.ErrNotPinnable):
		return
	case err != nil:
		// The API server has admitted a pod that Berth cannot read. The node's report will show the
		// pod's resources.
		f.Logger.Error(err, "Pod on a node cannot be read", "pod", klog.KObj(pod), "node", n.name)
		return
	case s.Ignored != nil:
		f.Metrics.PlacementIgnored()
		f.Events.Eventf(pod, nil, corev1.EventTypeWarning, "PlacementIgnored", "Scheduling", "%s", s.Ignored)
	}
	s.Inherited = initial
	if f.Onlooker != nil && f.witness(pod, n, &s) {
		return
	}
	changed, broken := n.account.See(s.Sighting)
	f.settle(n, broken)
	if changed {
		f.Waiters.NodeChanged(n.account)
	}
}

// lower sets f.lowest to the priority of a pod on a node, if this priority is lower.
func (f *Feed) lower(priority int32) {
	for {
		old := f.lowest.Load()
		if priority >= old || f.lowest.CompareAndSwap(old, priority) {
			return
		}
	}
}

// resolve records that the watch shows the pod on the named node. If Posted recorded another node
// for the pod, resolve removes the reservation on that node.
func (f *Feed) resolve(pod *corev1.Pod, nodeName string) {
	p, ok := f.shown(pod.UID)
	if !ok {
		return
	}
	if n := p.node; n.name != nodeName {
		n.account.See(ledger.Sighting{UID: string(pod.UID), Phase: ledger.Elsewhere})
		f.Waiters.NodeChanged(n.account)
		f.Changed()
	}
}

// ReportSeen processes a report that the watch shows. o is the NodeTopology.
func (f *Feed) ReportSeen(o metav1.Object) {
	r, err := f.Table.kinds.ReadObject(o, f.Table.Named(o.GetName()).lastKind())
	if err != nil {
		f.Logger.Error(err, "Report cannot be read", "node", o.GetName())
		return
	}
	if f.Onlooker != nil {
		f.Onlooker.Reported(o, r)
	}
	what := f.takeFull(r)
	f.tell(f.Table.Named(r.Node), what)
	if f.Onlooker != nil && what != noNews {
		f.Onlooker.Alive(r.Node, o)
	}
}

// takeFull accepts the report of an agent, and returns its effect on waiting pods.
func (f *Feed) takeFull(r *nodestate.Reading) news {
	f.reports.Lock()
	defer f.reports.Unlock()
	n := f.Table.Named(r.Node)
	n.amounts.full = true
	n.amounts.inUse.Store(false)
	if wrong := n.older(r); wrong != nil {
		f.refuse(n, r, wrong)
		return noNews
	}
	return f.take(n, r)
}

// news is the effect of a report on pods that need a node.
type news uint8

const (
	noNews news = iota
	// nodeChanged means that there is a new report of a node that was already reliable.
	nodeChanged
	// nodeReturned means that the node is reliable again, or its hardware or configuration has
	// changed.
	nodeReturned
)

// tell wakes the pods that the news may help. The caller must not hold f.reports, so that the Feed
// can accept pods and amounts while nodes are asked. Meanwhile, further reports of agents wait in
// the reflectorStore.
func (f *Feed) tell(n *Node, what news) {
	switch what {
	case nodeChanged:
		f.Waiters.NodeChanged(n.account)
	case nodeReturned:
		f.Waiters.NodeReturned(n.account)
	default:
		return
	}
	f.foresee(n)
	f.Changed()
}

// take accepts a report as the newest one, whatever its sequence number is. The caller holds
// f.reports, and passes the result to tell.
func (f *Feed) take(n *Node, r *nodestate.Reading) news {
	wasRefused, before := f.Table.Unusable(n) != nil, n.lastKind()
	if r.Coarse() {
		n.needNoHeartbeat()
	} else {
		n.noteHeartbeat(f.Table.clock.Now())
	}
	f.Table.prove(n)
	outcomes, wrong := n.accept(r)
	f.Table.countObeying(n)
	if wrong != nil {
		f.refuse(n, r, wrong)
		return noNews
	}
	for i := range outcomes {
		f.settle(n, &outcomes[i])
	}
	n.account.ForgetGone(f.Table.clock.Now(), f.SettleAfter)
	if wasRefused || r.Kind != before {
		return nodeReturned
	}
	return nodeChanged
}

// refuse records the reason why a report is not reliable. It writes an event if the reason is new.
func (f *Feed) refuse(n *Node, r *nodestate.Reading, why *nodestate.Unusable) {
	if !n.distrust(why) {
		return
	}
	var notReady *wire.NotReadyError
	if errors.As(why, &notReady) { // not an error: the report itself says that it is not Ready
		f.Logger.Info("Report not Ready", "node", n.name, "kind", r.Source.Kind, "err", why.Cause)
		return
	}
	f.Metrics.ReportRefused()
	f.Events.Eventf(refTo(&r.Source), nil, corev1.EventTypeWarning, "ReportRefused", "Reporting", "%s", why.Cause)
	f.Logger.Info("Report refused", "node", n.name, "kind", r.Source.Kind, "err", why.Cause)
}

// refTo returns a reference to a report. Events need it because the scheduler's recorder knows only
// the kinds of Kubernetes.
func refTo(s *nodestate.Source) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: s.APIVersion, Kind: s.Kind, Name: s.Name, UID: types.UID(s.UID), ResourceVersion: s.Version}
}

// settle counts the outcome o of a promise, and logs it if the promise was not kept. o may be nil.
func (f *Feed) settle(n *Node, o *ledger.PromiseOutcome) {
	if o == nil {
		return
	}
	result := o.Result()
	f.Metrics.PromiseSettled(result)
	if f.Onlooker != nil {
		f.Onlooker.Settled(n.name, o)
		return
	}
	if result != ledger.ResultKept {
		f.Logger.Info("A promise was not kept", "node", n.name, "uid", o.UID, "outcome", result,
			"promised", fmt.Sprintf("%+v", o.Promised), "found", fmt.Sprintf("%+v", o.Found))
	}
}

// ReportGone records that a node's report is gone.
func (f *Feed) ReportGone(name string) {
	n := f.Table.Named(name)
	f.tell(n, f.loseReport(n))
	f.forgetOfLost(n)
	if f.Onlooker != nil {
		f.Onlooker.ReportGone(name)
	}
}

// NodeGone records that a Node is gone.
func (f *Feed) NodeGone(name string) {
	if n := f.Table.Known(name); n != nil {
		f.forgetOfLost(n)
	}
}

// forgetOfLost forgets the deleted pods of a node after SettleAfter, if the node then has neither a
// report nor a Node object, because no report will show that these pods left. This is safe: the
// scheduler places no pods on the node before a new report, and that report makes the ledger forget
// the pods anyway. forgetOfLost is called when a pod, a report or a Node is gone.
func (f *Feed) forgetOfLost(n *Node) {
	if n.account.View().Report() == nil {
		f.letGoLater(n, func() bool { return n.account.View().Report() == nil && !f.Exists(n.name) })
	}
}

// letGoLater waits for SettleAfter, and then calls the function right. If right returns true,
// letGoLater forgets the pods that had left the API before the wait.
func (f *Feed) letGoLater(n *Node, right func() bool) {
	now := f.Table.clock.Now()
	later.Call(f.Table.clock, f.SettleAfter, func() {
		if right() {
			f.letGo(n, now)
		}
	})
}

// letGo forgets the node's pods that left the API at the time `by` or earlier.
func (f *Feed) letGo(n *Node, by time.Time) {
	if n.account.ForgetGone(by, 0) {
		f.Waiters.NodeChanged(n.account)
		f.Changed()
	}
}

func (f *Feed) loseReport(n *Node) news {
	f.reports.Lock()
	defer f.reports.Unlock()
	n.lose()
	n.amounts.full = false
	return f.goByAmounts(n)
}

// HeartbeatSeen processes a heartbeat of an agent.
func (f *Feed) HeartbeatSeen(lease *coordinationv1.Lease) {
	heartbeat, err := nodestate.HeartbeatOf(lease)
	if err != nil {
		if !errors.Is(err, nodestate.ErrNoHeartbeat) {
			f.Logger.V(2).Info("Heartbeat cannot be read", "err", err)
		}
		return
	}
	n := f.Table.Named(heartbeat.Node)
	what, confirmed := f.takeConfirmed(n, &heartbeat)
	if f.tell(n, what); confirmed {
		return
	}
	if n.amounts.inUse.Load() {
		return
	}
	now := f.Table.clock.Now()
	if r := n.account.View().Report(); r != nil && !heartbeat.VouchesFor(r.Sequence) {
		if n.refused(heartbeat.Sequence) {
			n.noteHeartbeat(now) // the agent is alive; its report shows why the node is not reliable
		}
		return
	}
	wasStale := f.Table.Unusable(n) == silent
	n.noteHeartbeat(now)
	if f.Onlooker != nil {
		f.Onlooker.Alive(n.name, lease)
	}
	switch dropped := n.account.ForgetGone(now, f.SettleAfter); {
	case wasStale:
		f.Waiters.NodeReturned(n.account)
		f.Changed()
	case dropped:
		f.Waiters.NodeChanged(n.account)
		f.Changed()
	}
}

// takeConfirmed accepts the report that Node.older has put aside, if the heartbeat confirms it.
func (f *Feed) takeConfirmed(n *Node, heartbeat *nodestate.Heartbeat) (what news, confirmed bool) {
	f.reports.Lock()
	defer f.reports.Unlock()
	r := n.confirmed(heartbeat)
	if r == nil {
		return noNews, false
	}
	return f.take(n, r), true
}
