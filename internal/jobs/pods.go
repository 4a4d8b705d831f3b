package jobs

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
	group "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
)

// groupName returns the name of the Job's PodGroup in Volcano's form. It contains the UID, so a Job
// that is created again has another PodGroup.
func groupName(job *batch.Job) string { return job.Name + "-" + string(job.UID) }

// podOf returns a pod of a task. scheduler is the schedulerName for Jobs that name none.
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
	// Of the Job's annotations and labels, Volcano's controller copies only these to the pods.
	if word, said := job.Annotations[group.PreemptableKey]; said {
		put(&pod.Annotations, map[string]string{group.PreemptableKey: word})
	}
	if word, said := job.Labels[group.PreemptableKey]; said {
		put(&pod.Labels, map[string]string{group.PreemptableKey: word})
	}
	pod.Spec.SchedulerName = cmp.Or(pod.Spec.SchedulerName, job.Spec.SchedulerName, scheduler)
	pod.Spec.PriorityClassName = cmp.Or(pod.Spec.PriorityClassName, job.Spec.PriorityClassName)
	pod.Spec.RestartPolicy = cmp.Or(pod.Spec.RestartPolicy, corev1.RestartPolicyOnFailure)
	if pod.Spec.HostNetwork && (pod.Spec.DNSPolicy == "" || pod.Spec.DNSPolicy == corev1.DNSClusterFirst) {
		pod.Spec.DNSPolicy = corev1.DNSClusterFirstWithHostNet // with hostNetwork, ClusterFirst would mean the node's DNS
	}
	mountVolumes(pod, job)
	plugInto(pod, job, s, m)
	return pod
}

func put[V any](into *map[string]V, more map[string]V) {
	if *into == nil {
		*into = map[string]V{}
	}
	maps.Copy(*into, more)
}

func plugInto(pod *corev1.Pod, job *batch.Job, s *spec, m member) {
	p, _ := pluginsOf(job) // a Job with errors was refused before
	if p.env {
		index := strconv.Itoa(m.index)
		addEnv(pod, corev1.EnvVar{Name: "VK_TASK_INDEX", Value: index}, corev1.EnvVar{Name: "VC_TASK_INDEX", Value: index})
	}
	if p.svc != nil {
		pod.Spec.Hostname, pod.Spec.Subdomain = cmp.Or(pod.Spec.Hostname, pod.Name), cmp.Or(pod.Spec.Subdomain, job.Name)
		mountHosts(pod, job, s, p.svc.injectHosts)
	}
	if p.ssh != nil {
		p.ssh.mountKeys(pod, job)
	}
	for _, f := range p.frameworks {
		f.plugInto(pod, job, s, m)
	}
}

// addEnv adds variables to every container. It does not change a variable of the template.
func addEnv(pod *corev1.Pod, vars ...corev1.EnvVar) {
	for _, c := range containersOf(pod) {
		for _, v := range vars {
			if !slices.ContainsFunc(c.Env, func(has corev1.EnvVar) bool { return has.Name == v.Name }) {
				c.Env = append(c.Env, v)
			}
		}
	}
}

func hostsName(job *batch.Job) string { return job.Name + "-svc" }

// mountHosts passes the hosts of all tasks to every container, as files, and as variables if
// variables is set.
func mountHosts(pod *corev1.Pod, job *batch.Job, s *spec, variables bool) {
	name := hostsName(job)
	source := corev1.LocalObjectReference{Name: name}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: source},
	}})
	for _, c := range containersOf(pod) {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: hostsPath})
	}
	for i := 0; variables && i < len(s.tasks); i++ {
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

// hosts returns the data of the ConfigMap of the svc plugin. For each task, it has a file with the
// host names, under the task's name and under Volcano's form of the name, with underscores in place
// of hyphens. It also has the values of the environment variables.
func hosts(job *batch.Job, s *spec) map[string]string {
	data := map[string]string{}
	for i := range s.tasks {
		t := &s.tasks[i]
		names := hostsOf(job, t)
		data[t.name+".host"] = strings.Join(names, "\n")
		data[strings.ReplaceAll(t.name, "-", "_")+".host"] = data[t.name+".host"]
		data[hostsKey(t.name)] = strings.Join(names, ",")
		data[countKey(t.name)] = strconv.Itoa(len(names))
	}
	return data
}

func volumeName(index int) string { return "volcano-volume-" + strconv.Itoa(index) }

// claimName returns the claim of a Job's volume: the claim that the Job names, or the claim that
// the controller creates.
func claimName(job *batch.Job, index int) string {
	return cmp.Or(job.Spec.Volumes[index].VolumeClaimName, job.Name+"-volume-"+strconv.Itoa(index)+"-"+uidPart(job))
}

func mountVolumes(pod *corev1.Pod, job *batch.Job) {
	for v := range job.Spec.Volumes {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: volumeName(v), VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(job, v)},
		}})
		for i := range pod.Spec.Containers {
			c := &pod.Spec.Containers[i]
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volumeName(v), MountPath: job.Spec.Volumes[v].MountPath})
		}
	}
}
