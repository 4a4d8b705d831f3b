package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/scheduler/handover"
	"github.com/berth-dev/berth/internal/scheduler/wake"
	"github.com/berth-dev/berth/internal/wire"
)

// feed turns what the API tells into changes of the ledgers.
type feed struct {
	nodes   *nodes
	waiters *wake.Waiters
	clock   clock.PassiveClock
	settle  time.Duration
	stale   time.Duration
	logger  klog.Logger
	events  events.EventRecorder
	// handover is told of pods after they were taken in.
	handover *handover.Handover
	// reports is held while a report is taken in or leaves.
	reports sync.Mutex
	// posted are pods whose Binding may have been written and that the API has not shown on a node
	// yet, by UID: node.
	posted sync.Map
	// lowest is the lowest priority ever seen on a node, or 0. A pod that is not above it has
	// nobody to evict.
	lowest atomic.Int32
}

// podHandler feeds pods. Its events come in the order of the API server's writes.
func (f *feed) podHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(obj any, initial bool) { f.podTold(obj.(*corev1.Pod), initial) },
		UpdateFunc: func(old, obj any) { f.podChanged(old.(*corev1.Pod), obj.(*corev1.Pod)) },
		DeleteFunc: f.podDeleted,
	}
}

func (f *feed) podTold(pod *corev1.Pod, initial bool) {
	f.podSeen(pod, initial)
	f.handover.Seen(pod)
}

// podChanged takes a change in. A list that comes after a break may tell of a pod that was deleted
// and created again under its name as of one that has changed (cache.ResourceEventHandler).
func (f *feed) podChanged(old, pod *corev1.Pod) {
	if old.UID != pod.UID {
		f.podDeleted(old)
	}
	f.podTold(pod, false)
}

func (f *feed) podDeleted(obj any) {
	if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	if pod, ok := obj.(*corev1.Pod); ok {
		f.podGone(pod)
		f.handover.Gone(pod.UID)
	}
}

// podGone takes a deletion in. Where the watch had broken, the pod is as it was told of last: it
// may have been bound since.
func (f *feed) podGone(pod *corev1.Pod) {
	f.waiters.Done(uidOf(pod))
	name := pod.Spec.NodeName
	if v, ok := f.posted.LoadAndDelete(pod.UID); ok && name == "" {
		name = v.(*node).name
	}
	if name == "" || !mightPin(pod) {
		return
	}
	n := f.nodes.get(name)
	f.account(n.name, n.Gone(uidOf(pod), f.clock.Now()))
	f.waiters.NodeChanged(n)
}

// podSeen takes a pod in; initial says that it was there when the watch began.
func (f *feed) podSeen(pod *corev1.Pod, initial bool) {
	if pod.Spec.NodeName == "" || !mightPin(pod) {
		return
	}
	f.waiters.Done(uidOf(pod))
	f.lower(priorityOf(pod))
	f.resolve(pod, pod.Spec.NodeName)
	n := f.nodes.get(pod.Spec.NodeName)
	if n.Glance(uidOf(pod), wire.Ending(pod), wire.Mortal(pod)) {
		return
	}
	s, err := nodestate.SightingOf(pod)
	switch {
	case errors.Is(err, nodestate.ErrNotPinnable):
		return
	case err != nil:
		// The API server admitted what we cannot read: the kubelet's report will tell what it got.
		f.logger.Error(err, "Pod is on a node but cannot be understood", "pod", klog.KObj(pod), "node", n.name)
		return
	case s.Ignored != nil:
		podsRefused.WithLabelValues("placement").Inc()
		f.events.Eventf(pod, nil, corev1.EventTypeWarning, "PlacementIgnored", "Scheduling", "%s", s.Ignored)
	}
	s.Inherited = initial
	changed, broken := n.See(s.Sighting)
	f.account(n.name, broken)
	if changed {
		f.waiters.NodeChanged(n)
	}
}

// lower notes the priority of a pod that is on a node.
func (f *feed) lower(priority int32) {
	for {
		old := f.lowest.Load()
		if priority >= old || f.lowest.CompareAndSwap(old, priority) {
			return
		}
	}
}

// resolve ends the doubt about a pod's Binding: the API shows the pod on the named node.
func (f *feed) resolve(pod *corev1.Pod, nodeName string) {
	v, ok := f.posted.LoadAndDelete(pod.UID)
	if !ok {
		return
	}
	if n := v.(*node); n.name != nodeName {
		n.Dismiss(uidOf(pod))
		f.waiters.NodeChanged(n)
	}
}

// topologySeen takes the object of a report in.
func (f *feed) topologySeen(o metav1.Object) {
	r, err := f.nodes.kinds.ReadObject(o, f.nodes.get(o.GetName()).lastKind())
	if err != nil {
		f.logger.Error(err, "Not a report")
		return
	}
	f.reportSeen(r)
}

// reportSeen takes a report in, whatever it was read from.
func (f *feed) reportSeen(r *nodestate.Reading) {
	f.reports.Lock()
	defer f.reports.Unlock()
	n := f.nodes.get(r.Node)
	if wrong := n.older(r); wrong != nil {
		f.refuse(n, r, wrong)
		return
	}
	f.take(n, r)
}

// take takes a report in that is newer than the one before, whatever their numbers. The caller
// holds the lock.
func (f *feed) take(n *node, r *nodestate.Reading) {
	wasRefused, before := n.unusable(f.clock.Now(), f.stale) != nil, n.lastKind()
	n.hear(f.clock.Now())
	landings, wrong := n.accept(r)
	if wrong != nil {
		f.refuse(n, r, wrong)
		return
	}
	for i := range landings {
		f.account(n.name, &landings[i])
	}
	n.ForgetGone(f.clock.Now(), f.settle)
	if wasRefused || r.Kind != before {
		f.waiters.NodeReturned(n)
		return
	}
	f.waiters.NodeChanged(n)
}

// refuse notes why a report is not relied on, and tells if that is news.
func (f *feed) refuse(n *node, r *nodestate.Reading, why *nodestate.Unusable) {
	if !n.distrust(why) {
		return
	}
	reportsRefused.Inc()
	f.events.Eventf(refTo(&r.Source), nil, corev1.EventTypeWarning, "ReportRefused", "Reporting", "%s", why.Cause)
	f.logger.Info("Report refused", "node", n.name, "kind", r.Source.Kind, "err", why.Cause)
}

// refTo refers to a report: the scheduler's recorder knows the kinds of Kubernetes alone.
func refTo(s *nodestate.Source) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: s.APIVersion, Kind: s.Kind, Name: s.Name, UID: types.UID(s.UID)}
}

// account counts how a promise turned out; nil stands for none.
func (f *feed) account(node string, l *ledger.PromiseOutcome) {
	if l == nil {
		return
	}
	outcome := outcomeOf(l)
	promises.WithLabelValues(outcome).Inc()
	if outcome != outcomeKept {
		f.logger.Info("A promise was not kept", "node", node, "uid", l.UID, "outcome", outcome,
			"promised", fmt.Sprintf("%+v", l.Promised), "found", fmt.Sprintf("%+v", l.Found))
	}
}

func outcomeOf(l *ledger.PromiseOutcome) string {
	switch {
	case !l.Refused && (l.Kept || !l.Exact):
		return outcomeKept
	case l.Contended:
		return outcomeContended
	case l.Refused:
		return outcomeRefused
	default:
		return outcomeMispredicted
	}
}

// topologyGone says that a node's report is no more.
func (f *feed) topologyGone(name string) {
	f.reports.Lock()
	defer f.reports.Unlock()
	f.nodes.get(name).lose()
}

// leaseSeen takes a sign of life in.
func (f *feed) leaseSeen(lease *coordinationv1.Lease) {
	beat, err := nodestate.HeartbeatOf(lease)
	if err != nil {
		if !errors.Is(err, nodestate.ErrNoHeartbeat) {
			f.logger.V(2).Info("Heartbeat cannot be read", "err", err)
		}
		return
	}
	n := f.nodes.get(beat.Node)
	if f.confirm(n, &beat) {
		return
	}
	now := f.clock.Now()
	if r := n.View().Report(); r != nil && !beat.VouchesFor(r.Sequence) {
		if n.refused(beat.Sequence) {
			n.hear(now) // its agent lives, and says itself why the node cannot be relied on
		}
		return
	}
	wasStale := n.unusable(now, f.stale) == silent
	n.hear(now)
	switch dropped := n.ForgetGone(now, f.settle); {
	case wasStale:
		f.waiters.NodeReturned(n)
	case dropped:
		f.waiters.NodeChanged(n)
	}
}

// confirm takes in the report that was put aside, if there is one and the heartbeat vouches for it.
func (f *feed) confirm(n *node, beat *nodestate.Heartbeat) bool {
	f.reports.Lock()
	defer f.reports.Unlock()
	r := n.confirmed(beat)
	if r != nil {
		f.take(n, r)
	}
	return r != nil
}

// start begins to feed, and returns a function that waits until everything that was there has been
// taken in.
func (f *feed) start(ctx context.Context, s sources) (waitForSync func() bool) {
	reports, beats := newSink(f.topologySeen, f.topologyGone), newSink(f.leaseSeen, func(string) {})
	go reports.run(ctx, s.topologies, nodestate.NewObject())
	go beats.run(ctx, s.leases, &coordinationv1.Lease{})
	return func() bool { return cache.WaitForCacheSync(ctx.Done(), s.podsSynced, reports.hasSynced) }
}
