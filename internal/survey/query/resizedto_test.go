package query

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/internal/wire"
)

// TestResizedToAddsARequest: the API server forbids only that a resize removes a request
// (validateContainerResize of pkg/apis/core/validation), or that it changes the QoS class.
func TestResizedToAddsARequest(t *testing.T) {
	amount := resource.MustParse("1Gi")
	list := func(name corev1.ResourceName) corev1.ResourceList {
		return corev1.ResourceList{name: resource.MustParse("2")}
	}
	for _, c := range []struct {
		name     string
		has      corev1.ResourceRequirements
		rejected bool
	}{
		{"a request of another resource", corev1.ResourceRequirements{Requests: list("cpu")}, false},
		{"no request", corev1.ResourceRequirements{}, true}, // BestEffort would become Burstable
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "m", Resources: c.has}}}}
		wants, err := resizedTo(pod, []Change{{Container: "m", Resource: "memory", Amount: amount}})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := wants.Spec.Containers[0].Resources.Requests["memory"]; got.Cmp(amount) != 0 {
			t.Errorf("%s: requests %s of memory, want %s", c.name, &got, &amount)
		}
		if got := unresizable(pod, wants).Message != ""; got != c.rejected {
			t.Errorf("%s: rejected %t, from %s to %s", c.name, got, wire.QOSOf(pod), wire.QOSOf(wants))
		}
	}
}
