package placement_test

import (
	"testing"

	"github.com/berth-dev/berth/placement"
)

// TestRememberReuse: a kubelet that admits a UID again, directly after the pod was removed, reuses
// the resources of its init container. A State does this only after RememberReuse.
func TestRememberReuse(t *testing.T) {
	for _, remember := range []bool{false, true} {
		s := state(t, machine{2, 1, 4, 1, 8 << 30, 0}.view(), m2.config("best-effort"))
		if remember {
			s.RememberReuse()
		}
		pod := cpus("again", 1)
		init := placement.ContainerRequest{Name: "init", Kind: placement.Init, MilliCPU: 2000, Memory: []placement.MemoryRequest{{Resource: "memory", Bytes: 4 << 30}}}
		pod.Containers = append([]placement.ContainerRequest{init}, pod.Containers...)
		for range 2 {
			if v := admit(s, pod); !v.OK() {
				t.Fatalf("got %+v", v)
			}
			s.Release("again")
		}
		if v := admit(s, pod); !v.OK() {
			t.Fatalf("got %+v", v)
		}
		var reserved uint64
		for _, table := range s.Snapshot().Memory {
			reserved += table.Resources[len(table.Resources)-1].Reserved
		}
		if miscounted := reserved < 4<<30; miscounted != remember {
			t.Errorf("remember %v: %d bytes reserved", remember, reserved)
		}
		if err := s.Check(); (err != nil) != remember {
			t.Errorf("remember %v: %v", remember, err)
		}
	}
}

// TestForgottenReuse: after another pod, or a restart, the kubelet no longer reuses them.
func TestForgottenReuse(t *testing.T) {
	for name, forget := range map[string]func(*placement.State){
		"another pod": func(s *placement.State) { admit(s, cpus("other", 1)) },
		"restart":     func(s *placement.State) { s.RememberReuse() },
	} {
		s := state(t, machine{2, 1, 4, 1, 8 << 30, 0}.view(), m2.config("best-effort"))
		s.RememberReuse()
		pod := cpus("again", 1)
		pod.Containers[0].Kind = placement.Init
		pod.Containers = append(pod.Containers, placement.ContainerRequest{Name: "app", Memory: []placement.MemoryRequest{{Resource: "memory", Bytes: 1 << 10}}})
		admit(s, pod)
		s.Release("again")
		forget(s)
		admit(s, pod)
		if err := s.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

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
