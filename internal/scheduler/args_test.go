package scheduler

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/rank"
)

func parse(text string) (Args, error) { return ParseArgs(&runtime.Unknown{Raw: []byte(text)}) }

func TestArgs(t *testing.T) {
	a, err := ParseArgs(nil)
	if err != nil {
		t.Fatal(err)
	}
	if a.StaleAfter.Duration != time.Minute || a.Scoring.Strategy != rank.MostAllocated || len(a.Scoring.First) != 7 || a.Scoring.Fit == 0 || a.HeartbeatNamespace == "" {
		t.Errorf("defaults: %+v", a)
	}
	a, err = parse(`{"staleAfter":"30s","patience":"-1s","scoring":{"strategy":"LeastAllocated","fit":1}}`)
	if err != nil {
		t.Fatal(err)
	}
	if a.StaleAfter.Duration != 30*time.Second || a.Patience.Duration >= 0 || a.Scoring.Fit != 1 || a.Scoring.Distance != 0 {
		t.Errorf("given: %+v", a)
	}
}

// TestVolcanoArgs: the name of the formula is sufficient.
func TestVolcanoArgs(t *testing.T) {
	for _, text := range []string{`{"scoring":"volcano","bestEffortAnywhere":true}`, "scoring: {formula: volcano}\nbestEffortAnywhere: true"} {
		if a, err := parse(text); err != nil || a.Scoring.Formula != rank.Volcano || !a.BestEffortAnywhere {
			t.Errorf("%s: %+v, %v", text, a, err)
		}
	}
}

func TestArgsThatCannotBeRight(t *testing.T) {
	for text, want := range map[string]string{
		`{"staleAfter":"1ms"}`:                        "staleAfter",
		`{"settleAfter":"-1s"}`:                       "settleAfter",
		`{"maxNodes":-1}`:                             "maxNodes: -1: want 1 to",
		`{"candidates":15}`:                           "candidates: 15: want 16 to 1024, or a negative number to leave the search for nodes to kube-scheduler",
		`{"candidates":1025}`:                         "candidates: 1025: want 16 to 1024, or a negative number to leave the search for nodes to kube-scheduler",
		`{"exclusiveNamespaces":["ok","a/b"]}`:        `exclusiveNamespaces[1]: "a/b": want the name of a namespace, or *`,
		`{"numaAttributes":["a.b/c","numa"]}`:         `numaAttributes: "numa": want an attribute with its domain, such as gpu.example.com/numaNode`,
		`{"maxNodes":1000001}`:                        "maxNodes",
		`{"scoring":{"strategy":"Most"}}`:             "scoring.strategy",
		`{"scoring":{"fit":-1}}`:                      "scoring.fit",
		`{"scoring":{"distance":1000000}}`:            "scoring.distance",
		`{"scoring":"koordinator"}`:                   "scoring.formula",
		`{"scoring":{"formla":"volcano"}}`:            "formla",
		`{"stale":"1s"}`:                              "stale",
		`{"staleAfter":"soon"}`:                       "soon",
		"staleAfter: 1s\nstaleAfter: 2s":              "already",
		`[]`:                                          "Args",
		`{"scoring":{"fit":1e30}}`:                    "fit",
		`{"scoring":{"first":["cpus"]}}`:              `scoring.first[0]: "cpus": want strandedBeside, numaNodes, groups, stranded, demand, devices or policy`,
		`{"scoring":{"first":["devices","devices"]}}`: "scoring.first[1]",
		strings.Repeat("{", 10000):                    "",
	} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want an error that names %q", text, err, want)
		}
	}
}

func FuzzArgs(f *testing.F) {
	f.Add(`{"staleAfter":"30s","scoring":{"fit":1}}`)
	f.Fuzz(func(t *testing.T, text string) {
		a, err := parse(text)
		if err == nil && a.validate() != nil {
			t.Errorf("%+v was let through", a)
		}
	})
}

func TestConfigurationPutsThePluginFirst(t *testing.T) {
	text, err := Configuration(ConfigOptions{Kubeconfig: "/k", SchedulerName: "berth", Args: &Args{HeartbeatNamespace: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Profiles []struct {
			SchedulerName string
			Plugins       map[string]struct {
				Enabled []struct {
					Name   string
					Weight int
				}
			}
			PluginConfig []struct {
				Name string
				Args Args
			}
		}
	}
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	p := c.Profiles[0]
	for point, count := range map[string]int{"multiPoint": 3, "bind": 1, "postFilter": 2} {
		if e := p.Plugins[point].Enabled; len(e) != count || e[0].Name != Name {
			t.Errorf("%s: %+v", point, e)
		}
	}
	if e := p.Plugins["multiPoint"].Enabled; e[0].Weight != Weight || e[1].Name != TiersName || e[1].Weight != TiersWeight {
		t.Errorf("weights: %+v", e)
	}
	if p.SchedulerName != "berth" || p.PluginConfig[0].Args.HeartbeatNamespace != "x" {
		t.Errorf("%s", text)
	}
}
