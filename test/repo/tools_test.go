package repo

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestToolsCanBeBuilt asks Go for all packages of each tool that make builds from a module of its
// own. If go.mod or go.sum lacked a module, `make play`, `make generate` or `make chart-lint` would
// fail, but only on a fresh machine.
func TestToolsCanBeBuilt(t *testing.T) {
	for modfile, tool := range map[string]string{
		"tools/go.mod":         "sigs.k8s.io/controller-tools/cmd/controller-gen",
		"tools/helm/go.mod":    "helm.sh/helm/v3/cmd/helm",
		"tools/kubectl/go.mod": "k8s.io/kubernetes/cmd/kubectl",
	} {
		out, err := exec.Command("go", "list", "-modfile="+modfile, "-deps", "-f", "{{.ImportPath}}", tool).CombinedOutput()
		if err != nil || !strings.HasSuffix(string(out), tool+"\n") {
			t.Errorf("%s: %v: %.600s", modfile, err, out)
		}
	}
}

// TestPlayBuildsItsKubectl checks that the recipe of bin/kubectl uses the module with all its
// dependencies. The product's own go.mod has no module that only kubectl imports.
func TestPlayBuildsItsKubectl(t *testing.T) {
	out, err := exec.Command("make", "-n", "BIN=/nowhere", "/nowhere/kubectl").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !strings.Contains(string(out), "-modfile=tools/kubectl/go.mod") || !strings.Contains(string(out), "k8s.io/kubernetes/cmd/kubectl") {
		t.Errorf("make builds kubectl from another module:\n%s", out)
	}
}

// TestSeeds: conformance and race start at seed 1 by default, independently of the trials'
// defaults.
func TestSeeds(t *testing.T) {
	for args, want := range map[string]string{"conformance": "-seed=1", "race": "-race-seed=1", "race SEED=7": "-race-seed=7", "chaos": "-seed=0", "chaos SEED=7": "-seed=7"} {
		cmd := exec.Command("make", append([]string{"-n"}, strings.Fields(args)...)...)
		cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SEED=") || strings.HasPrefix(v, "MAKEFLAGS=") })
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("make %s: %v, want %s in:\n%s", args, err, want, out)
		}
	}
}
