package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConvert(t *testing.T) {
	at := func(name string) string { return filepath.Join("..", "convert", "testdata", name) }
	large := filepath.Join(t.TempDir(), "large.conf")
	if err := os.WriteFile(large, []byte(strings.Repeat("- name: gang\n", 1<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	// Volcano's installation file has 1.1 MB, mostly definitions of kinds.
	installation := filepath.Join(t.TempDir(), "volcano-development.yaml")
	conf, err := os.ReadFile(at("configmap.in"))
	if err != nil {
		t.Fatal(err)
	}
	kinds := strings.Repeat("---\nkind: CustomResourceDefinition\nmetadata: {name: x}\ndescription: "+strings.Repeat("x", 200<<10)+"\n", 8)
	if err := os.WriteFile(installation, []byte(kinds+"---\n"+string(conf)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args   []string
		code   int
		errors string // on standard error
	}{
		"a configuration":     {[]string{"-f", at("reference.in")}, ExitOK, "note: action enqueue"},
		"its ConfigMap":       {[]string{"-f", at("configmap.in")}, ExitOK, "Kueue"},
		"what is no word":     {[]string{"-f", at("unknown.in")}, ExitFailure, `did you mean "numa-aware"?`},
		"more than 4 MiB":     {[]string{"-f", large}, ExitFailure, "larger than 4 MiB"},
		"an installation":     {[]string{"-f", installation}, ExitOK, "Kueue"},
		"no file":             {nil, ExitUsage, "-f is missing"},
		"one that is missing": {[]string{"-f", "absent"}, ExitFailure, "absent"},
		"an argument":         {[]string{"x"}, ExitUsage, "see berth convert --help"},
	} {
		code, stdout, stderr := run(t, append([]string{"convert"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.errors) {
			t.Errorf("%s: exit code %d, standard error %q; want %d and ...%s...", name, code, stderr, c.code, c.errors)
		}
		if code == ExitOK && !strings.HasPrefix(stdout, "apiVersion: kubescheduler.config.k8s.io/v1") {
			t.Errorf("%s: printed %q", name, stdout)
		}
	}
}
