package whatif

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/internal/kubeletconfig"
	"github.com/berth-dev/berth/placement"
)

// stateSpec returns a node whose state has these files.
func stateSpec(t *testing.T, machine string, files map[string]string) Spec {
	t.Helper()
	dir := t.TempDir()
	files["kubelet.yaml"] = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmemoryManagerPolicy: Static\n" +
		"systemReserved: {memory: 924Mi}\nreservedMemory:\n- {numaNode: 0, limits: {memory: 1Gi}}\n"
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Spec{Machine: machine, Config: kubeletconfig.Files{File: filepath.Join(dir, "kubelet.yaml")}, Version: placement.V136, State: dir}
}

// TestInexactMemory: if a machine string lacks memory or has rounded amounts, the error asks for
// them, and gives no advice to delete the checkpoint.
func TestInexactMemory(t *testing.T) {
	const state = `{"policyName":"Static","machineState":{"0":{"numberOfAssignments":0,"memoryMap":{"hugepages-2Mi":{"total":0,"systemReserved":0,"allocatable":0,"reserved":0,"free":0},` +
		`"memory":{"total":8590454784,"systemReserved":1073741824,"allocatable":7516712960,"reserved":0,"free":7516712960}},"cells":[0]}},"entries":{},"checksum":0}`
	for _, tc := range []struct {
		items, want string // no want means that the kubelet starts
		deletes     bool
	}{
		{"", "no memory size: want mem:SIZE in a machine string", false},
		{"mem:8389116Ki", `huge: "missing": want all sizes of huge pages`, false},
		{"mem:8192Mi huge:2Mi=0", `mem: "8192Mi": want the exact amount`, false},
		{"mem:8389116Ki huge:2Mi=0", "", false},
		{"mem:9Gi huge:2Mi=0", "correct mem: and huge: of the machine string; if they are exact, drain the node", true},
		{"mem:8389116Ki huge:2Mi=1", "correct mem: and huge: of the machine string; if they are exact, drain the node", true},
	} {
		spec := stateSpec(t, "package:1 numa:1 core:4 pu:1 "+tc.items, map[string]string{"memory_manager_state": state})
		_, err := spec.Load()
		if (err == nil) != (tc.want == "") || err != nil && (!strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "delete") != tc.deletes) {
			t.Errorf("%q: error %v, want %q, advice to delete: %t", tc.items, err, tc.want, tc.deletes)
		}
	}
}

// TestDevicesAndState: the devices in a checkpoint keep their ids and holders, and get the NUMA
// nodes of --device.
func TestDevicesAndState(t *testing.T) {
	const state = `{"Data":{"PodDeviceEntries":[{"PodUID":"0-a","ContainerName":"main","ResourceName":"nvidia.com/gpu","DeviceIDs":{"0":["GPU-0"]},"AllocResp":null}],` +
		`"RegisteredDevices":{"nvidia.com/gpu":["GPU-0","GPU-1","GPU-2","GPU-3"]}},"Checksum":611434219}`
	for pool, want := range map[string]string{
		"nvidia.com/gpu=0:2,1:2": "GPU-0 on 0, GPU-1 on 0, GPU-2 on 1, GPU-3 on 1",
		"nvidia.com/gpu=0:1,-:3": "GPU-0 on 0, GPU-1 on , GPU-2 on , GPU-3 on ",
		"nvidia.com/gpu=0:2,1:1": "--device nvidia.com/gpu: 3 devices: want 4, as in the checkpoint",
		"nvidia.com/gpu=1:4":     "--device nvidia.com/gpu: too few devices on NUMA node 0: want at least those that pods in the checkpoint hold there, such as GPU-0",
	} {
		spec := stateSpec(t, "package:2 numa:1 core:4 pu:1 mem:8Gi", map[string]string{"device-plugins/kubelet_internal_checkpoint": state})
		p, err := ParsePool(pool)
		if err != nil {
			t.Fatal(err)
		}
		spec.Pools = []placement.DevicePool{p}
		n, err := spec.Load()
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want %q", pool, err, want)
			}
			continue
		}
		var got []string
		for _, d := range n.state.Snapshot().Devices[0].Devices {
			got = append(got, d.ID+" on "+d.NUMA.String())
		}
		if strings.Join(got, ", ") != want || strings.Contains(strings.Join(n.Notes, "\n"), "give them with --device") {
			t.Errorf("%s: %s, want %s; notes %q", pool, strings.Join(got, ", "), want, n.Notes)
		}
		placed, err := n.Fit(gpuPod("4"), 4)
		if err != nil || placed.Copies != 0 {
			t.Errorf("%s: %d copies of a pod with 4 GPUs, error %v: want 0, because GPU-0 is held", pool, placed.Copies, err)
		}
	}
}

// TestDevicesOnSeveralNUMANodes: --device can describe devices on several NUMA nodes.
func TestDevicesOnSeveralNUMANodes(t *testing.T) {
	const state = `{"Data":{"PodDeviceEntries":[{"PodUID":"a","ContainerName":"main","ResourceName":"intel.com/fpga","DeviceIDs":{"0":["F0"],"1":["F0"]},"AllocResp":null}],` +
		`"RegisteredDevices":{"intel.com/fpga":["F0","F1"]}},"Checksum":2132503185}`
	spec := stateSpec(t, "package:2 numa:1 core:4 pu:1 mem:8Gi", map[string]string{"device-plugins/kubelet_internal_checkpoint": state})
	p, err := ParsePool("intel.com/fpga=0-1:2")
	if err != nil {
		t.Fatal(err)
	}
	spec.Pools = []placement.DevicePool{p}
	n, err := spec.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range n.state.Snapshot().Devices[0].Devices {
		if d.NUMA.String() != "0-1" || !d.HasTopology {
			t.Errorf("%+v", d)
		}
	}
}

func gpuPod(count string) *corev1.Pod {
	pod := burstable("1", "1Mi")
	pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(count)}
	return pod
}
