package jobs

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
)

// Defaults of a Job, as in Volcano's webhook.
const (
	defaultQueue    = "default"
	defaultMaxRetry = 3
)

// MaxPods is the maximum number of pods of a Job.
const MaxPods = 10_000

// maxTogether is the maximum number of pods that may have to start together, because
// berth-scheduler plans no larger gang (MaxGang of internal/wire).
const maxTogether = 4096

// task is a task with its defaults filled in.
type task struct {
	name         string
	replicas     int32
	minAvailable int32
	spec         *batch.TaskSpec
	policies     []batch.LifecyclePolicy
}

// spec is a Job's spec with its defaults filled in.
type spec struct {
	tasks        []task
	replicas     int32
	minAvailable int32
	// ofTasks is the sum of the tasks' minAvailable.
	ofTasks  int32
	maxRetry int32
	queue    string
}

// specOf returns the spec of a Job. The default of a task's minAvailable is the number of replicas
// with which the Job began, because Volcano's webhook writes this default when a Job is created. So
// a Job that grows needs no more pods than before, and is not torn if further pods find no nodes.
func specOf(job *batch.Job) spec {
	s := spec{maxRetry: job.Spec.MaxRetry, queue: cmp.Or(job.Spec.Queue, defaultQueue), minAvailable: job.Spec.MinAvailable}
	var least int32
	for i := range job.Spec.Tasks {
		t := task{name: cmp.Or(job.Spec.Tasks[i].Name, fmt.Sprint("default", i)), replicas: job.Spec.Tasks[i].Replicas, spec: &job.Spec.Tasks[i]}
		t.minAvailable = t.replicas
		if m := t.spec.MinAvailable; m != nil {
			t.minAvailable = *m
		} else if first, err := strconv.ParseInt(job.Status.ControlledResources[firstReplicas+t.name], 10, 32); err == nil {
			t.minAvailable = min(int32(first), t.replicas)
		}
		t.policies = append(append(t.policies, t.spec.Policies...), job.Spec.Policies...)
		s.tasks = append(s.tasks, t)
		s.replicas, least = sum(s.replicas, t.replicas), sum(least, t.minAvailable)
	}
	s.ofTasks = least
	s.minAvailable = cmp.Or(s.minAvailable, least)
	if s.maxRetry <= 0 {
		s.maxRetry = defaultMaxRetry
	}
	return s
}

// sum adds counts from users. It returns the largest int32 if the sum is larger, so that the sum
// over many tasks does not overflow.
func sum(a, b int32) int32 {
	return int32(max(math.MinInt32, min(math.MaxInt32, int64(a)+int64(b))))
}

// task returns the task with that name, or nil.
func (s *spec) task(name string) *task {
	for i := range s.tasks {
		if s.tasks[i].name == name {
			return &s.tasks[i]
		}
	}
	return nil
}

// Values of dependsOn.iteration: the task waits for any of the named tasks, or for all of them,
// which is the default.
const (
	iterateAny = "any"
	iterateAll = "all"
)

// circle returns the names of tasks that wait for each other in a cycle. It returns nil if there is
// no cycle.
func (s *spec) circle() []string {
	byName := map[string]*task{}
	for i := range s.tasks {
		byName[s.tasks[i].name] = &s.tasks[i]
	}
	var path []string // each task waits for the next one
	done := map[string]bool{}
	var found func(name string) []string
	found = func(name string) []string {
		t := byName[name]
		if t == nil || done[name] || t.spec.DependsOn == nil {
			return nil
		}
		if at := slices.Index(path, name); at >= 0 {
			return slices.Clone(path[at:])
		}
		path = append(path, name)
		for _, other := range t.spec.DependsOn.Name {
			if circle := found(other); circle != nil {
				return circle
			}
		}
		path = path[:len(path)-1]
		done[name] = true
		return nil
	}
	for i := range s.tasks {
		if circle := found(s.tasks[i].name); circle != nil {
			return circle
		}
	}
	return nil
}

// isFinal reports whether a Job in this phase has ended.
func isFinal(p batch.JobPhase) bool {
	return p == batch.Aborted || p == batch.Completed || p == batch.Terminated || p == batch.Failed
}

// endOf maps a phase that waits for pods to be gone to the next phase.
var endOf = map[batch.JobPhase]batch.JobPhase{
	batch.Aborting: batch.Aborted, batch.Completing: batch.Completed, batch.Terminating: batch.Terminated, batch.Restarting: batch.Pending,
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// member is a pod that a Job must have.
type member struct {
	task  *task
	index int
}

func ownerOf(job *batch.Job) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(job, batch.GroupVersion.WithKind("Job"))}
}

// hostsPath is the folder in which the svc plugin mounts the ConfigMap with the hosts of each task.
const hostsPath = "/etc/volcano"

// hostsOf returns the host names of a task's pods. There is only one name if the template has a
// hostname.
func hostsOf(job *batch.Job, t *task) []string {
	count := int(t.replicas)
	if t.spec.Template.Spec.Hostname != "" {
		count = min(1, count)
	}
	names := make([]string, count)
	for index := range names {
		names[index] = hostOf(job, t, index)
	}
	return names
}

func hostOf(job *batch.Job, t *task, index int) string {
	return cmp.Or(t.spec.Template.Spec.Hostname, podName(job.Name, t.name, index)) + "." + cmp.Or(t.spec.Template.Spec.Subdomain, job.Name)
}

// podName returns the name of a pod of a Job, as Volcano forms it.
func podName(job, task string, index int) string {
	return job + "-" + task + "-" + strconv.Itoa(index)
}

func containersOf(pod *corev1.Pod) (all []*corev1.Container) {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			all = append(all, &list[i])
		}
	}
	return all
}

// uidPart returns a part of the Job's UID. The controller puts it into the names of objects that it
// creates and never reads, so that a new Job with the same name does not use the remaining objects
// of the previous Job.
func uidPart(job *batch.Job) string { return string(job.UID[:min(8, len(job.UID))]) }
