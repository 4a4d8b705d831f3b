package kubeletconfig

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(file, dir string) (*kubeletv1beta1.KubeletConfiguration, error) {
	return Files{File: file, Dir: dir}.Read()
}

func TestReadMergesDropIns(t *testing.T) {
	dir := t.TempDir()
	file, drop := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "conf.d")
	writeFile(t, file, "kind: KubeletConfiguration\ncpuManagerPolicy: none\nkubeReserved: {cpu: 100m, memory: 1Gi}\nreservedSystemCPUs: \"0\"\n")
	writeFile(t, filepath.Join(drop, "20.conf"), "kind: KubeletConfiguration\nreservedSystemCPUs: \"0-1\"\nkubeReserved: {cpu: 200m}\n")
	writeFile(t, filepath.Join(drop, "10.conf"), "cpuManagerPolicy: static\nreservedSystemCPUs: \"5\"\n")
	writeFile(t, filepath.Join(drop, "sub", "30.conf"), "kubeReserved: {memory: null}\n")
	writeFile(t, filepath.Join(drop, "40.yaml"), "cpuManagerPolicy: none\n") // does not end in .conf
	c, err := read(file, drop)
	if err != nil {
		t.Fatal(err)
	}
	if c.CPUManagerPolicy != "static" || c.ReservedSystemCPUs != "0-1" || !reflect.DeepEqual(c.KubeReserved, map[string]string{"cpu": "200m"}) {
		t.Errorf("got policy %q, reserved %q, %v", c.CPUManagerPolicy, c.ReservedSystemCPUs, c.KubeReserved)
	}
	if c, err = read(file, filepath.Join(dir, "absent")); err != nil || c.CPUManagerPolicy != "none" {
		t.Errorf("without drop-ins: %v, error %v", c, err)
	}
}

func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"kind.yaml":   "kind: Pod\n",
		"broken.yaml": "cpuManagerPolicy: [\n",
		"type.yaml":   "cpuManagerPolicy: {a: b}\n",
		"large.yaml":  strings.Repeat("#", MaxBytes+1),
	} {
		path := filepath.Join(dir, name)
		writeFile(t, path, text)
		if _, err := read(path, ""); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got error %v, want one that names the file", name, err)
		}
	}
	if _, err := read(filepath.Join(dir, "absent"), ""); err == nil {
		t.Error("an absent file is no default")
	}
}

func FuzzMergedConfig(f *testing.F) {
	f.Add("cpuManagerPolicy: static", "kubeReserved: {cpu: 1}")
	f.Fuzz(func(t *testing.T, base, patch string) {
		var f Files
		over, err := f.parse("a", []byte(base))
		if err != nil {
			return
		}
		drop, err := f.parse("b.conf", []byte(patch))
		if err != nil {
			return
		}
		if c, err := mergeAll("a", given{object: over}, []map[string]any{drop}); (c == nil) == (err == nil) {
			t.Errorf("got %v, error %v", c, err)
		}
	})
}

// TestEvictionBeforeDropIns: thresholds that are missing in the file get their defaults before
// drop-ins replace single ones.
func TestEvictionBeforeDropIns(t *testing.T) {
	for _, tc := range []struct{ file, drop, want string }{
		{"{}", "", "100Mi"},
		{"{}", `{"evictionHard":{"nodefs.available":"3%"}}`, "100Mi"},
		{"{}", `{"evictionHard":{"memory.available":"1Gi"}}`, "1Gi"},
		{"{}", `{"evictionHard":{"memory.available":null}}`, ""},
		{"{}", `{"evictionHard":null}`, ""},
		{`{"evictionHard":null}`, "", "100Mi"},
		{`{"evictionHard":{"nodefs.available":"3%"}}`, "", ""},
		{`{"evictionHard":{"nodefs.available":"3%"},"mergeDefaultEvictionSettings":true}`, "", "100Mi"},
		{`{"evictionHard":{"nodefs.available":"3%"}}`, `{"mergeDefaultEvictionSettings":true}`, ""},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"file": tc.file, "d/1.conf": tc.drop} {
			if text == "" {
				continue
			}
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c, err := read(filepath.Join(dir, "file"), filepath.Join(dir, "d"))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.EvictionHard["memory.available"]; got != tc.want || c.EvictionHard == nil || tc.drop != "" && c.MergeDefaultEvictionSettings != nil {
			t.Errorf("%s and %s: memory.available %q, want %q; %+v", tc.file, tc.drop, got, tc.want, c.EvictionHard)
		}
	}
}

// TestStrict: for an unknown field, or a value of another type, the error says what is wanted.
func TestStrict(t *testing.T) {
	const kind = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	for name, c := range map[string]struct{ file, drop, want string }{
		"sound":          {kind + "cpuManagerPolicy: static", kind + "cpuManagerPolicy: none", ""},
		"typo":           {kind + "cpuManagerPolicee: static", "", `cpuManagerPolicee: "static": want a known field (did you mean "cpuManagerPolicy"?)`},
		"typo in drop":   {kind, kind + "topologyManagerPolic: none", "1.conf: KubeletConfiguration: topologyManagerPolic"},
		"no kind":        {"cpuManagerPolicy: static", "", "want kubelet.config.k8s.io/v1beta1, KubeletConfiguration"},
		"other release":  {"apiVersion: kubelet.config.k8s.io/v1\nkind: KubeletConfiguration", "", "want kubelet.config.k8s.io/v1beta1"},
		"without quotes": {kind + "cpuManagerPolicyOptions: {full-pcpus-only: true}", "", `cpuManagerPolicyOptions[full-pcpus-only]: "true": want a string in quotes`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeFile(t, filepath.Join(dir, "file"), c.file)
			if c.drop != "" {
				writeFile(t, filepath.Join(dir, "d", "1.conf"), c.drop)
			}
			got, err := Files{File: filepath.Join(dir, "file"), Dir: filepath.Join(dir, "d"), Strict: true}.Read()
			switch {
			case c.want == "" && (err != nil || got.CPUManagerPolicy != "none"):
				t.Errorf("got %+v, error %v", got, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error %v, want %s", err, c.want)
			}
		})
	}
}

// TestNewerThan: files that were written after a time, whatever their time stamps are, and a
// drop-in that was removed.
func TestNewerThan(t *testing.T) {
	dir := t.TempDir()
	file, drop := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "conf.d")
	names := []string{file, filepath.Join(drop, "10.conf"), filepath.Join(drop, "README"), drop}
	for _, name := range names[:3] {
		writeFile(t, name, "cpuManagerPolicy: none\n")
	}
	long, marker := time.Now().Add(-time.Hour), filepath.Join(t.TempDir(), "marker")
	stat := func(name string) time.Time {
		t.Helper()
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		return changedAt(info)
	}
	for _, c := range []struct{ changed, want string }{
		{"", ""}, {file, file}, {names[1], names[1]}, {names[2], ""}, {drop, drop},
	} {
		var last time.Time
		for _, name := range names {
			if at := stat(name); at.After(last) {
				last = at
			}
		}
		for writeFile(t, marker, "x"); !stat(marker).After(last); { // until the file system's clock advances
			writeFile(t, marker, "x")
		}
		start := stat(marker)
		for c.changed != "" && !stat(c.changed).After(start) { // an old time stamp, as with cp -p and mv
			if err := os.Chtimes(c.changed, long, long); err != nil {
				t.Fatal(err)
			}
		}
		if got := strings.Join(Files{File: file, Dir: drop}.NewerThan(start), " "); got != c.want {
			t.Errorf("%s is changed: newer %q, want %q", c.changed, got, c.want)
		}
	}
	if got := (Files{File: filepath.Join(dir, "absent"), Dir: filepath.Join(dir, "none")}).NewerThan(long); len(got) > 0 {
		t.Errorf("what is not there is newer: %q", got)
	}
}
