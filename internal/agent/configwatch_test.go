package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fsnotify/fsnotify"
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

// TestWatchConfig makes one change to the files of a configuration in each case, in an empty
// directory. kubelet.yaml and conf.d are watched there. Setup makes other files as well.
func TestWatchConfig(t *testing.T) {
	for _, tc := range []struct {
		name          string
		setup, change func(t *testing.T, dir string)
	}{
		{"written in place", nil, func(t *testing.T, dir string) { writeFile(t, dir+"/kubelet.yaml", "b") }},
		{"renamed over", nil, func(t *testing.T, dir string) {
			writeFile(t, dir+"/other", "b")
			rename(t, dir+"/other", dir+"/kubelet.yaml")
		}},
		{"a volume's ..data points elsewhere",
			func(t *testing.T, dir string) {
				writeFile(t, dir+"/..1/kubelet.yaml", "a")
				writeFile(t, dir+"/..2/kubelet.yaml", "b")
				link(t, "..1", dir+"/..data")
				link(t, "..data/kubelet.yaml", dir+"/kubelet.yaml")
			},
			func(t *testing.T, dir string) { link(t, "..2", dir+"/..data") }},
		{"written behind two links",
			func(t *testing.T, dir string) {
				writeFile(t, dir+"/far/away/real", "a")
				link(t, dir+"/far/away", dir+"/near")
				link(t, "near/../away/real", dir+"/kubelet.yaml")
			},
			func(t *testing.T, dir string) { writeFile(t, dir+"/far/away/real", "b") }},
		{"a drop-in is added", func(t *testing.T, dir string) { writeFile(t, dir+"/conf.d/10.conf", "a") },
			func(t *testing.T, dir string) { writeFile(t, dir+"/conf.d/20.conf", "b") }},
		{"a drop-in is removed", func(t *testing.T, dir string) { writeFile(t, dir+"/conf.d/10.conf", "a") },
			func(t *testing.T, dir string) {
				if err := os.Remove(dir + "/conf.d/10.conf"); err != nil {
					t.Fatal(err)
				}
			}},
		{"a drop-in deep below is written", func(t *testing.T, dir string) { writeFile(t, dir+"/conf.d/a/b/10.conf", "a") },
			func(t *testing.T, dir string) { writeFile(t, dir+"/conf.d/a/b/10.conf", "b") }},
		{"what a drop-in links to is written",
			func(t *testing.T, dir string) {
				writeFile(t, dir+"/elsewhere/x", "a")
				writeFile(t, dir+"/conf.d/10.conf", "a")
				link(t, dir+"/elsewhere/x", dir+"/conf.d/20.conf")
			},
			func(t *testing.T, dir string) { writeFile(t, dir+"/elsewhere/x", "b") }},
		{"the directory of drop-ins comes later", nil, func(t *testing.T, dir string) { writeFile(t, dir+"/conf.d/10.conf", "a") }},
		{"the directory of drop-ins is exchanged",
			func(t *testing.T, dir string) {
				writeFile(t, dir+"/conf.d/10.conf", "a")
				writeFile(t, dir+"/conf.new/10.conf", "b")
			},
			func(t *testing.T, dir string) {
				rename(t, dir+"/conf.d", dir+"/conf.old")
				rename(t, dir+"/conf.new", dir+"/conf.d")
			}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			writeFile(t, dir+"/kubelet.yaml", "a")
			if tc.setup != nil {
				tc.setup(t, dir)
			}
			watch, stop, err := watchConfig(configPaths{dir + "/kubelet.yaml", dir + "/conf.d"})
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			tc.change(t, dir)
			receive(t, watch.Changed, tc.name)
		})
	}
}

// TestWatchConfigFollows: after a change, new directories are watched, and old ones no longer.
func TestWatchConfigFollows(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	c := &configWatch{w: w, paths: configPaths{dir + "/kubelet.yaml", dir + "/conf.d"}}
	want := func(when string, below ...string) {
		t.Helper()
		c.arm()
		got := w.WatchList()
		for i := range got {
			got[i] = strings.TrimPrefix(got[i], dir)
		}
		slices.Sort(got)
		if !slices.Equal(got, below) {
			t.Errorf("%s: watched %q, want %q", when, got, below)
		}
	}
	want("nothing is there", "")
	writeFile(t, dir+"/far/one", "a")
	writeFile(t, dir+"/further/two", "a")
	link(t, "far/one", dir+"/kubelet.yaml")
	want("a link", "", "/far")
	link(t, "further/two", dir+"/kubelet.yaml")
	want("it points elsewhere", "", "/further")
	writeFile(t, dir+"/conf.d/sub/10.conf", "a")
	want("drop-ins", "", "/conf.d", "/conf.d/sub", "/further")
	rename(t, dir+"/conf.d", dir+"/conf.old")
	want("they are taken away", "", "/further")
}

// TestConfigConcerns: few events in the directories of a configuration matter.
func TestConfigConcerns(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir+"/real/config", "a")
	writeFile(t, dir+"/conf.d/10.conf", "a")
	link(t, "real/config", dir+"/config.yaml")
	link(t, "loop", dir+"/loop")
	paths := configPaths{dir + "/config.yaml", dir + "/conf.d"}
	c := paths.concerns()
	for path, want := range map[string]bool{
		"/config.yaml": true, "/real/config": true, "/real": true, "/conf.d": true, "/conf.d/10.conf": true, "/conf.d/new": true,
		"/cpu_manager_state": false, "/real/other": false, "/conf.d/10.conf/x": false, "/pods": false,
	} {
		if got := c.has(dir + path); got != want {
			t.Errorf("an event for %s: matters %v, want %v", path, got, want)
		}
	}
	for _, paths := range []configPaths{{file: dir + "/loop"}, {file: "/nonexistent/config"}, {dropIns: dir + "/real/config"}, {}} {
		c := paths.concerns() // returns
		if len(c.steps) == 0 && paths != (configPaths{}) {
			t.Errorf("%+v: nothing is watched", paths)
		}
	}
}
