package convert

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	kubescheduler "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/test/golden"
)

// TestForms compares the conversion of each form of a configuration with testdata/NAME.out.
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

// TestFormsAgree: JSON and YAML of one configuration have the same meaning.
func TestFormsAgree(t *testing.T) {
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

// configurationsIn matches the start of a configuration, or an add-on's parameter, in a text.
var configurationsIn = regexp.MustCompile(`(?m)^\s*"?(actions|resource_exporter_enable)"?\s*:`)

// TestIncompletePrints: if a page prints a configuration without its braces and list marks, it is
// refused, and the error says what is wanted. testdata/NAME.in is the complete one.
func TestIncompletePrints(t *testing.T) {
	files, err := filepath.Glob("testdata/*.print")
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := Volcano(text); err == nil || !strings.Contains(err.Error(), "want the original YAML or JSON") {
			t.Errorf("%s: %v, converted to %s", file, err, r.Config)
		}
	}
}

// TestSharedConfigurations: every configuration that the shared documents print is in testdata
// without changes. Every configuration file among them is converted without unknown parts.
func TestSharedConfigurations(t *testing.T) {
	const shared = "../../../shared"
	documents, err := filepath.Glob(shared + "/seeds/*.txt")
	if err != nil || len(documents) == 0 {
		t.Skip("no shared documents")
	}
	files, err := filepath.Glob("testdata/*")
	if err != nil {
		t.Fatal(err)
	}
	words := func(text []byte) string { return strings.Join(strings.Fields(string(text)), " ") }
	printed := 0
	for _, path := range documents {
		document, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		left := len(configurationsIn.FindAll(document, -1))
		printed += left
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(words(document), words(text)) {
				left -= len(configurationsIn.FindAll(text, -1))
			}
		}
		if left > 0 {
			t.Errorf("%s: %d configurations are not in testdata", path, left)
		}
	}
	if printed < 4 {
		t.Errorf("only %d configurations", printed)
	}
	err = filepath.WalkDir(shared+"/neighbours", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json", ".conf"}, filepath.Ext(path)) {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), "tiers") || !configurationsIn.Match(text) {
			return err
		}
		if r, err := Volcano(text); err != nil || len(r.Unknown) > 0 {
			t.Errorf("%s: %v, not understood: %q", path, err, r.Unknown)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// everyArgument has the arguments of all plugins that are partly supported.
const everyArgument = `actions: "enqueue, reclaim, allocate, preempt"
tiers:
- plugins:
  - name: drf
    enableHierarchy: true
    arguments: {some.weight: 1}
  - name: nodeorder
    arguments: {nodeaffinity.weight: 1, podaffinity.weight: 1, tainttoleration.weight: 1, imagelocality.weight: 1, podtopologyspread.weight: 1,
      balancedresource.weight: 1, leastrequested.weight: 1, mostrequested.weight: 1, selectorspread.weight: 1}
  - name: predicates
    arguments: {predicate.NodeAffinityEnable: true, predicate.GPUSharingEnable: true, predicate.CacheEnable: true, predicate.ProportionalEnable: true, predicate.resources: x, predicate.resources.x.cpu: 4}
  - name: numa-aware
    arguments: {weight: 1, else: x}
  - name: extender
    arguments: {extender.urlPrefix: http://127.0.0.1, extender.httpTimeout: 100ms}
  - name: own-plugin
    arguments: {anything: 1}
`

// TestEveryArgumentIsUsedOrNamed changes every argument of every configuration. Another value must
// give another result, or a note must name the argument.
func TestEveryArgumentIsUsedOrNamed(t *testing.T) {
	files, err := filepath.Glob("testdata/*.in")
	if err != nil || len(files) < 7 {
		t.Fatal(files, err)
	}
	texts := map[string][]byte{
		"every argument":   []byte(everyArgument),
		"one of strategy":  []byte("actions: allocate\ntiers: [{plugins: [{name: nodeorder, arguments: {leastrequested.weight: 0, mostrequested.weight: 5}}, {name: binpack, arguments: {binpack.weight: 2}}]}]"),
		"binpack, clipped": []byte("actions: allocate\ntiers: [{plugins: [{name: binpack, arguments: {binpack.weight: 2, binpack.cpu: 5, binpack.resources: a/b, binpack.resources.a/b: 7}}]}]"),
	}
	for _, file := range files {
		if texts[file], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]string{
		"{name: predicates, arguments: {predicate.ProportionalEnable: false, predicate.resources: x, predicate.resources.x.cpu: 4}}": "predicate.resources.x.cpu 4: without predicate.ProportionalEnable true it does nothing",
		"{name: predicates, arguments: {predicate.resources: x}}":                                                                    "predicate.resources x: without predicate.ProportionalEnable true it does nothing",
		"{name: predicates, enablePredicate: false, arguments: {predicate.ProportionalEnable: true, predicate.resources: x}}":        "predicate.resources x: with enablePredicate false it does nothing",
		"{name: numa-aware, arguments: {weight: 0}}":                                                                                 "argument weight 0",
		"{name: binpack, arguments: {binpack.cpu: 500}}":                                                                             "argument binpack.cpu 500",
		"{name: binpack, arguments: {binpack.resources: x, binpack.resources.x: 101}}":                                               "argument binpack.resources.x 101",
	} {
		r, err := Volcano([]byte("actions: allocate\ntiers: [{plugins: [" + text + "]}]"))
		if err != nil || len(r.Unknown) > 0 || !strings.Contains(strings.Join(r.Notes, "\n"), want) {
			t.Errorf("%s: %v, %q, %q: want %q", text, err, r.Notes, r.Unknown, want)
		}
	}
	tried := 0
	for name, text := range texts {
		s, err := read(text)
		if err != nil {
			t.Fatal(err)
		}
		for i := range s.Plugins {
			for key := range s.Plugins[i].Arguments {
				tried++
				var said [2]string
				for n, value := range valuesFor(s.Plugins[i].Arguments[key]) {
					changed, _ := read(text)
					changed.Plugins[i].Arguments[key] = value
					r, err := changed.convert()
					if err != nil {
						t.Fatal(err)
					}
					said[n] = string(r.Config) + strings.Join(r.Notes, "\n") + strings.Join(r.Unknown, "\n")
				}
				if said[0] == said[1] && !strings.Contains(said[0], key) {
					t.Errorf("%s: argument %s of plugin %s is passed over", name, key, s.Plugins[i].Name)
				}
			}
		}
	}
	if tried < 40 {
		t.Errorf("only %d arguments", tried)
	}
}

// TestNoStrategy: if Volcano prefers neither empty nor full nodes, NodeResourcesFit does not score.
func TestNoStrategy(t *testing.T) {
	const nodeorder, binpack = "{name: nodeorder, arguments: {leastrequested.weight: %}}", "{name: binpack, arguments: {binpack.weight: 2}}"
	zero := strings.ReplaceAll(nodeorder, "%", "0")
	for plugins, want := range map[string]int32{
		zero:                  0,
		zero + ", " + binpack: 2,
		binpack + ", " + zero: 2,
		zero + ", {name: binpack, arguments: {binpack.weight: x}}": -1, // an invalid weight
		strings.ReplaceAll(nodeorder, "%", "x"):                    -1,
		strings.ReplaceAll(nodeorder, "%", "3"):                    3,
		"{name: nodeorder}":                                        1,
		"{name: gang}":                                             -1,
		"{name: nodeorder, enableNodeOrder: false}":                0,
		"{name: nodeorder, enableNodeOrder: false}, " + binpack:    2,
		binpack + ", {name: nodeorder, enableNodeOrder: false}":    2,
		"{name: nodeorder, arguments: {leastrequested.weight: 5}}, {name: binpack, enableNodeOrder: false}":                                  5,
		"{name: nodeorder, arguments: {leastrequested.weight: 5}}, {name: binpack, arguments: {binpack.weight: 0}}":                          5,
		"{name: binpack, arguments: {binpack.weight: 0}}, {name: nodeorder, arguments: {leastrequested.weight: 5}}":                          5,
		"{name: nodeorder, arguments: {leastrequested.weight: 5}}, {name: binpack, arguments: {binpack.cpu: 0, binpack.memory: 0}}":          5,
		"{name: binpack, arguments: {binpack.cpu: 0, binpack.memory: 0}}":                                                                    0,
		"{name: nodeorder, arguments: {leastrequested.weight: 5}}, {name: binpack, enableNodeOrder: false, arguments: {binpack.weight: 10}}": 5,
		"{name: nodeorder, arguments: {leastrequested.weight: 0, mostrequested.weight: 5}}":                                                  5,
	} {
		r, err := Volcano([]byte("actions: allocate\ntiers: [{plugins: [" + plugins + "]}]"))
		if err != nil {
			t.Fatal(err)
		}
		var config kubescheduler.KubeSchedulerConfiguration
		if err := yaml.UnmarshalStrict(r.Config, &config); err != nil {
			t.Fatal(err)
		}
		got := int32(-1)
		for _, p := range config.Profiles[0].Plugins.MultiPoint.Enabled {
			if p.Name == "NodeResourcesFit" {
				got = *p.Weight
			}
		}
		for _, p := range config.Profiles[0].Plugins.Score.Disabled {
			if p.Name == "NodeResourcesFit" {
				got = 0
			}
		}
		if got != want {
			t.Errorf("%s: weight %d, want %d (-1 for nothing said)\n%s", plugins, got, want, r.Config)
		}
	}
}

// valuesFor returns two values of the same kind.
func valuesFor(value string) [2]string {
	switch {
	case value == "true" || value == "false":
		return [2]string{"true", "false"}
	case strings.Trim(value, "0123456789") == "":
		return [2]string{"3", "4"}
	}
	return [2]string{"x", "y"}
}

// TestOrderOfActions: actions of Volcano before allocate cause a note, unless the order is the
// usual one.
func TestOrderOfActions(t *testing.T) {
	for actions, want := range map[string]string{
		"enqueue, allocate, backfill":          "",
		"enqueue, allocate, preempt, reclaim":  "",
		"enqueue, reclaim, allocate, backfill": "action reclaim stands before allocate",
		"preempt, allocate":                    "action preempt stands before allocate",
	} {
		r, err := Volcano([]byte("actions: " + actions))
		if err != nil {
			t.Fatal(err)
		}
		notes := strings.Join(r.Notes, "\n")
		if said := strings.Contains(notes, "stands before allocate"); said != (want != "") || !strings.Contains(notes, want) {
			t.Errorf("%s: %s", actions, notes)
		}
	}
}

// TestNoScheduler: a file without a configuration is refused, and the error says what it is and
// what is wanted.
func TestNoScheduler(t *testing.T) {
	const deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {template: {spec: {}}}\n"
	const bare = "actions: allocate\n"
	for name, c := range map[string]struct{ text, want string }{
		"a deployment":       {deployment, "no volcano-scheduler.conf in it, but Deployment web: want volcano-scheduler.conf"},
		"two of them":        {deployment + "---\n" + deployment, "but Deployment web, Deployment web"},
		"already converted":  {"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: []", "but KubeSchedulerConfiguration: want"},
		"another ConfigMap":  {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\ndata: {a.conf: b}", "but ConfigMap other with data.a.conf: want"},
		"misspelt alone":     {"action: allocate", `key "action" (did you mean "actions"?)`},
		"two configurations": {bare + "---\n" + bare, "2 configurations, in an object"},
		"empty text":         {"kind: ConfigMap\ndata: {volcano-scheduler.conf: ''}", "data.volcano-scheduler.conf: want one configuration"},
		"broken text":        {"kind: ConfigMap\ndata: {volcano-scheduler.conf: '{'}", "data.volcano-scheduler.conf: "},
		"an unset override":  {"custom: {colocation_enable: false, scheduler_config_override: ~}", "custom.scheduler_config_override: it is empty: want volcano-scheduler.conf"},
		"binary":             {"kind: ConfigMap\nmetadata: {name: a}\nbinaryData: {volcano-scheduler.conf: YQ==}", "but ConfigMap a with binaryData.volcano-scheduler.conf (not read: want the text below data)"},
		"a number":           {"default_scheduler_conf: 5", `default_scheduler_conf: got "5": want a configuration`},
		"arguments, a text":  {"tiers: [{plugins: [{name: gang, arguments: x}]}]", `tiers[0].plugins[0].arguments: got "x": want an object`},
	} {
		if r, err := Volcano([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q; %s", name, err, c.want, r.Config)
		}
	}
}

// TestConfigMapAsBare: a configuration has the same meaning in its ConfigMap as alone.
func TestConfigMapAsBare(t *testing.T) {
	const bare = "logLevel: 7\naction: allocate\ntier: []\ntiers: [{plugins: [{name: gang, enabled: true}], plugin: []}]\nconfigurations: [{name: x, arguments: {a: b}}]\nmetrics: {type: y}\n"
	alone, err := Volcano([]byte(bare))
	if err != nil || len(alone.Unknown) != 5 {
		t.Fatalf("%q, %v: want 5 keys", alone.Unknown, err)
	}
	wrapped, err := Volcano([]byte("kind: ConfigMap\ndata:\n  volcano-scheduler.conf: |\n    " + strings.ReplaceAll(bare, "\n", "\n    ")))
	if err != nil {
		t.Fatal(err)
	}
	said := func(r *Result) string {
		return strings.ReplaceAll(string(r.Config)+strings.Join(r.Notes, "\n")+strings.Join(r.Unknown, "\n"), "data.volcano-scheduler.conf: ", "")
	}
	if a, w := said(&alone), strings.ReplaceAll(said(&wrapped), "data.volcano-scheduler.conf.", ""); a != w {
		t.Errorf("bare:\n%s\nin its ConfigMap:\n%s", a, w)
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

// TestVolcanosReading: the output names what Volcano refuses, and what it does not read as the file
// suggests.
func TestVolcanosReading(t *testing.T) {
	const tiers = "\ntiers: [{plugins: [{name: gang}]}]"
	for name, c := range map[string]struct{ text, unknown, note, config string }{
		"spaces between actions": {`actions: "enqueue allocate, preempt"` + tiers, `actions "enqueue allocate, preempt": Volcano refuses it`, "", ""},
		"a comma at the end":     {`actions: "allocate, backfill,"` + tiers, `actions "allocate, backfill,": Volcano refuses it`, "", ""},
		"empty actions":          {`actions: ""` + tiers, `actions "": Volcano refuses it`, "no actions: Volcano refuses", ""},
		"no actions":             {tiers, "", "no actions: Volcano refuses", ""},
		"a switch of no sense":   {"actions: allocate\ntiers: [{plugins: [{name: gang, enablePreemptable: maybe}]}]", `plugin gang: enablePreemptable "maybe": want true or false`, "", ""},
		"an argument that is not indented": {"actions: allocate\ntiers:\n- plugins:\n  - name: overcommit\n    arguments:\n    overcommit-factor: 1.0\n",
			`plugin overcommit: key "overcommit-factor": Volcano does not read it next to arguments`, "", ""},
		"a large number": {"actions: allocate\ntiers: [{plugins: [{name: binpack, arguments: {binpack.weight: 2000000}}]}]", `argument binpack.weight "2000000": want a whole number from 0 to 1000`, "", ""},
		"a weight in quotes": {`actions: allocate
tiers: [{plugins: [{name: numa-aware, arguments: {weight: "10"}}, {name: nodeorder, arguments: {imagelocality.weight: 3}}]}]`, "",
			`plugin numa-aware: argument weight "10": it counts here, although Volcano since 1.6 ignores numbers in quotes and uses 1`, "name: Berth\n        weight: 10"},
		"a plugin twice": {"actions: enqueue\ntiers: [{plugins: [{name: overcommit, arguments: {overcommit-factor: 3}}]}, {plugins: [{name: overcommit}]}]", "",
			"plugin overcommit: it is named again, and the later arguments count, as in Volcano; not used: overcommit-factor", "overcommitFactor: 1.2"},
		"no amount for a resource": {"actions: allocate\ntiers: [{plugins: [{name: predicates, arguments: {predicate.ProportionalEnable: true, predicate.resources: a/b}}]}]", "",
			"resource a/b: without predicate.resources.a/b.cpu it is 1", "a/b: 1\n"},
		"a switch inside arguments":            {"actions: allocate\ntiers: [{plugins: [{name: predicates, arguments: {enablePredicate: false}}]}]", "plugin predicates: argument enablePredicate false: Volcano does not read it inside arguments", "", ""},
		"a misspelt factor":                    {"actions: allocate\ntiers: [{plugins: [{name: overcommit, arguments: {overcommitFactor: 2}}]}]", `overcommitFactor 2: Volcano has no such argument (did you mean "overcommit-factor"?)`, "", ""},
		"a factor with a resource":             {"actions: allocate\ntiers: [{plugins: [{name: overcommit, arguments: {cpu-overcommit-factor: 2}}]}]", "cpu-overcommit-factor 2: Volcano has no such argument: want overcommit-factor", "", ""},
		"a predicate that is none":             {"actions: allocate\ntiers: [{plugins: [{name: predicates, arguments: {predicate.proportionalResources: a/b}}]}]", "predicate.proportionalResources a/b: Volcano has no such argument", "", ""},
		"a weight without its resource":        {"actions: allocate\ntiers: [{plugins: [{name: binpack, arguments: {binpack.resources.a/b: 2}}]}]", "binpack.resources.a/b 2: Volcano ignores it: want a/b in binpack.resources", "", ""},
		"a list":                               {"actions: allocate\ntiers: [{plugins: [{name: binpack, arguments: {binpack.resources: [a/b]}}]}]", "argument binpack.resources [a/b]: Volcano reads only a text, and ignores it", "", ""},
		"a map":                                {"actions: allocate\ntiers: [{plugins: [{name: binpack, arguments: {binpack.resources: {a/b: 2}}}]}]", "argument binpack.resources map[a/b:2]: Volcano reads only a text", "", ""},
		"cpu as one of the resources":          {"actions: allocate\ntiers: [{plugins: [{name: binpack, arguments: {binpack.resources: cpu, binpack.resources.cpu: 2}}]}]", "binpack.resources.cpu 2: Volcano ignores it: want binpack.cpu", "", "name: cpu\n          weight: 1\n"},
		"a list of devices":                    {"actions: allocate\ntiers: [{plugins: [{name: predicates, arguments: {predicate.ProportionalEnable: true, predicate.resources: [a/b]}}]}]", "argument predicate.resources [a/b]: Volcano reads only a text", "it keeps no CPUs", ""},
		"resources between semicolons":         {"actions: allocate\ntiers: [{plugins: [{name: binpack, arguments: {binpack.resources: a; b}}]}]", `argument binpack.resources "a; b": want names of resources separated by commas`, "", ""},
		"a space in a name":                    {"actions: allocate\ntiers: [{plugins: [{name: predicates, arguments: {predicate.ProportionalEnable: true, predicate.resources: 'a/b,Ascend 910'}}]}]", `argument predicate.resources "Ascend 910": want names of resources`, "", "a/b: 1\n"},
		"hierarchy and proportion":             {"actions: allocate\ntiers: [{plugins: [{name: drf, enableHierarchy: true}, {name: proportion}]}]", "plugin drf: enableHierarchy true: Volcano refuses it in one tier with proportion", "", ""},
		"hierarchy, proportion later":          {"actions: allocate\ntiers: [{plugins: [{name: drf, enableHierarchy: true}]}, {plugins: [{name: proportion}]}]", "", "plugin proportion", ""},
		"an empty tier":                        {"actions: allocate\ntiers: [{plugins: null}, {plugins: [{name: gang}]}]", "", "no plugin nodeorder: kube-scheduler's default scores apply nevertheless", ""},
		"actions between semicolons":           {"actions: enqueue; allocate" + tiers, `actions "enqueue; allocate": Volcano refuses it`, "no plugin predicates: kube-scheduler's filters apply nevertheless", ""},
		"a server that must be rewritten":      {"actions: allocate\ntiers: [{plugins: [{name: extender, arguments: {extender.urlPrefix: x}}]}]", "", "extender.urlPrefix x: use urlPrefix of the extender", ""},
		"a strategy for each resource":         {"actions: allocate\ntiers: [{plugins: [{name: resource-strategy-fit, arguments: {resourceStrategyFitWeight: 2}}]}]", "", "resourceStrategyFitWeight 2: use the weight of NodeResourcesFit", ""},
		"filters that are off":                 {"actions: allocate\ntiers: [{plugins: [{name: predicates, enablePredicate: false}]}]", "", "plugin predicates: enablePredicate false: kube-scheduler's filters nevertheless reject nodes", ""},
		"gangs that are protected":             {"actions: allocate, preempt\ntiers: [{plugins: [{name: gang}]}]", "", "plugin gang: in Volcano, preemption leaves each gang its minimum", ""},
		"gangs that are not protected":         {"actions: allocate, preempt\ntiers: [{plugins: [{name: gang, enablePreemptable: false}]}]", "", "plugin gang: enablePreemptable false: in Volcano", ""},
		"numa-aware without scores":            {"actions: allocate\ntiers: [{plugins: [{name: numa-aware, enableNodeOrder: false, arguments: {weight: 10}}]}]", "", "the weight becomes 1; not used: weight", "name: Berth\n        weight: 1\n"},
		"numa-aware twice, one with scores":    {"actions: allocate\ntiers: [{plugins: [{name: numa-aware, enableNodeOrder: false}, {name: numa-aware, arguments: {weight: 10}}]}]", "", "as in Volcano\n", "name: Berth\n        weight: 10"},
		"actions and a plugin of old releases": {"actions: 'elect, allocate, reserve'\ntiers: [{plugins: [{name: reservation}]}]", "", "plugin reservation: it locked nodes", ""},
	} {
		r, err := Volcano([]byte(c.text))
		unknown, notes := strings.Join(r.Unknown, "\n"), strings.Join(r.Notes, "\n")
		if err != nil || (unknown == "") != (c.unknown == "") || !strings.Contains(unknown, c.unknown) || !strings.Contains(notes, c.note) || !strings.Contains(string(r.Config), c.config) {
			t.Errorf("%s: %v\nunknown: %s\nnotes: %s\n%s", name, err, unknown, notes, r.Config)
		}
	}
	for name, text := range map[string]string{
		"a key twice":               "actions: allocate\nactions: preempt" + tiers,
		"a key twice in the object": "kind: ConfigMap\ndata:\n  volcano-scheduler.conf: |\n    tiers: []\n    actions: allocate\n    actions: preempt\n",
	} {
		if r, err := Volcano([]byte(text)); err == nil || !strings.Contains(err.Error(), `key "actions" already set in map: want every key once`) {
			t.Errorf("%s: %v, %+v", name, err, r)
		}
	}
}
