package kubeletconfig

import (
	"os"
	"testing"
)

// link makes a symbolic link with a rename, as a ConfigMap volume does.
func link(t *testing.T, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name+".new"); err != nil {
		t.Fatal(err)
	}
	rename(t, name+".new", name)
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// TestFingerprint makes one change to the files of a configuration in each case, in an empty
// directory with kubelet.yaml and conf.d. Setup makes other files as well. All changes may have the
// same time, because the clock of a file system advances in steps of some milliseconds.
func TestFingerprint(t *testing.T) {
	nothing := func(*testing.T, string) {}
	for _, tc := range []struct {
		name          string
		setup, change func(t *testing.T, dir string)
		same          bool
	}{
		{"nothing", nothing, nothing, true},
		{"another file", func(t *testing.T, dir string) { writeFile(t, dir+"/conf.d/10.conf", "a") },
			func(t *testing.T, dir string) { writeFile(t, dir+"/cpu_manager_state", "b") }, true},
		{"written in place", nothing, func(t *testing.T, dir string) { writeFile(t, dir+"/kubelet.yaml", "longer") }, false},
		{"renamed over", nothing, func(t *testing.T, dir string) {
			writeFile(t, dir+"/other", "b")
			rename(t, dir+"/other", dir+"/kubelet.yaml")
		}, false},
		{"removed", nothing, func(t *testing.T, dir string) { rename(t, dir+"/kubelet.yaml", dir+"/other") }, false},
		{"a volume's ..data points elsewhere",
			func(t *testing.T, dir string) {
				writeFile(t, dir+"/..1/kubelet.yaml", "a")
				writeFile(t, dir+"/..2/kubelet.yaml", "b")
				link(t, "..1", dir+"/..data")
				link(t, "..data/kubelet.yaml", dir+"/kubelet.yaml")
			},
			func(t *testing.T, dir string) { link(t, "..2", dir+"/..data") }, false},
		{"written behind two links",
			func(t *testing.T, dir string) {
				writeFile(t, dir+"/far/away/real", "a")
				link(t, dir+"/far/away", dir+"/near")
				link(t, "near/../away/real", dir+"/kubelet.yaml")
			},
			func(t *testing.T, dir string) { writeFile(t, dir+"/far/away/real", "longer") }, false},
		{"a link to itself", nothing, func(t *testing.T, dir string) { link(t, "kubelet.yaml", dir+"/kubelet.yaml") }, false},
		{"a drop-in is added", func(t *testing.T, dir string) { writeFile(t, dir+"/conf.d/10.conf", "a") },
			func(t *testing.T, dir string) { writeFile(t, dir+"/conf.d/20.conf", "b") }, false},
		{"a drop-in is removed", func(t *testing.T, dir string) { writeFile(t, dir+"/conf.d/10.conf", "a") },
			func(t *testing.T, dir string) {
				if err := os.Remove(dir + "/conf.d/10.conf"); err != nil {
					t.Fatal(err)
				}
			}, false},
		{"a drop-in deep below is written", func(t *testing.T, dir string) { writeFile(t, dir+"/conf.d/a/b/10.conf", "a") },
			func(t *testing.T, dir string) { writeFile(t, dir+"/conf.d/a/b/10.conf", "longer") }, false},
		{"the target of a drop-in is written",
			func(t *testing.T, dir string) {
				writeFile(t, dir+"/elsewhere/x", "a")
				writeFile(t, dir+"/conf.d/10.conf", "a")
				link(t, dir+"/elsewhere/x", dir+"/conf.d/20.conf")
			},
			func(t *testing.T, dir string) { writeFile(t, dir+"/elsewhere/x", "longer") }, false},
		{"the directory of drop-ins comes later", nothing, func(t *testing.T, dir string) { writeFile(t, dir+"/conf.d/10.conf", "a") }, false},
		{"the directory of drop-ins is exchanged",
			func(t *testing.T, dir string) {
				writeFile(t, dir+"/conf.d/10.conf", "a")
				writeFile(t, dir+"/conf.new/10.conf", "b")
			},
			func(t *testing.T, dir string) {
				rename(t, dir+"/conf.d", dir+"/conf.old")
				rename(t, dir+"/conf.new", dir+"/conf.d")
			}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeFile(t, dir+"/kubelet.yaml", "a")
			tc.setup(t, dir)
			files := Files{File: dir + "/kubelet.yaml", Dir: dir + "/conf.d"}
			before := files.Fingerprint()
			tc.change(t, dir)
			if got := files.Fingerprint(); (got == before) != tc.same {
				t.Errorf("before %q, after %q: want the same: %v", before, got, tc.same)
			}
		})
	}
}
