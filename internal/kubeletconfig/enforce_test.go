package kubeletconfig

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestReservations: reservations with which a kubelet does not start are refused. The policies
// of the managers do not matter.
func TestReservations(t *testing.T) {
	for name, c := range map[string]struct{ text, flags, want string }{
		"cgroup of the system": {"reservedSystemCPUs: '0'\nsystemReservedCgroup: /system.slice\n", "", `systemReservedCgroup: "/system.slice": want no value together with reservedSystemCPUs`},
		"cgroup by a flag":     {"reservedSystemCPUs: '0'\n", "--kube-reserved-cgroup=/kube", `kubeReservedCgroup: "/kube": want no value together with reservedSystemCPUs`},
		"taken off by a flag":  {"reservedSystemCPUs: '0'\nsystemReservedCgroup: /system.slice\n", "--system-reserved-cgroup=", ""},
		"no cgroup":            {"enforceNodeAllocatable: [pods, system-reserved]\n", "", `enforceNodeAllocatable[1]: "system-reserved": want systemReservedCgroup to be set`},
		"a cgroup":             {"enforceNodeAllocatable: [pods, kube-reserved-compressible]\nkubeReservedCgroup: /kube\n", "", ""},
		"both":                 {"enforceNodeAllocatable: [kube-reserved, kube-reserved-compressible]\nkubeReservedCgroup: /kube\n", "", `"kube-reserved": want only one of kube-reserved and kube-reserved-compressible`},
		"none and more":        {"enforceNodeAllocatable: [none, pods]\n", "", `enforceNodeAllocatable[0]: "none": want no other value`},
		"twice":                {"", "--enforce-node-allocatable=pods,pods", `enforceNodeAllocatable[1]: "pods": want each value once`},
		"misspelt":             {"enforceNodeAllocatable: [pod]\n", "", `enforceNodeAllocatable[0]: "pod": want pods, kube-reserved`},
		"no cgroups per QoS":   {"cgroupsPerQOS: false\n", "", `cgroupsPerQOS: "false": want true, or none in enforceNodeAllocatable`},
		"none of both":         {"cgroupsPerQOS: false\nenforceNodeAllocatable: [none]\n", "", ""},
		"empty":                {"cgroupsPerQOS: false\nenforceNodeAllocatable: []\n", "", ""},
		"memory twice":         {"reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}, {numaNode: 1, limits: {memory: 1Gi}}, {numaNode: 0, limits: {memory: 1Gi}}]\n", "", `reservedMemory[2].limits[memory]: "1Gi": want each resource once`},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "file")
			writeFile(t, file, "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+c.text)
			_, err := Files{File: file, Flags: c.flags, Strict: true}.Read()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), file)) {
				t.Errorf("error %v, want %s", err, c.want)
			}
			if _, err := (Files{File: file}).Read(); err != nil { // of a kubelet that runs
				t.Errorf("not strict: %v", err)
			}
		})
	}
}

// TestStrictDropIns: a folder that does not exist, and a drop-in in another form, are refused.
func TestStrictDropIns(t *testing.T) {
	dir := t.TempDir()
	file, drop := filepath.Join(dir, "file"), filepath.Join(dir, "d", "1.conf")
	writeFile(t, file, "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n")
	writeFile(t, drop, "token: secret\nkubelet-arg: [v=2]\n")
	for at, want := range map[string]string{
		filepath.Join(dir, "none"): "want a folder with files that end in .conf", file: "want a folder with files that end in .conf",
		filepath.Dir(drop): drop + ": this is a configuration of k3s or RKE2",
	} {
		if _, err := (Files{File: file, Dir: at, Strict: true}).Read(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %s", at, err, want)
		}
	}
}
