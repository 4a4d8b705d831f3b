package convert

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	kubescheduler "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/golden"
)

// TestForms holds every form that a configuration is found in against testdata/NAME.out: as it is
// stored, and as pages print it.
func TestForms(t *testing.T) {
	files, err := filepath.Glob("testdata/*.in")
	if err != nil || len(files) < 7 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			r, err := Volcano(text)
			if err != nil {
				t.Fatal(err)
			}
			if wrong := len(r.Unknown) > 0; wrong != strings.Contains(file, "unknown") {
				t.Errorf("not understood: %q", r.Unknown)
			}
			check(t, strings.TrimSuffix(file, ".in")+".out", &r)
		})
	}
}

func check(t *testing.T, path string, r *Result) {
	t.Helper()
	var config kubescheduler.KubeSchedulerConfiguration
	if err := yaml.UnmarshalStrict(r.Config, &config); err != nil {
		t.Errorf("no KubeSchedulerConfiguration: %v", err)
	}
	if p := config.Profiles; len(p) != 1 || *p[0].SchedulerName != "volcano" {
		t.Errorf("profiles %+v", p)
	}
	golden.File(t, path, string(r.Config)+"---- notes\n"+strings.Join(append(r.Notes, ""), "\n")+
		"---- unknown\n"+strings.Join(append(r.Unknown, ""), "\n"))
}

// TestPrintedAsStored: what a page prints means the same as what was stored.
func TestPrintedAsStored(t *testing.T) {
	for _, c := range [][2]string{{"reference.in", "whole-json.in"}} {
		var weights []string
		for _, file := range c {
			text, _ := os.ReadFile(filepath.Join("testdata", file))
			s, err := read(text)
			if err != nil {
				t.Fatal(err)
			}
			weights = append(weights, s.Plugins[len(s.Plugins)-1].Arguments["weight"])
		}
		if weights[0] != "10" || weights[0] != weights[1] {
			t.Errorf("%v: weights %q", c, weights)
		}
	}
	for _, file := range []string{"page-json.in", "page-configmap.in"} {
		text, _ := os.ReadFile(filepath.Join("testdata", file))
		s, err := read(text)
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]string{}
		for _, p := range s.Plugins {
			names[p.Name] = p.Arguments["weight"]
		}
		if strings.Join(s.Actions, " ") != "allocate backfill" || names["numa-aware"] != "10" || len(names) < 14 {
			t.Errorf("%s: actions %q, plugins %v", file, s.Actions, names)
		}
	}
}

func TestNoConfiguration(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":        "",
		"prose":          "To be or not to be, that is the question.",
		"a list":         "- a\n- b\n",
		"ten megabytes":  strings.Repeat("- name: numa-aware\n", 1<<19),
		"no list":        "tiers: {plugins: x}",
		"no names":       "tiers: [{plugins: [{nam: gang}]}]",
		"texts in texts": "data: {volcano-scheduler.conf: |\n    data: {volcano-scheduler.conf: |\n        data: {}}}",
		"zeros":          "\x00\x00\x00",
	} {
		if r, err := Volcano([]byte(text)); err == nil {
			t.Errorf("%s: converted to %s", name, r.Config)
		}
	}
}

func FuzzVolcano(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.in")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Volcano(text)
		if err != nil {
			return
		}
		var config kubescheduler.KubeSchedulerConfiguration
		if err := yaml.UnmarshalStrict(r.Config, &config); err != nil {
			t.Errorf("%q becomes no configuration: %v\n%s", text, err, r.Config)
		}
	})
}
