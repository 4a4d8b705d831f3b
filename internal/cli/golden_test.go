package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/test/golden"
)

// twoByTwo has 4 NUMA nodes of 4 cores with 2 threads. As on most servers, the numbers of a core's
// threads differ by half the number of CPUs.
const twoByTwo = "package:2 numa:2 core:4 pu:2 mem:64Gi"

// run executes a command line and returns the exit code and the output.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Run(t.Context(), append([]string{"berth"}, args...), strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// runGolden runs the command, and compares its output with testdata/NAME.txt.
func runGolden(t *testing.T, name string, want int, args ...string) {
	t.Helper()
	code, stdout, stderr := run(t, args...)
	if code != want {
		t.Errorf("exit code %d, want %d", code, want)
	}
	if strings.ContainsRune(stdout+stderr, 0x1b) {
		t.Errorf("an escape sequence came through: %q", stdout+stderr)
	}
	golden.File(t, "testdata/"+name+".txt", stdout+"---- stderr\n"+stderr)
}

// TestGolden compares the output for users and programs with testdata/NAME.txt.
func TestGolden(t *testing.T) {
	ask := []string{"-f", "testdata/pods.yaml", "--node", twoByTwo, "--kubelet-config", "testdata/kubelet.yaml", "--device", "nvidia.com/gpu=0:2,1:2"}
	for name, c := range map[string]struct {
		verb string
		args []string
		code int
	}{
		"place":        {"place", ask, ExitFailure},
		"place-json":   {"place", append(ask[:len(ask):len(ask)], "-o", "json"), ExitFailure},
		"explain":      {"explain", ask, ExitFailure},
		"explain-yaml": {"explain", append(ask[:len(ask):len(ask)], "-o", "yaml"), ExitFailure},
		"fit":          {"fit", ask, ExitFailure},
		"place-none":   {"place", []string{"-f", "testdata/pods.yaml", "--node", twoByTwo}, ExitFailure},
	} {
		t.Run(name, func(t *testing.T) {
			runGolden(t, name, c.code, append([]string{c.verb}, c.args...)...)
		})
	}
}

// TestBadInput: each wrong input has its exit code, and the error names it.
func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const kubelet = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	pod := func(cpu string) string {
		return file("pod-"+cpu[:1]+".yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, resources: {limits: {cpu: \""+cpu+"\", memory: 1Gi}}}]}")
	}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no file":           {[]string{"place"}, ExitUsage, "want pods: -f, --filename"},
		"unknown verb":      {[]string{"plaec"}, ExitUsage, "plaec"},
		"unknown flag":      {[]string{"fit", "--limits", "3"}, ExitUsage, "--limits"},
		"strange flag":      {[]string{"fit", "--cpus", "3"}, ExitUsage, "--cpus (see berth fit --help)"},
		"stray argument":    {[]string{"place", twoByTwo, "x", "-f", "testdata/pods.yaml"}, ExitUsage, "want at most one machine"},
		"machine twice":     {[]string{"place", twoByTwo, "--node", "/", "-f", "testdata/pods.yaml"}, ExitUsage, "want the machine as an argument or with the flag, not both"},
		"format":            {[]string{"place", "-f", "testdata/pods.yaml", "-o", "xml"}, ExitUsage, `"xml"`},
		"limit":             {[]string{"fit", "-f", "testdata/pods.yaml", "--limit", "0"}, ExitUsage, "--limit 0: want 1 to 1000000"},
		"huge limit":        {[]string{"fit", "-f", "testdata/pods.yaml", "--limit", "1000001"}, ExitUsage, "--limit 1000001: want 1 to 1000000"},
		"a Device on stdin": {[]string{"topology", twoByTwo, "--device", "-"}, ExitFailure, "open -: no such file"},
		"version":           {[]string{"place", "-f", "testdata/pods.yaml", "--node", twoByTwo, "--kubelet-version", "1.20"}, ExitUsage, `"1.20"`},
		"pool":              {[]string{"place", "-f", "testdata/pods.yaml", "--node", twoByTwo, "--device", "gpu"}, ExitUsage, "RESOURCE=NUMA:COUNT"},
		"pool of millions":  {[]string{"place", "-f", "testdata/pods.yaml", "--node", twoByTwo, "--device", "v/gpu=0:99999999"}, ExitUsage, "at most 4096"},
		"pool nowhere":      {[]string{"place", "-f", "testdata/pods.yaml", "--node", twoByTwo, "--device", "v/gpu=77:1"}, ExitUsage, "77"},
		"pool twice":        {[]string{"place", "-f", "testdata/pods.yaml", "--node", twoByTwo, "--device", "v/gpu=0:1", "--device", "v/nic=0:1", "--device", "v/gpu=1:2"}, ExitUsage, `--device "v/gpu=1:2": v/gpu is given twice: want all its NUMA nodes in one flag`},
		"missing pods":      {[]string{"place", "-f", filepath.Join(dir, "nothing.yaml")}, ExitFailure, "nothing.yaml"},
		"machine string":    {[]string{"place", "-f", "testdata/pods.yaml", "--node", "package:two"}, ExitFailure, "two"},
		"huge CPU":          {[]string{"place", "-f", pod("1000000000000000000"), "--node", twoByTwo}, ExitFailure, "cpu"},
		"negative CPU":      {[]string{"place", "-f", pod("-4"), "--node", twoByTwo}, ExitFailure, "cpu"},
		"no quantity":       {[]string{"place", "-f", pod("lots"), "--node", twoByTwo}, ExitFailure, `Pod p: spec.containers[0].resources.limits[cpu]: "lots": want a quantity`},
		"config kind":       {[]string{"place", "-f", "testdata/pods.yaml", "--node", twoByTwo, "--kubelet-config", file("k0", "kind: Pod")}, ExitFailure, "KubeletConfiguration"},
		"config field":      {[]string{"place", "-f", "testdata/pods.yaml", "--node", twoByTwo, "--kubelet-config", file("k1", kubelet+"cpuManagerPolicee: static")}, ExitFailure, "cpuManagerPolicee"},
		"config policy":     {[]string{"place", "-f", "testdata/pods.yaml", "--node", twoByTwo, "--kubelet-config", file("k2", kubelet+"topologyManagerPolicy: restrictd")}, ExitFailure, "restrictd"},
		"conflicting":       {[]string{"place", "-f", "testdata/pods.yaml", "--node", twoByTwo, "--kubelet-config", file("k3", kubelet+"cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\ncpuManagerPolicyOptions: {full-pcpus-only: \"true\", distribute-cpus-across-cores: \"true\"}\nfeatureGates: {CPUManagerPolicyAlphaOptions: true}")}, ExitFailure, "distribute-cpus-across-cores"},
		"empty state":       {[]string{"place", "-f", "testdata/pods.yaml", "--node", twoByTwo, "--state", t.TempDir()}, ExitFailure, "cpu_manager_state"},
		"wrong checksum":    {[]string{"place", "-f", "testdata/pods.yaml", "--node", twoByTwo, "--state", stateDir(t, `{"policyName":"static","defaultCpuSet":"0-31","checksum":1}`)}, ExitFailure, "checkpoint is corrupted"},
		"truncated capture": {[]string{"place", "-f", "testdata/pods.yaml", "--node", file("cut.tgz", "\x1f\x8b\x08\x00")}, ExitFailure, "cut.tgz"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t, c.args...)
			if code != c.code || !strings.Contains(stderr, c.want) || stdout != "" {
				t.Errorf("exit code %d, stdout %q, stderr %q; want code %d, nothing, and %q", code, stdout, stderr, c.code, c.want)
			}
		})
	}
}

func stateDir(t *testing.T, cpu string) string {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "cpu_manager_state"), []byte(cpu), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
