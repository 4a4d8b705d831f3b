package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/test/trial"
)

// Plan is the list of Jobs, pods and kills.
type Plan struct {
	Jobs []Job
	// Singles are pods that belong to no Job. One is created with each Job, until none is left.
	Singles []*corev1.Pod
	// Kills are parts to kill, each after a number of created Jobs.
	Kills []Kill
}

// Kill is a part to kill, and the number of created Jobs after which it is killed.
type Kill struct{ Part, AfterJobs int }

// Job is a Job with the end that its spec determines.
type Job struct {
	*batch.Job
	Kind string
	// End is the phase in which it stays; "" for a Job that is deleted when it has ended.
	End batch.JobPhase
	// Retries is how often it was restarted before.
	Retries int32
	// Reason is the reason of the state; "" for any.
	Reason string
	// Bound is the number of its pods with nodes in End. A Job that stays Pending has none.
	Bound int
}

// shape makes a Job of a kind.
type shape struct {
	kind string
	make func(p *planner, j *Job)
}

// shapes are all kinds of Jobs. A plan uses them in turn.
var shapes = []shape{
	{"completes", func(p *planner, j *Job) { p.task(j, "work", 1+p.IntN(4), p.ends()) }},
	{"gang of a policy", func(p *planner, j *Job) {
		t := p.task(j, "work", 2+p.IntN(3), p.ends())
		t.TopologyPolicy = batch.NumaPolicy([]string{"single-numa-node", "restricted", "best-effort"}[p.IntN(3)])
	}},
	{"two tasks and plugins", func(p *planner, j *Job) {
		p.task(j, "ps", 1, p.ends())
		p.task(j, "worker", 2, p.ends())
		j.Spec.Plugins = map[string][]string{"env": {}, "svc": {}}
		j.Spec.SchedulerName = "default-scheduler"
	}},
	{"fails", func(p *planner, j *Job) {
		p.task(j, "work", 1+p.IntN(3), hollow.FailImage(p.while(), 1))
		j.End, j.Reason = batch.Failed, "NotEnoughSuccess"
	}},
	{"aborts", func(p *planner, j *Job) {
		p.failing(j, 1, batch.LifecyclePolicy{Event: batch.PodFailed, Action: batch.AbortJob})
		j.End = batch.Aborted
	}},
	{"terminates by exit code", func(p *planner, j *Job) {
		code := int32(3)
		p.failing(j, 3, batch.LifecyclePolicy{ExitCode: &code, Action: batch.TerminateJob}, batch.LifecyclePolicy{Event: batch.PodFailed, Action: batch.AbortJob})
		j.End = batch.Terminated
	}},
	{"completes by a failure", func(p *planner, j *Job) {
		p.failing(j, 1, batch.LifecyclePolicy{Event: batch.AnyEvent, Action: batch.CompleteJob})
		j.End = batch.Completed
	}},
	{"restarts in vain", func(p *planner, j *Job) {
		p.failing(j, 1, batch.LifecyclePolicy{Event: batch.PodFailed, Action: batch.RestartJob})
		j.Spec.MaxRetry = int32(1 + p.IntN(2))
		j.End, j.Retries, j.Reason = batch.Failed, j.Spec.MaxRetry, "MaxRetry"
	}},
	{"restarts a task in vain", func(p *planner, j *Job) {
		p.task(j, "steady", 1, forever)
		t := p.task(j, "work", 1, hollow.FailImage(p.while(), 1))
		t.Policies = []batch.LifecyclePolicy{{Event: batch.PodFailed, Action: batch.RestartTask}}
		j.Spec.MaxRetry = 2
		j.End, j.Retries, j.Reason = batch.Failed, 2, "MaxRetry"
	}},
	{"completes with its master", func(p *planner, j *Job) {
		t := p.task(j, "master", 1, p.ends())
		t.Policies = []batch.LifecyclePolicy{{Event: batch.TaskCompleted, Action: batch.CompleteJob}}
		p.task(j, "worker", 2, forever)
	}},
	{"enough successes", func(p *planner, j *Job) {
		p.task(j, "good", 2, p.ends())
		p.task(j, "steady", 1, forever)
		least := int32(2)
		j.Spec.MinSuccess, j.Spec.MinAvailable = &least, 2
	}},
	{"is urgent", func(p *planner, j *Job) {
		t := p.task(j, "work", 1, p.ends()) // a whole NUMA node of the one node with that policy
		t.TopologyPolicy = "restricted"
		setCPUs(t, 9)
		j.Spec.PriorityClassName = trial.Urgent
	}},
	{"is restarted when evicted", func(p *planner, j *Job) {
		p.task(j, "work", 2, hollow.ExitImage(3*time.Second))
		j.Spec.Policies = []batch.LifecyclePolicy{{Event: batch.PodEvicted, Action: batch.RestartJob}}
		j.Spec.MaxRetry, j.Retries = 100, anyNumber
	}},
	{"goes when its time is over", func(p *planner, j *Job) {
		p.task(j, "work", 1, p.ends())
		ttl := int32(1)
		j.Spec.TTLSecondsAfterFinished, j.End = &ttl, ""
	}},
	{"is refused", func(p *planner, j *Job) {
		p.task(j, "work", 1, p.ends())
		j.Spec.Volumes = []batch.VolumeSpec{{MountPath: "/data", VolumeClaimName: "No_name_of_a_claim"}}
		j.End, j.Reason = batch.Failed, "Refused"
	}},
	{"fits nowhere", func(p *planner, j *Job) {
		t := p.task(j, "work", 2, p.ends())
		t.TopologyPolicy = "single-numa-node"
		setCPUs(t, 12)
		j.End = batch.Pending
	}},
	{"runs until it is deleted", func(p *planner, j *Job) {
		t := p.task(j, "work", 2, forever)
		j.End, j.Bound = batch.Running, int(t.Replicas)
	}},
}

// anyNumber means that any number of restarts is allowed.
const anyNumber = -1

// forever is an image whose containers run until they are stopped.
const forever = "app:1"

type planner struct{ *rand.Rand }

// NewPlan makes a plan with that many Jobs.
func NewPlan(seed uint64, jobs int) Plan {
	p := planner{rand.New(rand.NewPCG(seed, seed))}
	var out Plan
	order := p.Perm(len(shapes))
	for i := range jobs {
		s := shapes[order[i%len(order)]]
		j := Job{Kind: s.kind, End: batch.Completed, Job: &batch.Job{}}
		j.Name, j.Namespace = fmt.Sprintf("j%d", i), namespace
		s.make(&p, &j)
		out.Jobs = append(out.Jobs, j)
	}
	for i := range jobs / 2 {
		pod := &corev1.Pod{Spec: podSpec(1+p.IntN(4), hollow.ExitImage(time.Duration(2+p.IntN(6))*time.Second))}
		pod.Name, pod.Namespace = fmt.Sprintf("single%d", i), namespace
		out.Singles = append(out.Singles, pod)
	}
	for at := 3 + p.IntN(4); at < jobs; at += 3 + p.IntN(5) {
		part := controllerPart
		if p.IntN(4) == 0 {
			part = schedulerPart
		}
		out.Kills = append(out.Kills, Kill{part, at})
	}
	return out
}

// while returns how long a container runs.
func (p *planner) while() time.Duration { return time.Duration(200+p.IntN(1500)) * time.Millisecond }

func (p *planner) ends() string { return hollow.ExitImage(p.while()) }

// task adds a task of pods with one to three CPUs each.
func (p *planner) task(j *Job, name string, replicas int, image string) *batch.TaskSpec {
	j.Spec.Tasks = append(j.Spec.Tasks, batch.TaskSpec{
		Name: name, Replicas: int32(replicas), Template: corev1.PodTemplateSpec{Spec: podSpec(1+p.IntN(3), image)},
	})
	return &j.Spec.Tasks[len(j.Spec.Tasks)-1]
}

// failing adds a task with a pod that fails, a task whose pods continue, and the policies.
func (p *planner) failing(j *Job, code uint8, policies ...batch.LifecyclePolicy) {
	p.task(j, "steady", 1+p.IntN(2), forever)
	p.task(j, "work", 1, hollow.FailImage(p.while(), code))
	j.Spec.Policies = policies
}

func podSpec(cpus int, image string) corev1.PodSpec {
	grace := int64(1)
	return corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{
		Name: "main", Image: image, Resources: corev1.ResourceRequirements{Limits: amounts(cpus)},
	}}}
}

func amounts(cpus int) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(cpus), resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("64Mi")}
}

func setCPUs(t *batch.TaskSpec, cpus int) {
	t.Template.Spec.Containers[0].Resources.Limits = amounts(cpus)
}

// background deletes the dependents of an object after the object.
var background = metav1.DeletePropagationBackground
