package whatif

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/kubeletconfig"
	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/placement"
)

// TestStateOverWhichNoKubeletStarts: a request about such a node gets no answer. A request about a
// node whose pods have init containers does.
func TestStateOverWhichNoKubeletStarts(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	config := write("kubelet.yaml", "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n"+
		"memoryManagerPolicy: Static\nsystemReserved: {memory: 924Mi}\nreservedMemory:\n- {numaNode: 0, limits: {memory: 1Gi}}\n")
	spec := Spec{Machine: "package:1 numa:2 core:4 pu:1 mem:8Gi", Config: kubeletconfig.Files{File: config}, Version: placement.V136, State: dir}
	const book = `{"policyName":"Static","machineState":{"0":{"numberOfAssignments":A0,"memoryMap":{"memory":{"total":8589934592,"systemReserved":1073741824,"allocatable":7516192768,"reserved":R,"free":F}},"cells":C0},` +
		`"1":{"numberOfAssignments":A1,"memoryMap":{"memory":{"total":8589934592,"systemReserved":0,"allocatable":8589934592,"reserved":0,"free":8589934592}},"cells":C1}},"entries":E,"checksum":0}`
	free := strings.NewReplacer("A0", "0", "A1", "0", "R,", "0,", "F}", "7516192768}", "C0", "[0]", "C1", "[1]", "E,", "{},").Replace(book)
	mixed := strings.NewReplacer("A0", "2", "A1", "1", "R,", "2048,", "F}", "7516190720}", "C0", "[0,1]", "C1", "[0,1]",
		"E,", `{"u":{"c":[{"numaAffinity":[0],"type":"memory","size":1024}]},"v":{"c":[{"numaAffinity":[0,1],"type":"memory","size":1024}]}},`).Replace(book)
	for _, tc := range []struct {
		name, cpu, memory string
		starts            bool
		note              string
	}{
		{"as it left it", `{"policyName":"static","defaultCpuSet":"0-7","checksum":0}`, free, true, ""},
		{"containers that share CPUs", `{"policyName":"static","defaultCpuSet":"0,4-7","entries":{"u":{"init":"1","main":"1-2"},"v":{"main":"3"}},"checksum":0}`, free, true, ""},
		{"another policy", `{"policyName":"none","defaultCpuSet":"","checksum":0}`, free, false, ""},
		{"another policy of memory", `{"policyName":"static","defaultCpuSet":"0-7","checksum":0}`, `{"policyName":"None","machineState":{},"checksum":0}`, false, ""},
		{"left to chance", `{"policyName":"static","defaultCpuSet":"0-7","checksum":0}`, mixed, true, "may not start with this file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			write(kubeletstate.CPUFile, tc.cpu)
			write(kubeletstate.MemoryFile, tc.memory)
			n, err := spec.Load()
			if _, refused := errors.AsType[*kubeletstate.StartError](err); refused == tc.starts || tc.starts && err != nil {
				t.Fatalf("got error %v, want a kubelet that starts: %t", err, tc.starts)
			}
			if tc.starts && !strings.Contains(strings.Join(n.Notes, "\n"), tc.note) {
				t.Errorf("notes %q, want %q", n.Notes, tc.note)
			}
			if tc.name == "containers that share CPUs" {
				if all, _ := n.totals.Allocatable("cpu"); all-n.totals.Free("cpu") != 3000 {
					t.Errorf("%d of %d thousandths of a CPU are free, want 3000 used: CPU 1 counts once", n.totals.Free("cpu"), all)
				}
			}
		})
	}
}
