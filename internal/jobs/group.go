package jobs

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corehelpers "k8s.io/component-helpers/resource"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
	group "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
)

// podGroupOf returns the Job's PodGroup. Its minimums, in total and by task, leave out the tasks in
// later, whose pods are created only when other tasks are ready, and the pods in gone, which have
// succeeded and no longer exist. Its minResources include them.
func podGroupOf(job *batch.Job, s *spec, later map[string]bool, gone map[string]int32) *group.PodGroup {
	g := &group.PodGroup{ObjectMeta: metav1.ObjectMeta{
		Name: groupName(job), Namespace: job.Namespace, OwnerReferences: ownerOf(job), Labels: job.Labels, Annotations: groupAnnotations(job),
	}}
	g.Spec = group.PodGroupSpec{MinMember: s.minAvailable, Queue: s.queue, PriorityClassName: job.Spec.PriorityClassName}
	if resources := leastResources(s); len(resources) > 0 {
		g.Spec.MinResources = &resources
	}
	var first, ofTasks int32
	least, counts := s.minAvailable, s.minAvailable >= s.ofTasks // otherwise the minAvailable of tasks has no effect
	for i := range s.tasks {
		t := &s.tasks[i]
		if later[t.name] {
			continue
		}
		first, least = sum(first, t.replicas-gone[t.name]), least-gone[t.name]
		own := max(0, t.minAvailable-gone[t.name])
		if len(later) == 0 || counts {
			put(&g.Spec.MinTaskMember, map[string]int32{t.name: own})
		}
		if counts {
			ofTasks = sum(ofTasks, own)
		}
	}
	g.Spec.MinMember = min(max(least, ofTasks, 0), first)
	return g
}

// groupAnnotations returns the Job's annotations, without the manifest that kubectl apply has
// stored in one of them.
func groupAnnotations(job *batch.Job) map[string]string {
	out := map[string]string{}
	for key, value := range job.Annotations {
		if key != corev1.LastAppliedConfigAnnotation {
			out[key] = value
		}
	}
	return out
}

// leastResources returns the requests of the minAvailable pods that start together: minAvailable
// pods of each task, and then the first of the other pods, in the order of the tasks. If the Job's
// minAvailable is less than the sum of the tasks' values, these have no effect (calcPGMinResources
// in Volcano's pkg/controllers/job/job_controller_actions.go).
func leastResources(s *spec) corev1.ResourceList {
	counts, left := make([]int32, len(s.tasks)), s.minAvailable
	count := func(upTo func(*task) int32) {
		for i := range s.tasks {
			more := min(left, upTo(&s.tasks[i])-counts[i])
			counts[i] += more
			left -= more
		}
	}
	if s.minAvailable >= s.ofTasks {
		count(func(t *task) int32 { return t.minAvailable })
	}
	count(func(t *task) int32 { return t.replicas })
	out := corev1.ResourceList{}
	for i, n := range counts {
		if n == 0 {
			continue
		}
		pod := corev1.Pod{Spec: *s.tasks[i].spec.Template.Spec.DeepCopy()}
		defaultRequests(&pod)
		for name, q := range corehelpers.PodRequests(&pod, corehelpers.PodResourcesOptions{}) {
			sum := out[name]
			q.Mul(int64(n))
			sum.Add(q)
			out[name] = sum
		}
	}
	return out
}

// defaultRequests sets missing requests to the limits, as the API server does.
func defaultRequests(pod *corev1.Pod) {
	for _, c := range containersOf(pod) {
		if requests := maps.Clone(c.Resources.Limits); requests != nil {
			maps.Copy(requests, c.Resources.Requests)
			c.Resources.Requests = requests
		}
	}
}
