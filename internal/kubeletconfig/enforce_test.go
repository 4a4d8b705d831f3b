package kubeletconfig

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/wire"
)

// TestReservations: reservations with which a kubelet does not start are refused. The policies
// of the managers do not matter.
func TestReservations(t *testing.T) {
	for name, c := range map[string]struct{ text, flags, want string }{
		"cgroup of the system": {"reservedSystemCPUs: '0'\nsystemReservedCgroup: /system.slice\n", "", `systemReservedCgroup: "/system.slice": want no value together with reservedSystemCPUs`},
		"cgroup by a flag":     {"reservedSystemCPUs: '0'\n", "--kube-reserved-cgroup=/kube", `kubeReservedCgroup: "/kube": want no value together with reservedSystemCPUs`},
		"taken off by a flag":  {"reservedSystemCPUs: '0'\nsystemReservedCgroup: /system.slice\n", "--system-reserved-cgroup=", ""},
		"reserved, a blank":    {"reservedSystemCPUs: 0, 1\n", "", `reservedSystemCPUs: "0, 1": want a list of CPUs and ranges without blanks`},
		"reserved, a stride":   {"", "--reserved-cpus=0-6:1/2", `reservedSystemCPUs: "0-6:1/2": want a list of CPUs and ranges`},
		"reserved, too long":   {"reservedSystemCPUs: 0-99999999999\n", "", `reservedSystemCPUs: "0-99999999999": want a list of CPUs and ranges`},
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
		"memory on Windows":    {"memoryManagerPolicy: BestEffort\n", "", `memoryManagerPolicy: "BestEffort": want None or Static, because BestEffort exists only on Windows`},
		"scope":                {"topologyManagerScope: Pod\n", "", `topologyManagerScope: "Pod": want container or pod (did you mean "pod"?)`},
		"scope by a flag":      {"", "--topology-manager-scope=Container", `topologyManagerScope: "Container": want container or pod`},
		"options, gate off":    {"topologyManagerPolicyOptions: {prefer-closest-numa-nodes: 'true'}\nfeatureGates: {TopologyManagerPolicyOptions: false}\n", "", `featureGates[TopologyManagerPolicyOptions]: "false": want true, because topologyManagerPolicyOptions is set`},
		"gate off":             {"featureGates: {TopologyManagerPolicyOptions: false}\n", "", ""},
		"threshold 0":          {"evictionHard: {memory.available: '0'}\n", "", `evictionHard[memory.available]: "0": want more than 0`},
		"threshold off":        {"evictionHard: {memory.available: 0%, nodefs.available: 100%, pid.available: 10%}\n", "", ""},
		"threshold above 100":  {"evictionHard: {memory.available: 101%}\n", "", `evictionHard[memory.available]: "101%": want more than 0`},
		"threshold, no amount": {"evictionHard: {nodefs.available: abc}\n", "", `evictionHard[nodefs.available]: "abc": want more than 0`},
		"signal":               {"evictionHard: {memory.availabel: 1Gi}\n", "", `evictionHard[memory.availabel]: "1Gi": want a known signal (did you mean "memory.available"?)`},
		"signal with sign":     {"evictionHard: {memory.available<: 1Gi}\n", "", `evictionHard[memory.available<]: "1Gi": want a known signal`},
		"signal, ignored":      {"", "--experimental-allocatable-ignore-eviction --eviction-hard=memory.free<1Gi", `evictionHard[memory.free]: "1Gi": want a known signal`},
		"soft":                 {"evictionSoft: {memory.available: 1Gi}\n", "", `evictionSoft[memory.available]: "1Gi": want evictionSoftGracePeriod[memory.available] to be set`},
		"soft, off":            {"evictionSoft: {memory.available: 0%}\n", "", ""},
		"soft and period":      {"evictionSoft: {memory.available: 1Gi}\n", "--eviction-soft-grace-period=memory.available=1m", ""},
		"soft by a flag":       {"", "--eviction-soft=memory.available<1Gi", `evictionSoft[memory.available]: "1Gi": want evictionSoftGracePeriod`},
		"period":               {"evictionSoftGracePeriod: {memory.available: '60'}\n", "", `evictionSoftGracePeriod[memory.available]: "60": want a duration like 1m30s`},
		"reclaim":              {"evictionMinimumReclaim: {memory.available: 0%}\n", "", `evictionMinimumReclaim[memory.available]: "0%": want 0 or more`},
		"reclaim 0":            {"evictionMinimumReclaim: {memory.available: '0'}\n", "", ""},
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

// TestEvictionOfFlags: which threshold of memory.available is subtracted from what pods can have.
func TestEvictionOfFlags(t *testing.T) {
	const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	const ignore = "--experimental-allocatable-ignore-eviction"
	for _, c := range []struct{ text, flags, want string }{
		{head, "--v=2", "100Mi"},
		{"", "--v=2", ""},
		{"", "--eviction-hard=memory.available<1Gi", "1Gi"},
		{"--v=2", "", ""},
		{head, ignore, ""},
		{head, ignore + "=false", "100Mi"},
		{head, ignore + "=false --eviction-hard=memory.available<1Gi", "1Gi"},
		{ignore, "--v=2", ""},
		{ignore, ignore + "=false --eviction-hard=memory.available<1Gi", "1Gi"},
		{head + "mergeDefaultEvictionSettings: true\nevictionHard: {pid.available: 10%}\n", "--v=2", "100Mi"},
		{head + "mergeDefaultEvictionSettings: true\n", "--eviction-hard=pid.available<10%", ""},
	} {
		files := Files{Flags: c.flags, Strict: true}
		if c.text != "" {
			files.File = filepath.Join(t.TempDir(), "file")
			writeFile(t, files.File, c.text)
		}
		k, err := files.Read()
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := wire.MemoryEviction(k); got != c.want {
			t.Errorf("%q with %q: %q, want %q", c.text, c.flags, got, c.want)
		}
	}
}

// TestReservedAmounts: the memory manager starts only with an amount that Quantity.AsInt64 reads.
// Merging a folder of drop-ins rewrites the amounts of the file, but not of drop-ins and flags.
func TestReservedAmounts(t *testing.T) {
	const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmemoryManagerPolicy: "
	reserved := func(amount string) string {
		return "reservedMemory: [{numaNode: 0, limits: {memory: '" + amount + "'}}]\n"
	}
	for _, c := range []struct {
		name, text, drop, flags string
		starts                  bool
	}{
		{"fraction", head + "Static\n" + reserved("1.5Gi"), "", "", false},
		{"fraction of zero", head + "Static\n" + reserved("1610612736.0"), "", "", false},
		{"milli", head + "Static\n" + reserved("1610612736000m"), "", "", false},
		{"whole", head + "Static\n" + reserved("1536Mi"), "", "", true},
		{"exponent", head + "Static\n" + reserved("1.6e9"), "", "", true},
		{"None", head + "None\n" + reserved("1.5Gi"), "", "", true},
		{"rewritten", head + "Static\n" + reserved("1.5Gi"), head + "Static\n", "", true},
		{"in a drop-in", head + "Static\n", head + "Static\n" + reserved("1.5Gi"), "", false},
		{"in a flag", head + "Static\n", "", "--reserved-memory=0:memory=1.5Gi", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			files := Files{File: filepath.Join(dir, "file"), Flags: c.flags, Strict: true}
			writeFile(t, files.File, c.text)
			if c.drop != "" {
				files.Dir = filepath.Join(dir, "d")
				writeFile(t, filepath.Join(files.Dir, "1.conf"), c.drop)
			}
			k, err := files.Read()
			if err != nil {
				t.Fatal(err)
			}
			_, err = wire.ReadConfig(k, wire.KubeletFacts{})
			if c.starts && err != nil || !c.starts && (err == nil || !strings.Contains(err.Error(), "reservedMemory[0].limits[memory]")) {
				t.Errorf("error %v, want a start: %t", err, c.starts)
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
