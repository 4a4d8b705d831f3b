package command

import (
	"context"
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

	"github.com/berth-dev/berth/internal/brief"
	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/internal/scheduler/gang"
	"github.com/berth-dev/berth/internal/scheduler/outcome"
	"github.com/berth-dev/berth/internal/scheduler/reservation"
)

// kube-scheduler keeps its plugin interface stable, but not its own structs. This file names every
// part of those structs that Berth reads, calls or replaces. If a release changes such a part, this
// file fails to compile. TestSeams names each part, and shows that kube-scheduler still uses it.

// The functions of a kubescheduler.Scheduler that Berth wraps.
type (
	// nextEntity is Scheduler.NextEntity (NextPod in 1.36). Every cycle begins with it.
	nextEntity = func(klog.Logger) (entity, error)
	// schedulePod is Scheduler.SchedulePod. It places one pod with the given profile.
	schedulePod = func(context.Context, framework.Framework, fwk.CycleState, *framework.QueuedPodInfo) (kubescheduler.ScheduleResult, error)
	// failureHandler is Scheduler.FailureHandler. Every cycle that fails ends with it.
	failureHandler = func(context.Context, framework.Framework, *framework.QueuedPodInfo, *fwk.Status, *fwk.NominatingInfo, time.Time)
)

// narrowed lists the methods of a profile that the type search replaces for one call of
// SchedulePod. The wrap works only if kube-scheduler runs plugins through these methods.
type narrowed interface {
	PercentageOfNodesToScore() *int32
	RunPreFilterPlugins(context.Context, fwk.CycleState, *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string])
	RunFilterPluginsWithNominatedPods(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) *fwk.Status
	RunPreScorePlugins(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) *fwk.Status
}

var (
	_ = func(s *kubescheduler.Scheduler) (nextEntity, schedulePod, failureHandler) {
		return *loop(s), s.SchedulePod, s.FailureHandler
	}
	_ narrowed    = framework.Framework(nil)
	_ gang.Runner = framework.Framework(nil) // the concrete type of a plugin's Handle
)

// wrap is one function or field of kube-scheduler that Berth replaces with a wrapper.
type wrap struct {
	place string
	// why is the effect of the wrap, which a plugin cannot achieve.
	why string
	// worth is the measured saving, or the problem that would exist without the wrap.
	worth string
	put   func(*equipment)
}

// wraps lists all wraps, in the order in which they are applied. Pods about which Berth does not
// decide go through kube-scheduler's own functions, with their own profile. The profiles of the
// scheduler do not change; values of the types search and aside replace a profile during one call.
var wraps = []wrap{
	{
		place: "Scheduler.SchedulingQueue",
		why:   "If only Berth refused a pod, the queue does not check it against events that cannot change Berth's answer.",
		worth: "40 percent of the processor time while 1,600 pods in gangs waited on 1,000 nodes.",
		put: func(e *equipment) {
			e.sched.SchedulingQueue = attentive{e.sched.SchedulingQueue, e.parts.Delays().Ours}
		},
	},
	{
		place: "Scheduler.NextEntity",
		why:   "Members of a gang are tried one after another, and Reservations change only between cycles.",
		worth: "Without it, other pods are tried between the members of a gang and take the planned nodes.",
		put:   func(e *equipment) { *loop(e.sched) = e.nextEntity() },
	},
	{
		place: "Scheduler.SchedulePod; the profile is replaced during the call (type search)",
		why:   "PreFilter names Berth's best nodes before other plugins are asked about any node (candidates first).",
		worth: "A cycle on 5,000 nodes takes 0.5 ms instead of 10.4 ms, and Berth ranks all nodes; kube-scheduler takes 1.2 ms.",
		put:   func(e *equipment) { e.sched.SchedulePod = e.schedulePod() },
	},
	{
		place: "Scheduler.FailureHandler; the profile is replaced during the call (type aside)",
		why:   "Gangs and Reservations learn of failed attempts, and results are written outside of the scheduling loop.",
		worth: "Without it, each attempt to place a pod of 4,000 containers delays all other pods by a second.",
		put:   func(e *equipment) { e.sched.FailureHandler = e.failureHandler() },
	},
}

// equipment has the inputs of the wraps.
type equipment struct {
	sched    *kubescheduler.Scheduler
	parts    scheduler.Parts
	held     *reservation.Reservations
	global   *int32
	profiles []config.KubeSchedulerProfile
}

// Equip applies the wraps to a scheduler. The parameter global is percentageOfNodesToScore for
// profiles without their own; nil means kube-scheduler's choice. The parameter profiles has the
// scheduler's profiles, with defaults. The scheduler must be set up but not running yet. Equip
// reports whether any profile has the plugin.
func Equip(ctx context.Context, sched *kubescheduler.Scheduler, global *int32, profiles []config.KubeSchedulerProfile) bool {
	shared := informersOf(sched)
	parts, ours := scheduler.PartsOf(shared)
	if !ours {
		return false
	}
	logger := klog.FromContext(ctx)
	freed := func(_ string, held *corev1.Pod) {
		sched.SchedulingQueue.MoveAllToActiveOrBackoffQueue(logger, framework.EventAssignedPodDelete, held, nil, nil)
	}
	e := &equipment{sched: sched, parts: parts, global: global, profiles: profiles}
	parts.ReadGroups(groupIn(shared))
	e.held = parts.HoldReservations(sched.Cache, backlog{sched.SchedulingQueue}, freed)
	for _, w := range wraps {
		w.put(e)
	}
	return true
}

// informersOf returns the informers that all profiles share, or nil for a scheduler without
// profiles.
func informersOf(sched *kubescheduler.Scheduler) informers.SharedInformerFactory {
	for _, profile := range sched.Profiles {
		return profile.SharedInformerFactory()
	}
	return nil
}

// attentive is a scheduling queue that saves useless checks. If an event cannot help pods that only
// Berth has refused, the queue does not check the event against these pods. kube-scheduler itself
// checks each event against every waiting pod. While thousands of pods wait for reports, it would
// check all of them at each Binding.
type attentive struct {
	queue.SchedulingQueue
	// ours reports whether only Berth refused the pod in its last attempt (Delays.Ours).
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

// nextEntity returns NextEntity with additional calls to the packages that need to know when a
// cycle starts.
func (e *equipment) nextEntity() nextEntity {
	next, take := taking(e.sched)
	next = scheduler.FollowMates(e.parts, next, take)
	return func(logger klog.Logger) (entity, error) {
		e.parts.CycleBegins()
		e.held.Between()
		found, err := next(logger)
		if err != nil {
			return found, err
		}
		eachPod(found, func(info *framework.QueuedPodInfo) {
			sayNomination(e.parts.Outcomes(), info)
			e.held.Begins(info.Pod)
			e.parts.Delays().Tried(info.Pod, info.Timestamp)
		})
		return found, nil
	}
}

// sayNomination sets the nominated node of a pod if the watch has not shown the nomination yet.
// Otherwise kube-scheduler might evict pods for this pod a second time.
func sayNomination(outcomes *outcome.Writer, info *framework.QueuedPodInfo) {
	if node, unshown := outcomes.Nominated(info.Pod.UID); unshown {
		says, pod := *info.PodInfo, *info.Pod
		pod.Status.NominatedNodeName, says.Pod, info.PodInfo = node, &pod, &says
	}
}

// schedulePod returns SchedulePod with Berth's own search for pods that could be pinned. If the pod
// stands for a Reservation, its priority is raised before it enters the scheduler's cache, so that
// it is not evicted.
func (e *equipment) schedulePod() schedulePod {
	place := lookingFurther(e.sched.SchedulePod, e.parts.LookFurther(), e.global, know(e.sched.Profiles, e.profiles))
	return func(ctx context.Context, profile framework.Framework, state fwk.CycleState, info *framework.QueuedPodInfo) (kubescheduler.ScheduleResult, error) {
		result, err := place(ctx, profile, state, info)
		if err == nil {
			reservation.Raise(info)
		}
		return result, err
	}
}

// failureHandler returns FailureHandler with additional calls to the packages that need to know of
// failures. If Berth decides about the pod, the outcome of the attempt is written outside of the
// scheduling loop.
func (e *equipment) failureHandler() failureHandler {
	delays, ordinary := e.parts.Delays(), e.sched.FailureHandler
	ours := writingAside(ordinary, e.parts.Outcomes())
	return func(ctx context.Context, profile framework.Framework, info *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		delays.Failed(info.Pod, status, scheduler.MerelyWaits(status))
		e.parts.MemberFailed(info.Pod)
		switch {
		case e.held.Failed(info, status):
		case e.parts.Decides(info.Pod):
			ours(ctx, profile, info, status, nominating, start)
		default:
			ordinary(ctx, profile, info, status, nominating, start)
		}
	}
}

// writingAside returns a handler that calls the given handler, but lets the Writer write the
// outcome, and shortens events. It keeps the nomination of a pod until the watch shows it.
func writingAside(failed failureHandler, outcomes *outcome.Writer) failureHandler {
	said := brief.NewSaid()
	return func(ctx context.Context, profile framework.Framework, info *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		failed(ctx, &aside{Framework: profile, outcomes: outcomes, said: said, waits: scheduler.MerelyWaits(status)}, info, status, nominating, start)
		// The handler has dropped the nomination, because the watch has not shown it yet.
		if node, unshown := outcomes.Nominated(info.Pod.UID); unshown && node != "" && nominating.Mode() == fwk.ModeNoop {
			profile.AddNominatedPod(klog.FromContext(ctx), info.PodInfo, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node})
		}
	}
}

// aside replaces a profile in kube-scheduler's FailureHandler, for one call. If a profile has an
// APICacher, the handler writes the pod's status through the APICacher instead of sending a request
// itself.
type aside struct {
	framework.Framework
	outcomes *outcome.Writer
	said     *brief.Said
	// waits means that the pod waits for a report or for the takeover (scheduler.MerelyWaits). Its
	// event is then written later, by the function event.
	waits bool
	event func()
}

// APICacher implements framework.Framework.
func (a *aside) APICacher() fwk.APICacher {
	if own := a.Framework.APICacher(); own != nil {
		return own // the feature gate SchedulerAsyncAPICalls is on
	}
	return patching{of: a}
}

// EventRecorder implements framework.Framework.
func (a *aside) EventRecorder() events.EventRecorderLogger {
	own := shortened{a.Framework.EventRecorder(), a.said}
	if a.waits && a.Framework.APICacher() == nil {
		return keeping{own, a}
	}
	return own
}

// keeping is a recorder that stores a pod's event in aside.event instead of writing it. The Writer
// writes the event together with the pod's condition.
type keeping struct {
	events.EventRecorderLogger
	of *aside
}

// WithLogger implements events.EventRecorderLogger.
func (k keeping) WithLogger(logger klog.Logger) events.EventRecorderLogger {
	return keeping{k.EventRecorderLogger.WithLogger(logger), k.of}
}

// Eventf implements events.EventRecorder. It keeps a reference instead of the pod object.
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

func (p patching) write(pod *corev1.Pod, condition *corev1.PodCondition, nominating *fwk.NominatingInfo) {
	if p.of.event != nil && nominating.Mode() == fwk.ModeNoop {
		p.of.outcomes.WriteLater(pod, condition, p.of.event)
		return
	}
	if p.of.event != nil {
		p.of.event()
	}
	p.of.outcomes.Write(pod, condition, nominating)
}
