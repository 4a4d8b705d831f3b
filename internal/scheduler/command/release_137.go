//go:build !kube136

package command

import (
	"context"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/berth-dev/berth/internal/scheduler"
)

// This file has the declarations for kube-scheduler 1.37. release_136.go declares the same names.

// entity is the queue's entry with which a cycle begins: a pod, or a Kubernetes PodGroup.
type entity = framework.QueuedEntityInfo

func eachPod(e entity, do func(*framework.QueuedPodInfo)) {
	if e == nil {
		return
	}
	e.ForEachPodInfo(func(info *framework.QueuedPodInfo) bool {
		if info != nil && info.Pod != nil {
			do(info)
		}
		return true
	})
}

// loop returns a pointer to the scheduler's function with which every cycle begins.
func loop(sched *kubescheduler.Scheduler) *func(klog.Logger) (entity, error) {
	return &sched.NextEntity
}

// taking returns two functions. next takes the next entity from the queue. take takes a given pod,
// or returns nil if the pod cannot be tried. The queue can only return its first entity. Therefore
// take names the pod in firstPod, so that Sort puts it first, and updates the pod, so that the
// queue sorts it again. If the queue still returns another entity, take returns nil, and the next
// call of next returns that entity.
func taking(sched *kubescheduler.Scheduler) (next func(klog.Logger) (entity, error), take func(klog.Logger, *corev1.Pod) entity) {
	shared := informersOf(sched)
	pop, waiting, pods := sched.NextEntity, sched.SchedulingQueue, shared.Core().V1().Pods().Lister()
	first := &firstPod{}
	if of, ok := firstPods.Load(shared); ok {
		first = of.(*firstPod)
	}
	var another entity
	next = func(logger klog.Logger) (entity, error) {
		if found := another; found != nil {
			another = nil
			return found, nil
		}
		return pop(logger)
	}
	take = func(logger klog.Logger, pod *corev1.Pod) entity {
		if another != nil {
			return nil
		}
		waiting.Activate(logger, map[string]*corev1.Pod{pod.Name: pod})
		info, there := waiting.GetPod(pod.Name, pod.Namespace, pod.Spec.SchedulingGroup)
		newest, err := pods.Pods(pod.Namespace).Get(pod.Name)
		if !there || info.Gated() || err != nil || newest.UID != pod.UID {
			return nil
		}
		first.uid.Store(&newest.UID)
		defer first.uid.Store(nil)
		waiting.Update(klog.NewContext(context.Background(), logger), newest, newest)
		found, err := pop(logger)
		if err != nil {
			return nil
		}
		if one, ok := found.(*framework.QueuedPodInfo); ok && one.Pod.UID == pod.UID {
			return found
		}
		another = found
		return nil
	}
	return next, take
}

// groupIn returns a function that returns a Kubernetes PodGroup. If the feature gate
// GenericWorkload is on, the scheduler watches PodGroups.
func groupIn(shared informers.SharedInformerFactory) func(namespace, name string) (scheduler.OwnGroup, error) {
	return func(namespace, name string) (out scheduler.OwnGroup, err error) {
		group, err := shared.Scheduling().V1beta1().PodGroups().Lister().PodGroups(namespace).Get(name)
		if err != nil {
			return out, err
		}
		if gang := group.Spec.SchedulingPolicy.Gang; gang != nil {
			out.Least = int(gang.MinCount)
		}
		mode := group.Spec.DisruptionMode
		out.Priority, out.Whole = new(util.PodGroupPriority(group)), mode != nil && mode.All != nil
		return out, nil
	}
}

// backlog implements reservation.Queue with the scheduling queue.
type backlog struct{ queue.SchedulingQueue }

// Delete implements reservation.Queue.
func (b backlog) Delete(pod *corev1.Pod) { b.SchedulingQueue.Delete(klog.Background(), pod) }

// PutBack implements reservation.Queue.
func (b backlog) PutBack(logger klog.Logger, info *framework.QueuedPodInfo, cycle int64) error {
	return b.AddUnschedulablePodIfNotPresent(logger, info, cycle)
}

// PatchPodStatus implements fwk.APICacher. It returns no channel, because no caller waits for the
// write.
func (p patching) PatchPodStatus(pod *corev1.Pod, conditions []*corev1.PodCondition, nominating *fwk.NominatingInfo) (<-chan error, error) {
	if len(conditions) == 0 {
		p.write(pod, nil, nominating)
	}
	for _, condition := range conditions {
		p.write(pod, condition, nominating)
	}
	return nil, nil
}

// firstPod names the pod that Sort puts before all others. It is empty most of the time.
type firstPod struct{ uid atomic.Pointer[types.UID] }

// firstPods has the firstPod of each scheduler in this process. The key is the scheduler's
// informers, which its profiles share.
var firstPods sync.Map

// firstPodIn returns the firstPod of the scheduler with these informers, and forgets it when ctx
// ends.
func firstPodIn(ctx context.Context, shared informers.SharedInformerFactory) *firstPod {
	c, known := firstPods.LoadOrStore(shared, &firstPod{})
	if !known {
		context.AfterFunc(ctx, func() { firstPods.Delete(shared) })
	}
	return c.(*firstPod)
}

// Less implements fwk.QueueSortPlugin.
func (s Sort) Less(a, b fwk.QueuedEntityInfo) bool {
	if x, y := s.first.is(a), s.first.is(b); x != y {
		return x
	}
	return s.of(a).before(s.of(b))
}

func (c *firstPod) is(e fwk.QueuedEntityInfo) bool {
	if c == nil {
		return false
	}
	uid := c.uid.Load()
	if uid == nil {
		return false
	}
	one, ok := e.(*framework.QueuedPodInfo)
	return ok && one.Pod.UID == *uid
}

// of returns the properties of an entity that Sort compares. For a group it uses the time when the
// group was queued, because its members have different ages.
func (s Sort) of(e fwk.QueuedEntityInfo) waiting {
	if one, ok := e.(*framework.QueuedPodInfo); ok {
		return s.one(one.Pod, one.GetPriority(), one.GetTimestamp(), one.GetAttempts())
	}
	return waiting{priority: e.GetPriority(), since: e.GetTimestamp(), queued: e.GetTimestamp()}
}
