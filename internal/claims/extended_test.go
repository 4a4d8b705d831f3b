package claims

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestMayClaim(t *testing.T) {
	const class = corev1.ResourceName("deviceclass.resource.kubernetes.io/gpu")
	of := func(name corev1.ResourceName, count string) corev1.ResourceList {
		return corev1.ResourceList{name: resource.MustParse(count)}
	}
	for name, c := range map[string]struct {
		resources corev1.ResourceRequirements
		want      bool
	}{
		"CPU":                        {corev1.ResourceRequirements{Limits: of("cpu", "1")}, false},
		"memory":                     {corev1.ResourceRequirements{Limits: of("memory", "1")}, false},
		"huge pages":                 {corev1.ResourceRequirements{Limits: of("hugepages-2Mi", "1")}, false},
		"an extended resource":       {corev1.ResourceRequirements{Limits: of("example.com/gpu", "1")}, true},
		"a device class":             {corev1.ResourceRequirements{Limits: of(class, "1")}, true},
		"a device class, no limit":   {corev1.ResourceRequirements{Requests: of(class, "1")}, true},
		"none of a device class":     {corev1.ResourceRequirements{Limits: of(class, "0"), Requests: of(class, "0")}, false},
		"a request below its limit":  {corev1.ResourceRequirements{Limits: of(class, "2"), Requests: of(class, "1")}, true},
		"CPU requested, not limited": {corev1.ResourceRequirements{Requests: of("cpu", "1")}, false},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: c.resources}}}}
		if got := MayClaim(pod); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
		if users := UsersOfExtended(pod, nil); len(users) > 1 || (len(users) == 1) != c.want {
			t.Errorf("%s: users %v", name, users)
		}
	}
	if !MayClaim(&corev1.Pod{Spec: corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{Name: "c"}}}}) {
		t.Error("a pod with a claim")
	}
}
