package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/machineview"
	"github.com/berth-dev/berth/test/sysfstest"
	"github.com/berth-dev/berth/topology/shapes"
)

// topologyOf runs only the verb topology.
func topologyOf(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := NewTopologyCommand()
	var out bytes.Buffer
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.Execute()
	return out.String(), err
}

// server writes the /sys of a machine to a folder and to an archive.
func server(t *testing.T, text string) (folder, archive string) {
	t.Helper()
	folder = t.TempDir()
	files := sysfstest.Tree(shapes.Machine(text))
	if err := os.CopyFS(filepath.Join(folder, "server"), files); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	w := tar.NewWriter(zip)
	if err := w.AddFS(os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	archive = filepath.Join(t.TempDir(), "server.tgz")
	if err := os.WriteFile(archive, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(folder, "server"), archive
}

func TestTopologyOfFolderAndArchive(t *testing.T) {
	folder, archive := server(t, shapes.Xeon6230)
	for _, root := range []string{folder, archive, archive + ":server"} {
		out, err := topologyOf(t, "--root", root, "-o", "string")
		if err != nil || strings.TrimSpace(out) != shapes.Xeon6230 {
			t.Errorf("%s: %v\n%s", root, err, out)
		}
		out, err = topologyOf(t, "--root", root, "-o", "json")
		var doc machineview.Document
		if err := errors.Join(err, json.Unmarshal([]byte(out), &doc)); err != nil {
			t.Fatal(err)
		}
		if got := doc.NUMANodes[0]; got.MemoryBytes != 97557100<<10 || got.HugePages["2Mi"] != 128 || got.Distances["1"] != 21 {
			t.Errorf("node 0: %+v", got)
		}
	}
	for _, form := range []string{"table", "tree", "svg"} {
		if out, err := topologyOf(t, "--root", archive, "-o", form); err != nil || !strings.Contains(out, "2 NUMA nodes") {
			t.Errorf("%s: %v\n%s", form, err, out)
		}
	}
}

func TestTopologyExitCodes(t *testing.T) {
	_, archive := server(t, shapes.EPYCNPS4)
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"--root", archive}, ExitOK},
		{[]string{"--root", archive + ":absent"}, ExitFailure},
		{[]string{"--root", "testdata"}, ExitFailure},
		{[]string{"--root", archive, "-o", "xml"}, ExitUsage},
		{[]string{"--rout", archive}, ExitUsage},
		{[]string{archive}, ExitOK},
		{[]string{"--node", archive}, ExitOK},
		{[]string{"--node", twoByTwo, archive}, ExitUsage},
		{[]string{"--node", twoByTwo, "--root", archive}, ExitUsage},
		{[]string{twoByTwo}, ExitOK},
		{[]string{"--root", "/", archive}, ExitUsage},
	} {
		if code, _, stderr := run(t, append([]string{"topology"}, c.args...)...); code != c.want || (code != ExitOK) != (stderr != "") {
			t.Errorf("%s: exit code %d, want %d\n%s", c.args, code, c.want, stderr)
		}
	}
}

func TestTopologyRefuses(t *testing.T) {
	folder, _ := server(t, "numa:2 core:1 pu:1 mem:1Gi")
	node := filepath.Join(folder, "sys/devices/system/node/node0/meminfo")
	if err := os.Remove(node); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(node, []byte("Node 0 MemTotal: -1 kB\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args  []string
		want  string
		usage bool
	}{
		{[]string{"--root", folder}, `sys/devices/system/node/node0/meminfo: MemTotal: "-1": want a number of kB`, false},
		{[]string{"--root", "testdata/absent.tgz"}, "no such file", false},
		{[]string{"--root", "testdata"}, "want the folder that contains sys/", false},
		{[]string{"-o", "xml"}, `--output "xml": want table, tree, json, svg, string`, true},
		{[]string{"--root", ""}, "--root is empty", true},
		{[]string{"server"}, "want items of the form KEY:VALUE", false},
		{[]string{"-o", "tabel"}, `did you mean "table"?`, true},
	} {
		out, err := topologyOf(t, c.args...)
		var usage *UsageError
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.As(err, &usage) != c.usage {
			t.Errorf("%s: %v, want ...%s... (wrong usage: %v)\n%s", c.args, err, c.want, c.usage, out)
		}
	}
}

// TestTopologyOfLscpu: the output of lscpu is converted to a machine string, or to the format of
// --output. It can be used instead of a capture.
func TestTopologyOfLscpu(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lscpu.txt")
	const text = "Architecture: x86_64\nCPU(s): 8\nOn-line CPU(s) list: 0-7\nThread(s) per core: 2\nCore(s) per socket: 2\nSocket(s): 2\nNUMA node0 CPU(s): 0,1,4,5\nNUMA node1 CPU(s): 2,3,6,7\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := topologyOf(t, "--lscpu", file); err != nil || out != "package:2 numa:1 core:2 pu:2\n" {
		t.Errorf("%v: %q", err, out)
	}
	if out, err := topologyOf(t, "--lscpu", file, "-o", "tree"); err != nil || !strings.Contains(out, "2 NUMA nodes") {
		t.Errorf("%v: %q", err, out)
	}
	if out, err := topologyOf(t, file, "-o", "string"); err != nil || out != "package:2 numa:1 core:2 pu:2\n" {
		t.Errorf("%v: %q", err, out)
	}
	if code, _, stderr := run(t, "topology", "--lscpu", file, "--root", "/"); code != ExitUsage || !strings.Contains(stderr, "want only one of") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(text, "core: 2", "core: two", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := topologyOf(t, "--lscpu", file); err == nil || !strings.Contains(err.Error(), `lscpu.txt: lscpu: line 4: Thread(s) per core: "two": want a number`) {
		t.Errorf("%v: want line, field and value", err)
	}
}

// TestTopologyOfDevice: a Device of Koordinator, whose pcieID may have the form of older releases.
func TestTopologyOfDevice(t *testing.T) {
	file := filepath.Join(t.TempDir(), "device.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const head = "apiVersion: scheduling.koordinator.sh/v1alpha1\nkind: Device\nmetadata: {name: n1}\nspec:\n  devices:\n"
	write(head + "  - {type: gpu, minor: 0, health: true, topology: {socketID: 0, nodeID: 1, pcieID: 7, busID: '0000:3b:00.0'}}\n" +
		"  - {type: rdma, minor: 1, health: true, topology: {socketID: 0, nodeID: 1, pcieID: 'pci0000:3a', busID: '0000:3c:00.0'}, vfGroups: [{vfs: [{minor: 0, busID: '0000:3c:00.1'}]}]}\n")
	out, err := topologyOf(t, "--device", file, "-o", "tree", "package:2 numa:1 core:2 pu:1")
	for _, want := range []string{"0000:3b:00.0 GPU", "PCI root 0000:3a", "0000:3c:00.0 InfiniBand, 1 virtual function 0000:3c:00.1 to 0000:3c:00.1"} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("no %q in %s, %v", want, out, err)
		}
	}
	write(head + "  - {type: gpu, minor: 0, id: GPU-1, topology: {nodeID: 1, pcieID: ''}}\n")
	if out, err := topologyOf(t, "--device", file, "package:2 numa:1 core:2 pu:1"); err != nil || !strings.Contains(out, "device.yaml: gpu 0 (GPU-1) on NUMA node 1 has no busID and is not shown") {
		t.Errorf("got %s, %v", out, err)
	}
	write(head + "  - {type: gpu, minor: 0, topology: {nodeID: 9, busID: '0000:3b:00.0'}}\n")
	if _, err := topologyOf(t, "--device", file, "package:2 numa:1 core:2 pu:1"); err == nil || !strings.Contains(err.Error(), "spec.devices[0].topology.nodeID") {
		t.Errorf("got %v", err)
	}
	const device, want = head + "  - {type: gpu, minor: 0, health: true}\n", "want one Device, as in the output of kubectl get devices.scheduling.koordinator.sh NODE -o yaml"
	for text, what := range map[string]string{
		"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: x}]}\n":      `apiVersion "v1", kind "Pod"`,
		"apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nspec: {devices: {requests: []}}\n": `apiVersion "resource.k8s.io/v1", kind "ResourceClaim"`,
		"apiVersion: v1\nkind: List\nitems: []\n":                                                `apiVersion "v1", kind "List"`,
		"apiVersion: devices.example.com/v1\nkind: Device\n":                                     `apiVersion "devices.example.com/v1", kind "Device"`,
		"spec: {devices: []}\n":   `apiVersion "", kind ""`,
		device + "---\n" + device: "more than one Device",
		"# nothing\n":             "no objects",
		"package:2 core:4\n":      "",
	} {
		write(text)
		if _, err := topologyOf(t, "--device", file, "node/n1", "--kubeconfig", "/nonexistent"); err == nil || !strings.HasPrefix(err.Error(), strings.TrimSuffix(file+": "+what, ": ")+": "+want) {
			t.Errorf("%q: %v, want %s: %s", text, err, what, want)
		}
	}
}
