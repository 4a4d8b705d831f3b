package jobs

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
)

// served are the job plugins that Berth has.
var served = []string{"env", "svc"}

// Refused says what of a Job cannot be served, by path: the Job would not do what it says. The
// admission policy says the same where it is installed.
func Refused(job *batch.Job) (wrong field.ErrorList) {
	at, s := field.NewPath("spec"), specOf(job)
	wrong = append(wrong, refusedShape(job, &s)...)
	if len(job.Spec.Volumes) > 0 {
		wrong = append(wrong, notServed(at.Child("volumes"), "write the volumes into the tasks' templates"))
	}
	if n := job.Spec.NetworkTopology; n != nil && n.Mode != "soft" {
		wrong = append(wrong, notServed(at.Child("networkTopology"), "use Kueue's topology-aware scheduling"))
	}
	for name := range job.Spec.Plugins {
		if !slices.Contains(served, name) {
			wrong = append(wrong, notServed(at.Child("plugins").Key(name), "Berth has "+strings.Join(served, " and ")))
		}
	}
	wrong = append(wrong, refusedPolicies(at.Child("policies"), job.Spec.Policies)...)
	for i := range job.Spec.Tasks {
		t, at := &job.Spec.Tasks[i], at.Child("tasks").Index(i)
		if t.DependsOn != nil {
			wrong = append(wrong, notServed(at.Child("dependsOn"), "wait for the other task in an init container"))
		}
		if t.PartitionPolicy != nil {
			wrong = append(wrong, notServed(at.Child("partitionPolicy"), "write a task for each partition"))
		}
		wrong = append(wrong, refusedPolicies(at.Child("policies"), t.Policies)...)
	}
	return wrong
}

func notServed(at *field.Path, instead string) *field.Error {
	return field.Forbidden(at, "Berth does not serve it: "+instead)
}

// refusedShape looks at names and numbers.
func refusedShape(job *batch.Job, s *spec) (wrong field.ErrorList) {
	at := field.NewPath("spec")
	if len(s.tasks) == 0 {
		wrong = append(wrong, field.Required(at.Child("tasks"), "at least one task"))
	}
	if s.replicas > MaxPods {
		wrong = append(wrong, field.Invalid(at.Child("tasks"), s.replicas, fmt.Sprintf("at most %d pods in all", MaxPods)))
	}
	if told := job.Spec.MinAvailable; told > s.replicas || told < 0 {
		wrong = append(wrong, field.Invalid(at.Child("minAvailable"), told, fmt.Sprintf("0 to %d, the pods of all tasks", s.replicas)))
	}
	seen := map[string]bool{}
	for i := range s.tasks {
		t, at := &s.tasks[i], at.Child("tasks").Index(i)
		if name := podName(job.Name, t.name, int(t.replicas)); len(validation.IsDNS1123Label(name)) > 0 {
			wrong = append(wrong, field.Invalid(at.Child("name"), t.name, fmt.Sprintf("a name that pods can have: %s is none", name)))
		}
		if seen[t.name] {
			wrong = append(wrong, field.Duplicate(at.Child("name"), t.name))
		}
		seen[t.name] = true
		if t.replicas < 0 {
			wrong = append(wrong, field.Invalid(at.Child("replicas"), t.replicas, "0 or more"))
		}
		if t.minAvailable < 0 || t.minAvailable > t.replicas {
			wrong = append(wrong, field.Invalid(at.Child("minAvailable"), t.minAvailable, fmt.Sprintf("0 to %d, the task's replicas", t.replicas)))
		}
	}
	return wrong
}

var (
	servedEvents  = []batch.Event{batch.AnyEvent, batch.PodFailed, batch.PodEvicted, batch.TaskCompleted}
	servedActions = []batch.Action{batch.AbortJob, batch.RestartJob, batch.RestartTask, batch.RestartPod, batch.TerminateJob, batch.CompleteJob}
)

// refusedPolicies looks at one list of lifecycle policies.
func refusedPolicies(at *field.Path, list []batch.LifecyclePolicy) (wrong field.ErrorList) {
	seen := map[batch.Event]bool{}
	for i := range list {
		p, at := &list[i], at.Index(i)
		events := eventsOf(p)
		switch {
		case p.ExitCode != nil && len(events) > 0:
			wrong = append(wrong, field.Invalid(at.Child("exitCode"), *p.ExitCode, "an exit code or events, not both"))
		case p.ExitCode != nil && *p.ExitCode == 0:
			wrong = append(wrong, field.Invalid(at.Child("exitCode"), 0, "not 0: that is success"))
		case p.ExitCode == nil && len(events) == 0:
			wrong = append(wrong, field.Required(at.Child("event"), "an event, events or an exit code"))
		}
		for _, e := range events {
			if !slices.Contains(servedEvents, e) {
				wrong = append(wrong, notServed(at.Child("event"), string(e)+" is none of "+join(servedEvents)))
			}
			if seen[e] {
				wrong = append(wrong, field.Duplicate(at.Child("event"), e))
			}
			seen[e] = true
		}
		if !slices.Contains(servedActions, p.Action) {
			wrong = append(wrong, notServed(at.Child("action"), string(p.Action)+" is none of "+join(servedActions)))
		}
		if p.Timeout != nil {
			wrong = append(wrong, notServed(at.Child("timeout"), "a policy acts at once"))
		}
	}
	if seen[batch.AnyEvent] && len(seen) > 1 {
		wrong = append(wrong, field.Invalid(at, "*", "no other event beside it: it stands for all"))
	}
	return wrong
}

func join[T ~string](list []T) string {
	words := make([]string, len(list))
	for i := range list {
		words[i] = string(list[i])
	}
	return strings.Join(words, ", ")
}

// Unserved says what of a Job is passed over, by path: the Job does what it says without.
func Unserved(job *batch.Job) (warnings []string) {
	at := field.NewPath("spec")
	if q := job.Spec.Queue; q != "" && q != defaultQueue {
		warnings = append(warnings, fmt.Sprintf("%s: Berth has no queues, and passes over %q: use Kueue above it", at.Child("queue"), q))
	}
	if n := job.Spec.NetworkTopology; n != nil && n.Mode == "soft" {
		warnings = append(warnings, at.Child("networkTopology").String()+": Berth does not look at the network")
	}
	if job.Spec.RunningEstimate != nil {
		warnings = append(warnings, at.Child("runningEstimate").String()+": nothing is decided by it")
	}
	for i := range job.Spec.Tasks {
		if r := job.Spec.Tasks[i].MaxRetry; r != 0 {
			warnings = append(warnings, at.Child("tasks").Index(i).Child("maxRetry").String()+": retries are counted for the whole Job, by spec.maxRetry")
		}
	}
	return warnings
}
