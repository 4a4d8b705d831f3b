package nodestate

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// wholeCPUs returns the resources of a container that would be pinned.
func wholeCPUs(count string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Limits: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(count), corev1.ResourceMemory: resource.MustParse("1Mi"),
	}}
}
