package claims

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// NUMAOf returns the NUMA nodes of each pinned container, by the container's name, as
// placement.ContainerDecision.LiesOn finds them. It omits containers that the node does not pin. If
// m is nil, because the machine is unknown, the result is empty.
func NUMAOf(d *placement.Decision, m *topology.Machine) Lying {
	out := Lying{}
	if m == nil {
		return out
	}
	for i := range d.Containers {
		c := &d.Containers[i]
		set := c.LiesOn(c.Bounds&placement.BoundCPUs != 0, func(cpus *topology.CPUSet) topology.NUMASet { return m.NodesOf(*cpus) })
		if set != 0 {
			out[c.Name] = set
		}
	}
	return out
}

// Users returns the containers that use a claim of the pod, by its name in spec.resourceClaims.
// Init containers come first. A container that uses several requests of the claim occurs once for
// each of them.
func Users(pod *corev1.Pod, claim string, lying Lying) (out []User) {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for _, c := range list[i].Resources.Claims {
				if c.Name == claim {
					out = append(out, User{list[i].Name, lying[list[i].Name], c.Request})
				}
			}
		}
	}
	return out
}
