package claims

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestMayClaim(t *testing.T) {
	asking := func(name corev1.ResourceName) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{name: resource.MustParse("1")}}}}}}
	}
	for name, want := range map[corev1.ResourceName]bool{
		"cpu": false, "memory": false, "hugepages-2Mi": false, "example.com/gpu": true, "deviceclass.resource.kubernetes.io/gpu": true,
	} {
		if got := MayClaim(asking(name)); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if !MayClaim(&corev1.Pod{Spec: corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{Name: "c"}}}}) {
		t.Error("a pod with a claim")
	}
}
