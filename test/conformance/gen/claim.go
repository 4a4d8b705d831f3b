//go:build !kube133

package gen

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/test/replay/cases"
)

// claim lets Dynamic Resource Allocation provide some of the devices that the pod asks for.
func (p *podMaker) claim(pod *corev1.Pod) {
	claimed := &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "claim"}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for _, pool := range p.pools {
				if _, asked := list[i].Resources.Limits[corev1.ResourceName(pool.Resource)]; asked && p.chance(60) {
					claimed.RequestMappings = append(claimed.RequestMappings, corev1.ContainerExtendedResourceRequest{
						ContainerName: list[i].Name, ResourceName: pool.Resource, RequestName: "request"})
				}
			}
		}
	}
	if len(claimed.RequestMappings) > 0 {
		pod.Status.ExtendedResourceClaimStatus = claimed
	}
}

// Unclaim removes the resources of Dynamic Resource Allocation from the pods of a case.
func Unclaim(c *cases.Case) {
	for i := range c.Events {
		if pod := c.Events[i].Pod; pod != nil {
			pod.Status.ExtendedResourceClaimStatus = nil
		}
	}
}
