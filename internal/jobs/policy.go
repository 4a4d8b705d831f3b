package jobs

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
)

// cause is an event, with the action of the policy that matches it.
type cause struct {
	action batch.Action
	event  batch.Event
	task   *task
	// pod is the pod of the event. If a task has completed, it is the last pod to end. For
	// PodEvicted it is the pod's replacement if the policy has a timeout, and otherwise nil,
	// because the pod is gone. For JobUnknown it is nil, because this is not an event of a single
	// pod.
	pod *corev1.Pod
	// timeout is the time that the event must last before the policy acts.
	timeout time.Duration
}

// since returns the time when the cause began, or the zero time if the pods do not show it.
func (c *cause) since() time.Time {
	switch {
	case c.pod == nil:
		return time.Time{}
	case c.event == batch.PodPending || c.event == batch.PodEvicted:
		return c.pod.CreationTimestamp.Time
	default:
		return endedAt(c.pod)
	}
}

func statusesOf(pod *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
}

// endedAt returns the end of a pod's last container. If the kubelet has refused the pod, or the
// node is gone, the containers have no end time. endedAt then returns the time of the newest
// condition, or otherwise of the pod's creation. It ignores the conditions of a running pod,
// because they change with each crash.
func endedAt(pod *corev1.Pod) (last time.Time) {
	for _, c := range statusesOf(pod) {
		if t := c.State.Terminated; t != nil {
			last = later(last, t.FinishedAt.Time)
		}
	}
	if !last.IsZero() {
		return last
	}
	for i := 0; ended(pod) && i < len(pod.Status.Conditions); i++ {
		last = later(last, pod.Status.Conditions[i].LastTransitionTime.Time)
	}
	return later(last, pod.CreationTimestamp.Time)
}

// String describes the cause for users.
func (c *cause) String() string {
	if c.pod != nil && c.event != batch.TaskCompleted {
		return fmt.Sprintf("%s of pod %s (%s)", c.event, c.pod.Name, c.pod.UID)
	}
	return fmt.Sprintf("%s of task %s", c.event, c.task.name)
}

// eventsOf returns the events of a policy, each once.
func eventsOf(p *batch.LifecyclePolicy) []batch.Event {
	var events []batch.Event
	for _, e := range append(slices.Clone(p.Events), p.Event) {
		if e != "" && !slices.Contains(events, e) {
			events = append(events, e)
		}
	}
	return events
}

// policyFor returns the policy for an event, or nil. The first policy that matches the event or an
// exit code counts. The task's own policies come before the Job's (applyPolicies in Volcano's
// pkg/controllers/job/job_controller_util.go). "*" does not match PodPending, because all pods are
// pending at first.
func (t *task) policyFor(e batch.Event, codes []int32) *batch.LifecyclePolicy {
	for i := range t.policies {
		p := &t.policies[i]
		events := eventsOf(p)
		if slices.Contains(events, e) || slices.Contains(events, batch.AnyEvent) && e != batch.PodPending ||
			p.ExitCode != nil && slices.Contains(codes, *p.ExitCode) {
			return p
		}
	}
	return nil
}

// delays reports whether a policy acts only after a time. p may be nil.
func delays(p *batch.LifecyclePolicy) bool {
	return p != nil && p.Timeout != nil && p.Timeout.Duration > 0
}

func isPending(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodPending || pod.Status.Phase == ""
}

// exitCodes returns the exit codes of a pod's failed containers.
func exitCodes(pod *corev1.Pod) (codes []int32) {
	for _, c := range statusesOf(pod) {
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
			codes = append(codes, t.ExitCode)
		}
	}
	return codes
}

// weight orders actions. If there are several causes at the same time, the cause with the strongest
// action counts.
var weight = map[batch.Action]int{
	batch.TerminateJob: 6, batch.AbortJob: 5, batch.CompleteJob: 4, batch.RestartJob: 3, batch.RestartTask: 2, batch.RestartPod: 1,
}

// worst returns the cause with the strongest action, or nil. Of equally strong causes it returns
// the first by name.
func worst(causes []cause) *cause {
	if len(causes) == 0 {
		return nil
	}
	c := slices.MinFunc(causes, func(a, b cause) int {
		return cmp.Or(cmp.Compare(weight[b.action], weight[a.action]), cmp.Compare(a.String(), b.String()))
	})
	return &c
}

// causes returns the events for which the Job has policies, except the evictions that
// stepper.replacements returns. seen are the Job's pods that count. If a task has fewer pods than
// the status reports, the missing pods were evicted. torn is the result of stepper.newlyTorn.
func (s *spec) causes(status *batch.JobStatus, seen map[string][]*corev1.Pod, torn bool) (out []cause) {
	for i := range s.tasks {
		t := &s.tasks[i]
		var last *corev1.Pod
		var failed []*corev1.Pod
		add := func(e batch.Event, pod *corev1.Pod, codes []int32) {
			if p := t.policyFor(e, codes); p != nil {
				c := cause{action: p.Action, event: e, task: t, pod: pod}
				if p.Timeout != nil {
					c.timeout = p.Timeout.Duration
				}
				out = append(out, c)
			}
		}
		succeeded, alive := int32(0), int32(0)
		for _, pod := range seen[t.name] {
			if pod.DeletionTimestamp != nil {
				continue
			}
			switch pod.Status.Phase {
			case corev1.PodSucceeded:
				succeeded++
				if last == nil || endedAt(pod).After(endedAt(last)) {
					last = pod
				}
			case corev1.PodFailed:
				failed = append(failed, pod)
				add(batch.PodFailed, pod, exitCodes(pod))
			case corev1.PodPending, "":
				add(batch.PodPending, pod, nil)
			}
			alive++
		}
		if t.replicas > 0 && succeeded == t.replicas {
			add(batch.TaskCompleted, last, nil)
		}
		if alive < min(recorded(status, t.name), t.replicas) && !delays(t.policyFor(batch.PodEvicted, nil)) {
			add(batch.PodEvicted, nil, nil)
		}
		if pod := t.restartedTooOften(seen[t.name]); pod != nil {
			add(batch.TaskFailed, pod, nil)
		}
		if succeeded+int32(len(failed)) >= t.replicas && succeeded < t.minAvailable {
			for _, pod := range failed {
				add(batch.TaskFailed, pod, nil)
			}
		}
		if torn {
			add(batch.JobUnknown, nil, nil)
		}
	}
	return out
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// placed counts the pods that have nodes or have succeeded, have not failed, and are not being
// deleted.
func placed(seen map[string][]*corev1.Pod) (n int32) {
	for _, pods := range seen {
		for _, pod := range pods {
			if pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed && (pod.Spec.NodeName != "" || pod.Status.Phase == corev1.PodSucceeded) {
				n++
			}
		}
	}
	return n
}

// torn reports whether some pods run and another pod finds no node (PodGroupUnknown of Volcano's
// scheduler). It ignores failed pods and pods that are being deleted.
func torn(seen map[string][]*corev1.Pod) bool {
	running, stuck := 0, false
	for _, pods := range seen {
		for _, pod := range pods {
			if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed {
				continue
			}
			if pod.Status.Phase == corev1.PodRunning {
				running++
			}
			stuck = stuck || slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
			})
		}
	}
	return stuck && running > 0
}

// defaultTaskRetry is the number of restarts of a task's containers that causes the event
// TaskFailed if the task has no maxRetry.
const defaultTaskRetry = 3

// restartedTooOften returns the pod with the most restarts if the kubelets have restarted the
// containers of a task's pods at least maxRetry times in total. Otherwise it returns nil. A
// maxRetry of -1 means no limit (TaskFailed in Volcano's pkg/controllers/cache/cache.go).
func (t *task) restartedTooOften(pods []*corev1.Pod) (worst *corev1.Pod) {
	limit := cmp.Or(t.spec.MaxRetry, defaultTaskRetry)
	all, most := int32(0), int32(0)
	for _, pod := range pods {
		if ended(pod) || pod.DeletionTimestamp != nil {
			continue
		}
		restarts := int32(0)
		for _, c := range statusesOf(pod) {
			restarts += c.RestartCount
		}
		if all += restarts; restarts > most {
			worst, most = pod, restarts
		}
	}
	if limit < 0 || all < limit {
		return nil
	}
	return worst
}

// recorded returns the number of pods of a task in the status.
func recorded(status *batch.JobStatus, task string) (n int32) {
	for _, count := range status.TaskStatusCount[task].Phase {
		n += count
	}
	return n
}
