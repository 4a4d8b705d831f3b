package gen

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corehelpers "k8s.io/component-helpers/resource"
)

// Level is set in the seeds of cases whose kubelets have the gate PodLevelResourceManagers.
const Level = 1 << 62

// level gives the pod pod-level resources, as the API server completes them, and lets some
// containers share the resources that the others leave.
func (p *podMaker) level(pod *corev1.Pod) {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			p.sharing(&list[i].Resources)
		}
	}
	requests := corehelpers.AggregateContainerRequests(pod, corehelpers.PodResourcesOptions{})
	maps.DeleteFunc(requests, func(name corev1.ResourceName, _ resource.Quantity) bool {
		return !corehelpers.IsSupportedPodLevelResource(name)
	})
	cpus, memory := requests[corev1.ResourceCPU], requests[corev1.ResourceMemory]
	switch p.weighted(25, 55, 8, 8, 4) {
	case 0: // the sum of the containers' requests, with no rest to share
		cpus = *resource.NewQuantity(max(1, cpus.Value()), resource.DecimalSI)
	case 1:
		cpus = *resource.NewQuantity(cpus.Value()+int64(p.between(1, max(1, p.perNode/2))), resource.DecimalSI)
		memory.Add(resource.MustParse("64Mi"))
	case 2:
		cpus.Add(resource.MustParse("500m"))
		memory.Add(p.bytes())
	case 3: // anything
		cpus = p.cpu()
	case 4: // the API server rejects such a pod
		cpus, memory = *resource.NewQuantity(int64(p.between(1, 4)), resource.DecimalSI), p.bytes()
	}
	if memory.IsZero() {
		memory = resource.MustParse("256Mi")
	}
	requests[corev1.ResourceCPU], requests[corev1.ResourceMemory] = cpus, memory
	limits := maps.Clone(requests)
	if p.chance(8) { // not Guaranteed
		cpus.Add(resource.MustParse("1"))
		limits[corev1.ResourceCPU] = cpus
	}
	pod.Spec.Resources = &corev1.ResourceRequirements{Requests: requests, Limits: limits}
}

// extrasOf returns how many resources other than CPU and memory the containers of the pod request.
func extrasOf(pod *corev1.Pod) int {
	all := corehelpers.AggregateContainerLimits(pod, corehelpers.PodResourcesOptions{})
	delete(all, corev1.ResourceCPU)
	delete(all, corev1.ResourceMemory)
	return len(all)
}

// sharing completes a container's requests. Some of the requests differ from their limits.
func (p *podMaker) sharing(r *corev1.ResourceRequirements) {
	all := corev1.ResourceList{}
	maps.Copy(all, r.Limits)
	maps.Copy(all, r.Requests)
	r.Requests = all
	switch p.weighted(62, 25, 7, 6) {
	case 1: // nothing but huge pages and devices
		for _, list := range []corev1.ResourceList{r.Limits, r.Requests} {
			maps.DeleteFunc(list, func(name corev1.ResourceName, _ resource.Quantity) bool {
				return name == corev1.ResourceCPU || name == corev1.ResourceMemory && !asksHugePages(r.Limits)
			})
		}
	case 2:
		delete(r.Limits, corev1.ResourceMemory)
	case 3:
		r.Requests[corev1.ResourceCPU] = resource.MustParse("10m")
	}
}

func asksHugePages(list corev1.ResourceList) bool {
	for name := range list {
		if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			return true
		}
	}
	return false
}
