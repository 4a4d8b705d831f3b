package wire

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	corehelpers "k8s.io/component-helpers/resource"

	"github.com/berth-dev/berth/placement"
)

// resizable are the resources that can change while a pod runs.
var resizable = [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// ReadBound is like ReadPod, for a pod with a node. CPU and memory are the amounts that the kubelet
// has allocated, if the status has them. A resize in place changes the spec at once; the kubelet
// allocates the new amounts later, or never.
func ReadBound(pod *corev1.Pod) (Ask, error) { return ReadPod(Allocated(pod)) }

// Allocated returns the pod with the CPU and memory requests that its kubelet has allocated
// (status.containerStatuses[].allocatedResources, which a kubelet writes for every container that
// it has created). If limits were equal to the requests, they stay equal, because a resize does not
// change the QoS class. If nothing differs, Allocated returns the pod itself.
func Allocated(pod *corev1.Pod) *corev1.Pod {
	out := pod
	for at, c := range Containers(pod) {
		var now corev1.ResourceRequirements
		for name, asked := range completed(c.Resources) {
			has, told := allocatedOf(pod, c.Name)[name]
			if !told || !slices.Contains(resizable[:], name) || has.Cmp(asked) == 0 {
				continue
			}
			if now.Requests == nil {
				now = corev1.ResourceRequirements{Requests: completed(c.Resources), Limits: maps.Clone(c.Resources.Limits), Claims: c.Resources.Claims}
			}
			now.Requests[name] = has
			if limit, limited := now.Limits[name]; limited && limit.Cmp(asked) == 0 {
				now.Limits[name] = has
			}
		}
		if now.Requests == nil {
			continue
		}
		if out == pod {
			clone := *pod
			clone.Spec.InitContainers, clone.Spec.Containers = slices.Clone(pod.Spec.InitContainers), slices.Clone(pod.Spec.Containers)
			out = &clone
		}
		at.in(out).Resources = now
	}
	return out
}

// The method in returns the container at the position a of the pod's spec.
func (a ContainerAt) in(pod *corev1.Pod) *corev1.Container {
	if a.Kind == placement.App {
		return &pod.Spec.Containers[a.index]
	}
	return &pod.Spec.InitContainers[a.index]
}

// allocatedOf returns the kubelet's allocation to a container. It returns nil if the status does
// not have it.
func allocatedOf(pod *corev1.Pod, container string) corev1.ResourceList {
	for _, list := range [...][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range list {
			if list[i].Name == container {
				return list[i].AllocatedResources
			}
		}
	}
	return nil
}

// AsksFor reports whether ReadBound would return the CPU and memory that r has for each container.
// It is cheaper than ReadBound.
func AsksFor(pod *corev1.Pod, r *placement.Request) bool {
	i := 0
	for _, c := range Containers(pod) {
		if i == len(r.Containers) {
			return false
		}
		of := &r.Containers[i]
		i++
		for _, name := range resizable {
			q, asked := allocatedOf(pod, c.Name)[name]
			if !asked {
				q, asked = c.Resources.Requests[name]
			}
			if !asked {
				q = c.Resources.Limits[name]
			}
			if name == corev1.ResourceCPU && q.MilliValue() != of.MilliCPU || name == corev1.ResourceMemory && uint64(q.Value()) != of.Bytes(string(name)) {
				return false
			}
		}
	}
	return i == len(r.Containers)
}

// QOSOf returns the QoS class that an API server computes for the pod (ComputePodQOS of
// pkg/apis/core/v1/helper/qos): it depends on spec.resources if that has any request or limit,
// otherwise on the containers.
func QOSOf(pod *corev1.Pod) corev1.PodQOSClass {
	var all []corev1.ResourceRequirements
	if corehelpers.IsPodLevelResourcesSet(pod) {
		all = append(all, *pod.Spec.Resources)
	} else {
		for _, c := range Containers(pod) {
			all = append(all, c.Resources)
		}
	}
	switch {
	case guaranteedBy(all):
		return corev1.PodQOSGuaranteed
	case asksSome(all):
		return corev1.PodQOSBurstable
	}
	return corev1.PodQOSBestEffort
}

func asksSome(all []corev1.ResourceRequirements) bool {
	for i := range all {
		for _, name := range resizable {
			if request, limit := all[i].Requests[name], all[i].Limits[name]; request.Sign() > 0 || limit.Sign() > 0 {
				return true
			}
		}
	}
	return false
}
