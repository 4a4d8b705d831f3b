package claims

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/berth-dev/berth/internal/amounts"
)

// ForExtended is the name that messages use for the claim for extended resources, which has no name
// before PreBind.
const ForExtended = "for extended resources"

// MayClaim reports whether the pod may get devices from a DRA driver, because it has claims or
// requests extended resources.
func MayClaim(pod *corev1.Pod) bool { return len(pod.Spec.ResourceClaims) > 0 || AsksExtended(pod) }

// AsksExtended reports whether the pod requests extended resources, which a DRA driver may provide.
func AsksExtended(pod *corev1.Pod) bool { return len(UsersOfExtended(pod, nil)) > 0 }

// UsersOfExtended returns the containers that request extended resources.
func UsersOfExtended(pod *corev1.Pod, lying Lying) (out []User) {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for range ExtendedIn(&list[i]) {
				out = append(out, User{Container: list[i].Name, NUMA: lying[list[i].Name]})
				break
			}
		}
	}
	return out
}

// ExtendedIn yields the extended resources that a container requests. For the default resource of a
// device class, the API server accepts a request without a limit.
func ExtendedIn(c *corev1.Container) iter.Seq[corev1.ResourceName] {
	return func(yield func(corev1.ResourceName) bool) {
		for _, list := range [...]corev1.ResourceList{c.Resources.Limits, c.Resources.Requests} {
			for name, q := range list {
				extended := amounts.IsExtended(string(name)) || strings.HasPrefix(string(name), resourceapi.ResourceDeviceClassPrefix)
				if extended && !q.IsZero() && !yield(name) {
					return
				}
			}
		}
	}
}

// Extended returns the claim that kube-scheduler creates on a node for the extended resources of a
// pod (dynamicresources, createRequestsAndMappings), or nil if it creates none. class must return
// the device class of a resource that a DRA driver provides on the node, and nil for other
// resources. Init containers that are not sidecars run one after another, and can use the devices
// of later containers. So, for each resource, Extended adds only the largest number of devices that
// one of them needs in addition.
func Extended(pod *corev1.Pod, class func(corev1.ResourceName) *resourceapi.DeviceClass) *resourceapi.ResourceClaim {
	containers := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	ends := func(i int) bool {
		policy := containers[i].RestartPolicy
		return i < len(pod.Spec.InitContainers) && (policy == nil || *policy != corev1.ContainerRestartPolicyAlways)
	}
	asks, names := make([]map[corev1.ResourceName]int64, len(containers)), map[corev1.ResourceName]bool{}
	for i := range containers {
		asks[i] = asked(&containers[i])
		for name := range asks[i] {
			names[name] = true
		}
	}
	var requests []resourceapi.DeviceRequest
	for name := range names {
		of := class(name)
		if of == nil {
			continue
		}
		add := func(i int, count int64) {
			if count > 0 {
				at := slices.Index(slices.Sorted(maps.Keys(asks[i])), name)
				requests = append(requests, resourceapi.DeviceRequest{Name: fmt.Sprintf("container-%d-request-%d", i, at), Exactly: &resourceapi.ExactDeviceRequest{
					DeviceClassName: of.Name, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count}})
			}
		}
		at, most, later := 0, int64(0), int64(0) // later: the number for app containers and sidecars
		for i := range slices.Backward(containers) {
			if !ends(i) {
				later += asks[i][name]
				add(i, asks[i][name])
			} else if more := asks[i][name] - later; more >= most {
				at, most = i, more // of several equal containers, the first
			}
		}
		add(at, most)
	}
	if len(requests) == 0 {
		return nil
	}
	slices.SortFunc(requests, func(a, b resourceapi.DeviceRequest) int { return cmp.Compare(a.Name, b.Name) })
	c := &resourceapi.ResourceClaim{}
	c.Namespace, c.Name, c.Spec.Devices.Requests = pod.Namespace, "<extended-resources>", requests
	return c
}

// asked returns the resources that a container requests. A resource that only has a limit counts
// with the limit, as if the API server had set the request.
func asked(c *corev1.Container) map[corev1.ResourceName]int64 {
	out := map[corev1.ResourceName]int64{}
	for _, list := range []corev1.ResourceList{c.Resources.Limits, c.Resources.Requests} {
		for name, quantity := range list {
			out[name], _ = quantity.AsInt64()
		}
	}
	return out
}
