package jobs

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
)

// Refused returns errors about fields that are invalid, or that Berth does not support although the
// Job needs them. The admission policy refuses the same fields, if it is installed.
func Refused(job *batch.Job) (wrong field.ErrorList) {
	at, s := field.NewPath("spec"), specOf(job)
	if wrong = refusedShape(job, &s); len(wrong) == 0 {
		wrong = refusedHosts(job, &s)
	}
	wrong = append(wrong, refusedVolumes(at.Child("volumes"), job)...)
	if n := job.Spec.NetworkTopology; n != nil && n.Mode != "soft" {
		wrong = append(wrong, notServed(at.Child("networkTopology"), "use Kueue's topology-aware scheduling"))
	}
	_, plugins := pluginsOf(job)
	wrong = append(wrong, plugins...)
	wrong = append(wrong, refusedPolicies(at.Child("policies"), job.Spec.Policies)...)
	for i := range job.Spec.Tasks {
		t, at := &job.Spec.Tasks[i], at.Child("tasks").Index(i)
		if t.PartitionPolicy != nil {
			wrong = append(wrong, notServed(at.Child("partitionPolicy"), "write a task for each partition"))
		}
		wrong = append(wrong, refusedPolicies(at.Child("policies"), t.Policies)...)
	}
	return append(wrong, refusedOrder(&s)...)
}

// refusedVolumes checks the volumes. A Job that has begun may have both volumeClaim and the name of
// the claim, because Volcano's controller writes the name of a claim that it creates into the Job.
func refusedVolumes(at *field.Path, job *batch.Job) (wrong field.ErrorList) {
	seen := map[string]bool{}
	for i := range job.Spec.Volumes {
		v, at := &job.Spec.Volumes[i], at.Index(i)
		switch {
		case v.MountPath == "":
			wrong = append(wrong, field.Required(at.Child("mountPath"), "the path of the volume in the containers"))
		case seen[v.MountPath]:
			wrong = append(wrong, field.Duplicate(at.Child("mountPath"), v.MountPath))
		}
		seen[v.MountPath] = true
		created := v.VolumeClaimName != "" && v.VolumeClaim != nil && job.Status.State.Phase != ""
		if (v.VolumeClaimName == "") == (v.VolumeClaim == nil) && !created {
			wrong = append(wrong, field.Invalid(at.Child("volumeClaimName"), v.VolumeClaimName, "want either the name of an existing claim, or volumeClaim, from which a claim is created"))
		} else if v.VolumeClaimName != "" && len(validation.IsDNS1123Subdomain(v.VolumeClaimName)) > 0 {
			wrong = append(wrong, field.Invalid(at.Child("volumeClaimName"), v.VolumeClaimName, "want a name that a PersistentVolumeClaim can have"))
		}
	}
	return wrong
}

// refusedOrder checks dependsOn: the tasks must exist and form no cycle.
func refusedOrder(s *spec) (wrong field.ErrorList) {
	circle := s.circle()
	for i := range s.tasks {
		t, at := &s.tasks[i], field.NewPath("spec", "tasks").Index(i).Child("dependsOn")
		d := t.spec.DependsOn
		if d == nil || len(d.Name) == 0 {
			continue
		}
		if len(d.Name) > len(s.tasks) {
			wrong = append(wrong, field.TooMany(at.Child("name"), len(d.Name), len(s.tasks)))
			continue
		}
		for j, name := range d.Name {
			if s.task(name) == nil {
				wrong = append(wrong, field.NotFound(at.Child("name").Index(j), name))
			}
		}
		if d.Iteration != "" && d.Iteration != iterateAny && d.Iteration != iterateAll {
			wrong = append(wrong, field.NotSupported(at.Child("iteration"), d.Iteration, []string{iterateAny, iterateAll}))
		}
		if slices.Contains(circle, t.name) {
			wrong = append(wrong, field.Invalid(at.Child("name"), strings.Join(d.Name, ", "), "want tasks that do not wait for this one"))
		}
	}
	return wrong
}

// Limits of the host lists of the svc plugin: the data of a ConfigMap (corev1.MaxSecretSize), and
// one variable, whose limit in Linux includes its name and a zero byte (MAX_ARG_STRLEN,
// include/uapi/linux/binfmts.h). With a longer variable no container would start.
const (
	maxHosts    = corev1.MaxSecretSize
	maxVariable = 128 << 10
)

// refusedHosts checks the size of the host lists that the svc plugin shows to every container.
func refusedHosts(job *batch.Job, s *spec) (wrong field.ErrorList) {
	p, _ := pluginsOf(job)
	if p.svc == nil {
		return nil
	}
	data, total := hosts(job, s), 0
	for key, value := range data {
		total += len(key) + len(value)
	}
	if total > maxHosts {
		wrong = append(wrong, field.Invalid(field.NewPath("spec", "plugins").Key("svc"), fmt.Sprint(total, " bytes of hosts"),
			fmt.Sprintf("want at most %d, the limit of a ConfigMap: use fewer pods or shorter names, or leave svc out", maxHosts)))
	}
	for i := 0; p.svc.injectHosts && i < len(s.tasks); i++ {
		key := hostsKey(s.tasks[i].name)
		if bytes := len(key) + len("=") + len(data[key]) + 1; bytes > maxVariable {
			wrong = append(wrong, field.Invalid(field.NewPath("spec", "tasks").Index(i).Child("replicas"), s.tasks[i].replicas,
				fmt.Sprintf("use fewer pods, or svc with --inject-hosts-env=false: the environment variable %s would have %d bytes, and Linux allows at most %d", key, bytes, maxVariable)))
		}
	}
	return wrong
}

// refusedShape checks the names and numbers of a Job.
func refusedShape(job *batch.Job, s *spec) (wrong field.ErrorList) {
	at := field.NewPath("spec")
	if len(s.tasks) == 0 {
		wrong = append(wrong, field.Required(at.Child("tasks"), "at least one task"))
	}
	if s.replicas > MaxPods {
		wrong = append(wrong, field.Invalid(at.Child("tasks"), s.replicas, fmt.Sprintf("want at most %d replicas in all tasks together", MaxPods)))
	}
	if told := job.Spec.MinAvailable; told > s.replicas || told < 0 {
		wrong = append(wrong, field.Invalid(at.Child("minAvailable"), told, fmt.Sprintf("want 0 to %d, the number of pods of all tasks", s.replicas)))
	} else if s.minAvailable > maxTogether && s.replicas <= MaxPods {
		wrong = append(wrong, field.Invalid(at.Child("minAvailable"), s.minAvailable,
			fmt.Sprintf("want at most %d, the limit of pods that start together (the default is the sum of minAvailable of all tasks)", maxTogether)))
	}
	if most := job.Spec.MaxRetry; most < 0 {
		wrong = append(wrong, field.Invalid(at.Child("maxRetry"), most, "want 0 or more"))
	}
	seen := map[string]bool{}
	p, _ := pluginsOf(job)
	for i := range s.tasks {
		t, at := &s.tasks[i], at.Child("tasks").Index(i)
		name := podName(job.Name, t.name, int(t.replicas))
		if why := unfit(name, p.svc != nil); why != "" {
			wrong = append(wrong, field.Invalid(at.Child("name"), t.name, fmt.Sprintf("want a name that makes valid pod names: a pod would have the name %s, %s", name, why)))
		}
		if seen[t.name] {
			wrong = append(wrong, field.Duplicate(at.Child("name"), t.name))
		}
		seen[t.name] = true
		if t.replicas < 0 {
			wrong = append(wrong, field.Invalid(at.Child("replicas"), t.replicas, "want 0 or more"))
		}
		if most := t.spec.MaxRetry; most < -1 {
			wrong = append(wrong, field.Invalid(at.Child("maxRetry"), most, "want 0 or more, or -1 for no limit"))
		}
		if t.minAvailable < 0 || t.minAvailable > t.replicas {
			wrong = append(wrong, field.Invalid(at.Child("minAvailable"), t.minAvailable, fmt.Sprintf("want 0 to %d, the task's replicas", t.replicas)))
		}
	}
	return wrong
}

// unfit describes why a pod cannot have the name, or returns "". The name is also a label value,
// which is at most as long as a DNS label. With the plugin svc, it is also a host name, which has
// no dots.
func unfit(name string, svc bool) string {
	switch {
	case len(name) > validation.DNS1123LabelMaxLength:
		return fmt.Sprintf("which is longer than %d characters", validation.DNS1123LabelMaxLength)
	case svc && len(validation.IsDNS1123Label(name)) > 0:
		return "which is not a DNS label, as the plugin svc needs"
	case len(validation.IsDNS1123Subdomain(name)) > 0:
		return "which is not a DNS name"
	}
	return ""
}

var (
	servedEvents = []batch.Event{
		batch.AnyEvent, batch.PodFailed, batch.PodEvicted, batch.PodPending, batch.JobUnknown, batch.TaskCompleted, batch.TaskFailed,
	}
	// lasting are the events whose beginning is visible in the pods. Their timeouts start at that
	// time.
	lasting       = []batch.Event{batch.PodFailed, batch.PodEvicted, batch.PodPending, batch.TaskCompleted}
	servedActions = []batch.Action{batch.AbortJob, batch.RestartJob, batch.RestartTask, batch.RestartPod, batch.TerminateJob, batch.CompleteJob}
)

func refusedPolicies(at *field.Path, list []batch.LifecyclePolicy) (wrong field.ErrorList) {
	seen, codes := map[batch.Event]bool{}, map[int32]bool{}
	for i := range list {
		p, at := &list[i], at.Index(i)
		events := eventsOf(p)
		wrong = append(wrong, refusedCause(at, p, events)...)
		for _, e := range events {
			if seen[e] {
				wrong = append(wrong, field.Duplicate(at.Child("event"), e))
			}
			seen[e] = true
		}
		if p.ExitCode != nil {
			if codes[*p.ExitCode] {
				wrong = append(wrong, field.Duplicate(at.Child("exitCode"), *p.ExitCode))
			}
			codes[*p.ExitCode] = true
		}
		if !slices.Contains(servedActions, p.Action) {
			wrong = append(wrong, notServed(at.Child("action"), string(p.Action)+" is none of "+join(servedActions)))
		}
	}
	if seen[batch.AnyEvent] && len(seen) > 1 {
		wrong = append(wrong, field.Invalid(at, "*", "want only *, which stands for all events, or only other events"))
	}
	return wrong
}

// refusedCause checks the events of one policy.
func refusedCause(at *field.Path, p *batch.LifecyclePolicy, events []batch.Event) (wrong field.ErrorList) {
	switch {
	case p.ExitCode != nil && len(events) > 0:
		wrong = append(wrong, field.Invalid(at.Child("exitCode"), *p.ExitCode, "want an exit code or events, not both"))
	case p.ExitCode != nil && *p.ExitCode == 0:
		wrong = append(wrong, field.Invalid(at.Child("exitCode"), 0, "want another exit code: 0 means success"))
	case p.ExitCode == nil && len(events) == 0:
		wrong = append(wrong, field.Required(at.Child("event"), "want event, events or exitCode"))
	}
	for _, e := range events {
		switch {
		case !slices.Contains(servedEvents, e):
			wrong = append(wrong, notServed(at.Child("event"), string(e)+" is none of "+join(servedEvents)))
		case p.Timeout != nil && !slices.Contains(lasting, e):
			wrong = append(wrong, notServed(at.Child("timeout"), "want a timeout only with "+join(lasting)+", because the pods do not show when other events began"))
		case e == batch.PodPending && p.Timeout == nil:
			wrong = append(wrong, field.Required(at.Child("timeout"), "the time that a pod may be pending, because every pod is pending at first"))
		}
	}
	if p.Timeout != nil && p.Timeout.Duration < 0 {
		wrong = append(wrong, field.Invalid(at.Child("timeout"), p.Timeout.Duration.String(), "want 0 or more"))
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

// Unserved returns warnings about fields of a Job that Berth ignores and that the Job does not
// need.
func Unserved(job *batch.Job) (warnings []string) {
	at := field.NewPath("spec")
	if q := job.Spec.Queue; q != "" && q != defaultQueue {
		warnings = append(warnings, fmt.Sprintf("%s: Berth ignores the shares and quotas of queue %q: use Kueue with Berth", at.Child("queue"), q))
	}
	if n := job.Spec.NetworkTopology; n != nil && n.Mode == "soft" {
		warnings = append(warnings, at.Child("networkTopology").String()+": Berth does not look at the network")
	}
	if job.Spec.RunningEstimate != nil {
		warnings = append(warnings, at.Child("runningEstimate").String()+": it has no effect")
	}
	return warnings
}
