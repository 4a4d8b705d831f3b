package survey

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NoScheduler is the reason of a pod's trouble: no scheduler has looked at it.
const NoScheduler = "NoScheduler"

// unservedAfter is how old a pod is before it counts as unserved: a scheduler needs a moment.
const unservedAfter = 10 * time.Second

// unserved says that no scheduler has looked at a pending pod, and whether one of its name is seen;
// nil where one has looked. Every scheduler writes the condition PodScheduled when it finds no
// node.
func (c *Cluster) unserved(ctx context.Context, s *Survey, pod *corev1.Pod) *Trouble {
	if c.still != nil {
		return nil // nobody keeps the Leases of schedulers
	}
	looked := slices.ContainsFunc(pod.Status.Conditions, func(cond corev1.PodCondition) bool { return cond.Type == corev1.PodScheduled })
	age := s.Now.Sub(pod.CreationTimestamp.Time)
	if looked || len(pod.Spec.SchedulingGates) > 0 || pod.Status.NominatedNodeName != "" || age < unservedAfter {
		return nil
	}
	name := nameOfScheduler(pod)
	served := servedBy(s)
	lease := c.schedulerLease(ctx, s, name)
	out := &Trouble{Reason: NoScheduler, Message: "no scheduler has looked at this pod in " + AgeText(Seconds(age)) + ": "}
	switch {
	case lease != "":
		out.Message += lease
		out.Advice = "look at the log of that scheduler: whether one of its profiles is named " + name + ", and whether it waits for something"
	case served[name] > 0:
		out.Message += "no Lease of a scheduler named " + name + " is seen, but " + Counted(served[name], "other pod") + " of it have a node"
		out.Advice = "look whether the scheduler that placed them still runs"
	default:
		out.Message += "no Lease of a scheduler named " + name + " is seen, and no other pod of it has a node"
		out.Advice = "start a scheduler with a profile named " + name + ", or create the pod with the spec.schedulerName of one that runs"
		if len(served) > 0 {
			out.Advice += " (pods that have a node name " + strings.Join(slices.Sorted(maps.Keys(served)), ", ") + ")"
		}
	}
	return out
}

func nameOfScheduler(pod *corev1.Pod) string {
	if pod.Spec.SchedulerName == "" {
		return corev1.DefaultSchedulerName
	}
	return pod.Spec.SchedulerName
}

// servedBy counts, by scheduler, the pods that have a node.
func servedBy(s *Survey) map[string]int {
	out := map[string]int{}
	for _, pods := range s.bound {
		for _, pod := range pods {
			out[nameOfScheduler(pod)]++
		}
	}
	return out
}

// schedulerLease says of a Lease by which a scheduler of that name leads; "" where none is seen or
// may be read. The names are those of kube-scheduler and of Berth's chart, and the profile's own.
func (c *Cluster) schedulerLease(ctx context.Context, s *Survey, name string) string {
	names := []string{name, name + "-scheduler"}
	if name == corev1.DefaultSchedulerName {
		names = append(names, "kube-scheduler")
	}
	for _, namespace := range []string{metav1.NamespaceSystem, c.Heartbeats} {
		for _, n := range names {
			l, err := c.leases.Leases(namespace).Get(ctx, n, metav1.GetOptions{})
			if err != nil || l.Spec.RenewTime == nil || l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" {
				continue
			}
			renewed := written(&l.ObjectMeta, l.Spec.RenewTime.Time)
			return "the Lease " + namespace + "/" + n + " is held by " + *l.Spec.HolderIdentity + ", which renewed it " + AgeText(Seconds(s.Now.Sub(renewed))) + " ago"
		}
	}
	return ""
}
