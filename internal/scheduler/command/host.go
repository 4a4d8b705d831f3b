package command

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/internal/scheduler/gang"
	"github.com/berth-dev/berth/internal/scheduler/outcome"
	"github.com/berth-dev/berth/internal/scheduler/reservation"
)

// Kube-scheduler promises plugins an interface, and nothing about its own structs. This file holds
// all that Berth reads, calls and replaces in them, so that a release that changes one breaks here.
// TestSeams names each, and shows that kube-scheduler still comes by there.

// What Berth replaces in a kubescheduler.Scheduler, by wrapping what stood there.
type (
	// nextPod is Scheduler.NextPod: every cycle begins with it.
	nextPod = func(klog.Logger) (*framework.QueuedPodInfo, error)
	// schedulePod is Scheduler.SchedulePod: it places one pod with the profile that it is handed.
	schedulePod = func(context.Context, framework.Framework, fwk.CycleState, *framework.QueuedPodInfo) (kubescheduler.ScheduleResult, error)
	// failureHandler is Scheduler.FailureHandler: every cycle that fails ends with it.
	failureHandler = func(context.Context, framework.Framework, *framework.QueuedPodInfo, *fwk.Status, *fwk.NominatingInfo, time.Time)
)

// narrowed are the methods that search and spreading replace in a profile, for one call of
// SchedulePod. Kube-scheduler must run plugins through them.
type narrowed interface {
	PercentageOfNodesToScore() *int32
	RunPreFilterPlugins(context.Context, fwk.CycleState, *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string])
	RunFilterPluginsWithNominatedPods(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) *fwk.Status
	RunPreScorePlugins(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) *fwk.Status
	RunScorePlugins(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) ([]fwk.NodePluginScores, *fwk.Status)
}

// unnominated is a profile that spares members of gangs a nomination. Kube-scheduler nominates a
// pod that waits in Permit to its node: a write of each before its Binding, which then has to be
// for the version after. A member waits until its mates, who follow it in the queue, have had their
// cycles.
type unnominated struct{ framework.Framework }

// WillWaitOnPermit implements framework.Framework: by the answer kube-scheduler decides whether to
// nominate the pod, and nothing else.
func (u unnominated) WillWaitOnPermit(_ context.Context, pod *corev1.Pod) bool {
	waiting := u.GetWaitingPod(pod.UID)
	return waiting != nil && slices.ContainsFunc(waiting.GetPendingPlugins(), func(plugin string) bool { return plugin != scheduler.Name })
}

var (
	_ = func(s *kubescheduler.Scheduler) (nextPod, schedulePod, failureHandler) {
		return s.NextPod, s.SchedulePod, s.FailureHandler
	}
	_ narrowed    = framework.Framework(nil)
	_ gang.Runner = framework.Framework(nil) // what a plugin's Handle is underneath
)

// Equip gives a scheduler whose profiles have the plugin what a plugin cannot do by itself. global
// is what holds for profiles that say no percentageOfNodesToScore; nil for kube-scheduler's own
// choice. profiles are its profiles, with their defaults. Setup has made it, and it does not run
// yet. It returns whether any profile has it.
func Equip(ctx context.Context, sched *kubescheduler.Scheduler, global *int32, profiles []config.KubeSchedulerProfile) bool {
	shared := informersOf(sched)
	if shared == nil {
		return false
	}
	said := newBriefEvents()
	for name, profile := range sched.Profiles {
		sched.Profiles[name] = inBrief{unnominated{profile}, said}
	}
	parts, ours := scheduler.PartsOf(shared)
	if !ours {
		return false
	}
	for name, profile := range sched.Profiles {
		sched.Profiles[name] = paced{profile, parts}
	}
	sched.SchedulingQueue = attentive{sched.SchedulingQueue, parts.Delays().Ours}
	sched.NextPod = scheduler.FollowMates(parts, sched.NextPod, sched.SchedulingQueue.PopSpecificPod)
	logger := klog.FromContext(ctx)
	freed := func(_ string, held *corev1.Pod) {
		sched.SchedulingQueue.MoveAllToActiveOrBackoffQueue(logger, framework.EventAssignedPodDelete, held, nil, nil)
	}
	writeAside(sched, parts.Outcomes())
	tellReservations(sched, parts.HoldReservations(sched.Cache, sched.SchedulingQueue, freed))
	tellGangs(sched, parts)
	tellDelays(sched, parts.Delays())
	sched.SchedulePod = lookingFurther(sched.SchedulePod, parts.LookFurther(), global, know(sched.Profiles, profiles))
	return true
}

// informersOf returns the informers that all profiles share; nil for a scheduler without profiles.
func informersOf(sched *kubescheduler.Scheduler) informers.SharedInformerFactory {
	for _, profile := range sched.Profiles {
		return profile.SharedInformerFactory()
	}
	return nil
}

// paced is a profile that writes so many Bindings at a time. Kube-scheduler has no such bound.
type paced struct {
	framework.Framework
	parts scheduler.Parts
}

// RunBindPlugins implements framework.Framework.
func (p paced) RunBindPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	done, err := p.parts.Pace(ctx, state, pod)
	if err != nil {
		return fwk.AsStatus(err)
	}
	defer done()
	return p.Framework.RunBindPlugins(ctx, state, pod, node)
}

// attentive is a queue that puts events to no pod which they cannot help. Kube-scheduler puts each
// event to every pod that waits, in order to find out which plugins keep it off: with thousands of
// pods that wait for reports, each Binding would go through all of them.
type attentive struct {
	queue.SchedulingQueue
	// ours says that a pod waits for Berth and for no other plugin.
	ours func(*corev1.Pod) bool
}

// MoveAllToActiveOrBackoffQueue implements queue.SchedulingQueue.
func (a attentive) MoveAllToActiveOrBackoffQueue(logger klog.Logger, event fwk.ClusterEvent, before, after any, check queue.PreEnqueueCheck) {
	if !scheduler.MayHelp(event) {
		of := check
		check = func(pod *corev1.Pod) bool { return (of == nil || of(pod)) && !a.ours(pod) }
	}
	a.SchedulingQueue.MoveAllToActiveOrBackoffQueue(logger, event, before, after, check)
}

// writeAside lets what came of attempts be written beside the scheduling loop. A pod that is tried
// before its nomination is shown says it all the same, and the node stays kept for it: else
// kube-scheduler would evict others for it once more.
func writeAside(sched *kubescheduler.Scheduler, outcomes *outcome.Writer) {
	sched.NextPod = telling(sched.NextPod, func() {}, func(info *framework.QueuedPodInfo) {
		if node, unshown := outcomes.Nominated(info.Pod.UID); unshown {
			says, pod := *info.PodInfo, *info.Pod
			pod.Status.NominatedNodeName, says.Pod, info.PodInfo = node, &pod, &says
		}
	})
	failed := sched.FailureHandler
	sched.FailureHandler = func(ctx context.Context, profile framework.Framework, info *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		failed(ctx, &aside{Framework: profile, outcomes: outcomes, waits: scheduler.MerelyWaits(status)}, info, status, nominating, start)
		// The handler goes by the pod that the watch has shown, and has let go of the node.
		if node, unshown := outcomes.Nominated(info.Pod.UID); unshown && node != "" && nominating.Mode() == fwk.ModeNoop {
			profile.AddNominatedPod(klog.FromContext(ctx), info.PodInfo, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node})
		}
	}
}

// aside is a profile in kube-scheduler's FailureHandler, for one call. The handler writes into the
// pod by itself unless the profile has somebody who does so later.
type aside struct {
	framework.Framework
	outcomes *outcome.Writer
	// waits: the pod merely waits, and event is what is to be written about it in a while.
	waits bool
	event func()
}

// APICacher implements framework.Framework.
func (a *aside) APICacher() fwk.APICacher {
	if own := a.Framework.APICacher(); own != nil {
		return own // the feature gate SchedulerAsyncAPICalls
	}
	return patching{of: a}
}

// EventRecorder implements framework.Framework.
func (a *aside) EventRecorder() events.EventRecorderLogger {
	own := a.Framework.EventRecorder()
	if a.waits && a.Framework.APICacher() == nil {
		return keeping{own, a}
	}
	return own
}

// keeping keeps an event, to be written with the pod's condition.
type keeping struct {
	events.EventRecorderLogger
	of *aside
}

// WithLogger implements events.EventRecorderLogger.
func (k keeping) WithLogger(logger klog.Logger) events.EventRecorderLogger {
	return keeping{k.EventRecorderLogger.WithLogger(logger), k.of}
}

// Eventf implements events.EventRecorder. It keeps nothing of the pod but its name.
func (k keeping) Eventf(about, related runtime.Object, kind, reason, action, note string, args ...any) {
	pod, ok := about.(*corev1.Pod)
	if !ok {
		k.EventRecorderLogger.Eventf(about, related, kind, reason, action, note, args...)
		return
	}
	name := &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion}
	k.of.event = func() { k.EventRecorderLogger.Eventf(name, related, kind, reason, action, note, args...) }
}

// patching is the part of a fwk.APICacher that FailureHandler uses.
type patching struct {
	fwk.APICacher
	of *aside
}

// PatchPodStatus implements fwk.APICacher. There is nobody to tell when it is written.
func (p patching) PatchPodStatus(pod *corev1.Pod, condition *corev1.PodCondition, nominating *fwk.NominatingInfo) (<-chan error, error) {
	if p.of.event != nil && nominating.Mode() == fwk.ModeNoop {
		p.of.outcomes.WriteLater(pod, condition, p.of.event)
		return nil, nil
	}
	if p.of.event != nil {
		p.of.event()
	}
	p.of.outcomes.Write(pod, condition, nominating)
	return nil, nil
}

// tellReservations tells what is held of the scheduler's cycles.
func tellReservations(sched *kubescheduler.Scheduler, held *reservation.Reservations) {
	sched.NextPod = telling(sched.NextPod, held.Between, func(info *framework.QueuedPodInfo) { held.Begins(info.Pod) })
	failed, place := sched.FailureHandler, sched.SchedulePod
	sched.FailureHandler = func(ctx context.Context, profile framework.Framework, info *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		if !held.Failed(info, status) {
			failed(ctx, profile, info, status, nominating, start)
		}
	}
	sched.SchedulePod = func(ctx context.Context, profile framework.Framework, state fwk.CycleState, info *framework.QueuedPodInfo) (kubescheduler.ScheduleResult, error) {
		result, err := place(ctx, profile, state, info)
		if err == nil {
			reservation.Raise(info)
		}
		return result, err
	}
}

// tellGangs tells which pods were tried in vain. Where an error ends an attempt, no PostFilter is
// called.
func tellGangs(sched *kubescheduler.Scheduler, parts scheduler.Parts) {
	failed := sched.FailureHandler
	sched.FailureHandler = func(ctx context.Context, profile framework.Framework, info *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		parts.MemberFailed(info.Pod)
		failed(ctx, profile, info, status, nominating, start)
	}
}

// tellDelays tells when pods are tried, and when in vain.
func tellDelays(sched *kubescheduler.Scheduler, delays *scheduler.Delays) {
	sched.NextPod = telling(sched.NextPod, func() {}, func(info *framework.QueuedPodInfo) { delays.Tried(info.Pod, info.Timestamp) })
	failed := sched.FailureHandler
	sched.FailureHandler = func(ctx context.Context, profile framework.Framework, info *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		delays.Failed(info.Pod, status, scheduler.MerelyWaits(status))
		failed(ctx, profile, info, status, nominating, start)
	}
}

// telling returns next with a call before it, and one with the pod that comes.
func telling(next nextPod, before func(), came func(*framework.QueuedPodInfo)) nextPod {
	return func(logger klog.Logger) (*framework.QueuedPodInfo, error) {
		before()
		info, err := next(logger)
		if err == nil && info != nil && info.Pod != nil {
			came(info)
		}
		return info, err
	}
}
