//go:build kube136

package command

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/client-go/informers"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/berth-dev/berth/internal/scheduler"
)

// This file has the declarations for kube-scheduler 1.36. release_137.go declares the same names.

// entity is the queue's entry with which a cycle begins: a pod.
type entity = *framework.QueuedPodInfo

func eachPod(e entity, do func(*framework.QueuedPodInfo)) {
	if e != nil && e.Pod != nil {
		do(e)
	}
}

// loop returns a pointer to the scheduler's function with which every cycle begins.
func loop(sched *kubescheduler.Scheduler) *func(klog.Logger) (entity, error) { return &sched.NextPod }

// taking returns two functions. next takes the next entity from the queue, and take takes a given
// pod.
func taking(sched *kubescheduler.Scheduler) (next func(klog.Logger) (entity, error), take func(klog.Logger, *corev1.Pod) entity) {
	return sched.NextPod, sched.SchedulingQueue.PopSpecificPod
}

// groupIn returns a function that returns a Kubernetes PodGroup. If the feature gate
// GenericWorkload is on, the scheduler watches PodGroups.
func groupIn(shared informers.SharedInformerFactory) func(namespace, name string) (scheduler.OwnGroup, error) {
	return func(namespace, name string) (out scheduler.OwnGroup, err error) {
		group, err := shared.Scheduling().V1alpha2().PodGroups().Lister().PodGroups(namespace).Get(name)
		if err != nil {
			return out, err
		}
		if gang := group.Spec.SchedulingPolicy.Gang; gang != nil {
			out.Least = int(gang.MinCount)
		}
		if mode := group.Spec.DisruptionMode; mode != nil && *mode == schedulingv1alpha2.DisruptionModePodGroup {
			out.Priority, out.Whole = new(util.PodGroupPriority(group)), true
		}
		return out, nil
	}
}

// backlog implements reservation.Queue with the scheduling queue.
type backlog struct{ queue.SchedulingQueue }

// PutBack implements reservation.Queue.
func (b backlog) PutBack(logger klog.Logger, info *framework.QueuedPodInfo, cycle int64) error {
	return b.AddUnschedulableIfNotPresent(logger, info, cycle)
}

// PatchPodStatus implements fwk.APICacher. It returns no channel, because no caller waits for the
// write.
func (p patching) PatchPodStatus(pod *corev1.Pod, condition *corev1.PodCondition, nominating *fwk.NominatingInfo) (<-chan error, error) {
	p.write(pod, condition, nominating)
	return nil, nil
}

// firstPod is empty, because the queue of this release can return a given pod.
type firstPod struct{}

func firstPodIn(context.Context, informers.SharedInformerFactory) *firstPod { return nil }

// Less implements fwk.QueueSortPlugin.
func (s Sort) Less(a, b fwk.QueuedPodInfo) bool { return s.of(a).before(s.of(b)) }

func (s Sort) of(info fwk.QueuedPodInfo) waiting {
	pod := info.GetPodInfo().GetPod()
	return s.one(pod, corev1helpers.PodPriority(pod), info.GetTimestamp(), info.GetAttempts())
}
