package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/simulate/trace"
)

// writeOverlay writes a file for --overlay.
func writeOverlay(t *testing.T, dir, text string) string {
	t.Helper()
	name := filepath.Join(dir, "machines.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestOverlayFile: a file with the content of a built-in overlay gives the same result, by shape
// and by machine strings. With another kubelet, or GPUs on other NUMA nodes, the result differs.
func TestOverlayFile(t *testing.T) {
	dir, flags := lists(t)
	play := func(overlay, load string) any {
		t.Helper()
		stdout, failed := played(t, append([]string{"-o", "json", "--trace", "synthetic:" + load, "--arrive", "1.3", "--strategy", "StockLeast,Berth", "--overlay", overlay}, flags[:2]...))
		var got struct{ Strategies any }
		if err := json.Unmarshal([]byte(stdout), &got); failed != nil || err != nil {
			t.Fatalf("%s: %v, %v", overlay, failed, err)
		}
		return got.Strategies
	}
	const (
		t4  = "package:2 numa:1 core:16 pu:2 mem:128Gi dist:10,21"
		a10 = "package:2 numa:1 core:24 pu:2 mem:128Gi dist:10,21"
	)
	given := func(more string) string {
		return "models:\n  T4: {machine: '" + t4 + "', gpus: [2, 2], topologyManagerPolicy: restricted" + more + "}\n" +
			"  A10: {machine: '" + a10 + "', gpus: [4, 4], topologyManagerPolicy: restricted" + more + "}\n"
	}
	for _, c := range []struct {
		name, text, like string
		load             string
		same             bool
	}{
		{"shape", "default: {shape: sockets, topologyManagerPolicy: restricted}\n", "sockets/restricted", "databases", true},
		{"machines", given(""), "sockets/restricted", "inference", true},
		{"what is said anyway", given(", authority: kubelet, topologyManagerScope: container, reservedSystemCPUs: '0,1'"), "sockets/restricted", "databases", true},
		{"Berth decides", given(", authority: berth"), "sockets/restricted/obey", "inference", true},
		{"more is reserved", given(", reservedSystemCPUs: 0-15"), "sockets/restricted", "databases", false},
		{"GPUs on one NUMA node", strings.ReplaceAll(given(""), "[4, 4]", "[8, 0]"), "sockets/restricted", "inference", false},
		{"one policy of two", "models: {A10: {shape: quarters, topologyManagerPolicy: single-numa-node}}\n" +
			"default: {shape: sockets, topologyManagerPolicy: restricted}\n", "sockets/restricted", "databases", false},
	} {
		if got := reflect.DeepEqual(play(writeOverlay(t, dir, c.text), c.load), play(c.like, c.load)); got != c.same {
			t.Errorf("%s: as %s: %t, want %t", c.name, c.like, got, c.same)
		}
	}
}

// TestOverlayFileNamed: the output names the file without its folder.
func TestOverlayFileNamed(t *testing.T) {
	dir, flags := lists(t)
	file := writeOverlay(t, dir, "default: {shape: sockets, topologyManagerPolicy: restricted}\n")
	stdout, failed := played(t, append([]string{"-o", "html", "--strategy", "Berth", "--overlay", file}, flags...))
	if failed != nil || strings.Contains(stdout, dir) || !strings.Contains(stdout, "-overlay=machines.yaml") {
		t.Errorf("%v", failed)
	}
}

// TestOverlayFileRefuses: the error names file, line and field, and a correct value.
func TestOverlayFileRefuses(t *testing.T) {
	dir, flags := lists(t)
	const rest = "default: {shape: sockets, topologyManagerPolicy: restricted}\n"
	a10 := func(more string) string {
		return rest + "models:\n  A10:\n    topologyManagerPolicy: restricted\n    " + more + "\n"
	}
	const big = "machine: 'package:2 numa:1 core:24 pu:2 mem:128Gi'"
	for text, want := range map[string]string{
		"":                                 `machines.yaml, models: "": want models, or a default`,
		"models: {":                        "machines.yaml: yaml: line 1",
		rest + "---\n{}\n":                 "machines.yaml, line 2: want one document",
		rest + rest:                        `line 2: mapping key "default" already defined`,
		"model: {}\n":                      `line 1: field model not found`,
		a10("shap: x"):                     `line 5: field shap not found`,
		a10("gpus: four"):                  "line 5: cannot unmarshal !!str `four`",
		a10("shape: 7"):                    `machines.yaml, line 5, models[A10].shape: "7": want sockets`,
		a10("shape: socket"):               `machines.yaml, line 5, models[A10].shape: "socket": want sockets, quarters (did you mean "sockets"?)`,
		a10("gpus: [4, 4]"):                `machines.yaml, line 3, models[A10].machine: "": want either a machine string or a shape`,
		a10(big + "\n    shape: sockets"):  `line 5, models[A10].machine:`,
		a10("machine: 'package:2 nuna:1'"): `machines.yaml, line 5, models[A10].machine: "package:2 nuna:1": want a machine string: `,
		a10("machine: 'package:1 numa:1 core:1 pu:2 mem:4Gi'"):                                      `machines.yaml, line 5, models[A10].machine: "2 CPUs": want at least the 96000 thousandths of a CPU that its line in the list says (node b)`,
		a10("machine: 'package:1 numa:1 core:96 pu:1 mem:4Gi'"):                                     `models[A10].machine: "4096 MiB": want at least the 262144 MiB`,
		a10(big + "\n    gpus: [4, 3]"):                                                             `machines.yaml, line 6, models[A10].gpus: "[4 3], 7 in all": want the 8 that its line in the list says (node b)`,
		a10(big + "\n    gpus: [8]"):                                                                `models[A10].gpus: "[8]": want a number for each of 2 NUMA nodes`,
		a10(big + "\n    gpus: [4, -4]"):                                                            `models[A10].gpus: "[4 -4]": want 0 to 64 for each NUMA node`,
		a10("shape: sockets\n    gpus: [4, 4]"):                                                     `line 6, models[A10].gpus: "[4 4]": want none with a shape`,
		a10(big + "\n    reservedSystemCPUs: 0-x"):                                                  `machines.yaml, line 6, models[A10].reservedSystemCPUs: "0-x": want a list of CPUs and ranges`,
		a10(big + "\n    reservedSystemCPUs: 0-95"):                                                 `line 6, models[A10].reservedSystemCPUs: "0-95": want fewer CPUs than the 96000 thousandths`,
		a10(big + "\n    reservedSystemCPUs: 200"):                                                  `models[A10].reservedSystemCPUs: "200": want CPUs that the machine has (node b)`,
		a10(big + "\n    reservedSystemCPUs: '200'"):                                                `models[A10].reservedSystemCPUs: "200": want`,
		a10(big + "\n    topologyManagerScope: node"):                                               `line 6, models[A10].topologyManagerScope: "node": want`,
		a10(big + "\n    authority: Berth"):                                                         `line 6, models[A10].authority: "Berth": want kubelet, berth (did you mean "berth"?)`,
		a10(big + "\n    cpuManagerPolicyOptions: {full: 'true'}"):                                  `line 6, models[A10].cpuManagerPolicyOptions[full]: `,
		a10(big + "\n    authority: berth\n    cpuManagerPolicyOptions: {full-pcpus-only: 'true'}"): `line 7, models[A10].cpuManagerPolicyOptions: "map[full-pcpus-only:true]": want none with authority berth`,
		"default: {shape: sockets}\n":                                                               `line 1, default.topologyManagerPolicy: "": want restricted, single-numa-node, best-effort`,
		"models: {T4: {shape: sockets, topologyManagerPolicy: restricted}}\n":                       `machines.yaml, default: "model \"A10\"": want a default, or a machine for this model (node b)`,
		rest + "models:\n  A100: {shape: sockets, topologyManagerPolicy: restricted}\n":             `machines.yaml, line 3, models[A100]: "A100": want a model that a node of the list has: ["A10" "T4"] (did you mean "A10"?)`,
	} {
		_, failed := played(t, append([]string{"--overlay", writeOverlay(t, dir, text)}, flags...))
		if failed == nil || !strings.Contains(failed.Error(), want) {
			t.Errorf("%q:\ngot  %v\nwant %s", text, failed, want)
		}
	}
	if _, failed := played(t, append([]string{"--overlay", filepath.Join(dir, "none.yaml")}, flags...)); failed == nil || !strings.Contains(failed.Error(), "no such file") {
		t.Errorf("no file: %v", failed)
	}
}

// FuzzReadOverlays: no file causes a panic, neither when it is read nor when it is applied to
// nodes.
func FuzzReadOverlays(f *testing.F) {
	f.Add([]byte("default: {shape: sockets, topologyManagerPolicy: restricted}\n"))
	f.Add([]byte("models: {A: {machine: 'package:2 numa:1 core:4 pu:2 mem:8Gi', gpus: [1, 1], authority: berth, topologyManagerPolicy: best-effort, reservedSystemCPUs: 0-1}}\ndefault: {shape: quarters, topologyManagerPolicy: single-numa-node}\n"))
	f.Add([]byte("models: {A: {machine: 'package:1 numa:2 core:4 pu:2 mem:8Gi', topologyManagerPolicy: restricted, topologyManagerScope: pod, cpuManagerPolicyOptions: {full-pcpus-only: 'true'}, topologyManagerPolicyOptions: {prefer-closest-numa-nodes: 'true'}}}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := readOverlays("machines.yaml", text)
		if err != nil {
			return
		}
		nodes := []trace.Node{{Name: "a", MilliCPU: 8000, MiB: 8192, GPUs: 2, GPUModel: "A"}, {Name: "b", MilliCPU: 64000, MiB: 65536}}
		if ground, err := o.ground(nodes); err == nil && ground(nodes, false).Size() != len(nodes) {
			t.Fatal("nodes are missing")
		}
	})
}
