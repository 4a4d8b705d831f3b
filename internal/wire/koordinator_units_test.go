package wire

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestKoordinatorUnits: 100 of Koordinator's units are a device. Parts of devices are refused, and
// the error names the container's field.
func TestKoordinatorUnits(t *testing.T) {
	for _, c := range []struct {
		limits string
		count  int64
		wrong  string
	}{
		{"koordinator.sh/rdma=100", 1, ""},
		{"koordinator.sh/gpu=400", 4, ""},
		{"koordinator.sh/fpga=0", 0, ""},
		{"koordinator.sh/gpu-memory=0", 0, ""},
		{"koordinator.sh/gpu=0 koordinator.sh/gpu-core=100 koordinator.sh/gpu-memory-ratio=100", 1, ""},
		{"koordinator.sh/gpu-core=0 koordinator.sh/gpu-memory-ratio=100", 1, ""},
		{"koordinator.sh/gpu-core=200 koordinator.sh/gpu-memory=0 koordinator.sh/gpu-memory-ratio=200", 2, ""},
		{"nvidia.com/gpu=1", 1, ""},
		{"koordinator.sh/rdma=1", 0, `limits[koordinator.sh/rdma]: "1": want a multiple of 100`},
		{"koordinator.sh/gpu=150", 0, `limits[koordinator.sh/gpu]: "150": want a multiple of 100`},
		{"koordinator.sh/gpu-core=200 koordinator.sh/gpu-memory-ratio=200", 2, ""},
		{"koordinator.sh/gpu-memory-ratio=100", 1, ""},
		{"koordinator.sh/gpu-core=50 koordinator.sh/gpu-memory-ratio=50", 0, `limits[koordinator.sh/gpu-core]: "50": want a multiple of 100`},
		{"koordinator.sh/gpu-core=100 koordinator.sh/gpu-memory-ratio=200", 0, `limits[koordinator.sh/gpu-memory-ratio]: "200": want 100, as koordinator.sh/gpu-core says`},
		{"koordinator.sh/gpu-core=100 koordinator.sh/gpu=100", 0, `limits[koordinator.sh/gpu-core]: "100": want nothing next to koordinator.sh/gpu`},
		{"koordinator.sh/gpu-memory=8Gi", 0, `limits[koordinator.sh/gpu-memory]: "8Gi": want koordinator.sh/gpu`},
	} {
		pod := koordinatorPod("", "", "")
		pod.Spec.Containers = []corev1.Container{{Name: "a"}, {Name: "c", Resources: whole(c.limits)}}
		ask, err := ReadPod(pod)
		if err != nil {
			t.Fatalf("%s: %v", c.limits, err)
		}
		if c.wrong != "" {
			if ask.RulesErr == nil || !strings.Contains(ask.RulesErr.Error(), "spec.containers[1].resources."+c.wrong) {
				t.Errorf("%s: %v, want %s", c.limits, ask.RulesErr, c.wrong)
			}
			continue
		}
		got := ask.Request.Containers[1].Devices
		wrong := len(got) != 1 || got[0].Count != c.count || DeviceOf(got[0].Resource) != got[0].Resource
		if c.count == 0 {
			wrong = len(got) > 0
		}
		if wrong || ask.RulesErr != nil {
			t.Errorf("%s: %+v, %v; want %d", c.limits, got, ask.RulesErr, c.count)
		}
	}
}

// TestTokensOfOneDevice: if the kubelet counts a device under several resource names, it counts
// once.
func TestTokensOfOneDevice(t *testing.T) {
	const core, memory = "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio"
	for _, c := range []struct{ core, memory, want int }{{100, 100, 1}, {200, 200, 2}, {100, 200, -1}, {150, 150, -1}} {
		got := ReadTokens(map[string]string{TokensAnnotation(core): DeviceCount(core, c.core), TokensAnnotation(memory): DeviceCount(memory, c.memory)})
		if len(got) != 1 || got["koordinator.sh/gpu"] != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
