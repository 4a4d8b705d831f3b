package whatif

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/kubeletconfig"
	"github.com/berth-dev/berth/placement"
)

func burstable(cpu, memory string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
			},
		}}}},
	}
}

// TestFitAgreesWithAdmit compares Fit with admitting one copy after the other.
func TestFitAgreesWithAdmit(t *testing.T) {
	for _, c := range []struct{ cpu, memory string }{
		{"2", "1Gi"}, {"100m", "1Mi"}, {"1m", "7Gi"}, {"17", "1"}, {"333m", "0"}, {"0", "0"},
	} {
		spec := Spec{Machine: "package:2 numa:1 core:4 pu:2 mem:16Gi", Version: 36}
		n, err := spec.Load()
		if err != nil {
			t.Fatal(err)
		}
		fitted, err := n.Fit(burstable(c.cpu, c.memory), 1000)
		if err != nil {
			t.Fatal(err)
		}
		count, last := 0, ""
		for ; count < 1000; count++ {
			pod := burstable(c.cpu, c.memory)
			pod.UID = types.UID(fmt.Sprint("p-", count))
			p, err := n.Admit(pod)
			if err != nil {
				t.Fatal(err)
			}
			if !p.Admitted {
				last = p.Refusal.String()
				break
			}
		}
		if fitted.Copies != count || fitted.Stopped == nil || fitted.Stopped.String() != last {
			t.Errorf("%v: %d copies, %v; one after the other %d, %s", c, fitted.Copies, fitted.Stopped, count, last)
		}
	}
}

func TestParsePoolRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"gpu": "RESOURCE=NUMA:COUNT", "a/b=0:1,0:2": "want each NUMA node once", "a/b=0:5000": "at most 4096",
		"a/b=1-0:1": "want a NUMA node's number", "a/b=x:1": "a range such as 0-1", "a/b=0-1:1,0-1:1": `NUMA node "0-1": want each NUMA node once`, "a/b=-:2,-:1": `NUMA node "-": want each NUMA node once`, "a/b=": "want NUMA:COUNT",
	} {
		if _, err := ParsePool(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}

func FuzzParsePool(f *testing.F) {
	f.Add("nvidia.com/gpu=0:4,1:4")
	f.Add("a/b=-:2")
	f.Fuzz(func(t *testing.T, text string) {
		pool, err := ParsePool(text)
		seen := map[string]bool{}
		for _, d := range pool.Devices {
			if err == nil && (seen[d.ID] || d.HasTopology != (d.NUMA != 0)) || len(pool.Devices) > maxPool {
				t.Errorf("%q: device %+v", text, d)
			}
			seen[d.ID] = true
		}
	})
}

// TestReadMachineOfTexts: the error for a file that is no capture says what kind of file it is.
func TestReadMachineOfTexts(t *testing.T) {
	for text, want := range map[string]string{
		"To be or not to be\n":                  "this is a text file, not a capture: want a folder with sys/ in it",
		"```\n0,0,0,0\n```\n":                   "; line 1 is a fence of Markdown",
		"apiVersion: v1\nkind: Pod\n":           "this is a Kubernetes object, not a machine: want the output of lscpu -p",
		"processor\t: 0\n":                      "this is /proc/cpuinfo, which Berth does not read: want the output of lscpu -p",
		"Machine (63GB total)\n  Package L#0\n": "this is the output of lstopo, which Berth does not read: want the output of lscpu -p",
		"":                                      "is empty",
		"\x1f\x8b\x08\x00":                      "is incomplete",
		"# CPU,Core,Socket,Node\n0,0,0,0\n1,1,0,0\n": "",
	} {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadMachine(file)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestWaitingResize: a pod with a node has the CPUs that its kubelet has allocated.
func TestWaitingResize(t *testing.T) {
	spec := Spec{Machine: "package:1 numa:1 core:8 pu:1 mem:8Gi", Version: placement.V137, Config: kubeletconfig.Files{Flags: "--cpu-manager-policy=static --reserved-cpus=0"}}
	pod := burstable("1", "1Gi")
	whole := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("6"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: whole, Limits: whole}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, AllocatedResources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi")}}}
	for node, want := range map[string]string{"n1": "1-2", "": "1-6"} {
		n, err := spec.Load()
		if err != nil {
			t.Fatal(err)
		}
		pod.Spec.NodeName = node
		if p, err := n.Admit(pod); err != nil || !p.Admitted || p.Containers[0].CPUs != want {
			t.Errorf("node %q: %+v, %v, want CPUs %s", node, p, err, want)
		}
	}
}
