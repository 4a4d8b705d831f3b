package claims

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/topology"
)

// Users returns the containers that use a claim of the pod, by the name in spec.resourceClaims:
// init containers first. numa gives the NUMA nodes of a container's CPUs and memory; 0 for none.
func Users(pod *corev1.Pod, claim string, numa func(container string) topology.NUMASet) (out []User) {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for k := range list[i].Resources.Claims {
				if list[i].Resources.Claims[k].Name == claim {
					out = append(out, User{list[i].Name, numa(list[i].Name)})
					break // a container may name several requests of a claim
				}
			}
		}
	}
	return out
}
