package jobs

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
)

// cause is something that happened, and what a policy makes of it.
type cause struct {
	action batch.Action
	event  batch.Event
	task   *task
	// pod is the one that it happened to; nil for what happens to a task, or to a pod that is gone.
	pod *corev1.Pod
}

// String says it to people. The pod's UID tells one cause from the next.
func (c *cause) String() string {
	if c.pod != nil {
		return fmt.Sprintf("%s of pod %s (%s)", c.event, c.pod.Name, c.pod.UID)
	}
	return fmt.Sprintf("%s of task %s", c.event, c.task.name)
}

func eventsOf(p *batch.LifecyclePolicy) []batch.Event {
	events := slices.Clone(p.Events)
	if p.Event != "" {
		events = append(events, p.Event)
	}
	return events
}

// actionFor returns what the policies say of an event; "" for nothing. The task's own policies come
// before the Job's, and an exit code before an event.
func (t *task) actionFor(e batch.Event, codes []int32) batch.Action {
	for i := range t.policies {
		p := &t.policies[i]
		if p.ExitCode != nil && e == batch.PodFailed && slices.Contains(codes, *p.ExitCode) {
			return p.Action
		}
	}
	for i := range t.policies {
		if events := eventsOf(&t.policies[i]); slices.Contains(events, e) || slices.Contains(events, batch.AnyEvent) {
			return t.policies[i].Action
		}
	}
	return ""
}

// exitCodes are those of a pod's containers that did not succeed.
func exitCodes(pod *corev1.Pod) (codes []int32) {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			if t := list[i].State.Terminated; t != nil && t.ExitCode != 0 {
				codes = append(codes, t.ExitCode)
			}
		}
	}
	return codes
}

// weight orders actions: of several causes at a time the one that goes furthest counts.
var weight = map[batch.Action]int{
	batch.TerminateJob: 6, batch.AbortJob: 5, batch.CompleteJob: 4, batch.RestartJob: 3, batch.RestartTask: 2, batch.RestartPod: 1,
}

// worst returns the cause that goes furthest; nil for none. Of equal ones the first by name counts.
func worst(causes []cause) *cause {
	if len(causes) == 0 {
		return nil
	}
	c := slices.MinFunc(causes, func(a, b cause) int {
		return cmp.Or(cmp.Compare(weight[b.action], weight[a.action]), cmp.Compare(a.String(), b.String()))
	})
	return &c
}

// causes says what has happened, and what is to be done about it. seen are the Job's pods that
// count; those that are missing were taken away.
func (s *spec) causes(status *batch.JobStatus, seen map[string][]*corev1.Pod) (out []cause) {
	for i := range s.tasks {
		t := &s.tasks[i]
		add := func(e batch.Event, pod *corev1.Pod, codes []int32) {
			if a := t.actionFor(e, codes); a != "" {
				out = append(out, cause{action: a, event: e, task: t, pod: pod})
			}
		}
		succeeded, alive := int32(0), int32(0)
		for _, pod := range seen[t.name] {
			switch {
			case pod.DeletionTimestamp != nil:
				continue
			case pod.Status.Phase == corev1.PodSucceeded:
				succeeded++
			case pod.Status.Phase == corev1.PodFailed:
				add(batch.PodFailed, pod, exitCodes(pod))
			}
			alive++
		}
		if t.replicas > 0 && succeeded == t.replicas {
			add(batch.TaskCompleted, nil, nil)
		}
		if alive < min(recorded(status, t.name), t.replicas) {
			add(batch.PodEvicted, nil, nil)
		}
	}
	return out
}

// recorded is how many pods of a task the status tells of.
func recorded(status *batch.JobStatus, task string) (n int32) {
	for _, count := range status.TaskStatusCount[task].Phase {
		n += count
	}
	return n
}
