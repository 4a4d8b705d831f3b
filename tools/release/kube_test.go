package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestKubes: the scheduler of every release in the chart's list can be built from these sources,
// and the list has the order that the chart needs.
func TestKubes(t *testing.T) {
	kubes, err := kubesOf(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if len(kubes) < 2 || !slices.IsSortedFunc(kubes, func(a, b kube) int { return strings.Compare(a.minor, b.minor) }) {
		t.Errorf("%+v: want the oldest first", kubes)
	}
	for i, k := range kubes {
		if last := i == len(kubes)-1; (k.modfile == "") != last {
			t.Errorf("%s: go.mod %q", k.minor, k.modfile)
		}
		if tag := "kube" + strings.ReplaceAll(k.minor, ".", ""); k.modfile != "" && !slices.Contains(k.flags(), "-tags="+tag) {
			t.Errorf("%s: %q: want tag %s", k.minor, k.flags(), tag)
		}
	}
}

func TestKubesNamesWhatIsWrong(t *testing.T) {
	for _, tc := range []struct{ name, list, base, second, want string }{
		{"no file", "", "v1.37.2", "v1.36.3", "no such file"},
		{"empty", "\n", "v1.37.2", "v1.36.3", "files/schedulers: empty: want releases like 1.37"},
		{"moved on", "1.36\n1.37\n", "v1.38.0", "v1.36.3", `"1.37": go.mod has k8s.io/kubernetes v1.38.0`},
		{"another folder", "1.36\n1.37\n", "v1.37.2", "v1.35.1", `"1.36": test/conformance/versions/v1.36/go.mod has k8s.io/kubernetes v1.35.1`},
		{"no folder", "1.35\n1.37\n", "v1.37.2", "v1.36.3", "v1.35/go.mod"},
		{"no requirement", "1.36\n1.37\n", "", "v1.36.3", "go.mod: no k8s.io/kubernetes: want a line that requires it"},
	} {
		dir := t.TempDir()
		for file, text := range map[string]string{
			schedulersFile: tc.list, "go.mod": requiring(tc.base), "test/conformance/versions/v1.36/go.mod": requiring(tc.second),
		} {
			if text == "" {
				continue
			}
			path := filepath.Join(dir, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			spoil(t, path, []byte(text))
		}
		if kubes, err := kubesOf(dir); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %+v, %v, want %q", tc.name, kubes, err, tc.want)
		}
	}
}

func requiring(version string) string {
	if version == "" {
		return "module x\n"
	}
	return "module x\n\nrequire (\n\tk8s.io/kubernetes " + version + "\n)\n"
}
