package wire

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestMortal(t *testing.T) {
	always, onFailure, never := corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyOnFailure, corev1.ContainerRestartPolicyNever
	for name, c := range map[string]struct {
		change func(*corev1.PodSpec)
		want   bool
	}{
		"a service":                          {func(*corev1.PodSpec) {}, false},
		"a job":                              {func(s *corev1.PodSpec) { s.RestartPolicy = corev1.RestartPolicyNever }, true},
		"a job that is tried again":          {func(s *corev1.PodSpec) { s.RestartPolicy = corev1.RestartPolicyOnFailure }, true},
		"a deadline":                         {func(s *corev1.PodSpec) { s.ActiveDeadlineSeconds = new(int64(5)) }, true},
		"a container that ends":              {func(s *corev1.PodSpec) { s.Containers[1].RestartPolicy = &never }, true},
		"a container that ends well":         {func(s *corev1.PodSpec) { s.Containers[0].RestartPolicy = &onFailure }, true},
		"a container that says what is so":   {func(s *corev1.PodSpec) { s.Containers[0].RestartPolicy = &always }, false},
		"an init container that has one try": {func(s *corev1.PodSpec) { s.InitContainers[0].RestartPolicy = &never }, true},
		"a sidecar":                          {func(s *corev1.PodSpec) { s.InitContainers[0].RestartPolicy = &always }, false},
		"a job with a sidecar": {func(s *corev1.PodSpec) {
			s.RestartPolicy, s.InitContainers[0].RestartPolicy = corev1.RestartPolicyNever, &always
		}, true},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, Containers: make([]corev1.Container, 2), InitContainers: make([]corev1.Container, 1)}}
		c.change(&pod.Spec)
		if got := Mortal(pod); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
