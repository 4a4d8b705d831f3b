package placement_test

import "testing"

// TestLostContainers: when a pod is admitted again, the resources of containers that it no longer
// has are released.
func TestLostContainers(t *testing.T) {
	s := state(t, machine{2, 1, 4, 1, 8 << 30, 0}.view(), m2.config("restricted"))
	pod := cpus("p", 2)
	second := pod.Containers[0]
	second.Name = "second"
	pod.Containers = append(pod.Containers, second)
	if v := admit(s, pod); !v.OK() {
		t.Fatalf("got %+v", v)
	}
	pod.Containers = pod.Containers[:1]
	if v := admit(s, pod); !v.OK() {
		t.Fatalf("got %+v", v)
	}
	if shared := s.SharedCPUs(); shared.Len() != 6 {
		t.Errorf("%d shared CPUs, want 6", shared.Len())
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}
