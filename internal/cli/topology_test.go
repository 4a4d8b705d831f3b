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
	"github.com/berth-dev/berth/sysfs/sysfstest"
	"github.com/berth-dev/berth/topology/shapes"
)

// topologyOf runs the verb alone.
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

// server writes the /sys of a machine string into a folder and an archive.
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
