package gang

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/berth-dev/berth/internal/gangfit"
	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/wire"
)

// evictor evicts pods, and records which pods are protected and which were evicted. A caller that
// holds the book's lock may take the evictor's lock, but not the reverse.
type evictor struct {
	o  *Options
	of *book
	// any means that there is, or was, at least one protected pod.
	any atomic.Bool

	mu sync.Mutex
	// evicted has the time at which Berth evicted each pod. forgetOld removes the entries that are
	// older than leaveTimeout.
	evicted map[types.UID]time.Time
	// protected has the priority of each placed pod that the annotation or label
	// volcano.sh/preemptable protects from eviction. kube-scheduler's own preemption ignores this
	// annotation and label.
	protected map[types.UID]int32
}

var _ others = (*evictor)(nil)

// Occupant implements others.
func (e *evictor) Occupant(pod *corev1.Pod) gangfit.Occupant {
	of := e.of.gangOf(pod)
	o := gangfit.Occupant{
		Priority: corev1helpers.PodPriority(pod), Leaving: e.isLeaving(pod), Stays: e.protects(pod) || e.of.keepsPods(of), Fixed: gangs.Fixed(pod, e.o.Clock.Now()),
	}
	switch {
	case !of.IsZero():
		o.Gang = of.String()
	case pod.Spec.SchedulingGroup != nil && e.o.OwnGroup != nil:
		o.Gang, o.Priority = e.o.OwnGroup(pod)
	}
	return o
}

// surplus implements others.
func (e *evictor) surplus(members []*corev1.Pod) map[types.UID]bool {
	return e.of.surplus(e.of.gangOf(members[0]), members)
}

func (e *evictor) budgets() []*policyv1.PodDisruptionBudget {
	list, err := e.o.Budgets()
	if err != nil {
		e.o.Logger.Error(err, "PodDisruptionBudgets cannot be read; evictions for gangs ignore them")
	}
	return list
}

// protects reports whether the pod's own annotation or label volcano.sh/preemptable protects it
// from eviction. Both count only in namespaces that Options.Protects allows.
func (e *evictor) protects(pod *corev1.Pod) bool {
	return wire.KeptFromEviction(pod) && e.o.mayProtect(pod.Namespace)
}

// note updates the map e.protected with a version of a pod from the watch. The parameter onNode
// means that the pod has a node and has not ended.
func (e *evictor) note(pod *corev1.Pod, onNode bool) {
	protected := onNode && e.protects(pod)
	if !protected && !e.any.Load() {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if delete(e.protected, pod.UID); protected {
		e.protected[pod.UID] = corev1helpers.PodPriority(pod)
		e.any.Store(true)
	}
}

// sparesBelow reports whether some protected pod has a priority below limit.
func (e *evictor) sparesBelow(limit int32) bool {
	if !e.any.Load() {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, priority := range e.protected {
		if priority < limit {
			return true
		}
	}
	return false
}

// leaveTimeout limits how long an evicted pod counts as leaving while the watch does not show its
// deletion.
const leaveTimeout = 30 * time.Second

// isLeaving reports whether a pod is being deleted, or was evicted within leaveTimeout.
func (e *evictor) isLeaving(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	at, ok := e.evicted[pod.UID]
	return ok && e.o.Clock.Now().Sub(at) < leaveTimeout
}

// awaits reports whether any pod was evicted within the last leaveTimeout.
func (e *evictor) awaits() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.forgetOld()
	return len(e.evicted) > 0
}

// forgetOld removes evictions that are older than leaveTimeout. The caller holds the evictor's
// lock.
func (e *evictor) forgetOld() {
	now := e.o.Clock.Now()
	maps.DeleteFunc(e.evicted, func(_ types.UID, at time.Time) bool { return now.Sub(at) >= leaveTimeout })
}

// sendAway starts to evict victims, if this process leads. The parameter by names the gang or pod
// that needs their resources.
func (e *evictor) sendAway(victims []*corev1.Pod, by string) {
	if len(victims) == 0 || !e.o.Lead.Leads() {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.forgetOld()
	for _, victim := range victims {
		e.evicted[victim.UID] = e.o.Clock.Now()
	}
	victimsEvicted.Add(float64(len(victims)))
	go func() {
		for _, victim := range victims {
			e.preempt(victim, by)
		}
	}()
}

// preempt evicts one victim. If the victim waits in Permit, preempt rejects it, and the victim goes
// back to the queue. Otherwise preempt deletes the victim.
func (e *evictor) preempt(victim *corev1.Pod, by string) {
	if w := e.o.Waiting(victim.UID); w != nil && w.Preempt(Name, "preempted by "+by) {
		return
	}
	ctx, cancel := context.WithTimeout(klog.NewContext(context.Background(), e.o.Logger), requestTimeout)
	defer cancel()
	err := e.o.patchCondition(ctx, victim, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
		Reason: corev1.PodReasonPreemptionByScheduler, Message: "Berth: preempting to accommodate " + by + ", which has a higher priority than this pod or its gang",
	})
	if err == nil {
		options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(victim.UID))}
		err = e.o.Client.CoreV1().Pods(victim.Namespace).Delete(ctx, victim.Name, options)
	}
	switch {
	case err == nil:
		e.o.Events.Eventf(victim, nil, corev1.EventTypeNormal, "Preempted", "Preempting", "Preempted by %s on node %s", by, victim.Spec.NodeName)
	case !isGone(err):
		e.o.Logger.Error(err, "Pod cannot be evicted; the preemptor is tried again", "pod", klog.KObj(victim), "for", by)
		e.mu.Lock()
		delete(e.evicted, victim.UID)
		e.mu.Unlock()
		e.of.stirred()
	}
}
