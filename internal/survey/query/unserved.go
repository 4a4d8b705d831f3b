package query

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/source"
	"github.com/berth-dev/berth/internal/wire"
)

// noScheduler is the reason of a pod's trouble if no scheduler has looked at the pod.
const noScheduler = "NoScheduler"

// unservedAfter is the age from which a pod counts as unserved. Before that, a scheduler may still
// be about to try it.
const unservedAfter = 10 * time.Second

// usualLease is the assumed duration of a Lease that does not set it. It is kube-scheduler's
// default.
const usualLease = 15 * time.Second

// askWhoServes sets e.Unserved if a pending pod is at least unservedAfter old and does not have the
// condition PodScheduled, which every scheduler writes when it finds no node. Berth makes two
// exceptions. It does not write the condition to members of a gang that is forming or wrong; for
// such members, askWhoServes does nothing. To members of other gangs, it writes the condition only
// after the gang has waited for a while. Therefore, if the scheduler has written an event about the
// pod, askWhoServes sets e.Message to the text of the event instead.
func askWhoServes(ctx context.Context, c *survey.Cluster, s *survey.Survey, pod *corev1.Pod, e *Explained) {
	a, err := c.API()
	if err != nil || e.MemberOf.HoldsBack() || len(pod.Spec.SchedulingGates) > 0 || pod.Status.NominatedNodeName != "" {
		return // a snapshot contains no Leases of schedulers
	}
	together := []*corev1.Pod{pod}
	if e.MemberOf != nil {
		together = append(together, e.MemberOf.Pods...)
	}
	age, overdue := waitOf(together, s.Now)
	if !overdue {
		return
	}
	if said := eventOfScheduler(ctx, a, pod); said != "" {
		e.Message = said
		return
	}
	e.Unserved = unserved(ctx, a, s, pod, age)
}

// waitOf returns the age of the youngest pod, because the scheduler does not try a gang before its
// last pod exists. `overdue` means that no scheduler seems to have looked at any of the pods,
// although the youngest is at least unservedAfter old.
func waitOf(together []*corev1.Pod, now time.Time) (age time.Duration, overdue bool) {
	if slices.ContainsFunc(together, isLookedAt) {
		return 0, false
	}
	last := slices.MaxFunc(together, func(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	age = now.Sub(last.CreationTimestamp.Time)
	return age, age >= unservedAfter
}

// isLookedAt reports whether a scheduler has left a trace in the pod: a node, or the condition
// PodScheduled.
func isLookedAt(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" || slices.ContainsFunc(pod.Status.Conditions, func(cond corev1.PodCondition) bool { return cond.Type == corev1.PodScheduled })
}

// unserved returns the Trouble of a pod at which no scheduler has looked, although the pod has the
// given age. The message describes the scheduler with the pod's schedulerName, if one was found.
func unserved(ctx context.Context, a *source.API, s *survey.Survey, pod *corev1.Pod, age time.Duration) *survey.Trouble {
	name := nameOfScheduler(pod)
	served := servedBy(s)
	lease, led := schedulerLease(ctx, a, s, name)
	out := &survey.Trouble{Reason: noScheduler, Message: "no scheduler has looked at this pod in " + survey.AgeText(survey.Seconds(age)) + ": "}
	switch {
	case lease != "" && !led:
		out.Message += lease
		out.Advice = "the Lease has run out: check whether that scheduler still runs and why its pods ended, and start it again"
	case lease != "":
		out.Message += lease
		out.Advice = "look at the log of that scheduler: check whether one of its profiles is named " + name + ", and whether the scheduler waits for something"
	case served[name] > 0:
		out.Message += "no Lease of a scheduler named " + name + " was found, but " + wire.Counted(served[name], "other pod") + " with this schedulerName got a node"
		out.Advice = "check whether the scheduler that placed them still runs"
	default:
		out.Message += "no Lease of a scheduler named " + name + " was found, and no other pod with this schedulerName has a node"
		out.Advice = "start a scheduler with a profile named " + name + ", or create the pod with the spec.schedulerName of one that runs"
		if len(served) > 0 {
			out.Advice += " (scheduled pods have the schedulerName " + strings.Join(slices.Sorted(maps.Keys(served)), ", ") + ")"
		}
	}
	return out
}

func nameOfScheduler(pod *corev1.Pod) string {
	return cmp.Or(pod.Spec.SchedulerName, corev1.DefaultSchedulerName)
}

func servedBy(s *survey.Survey) map[string]int {
	out := map[string]int{}
	for pod := range s.Bound() {
		out[nameOfScheduler(pod)]++
	}
	return out
}

// eventOfScheduler returns the message of the last event of the pod's scheduler about the pod. It
// returns "" if there is none, or if events may not be read. A scheduler writes events under the
// pod's schedulerName.
func eventOfScheduler(ctx context.Context, a *source.API, pod *corev1.Pod) string {
	all, err := a.Events(ctx, pod)
	if err != nil {
		return ""
	}
	name, said := nameOfScheduler(pod), ""
	for i := range all {
		if one := &all[i]; one.InvolvedObject.UID == pod.UID && (one.ReportingController == name || one.Source.Component == name) {
			said = cmp.Or(one.Message, one.Reason)
		}
	}
	return said
}

// schedulerLease describes the election Lease of a scheduler with the given name. It returns "" if
// it finds no such Lease or may not read it. `leads` means that the Lease has not expired.
// schedulerLease tries the Lease names of kube-scheduler and of Berth's chart, and the name of the
// profile.
func schedulerLease(ctx context.Context, a *source.API, s *survey.Survey, name string) (said string, leads bool) {
	names := []string{name, name + "-scheduler"}
	if name == corev1.DefaultSchedulerName {
		names = append(names, "kube-scheduler")
	}
	for _, namespace := range []string{metav1.NamespaceSystem, a.Heartbeats} {
		for _, n := range names {
			l, err := a.Lease(ctx, namespace, n)
			if err != nil || l.Spec.RenewTime == nil || l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" {
				continue
			}
			renewed := wire.LastWritten(&l.ObjectMeta, l.Spec.RenewTime.Time)
			silent := s.Now.Sub(renewed)
			lasts := usualLease
			if told := l.Spec.LeaseDurationSeconds; told != nil {
				lasts = time.Duration(*told) * time.Second
			}
			return "the Lease " + namespace + "/" + n + " is held by " + *l.Spec.HolderIdentity + ", which renewed it " + survey.AgeText(survey.Seconds(silent)) + " ago", silent < lasts
		}
	}
	return "", false
}
