package jobs

import (
	"cmp"
	"fmt"
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
	group "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
)

// podName is the name of a pod of a Job, as Volcano forms it.
func podName(job, task string, index int) string {
	return job + "-" + task + "-" + strconv.Itoa(index)
}

// groupName is the name of the Job's PodGroup, as Volcano forms it: a Job made anew has another.
func groupName(job *batch.Job) string { return job.Name + "-" + string(job.UID) }

// ownerOf makes the Job the owner of what is made for it.
func ownerOf(job *batch.Job) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(job, batch.GroupVersion.WithKind("Job"))}
}

// podOf makes a pod of a task. scheduler is the name for Jobs that name none.
func podOf(job *batch.Job, s *spec, m member, scheduler string) *corev1.Pod {
	template := m.task.spec.Template.DeepCopy()
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Name, pod.GenerateName, pod.Namespace = podName(job.Name, m.task.name, m.index), "", job.Namespace
	pod.OwnerReferences = ownerOf(job)
	pod.Labels, pod.Annotations = maps.Clone(pod.Labels), maps.Clone(pod.Annotations)
	both := map[string]string{
		batch.TaskSpecKey: m.task.name, batch.TaskIndexKey: strconv.Itoa(m.index),
		batch.JobNameKey: job.Name, batch.QueueNameKey: s.queue,
	}
	put(&pod.Labels, both)
	put(&pod.Labels, map[string]string{batch.JobNamespaceKey: job.Namespace})
	put(&pod.Annotations, both)
	put(&pod.Annotations, map[string]string{
		batch.JobVersionKey: strconv.Itoa(int(job.Status.Version)), batch.JobRetryCountKey: strconv.Itoa(int(job.Status.RetryCount)),
		batch.TemplateKey: job.Name + "-" + m.task.name, group.GroupNameAnnotation: groupName(job),
	})
	if p := m.task.spec.TopologyPolicy; p != "" {
		put(&pod.Annotations, map[string]string{batch.NumaPolicyKey: string(p)})
	}
	pod.Spec.SchedulerName = cmp.Or(pod.Spec.SchedulerName, job.Spec.SchedulerName, scheduler)
	pod.Spec.PriorityClassName = cmp.Or(pod.Spec.PriorityClassName, job.Spec.PriorityClassName)
	if pod.Spec.RestartPolicy == "" {
		pod.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	}
	plugInto(pod, job, s, m)
	return pod
}

func put(into *map[string]string, more map[string]string) {
	if *into == nil {
		*into = map[string]string{}
	}
	maps.Copy(*into, more)
}

// plugInto does what the job plugins do to a pod.
func plugInto(pod *corev1.Pod, job *batch.Job, s *spec, m member) {
	if _, ok := job.Spec.Plugins["env"]; ok {
		index := strconv.Itoa(m.index)
		addEnv(pod, corev1.EnvVar{Name: "VK_TASK_INDEX", Value: index}, corev1.EnvVar{Name: "VC_TASK_INDEX", Value: index})
	}
	if _, ok := job.Spec.Plugins["svc"]; ok {
		pod.Spec.Hostname, pod.Spec.Subdomain = cmp.Or(pod.Spec.Hostname, pod.Name), cmp.Or(pod.Spec.Subdomain, job.Name)
		mountHosts(pod, job, s)
	}
}

// addEnv gives every container variables; one that the template sets is left as it is.
func addEnv(pod *corev1.Pod, vars ...corev1.EnvVar) {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for _, v := range vars {
				if !hasEnv(&list[i], v.Name) {
					list[i].Env = append(list[i].Env, v)
				}
			}
		}
	}
}

func hasEnv(c *corev1.Container, name string) bool {
	for i := range c.Env {
		if c.Env[i].Name == name {
			return true
		}
	}
	return false
}

// hostsPath is where the svc plugin shows the hosts of each task, a file each.
const hostsPath = "/etc/volcano"

func hostsName(job *batch.Job) string { return job.Name + "-svc" }

// mountHosts shows the hosts of all tasks to every container, as files and as variables.
func mountHosts(pod *corev1.Pod, job *batch.Job, s *spec) {
	name := hostsName(job)
	source := corev1.LocalObjectReference{Name: name}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: source},
	}})
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			list[i].VolumeMounts = append(list[i].VolumeMounts, corev1.VolumeMount{Name: name, MountPath: hostsPath})
		}
	}
	for i := range s.tasks {
		for _, v := range []string{hostsKey(s.tasks[i].name), countKey(s.tasks[i].name)} {
			addEnv(pod, corev1.EnvVar{Name: v, ValueFrom: &corev1.EnvVarSource{
				ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: source, Key: v},
			}})
		}
	}
}

func upper(task string) string    { return strings.ToUpper(strings.ReplaceAll(task, "-", "_")) }
func hostsKey(task string) string { return "VC_" + upper(task) + "_HOSTS" }
func countKey(task string) string { return "VC_" + upper(task) + "_NUM" }

// hosts is what the svc plugin writes down: the hosts of each task.
func hosts(job *batch.Job, s *spec) map[string]string {
	data := map[string]string{}
	for i := range s.tasks {
		t := &s.tasks[i]
		names := make([]string, t.replicas)
		for index := range names {
			pod := podName(job.Name, t.name, index)
			names[index] = cmp.Or(t.spec.Template.Spec.Hostname, pod) + "." + cmp.Or(t.spec.Template.Spec.Subdomain, job.Name)
		}
		data[t.name+".host"] = strings.Join(names, "\n")
		data[hostsKey(t.name)] = strings.Join(names, ",")
		data[countKey(t.name)] = fmt.Sprint(t.replicas)
	}
	return data
}
