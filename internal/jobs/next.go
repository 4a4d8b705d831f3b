package jobs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/cpuset"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
	group "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
)

// step is what the reconciler does for a Job. The reconciler writes `status`, then deletes the pods
// in `remove` one after the other, and then creates the pods in `make`.
type step struct {
	status batch.JobStatus
	remove []*corev1.Pod
	make   []member
	// suspects means that a task has fewer pods than the status reports. If the pods were read from
	// a cache, the reconciler must read them from the API server before it carries out the step.
	suspects bool
	// again is the time when the next timeout of a policy ends; zero means that there is none.
	again time.Time
	// later are the tasks that have no pods yet because they wait for other tasks.
	later map[string]bool
	// gone counts, by task, the pods that succeeded and no longer exist.
	gone map[string]int32
}

// next returns the actions for a Job with its PodGroup (nil if there is none), these pods and its
// present status. It is pure: it reads no clock, and the argument now is the present time.
func next(job *batch.Job, g *group.PodGroup, pods []*corev1.Pod, now time.Time) step {
	n := stepper{job: job, spec: specOf(job), now: metav1.NewTime(now.Truncate(time.Second))}
	n.out.status = *job.Status.DeepCopy()
	n.sort(pods)
	n.recall()
	switch phase := job.Status.State.Phase; {
	case phase == "":
		n.enter(batch.Pending, "", "")
		for i := range n.spec.tasks {
			if t := &n.spec.tasks[i]; t.spec.MinAvailable == nil {
				n.note(firstReplicas+t.name, strconv.Itoa(int(t.replicas)))
			}
		}
		n.fill()
	case isFinal(phase):
		n.clear(ended)
	case phase == batch.Restarting && n.count() == 0 && len(job.Status.TaskStatusCount) == 0: // the whole Job restarts
		n.clear(nobody)
		n.finish(phase, len(n.old))
	case phase != batch.Restarting && endOf[phase] != "":
		n.clear(ended)
		n.finish(phase, len(n.old)+n.alive())
	default:
		n.queue(g)
		n.run()
	}
	n.tally()
	n.out.remove = slices.DeleteFunc(n.out.remove, func(pod *corev1.Pod) bool { return n.recalled[pod] })
	n.out.later = map[string]bool{}
	for i := range n.spec.tasks {
		if t := &n.spec.tasks[i]; len(n.seen[t.name]) == 0 && n.waits(t) {
			n.out.later[t.name] = true
		}
	}
	return n.out
}

type stepper struct {
	job  *batch.Job
	spec spec
	now  metav1.Time
	// seen are the pods that count, by task. old are pods of earlier versions, pods of removed
	// tasks, and pods beyond a task's replicas.
	seen map[string][]*corev1.Pod
	old  []*corev1.Pod
	// recalled are the pods in seen that no longer exist (see recall).
	recalled map[*corev1.Pod]bool
	// owed has the tasks with evicted pods whose policies must wait until the policy of another
	// task has been carried out. Meanwhile no pods are created for these tasks, and the status
	// keeps their earlier number of pods, so that the evictions are not forgotten.
	owed map[string]bool
	// queued means that the Job's PodGroup is not admitted. admitted is the time when it was, or
	// zero if it was not queued before.
	queued   bool
	admitted time.Time
	// failing means that a pod has failed, and that a policy will act on this after its timeout.
	failing bool
	out     step
}

func (n *stepper) sort(pods []*corev1.Pod) {
	n.seen = map[string][]*corev1.Pod{}
	pods = slices.SortedFunc(slices.Values(pods), func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	for _, pod := range pods {
		name := pod.Annotations[batch.TaskSpecKey]
		if t := n.spec.task(name); t == nil || pod.Annotations[batch.JobVersionKey] != n.version() {
			n.old = append(n.old, pod)
		} else {
			n.seen[name] = append(n.seen[name], pod)
		}
	}
}

// recall adds pods to n.seen that succeeded and were then deleted, for example because their node
// was removed. They still count, so that they do not run again, and are not evicted.
func (n *stepper) recall() {
	n.recalled, n.out.gone = map[*corev1.Pod]bool{}, map[string]int32{}
	for i := range n.spec.tasks {
		t := &n.spec.tasks[i]
		there := map[string]bool{} // by index
		for _, pod := range n.seen[t.name] {
			there[pod.Annotations[batch.TaskIndexKey]] = true
		}
		for _, index := range parseIndexes(n.job.Status.ControlledResources[succeededPods+t.name], int(t.replicas)) {
			text := strconv.Itoa(index)
			if there[text] {
				continue
			}
			pod := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}
			pod.Name, pod.Annotations = podName(n.job.Name, t.name, index), map[string]string{batch.TaskIndexKey: text}
			n.seen[t.name] = append(n.seen[t.name], pod)
			n.recalled[pod] = true
		}
	}
}

func (n *stepper) version() string { return strconv.Itoa(int(n.job.Status.Version)) }

func (n *stepper) count() (all int) {
	for _, pods := range n.seen {
		all += len(pods)
	}
	return all
}

func (n *stepper) alive() (alive int) {
	for _, pods := range n.seen {
		for _, pod := range pods {
			if !ended(pod) {
				alive++
			}
		}
	}
	return alive
}

func nobody(*corev1.Pod) bool { return false }

// clear deletes all pods of n.old, and the pods of n.seen for which kept returns false.
func (n *stepper) clear(kept func(*corev1.Pod) bool) {
	for _, t := range slices.Sorted(maps.Keys(n.seen)) {
		for _, pod := range n.seen[t] {
			if !kept(pod) {
				n.drop(pod)
			}
		}
	}
	for _, pod := range n.old {
		n.drop(pod)
	}
}

func (n *stepper) drop(pod *corev1.Pod) {
	if pod.DeletionTimestamp == nil && !slices.Contains(n.out.remove, pod) {
		n.out.remove = append(n.out.remove, pod)
	}
}

// finish ends a phase in which the Job waits until pods are gone. The argument left is the number
// of these pods that still exist. If it is not 0, finish does nothing.
func (n *stepper) finish(phase batch.JobPhase, left int) {
	if left > 0 {
		return
	}
	n.enter(endOf[phase], n.out.status.State.Reason, n.out.status.State.Message)
	if phase == batch.Restarting {
		n.fill()
	}
}

func (n *stepper) enter(phase batch.JobPhase, reason, message string) {
	s := &n.out.status
	if isFinal(phase) {
		for i := range s.Conditions {
			if c := &s.Conditions[i]; c.Status == batch.Running && c.LastTransitionTime != nil {
				s.RunningDuration = &metav1.Duration{Duration: n.now.Sub(c.LastTransitionTime.Time)}
			}
		}
	}
	s.State = batch.JobState{Phase: phase, Reason: reason, Message: message, LastTransitionTime: n.now}
	n.note(restartingTask, "") // a new phase applies to all pods
	s.Conditions = append(s.Conditions, batch.JobCondition{Status: phase, LastTransitionTime: &n.now})
	if over := len(s.Conditions) - maxConditions; over > 0 {
		s.Conditions = slices.Delete(s.Conditions, 0, over)
	}
}

const maxConditions = 32

// run handles a Job that is Pending or Running, or of which a part restarts.
func (n *stepper) run() {
	n.shrink()
	for _, pod := range n.old {
		n.drop(pod)
	}
	for i := range n.spec.tasks {
		t := &n.spec.tasks[i]
		n.out.suspects = n.out.suspects || int32(len(n.seen[t.name])) < min(recorded(&n.job.Status, t.name), t.replicas)
	}
	causes := n.due(append(n.spec.causes(&n.job.Status, n.seen, n.newlyTorn()), n.replacements()...))
	c, t := worst(causes), n.restarting()
	switch {
	case t != nil && (c == nil || weight[c.action] <= weight[batch.RestartTask]):
		n.owe(causes, t)
		n.goOn(t)
	case c != nil:
		if weight[c.action] <= weight[batch.RestartTask] {
			n.owe(causes, c.task)
		}
		n.act(c, causes)
	case n.judge():
	default:
		n.fill()
	}
}

// ran reports whether the Job was Running at some time since its last start.
func (n *stepper) ran() bool {
	for _, c := range slices.Backward(n.job.Status.Conditions) {
		switch c.Status {
		case batch.Running:
			return true
		case batch.Restarting:
			return n.out.status.ControlledResources[ranBefore] == n.version()
		}
	}
	return n.job.Status.State.Phase == batch.Running
}

// newlyTorn reports whether a Job that has run is torn (see torn) and has fewer placed pods than
// minAvailable. It returns false if a policy has already acted on this.
func (n *stepper) newlyTorn() bool {
	if !n.ran() || placed(n.seen) >= n.spec.minAvailable {
		n.note(countedTear, "")
		return false
	}
	return n.out.status.ControlledResources[countedTear] == "" && torn(n.seen)
}

// owe records the tasks with evicted pods, except the task whose policy acts now.
func (n *stepper) owe(causes []cause, but *task) {
	n.owed = map[string]bool{}
	for _, c := range causes {
		if c.event == batch.PodEvicted && c.pod == nil && c.task.name != but.name {
			n.owed[c.task.name] = true
		}
	}
}

// replacements returns the evictions whose policies have a timeout, and whose replacements wait. It
// records each evicted pod until its replacement has run, or until a later retry has created the
// pod again.
func (n *stepper) replacements() (out []cause) {
	for i := range n.spec.tasks {
		t := &n.spec.tasks[i]
		p := t.policyFor(batch.PodEvicted, nil)
		if !delays(p) {
			continue
		}
		pods := map[string]*corev1.Pod{}
		for _, pod := range n.seen[t.name] {
			if pod.DeletionTimestamp == nil {
				pods[pod.Annotations[batch.TaskIndexKey]] = pod
			}
		}
		retries := map[string]string{} // by index, as in evictedPods
		for _, entry := range strings.Split(n.job.Status.ControlledResources[evictedPods+t.name], ",") {
			index, retry, _ := strings.Cut(entry, "@")
			retries[index] = retry
		}
		var entries []string
		evicts := int32(len(pods)) < min(recorded(&n.job.Status, t.name), t.replicas)
		for i := range int(t.replicas) {
			index := strconv.Itoa(i)
			pod, retry := pods[index], retries[index]
			if pod == nil && evicts && retry == "" {
				retry = strconv.Itoa(int(n.job.Status.RetryCount))
			}
			if retry == "" || pod != nil && !(isPending(pod) && pod.Annotations[batch.JobRetryCountKey] == retry) {
				continue
			}
			entries = append(entries, index+"@"+retry)
			if pod != nil {
				out = append(out, cause{action: p.Action, event: batch.PodEvicted, task: t, pod: pod, timeout: p.Timeout.Duration})
			}
		}
		n.note(evictedPods+t.name, strings.Join(entries, ","))
	}
	return out
}

// queue records if the Job's PodGroup is admitted, and when it was.
func (n *stepper) queue(g *group.PodGroup) {
	if n.queued = g != nil && g.Status.Phase == group.PodGroupPending; n.queued {
		n.note(admittedAt, notAdmitted)
	} else if g != nil && n.out.status.ControlledResources[admittedAt] == notAdmitted {
		n.note(admittedAt, n.now.UTC().Format(time.RFC3339))
	}
	n.admitted, _ = time.Parse(time.RFC3339, n.out.status.ControlledResources[admittedAt]) // zero if it is no time
}

// due returns the causes for which the timeouts of their policies have passed, and records when the
// next cause is due. The time in which the Job is queued does not count for PodPending, because
// Volcano's controller creates the pods only when the PodGroup is admitted.
func (n *stepper) due(causes []cause) (out []cause) {
	for _, c := range causes {
		since := c.since()
		if c.event == batch.PodPending {
			if n.queued {
				continue
			}
			since = later(since, n.admitted)
		}
		at := since.Add(c.timeout)
		if c.timeout == 0 || !n.now.Time.Before(at) {
			out = append(out, c)
			continue
		}
		n.failing = n.failing || c.event == batch.PodFailed
		if n.out.again.IsZero() || at.Before(n.out.again) {
			n.out.again = at
		}
	}
	return out
}

// act carries out the action of c, the cause with the strongest action.
func (n *stepper) act(c *cause, causes []cause) {
	switch c.action {
	case batch.AbortJob:
		n.enter(batch.Aborting, string(c.action), c.String())
	case batch.TerminateJob:
		n.enter(batch.Terminating, string(c.action), c.String())
	case batch.CompleteJob:
		n.enter(batch.Completing, string(c.action), c.String())
	case batch.RestartJob:
		n.restart(c)
		return
	case batch.RestartTask, batch.RestartPod:
		n.restartPart(c, causes)
		return
	}
	n.clear(ended)
}

// restart restarts the whole Job, unless its retries are used up.
func (n *stepper) restart(c *cause) {
	if !n.retry(c) {
		return
	}
	n.out.status.Version++
	n.out.status.TaskStatusCount = nil
	n.enter(batch.Restarting, string(c.action), c.String())
	n.old = append(n.old, n.takeAll()...)
	n.clear(nobody)
}

// takeAll removes all pods from n.seen, and returns them.
func (n *stepper) takeAll() (all []*corev1.Pod) {
	for _, name := range slices.Sorted(maps.Keys(n.seen)) {
		all = append(all, n.seen[name]...)
	}
	n.seen = map[string][]*corev1.Pod{}
	return all
}

// retry counts a restart, and reports whether it is allowed. If the count reaches spec.maxRetry,
// the Job fails instead, so a Job is restarted at most maxRetry-1 times (restartingUpdateStatus in
// Volcano's pkg/controllers/job/state/restarting.go).
func (n *stepper) retry(c *cause) bool {
	s := &n.out.status
	if s.RetryCount++; s.RetryCount < n.spec.maxRetry {
		return true
	}
	n.enter(batch.Failed, "MaxRetry", fmt.Sprintf("retry %d reaches spec.maxRetry %d, so the Job fails: %s", s.RetryCount, n.spec.maxRetry, c))
	n.owed = nil
	n.clear(ended)
	return false
}

// restartPart restarts a task or single pods. Pods that end or disappear one after the other, for
// example because their node is lost, count as one retry: pods that were created before the last
// retry do not count again. Meanwhile the Job is Restarting, as in Volcano.
func (n *stepper) restartPart(c *cause, causes []cause) {
	s := &n.out.status
	if slices.ContainsFunc(causes, n.isNew) && !n.retry(c) {
		return
	}
	if c.event == batch.JobUnknown {
		n.note(countedTear, c.String())
	}
	message := c.String()
	if c.action == batch.RestartTask {
		message = "restarting task " + c.task.name + ": " + message
	}
	if s.State.Phase == batch.Restarting {
		s.State.Reason, s.State.Message = string(c.action), message
	} else {
		if n.ran() {
			n.note(ranBefore, n.version())
		}
		n.enter(batch.Restarting, string(c.action), message)
	}
	if c.action == batch.RestartTask {
		n.note(restartingTask, c.task.name)
		n.goOn(c.task)
		return
	}
	for i := range causes {
		if pod := causes[i].pod; pod != nil {
			n.drop(pod)
		}
	}
	n.fill()
}

// isNew reports whether a cause counts as a further retry. A cause that concerns particular pods
// counts only if one of them was created after the last retry.
func (n *stepper) isNew(c cause) bool {
	switch {
	case c.pod != nil:
		return n.madeSince(c.pod)
	case c.event == batch.PodEvicted: // the pods are gone; the status has their number
		since, err := strconv.Atoi(n.job.Status.ControlledResources[podsSince])
		return n.job.Status.RetryCount == 0 || err == nil && n.countSince() < since
	}
	return true
}

// madeSince reports whether a pod was created after the last retry.
func (n *stepper) madeSince(pod *corev1.Pod) bool {
	return pod.Annotations[batch.JobRetryCountKey] == strconv.Itoa(int(n.out.status.RetryCount))
}

// countSince counts the pods that were created after the last retry and are not being deleted.
func (n *stepper) countSince() (count int) {
	for _, pods := range n.seen {
		for _, pod := range pods {
			if pod.DeletionTimestamp == nil && !slices.Contains(n.out.remove, pod) && n.madeSince(pod) {
				count++
			}
		}
	}
	return count
}

// Keys of status.controlledResources. The Jobs' CustomResourceDefinition keeps unknown keys there
// in every release.
const (
	// firstReplicas, followed by the name of a task without minAvailable, is the number of replicas
	// with which the task began (specOf).
	firstReplicas = "berth.dev/first-replicas-"
	// admittedAt is the time when the PodGroup of a queued Job was admitted, or notAdmitted. The
	// key is not written if the PodGroup was admitted at once.
	admittedAt  = "berth.dev/admitted-at"
	notAdmitted = "not yet"
	// restartingTask names the task whose pods are being replaced.
	restartingTask = "berth.dev/restarting-task"
	// ranBefore is the version (status.version) of a Job that was Running before a part of it was
	// restarted. The conditions do not distinguish a part from the whole Job.
	ranBefore = "berth.dev/ran-before"
	// podsSince is the number of existing pods that were created since the last retry. If fewer
	// exist later, at least one of them was evicted. The key is not written before the first retry,
	// because until then all pods count.
	podsSince = "berth.dev/pods-since-retry"
	// evictedPods, followed by the name of a task, has the evicted pods whose replacements have not
	// run yet: "0@1,3@1" are the indexes 0 and 3, and status.retryCount was 1. The key is written
	// only if the policy for PodEvicted has a timeout.
	evictedPods = "berth.dev/evicted-pods-"
	// succeededPods, followed by the name of a task, has the indexes of its pods that succeeded,
	// such as "0-3,5". The key is removed when these pods are to run again.
	succeededPods = "berth.dev/succeeded-pods-"
	// countedTear is the cause for which a policy restarted a part of a torn Job (see torn). It is
	// removed when at least minAvailable pods have nodes, or when the whole Job restarts. A Job may
	// stay torn while a part is restarted, but the tear counts only once.
	countedTear = "berth.dev/counted-tear"
)

// note stores a value in the status. The value "" removes the key.
func (n *stepper) note(key, word string) {
	s := &n.out.status
	if word == "" {
		delete(s.ControlledResources, key)
		return
	}
	if s.ControlledResources == nil {
		s.ControlledResources = map[string]string{}
	}
	s.ControlledResources[key] = word
}

// restarting returns the task whose pods are being replaced, or nil.
func (n *stepper) restarting() *task {
	name, is := n.job.Status.ControlledResources[restartingTask]
	if !is {
		return nil
	}
	return n.spec.task(name)
}

// goOn deletes the remaining pods of a restarting task. If all of them are being deleted, the
// restart is over, and each pod is created again when the old one is gone.
func (n *stepper) goOn(t *task) {
	left := false
	for _, pod := range n.seen[t.name] {
		if pod.DeletionTimestamp == nil {
			n.drop(pod)
			left = true
		}
	}
	if left {
		return
	}
	n.note(restartingTask, "")
	n.out.status.State.Message = "restarted task " + t.name
	n.fill()
}

// leaving counts the pods that are being deleted.
func (n *stepper) leaving() int32 {
	count := len(n.old) + n.count()
	for _, there := range n.phases() {
		count -= int(there)
	}
	return int32(count)
}

// judge sets the Job's phase (Pending, Running, Completed or Failed) from the phases of its pods.
// It reports whether the Job has ended.
func (n *stepper) judge() (over bool) {
	s, count := &n.out.status, n.phases()
	succeeded, failed := count[corev1.PodSucceeded], count[corev1.PodFailed]
	least := n.spec.minAvailable
	if s.State.Phase == batch.Restarting && n.spec.replicas-n.leaving() >= least { // restartingUpdateStatus in Volcano
		n.enter(batch.Pending, s.State.Reason, s.State.Message)
		return false
	}
	switch there := count[corev1.PodRunning]+succeeded+failed >= max(least, 1); {
	case n.spec.replicas == 0:
	case there && s.State.Phase == batch.Pending:
		n.enter(batch.Running, "", "")
	case !there && s.State.Phase == batch.Running:
		n.enter(batch.Pending, "", fmt.Sprintf("pods that run or have ended: %d; the Job needs at least %d", count[corev1.PodRunning]+succeeded+failed, max(least, 1)))
	}
	most, rule, needs := n.job.Spec.MinSuccess, "spec.minAvailable", least
	if most != nil {
		rule, needs = "spec.minSuccess", *most
	}
	switch {
	case n.spec.replicas == 0:
		return false
	case most != nil && succeeded >= *most:
		n.enter(batch.Completed, "", fmt.Sprintf("pods that succeeded: %d; spec.minSuccess: %d", succeeded, *most))
	case succeeded+failed < n.spec.replicas, n.failing: // some pods still run, or a policy must act
		return false
	case most != nil || succeeded < least || n.taskLacks() != "":
		n.enter(batch.Failed, "NotEnoughSuccess", fmt.Sprintf("pods that succeeded: %d; pods that failed: %d; %s: %d%s", succeeded, failed, rule, needs, n.taskLacks()))
	default:
		n.enter(batch.Completed, "", fmt.Sprintf("pods that succeeded: %d", succeeded))
	}
	n.clear(ended)
	return true
}

// taskLacks names a task in which fewer pods than its minAvailable have succeeded, or returns "".
// If the Job's own minAvailable is less than the sum of the tasks' values, the tasks' values have
// no effect, as for the gang (wire.ReadVolcanoGroup).
func (n *stepper) taskLacks() string {
	if n.spec.minAvailable < n.spec.ofTasks {
		return ""
	}
	for i := range n.spec.tasks {
		t, succeeded := &n.spec.tasks[i], int32(0)
		for _, pod := range n.seen[t.name] {
			if pod.Status.Phase == corev1.PodSucceeded {
				succeeded++
			}
		}
		if succeeded < t.minAvailable {
			return fmt.Sprintf("; task %s: pods that succeeded: %d; minAvailable: %d", t.name, succeeded, t.minAvailable)
		}
	}
	return ""
}

// phases counts the pods by phase. It ignores pods that are being deleted.
func (n *stepper) phases() map[corev1.PodPhase]int32 {
	count := map[corev1.PodPhase]int32{}
	for _, pods := range n.seen {
		for _, pod := range pods {
			if pod.DeletionTimestamp == nil {
				count[cmp.Or(pod.Status.Phase, corev1.PodPending)]++
			}
		}
	}
	return count
}

// shrink moves pods beyond a task's replicas to the old pods, so that their end has no effect on
// the Job.
func (n *stepper) shrink() {
	for i := range n.spec.tasks {
		t := &n.spec.tasks[i]
		n.seen[t.name] = slices.DeleteFunc(n.seen[t.name], func(pod *corev1.Pod) bool {
			index, err := strconv.Atoi(pod.Annotations[batch.TaskIndexKey])
			beyond := err != nil || index < 0 || index >= int(t.replicas)
			if beyond {
				n.old = append(n.old, pod)
			}
			return beyond
		})
	}
}

// fill adds the missing pods to n.out.make, except the pods of tasks that have to wait.
func (n *stepper) fill() {
	there := map[string]bool{}
	for _, pods := range n.seen {
		for _, pod := range pods {
			there[pod.Name] = true
		}
	}
	for i := range n.spec.tasks {
		t := &n.spec.tasks[i]
		if n.waits(t) || n.owed[t.name] {
			continue
		}
		for index := range int(t.replicas) {
			if !there[podName(n.job.Name, t.name, index)] {
				n.out.make = append(n.out.make, member{t, index})
			}
		}
	}
}

// waits reports whether a task has to wait for the tasks in its dependsOn. It waits until all of
// these tasks are ready or, with iteration any, until one of them is ready. A task is ready if at
// least minAvailable of its pods are ready or have succeeded.
func (n *stepper) waits(t *task) bool {
	d := t.spec.DependsOn
	if d == nil || len(d.Name) == 0 {
		return false
	}
	ready := func(name string) bool {
		other, count := n.spec.task(name), int32(0)
		for _, pod := range n.seen[name] {
			if pod.DeletionTimestamp == nil && isReady(pod) {
				count++
			}
		}
		return other != nil && count >= other.minAvailable
	}
	if d.Iteration == iterateAny {
		return !slices.ContainsFunc(d.Name, ready)
	}
	return slices.ContainsFunc(d.Name, func(name string) bool { return !ready(name) })
}

func isReady(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodSucceeded {
		return true
	}
	return pod.Status.Phase == corev1.PodRunning &&
		!slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return !c.Ready })
}

// tally writes the counts into the status. It counts pods that are about to be deleted only as
// Terminating, because otherwise they would later count as evicted.
func (n *stepper) tally() {
	s := &n.out.status
	s.MinAvailable = n.spec.minAvailable
	s.Pending, s.Running, s.Succeeded, s.Failed, s.Terminating, s.Unknown = 0, 0, 0, 0, 0, 0
	counts := map[string]batch.TaskState{}
	into := map[corev1.PodPhase]*int32{
		corev1.PodPending: &s.Pending, corev1.PodRunning: &s.Running, corev1.PodSucceeded: &s.Succeeded,
		corev1.PodFailed: &s.Failed, corev1.PodUnknown: &s.Unknown,
	}
	succeeded := map[string][]int{}
	for name, pods := range n.seen {
		for _, pod := range pods {
			if pod.DeletionTimestamp != nil || slices.Contains(n.out.remove, pod) {
				s.Terminating++
				continue
			}
			if index, err := strconv.Atoi(pod.Annotations[batch.TaskIndexKey]); err == nil && pod.Status.Phase == corev1.PodSucceeded {
				succeeded[name] = append(succeeded[name], index)
			}
			if n.recalled[pod] {
				n.out.gone[name]++
			}
			phase := cmp.Or(pod.Status.Phase, corev1.PodPending)
			if to := into[phase]; to != nil {
				*to++
			}
			if counts[name].Phase == nil {
				counts[name] = batch.TaskState{Phase: map[corev1.PodPhase]int32{}}
			}
			counts[name].Phase[phase]++
		}
	}
	for i := range n.spec.tasks {
		name := n.spec.tasks[i].name
		n.note(succeededPods+name, cpuset.New(succeeded[name]...).String())
	}
	for name := range n.owed {
		counts[name] = n.job.Status.TaskStatusCount[name]
	}
	n.note(podsSince, "")
	if since := n.countSince(); since > 0 && s.RetryCount > 0 {
		n.note(podsSince, strconv.Itoa(since))
	}
	s.Terminating += int32(len(n.old))
	if s.TaskStatusCount = counts; len(counts) == 0 {
		s.TaskStatusCount = nil
	}
}
