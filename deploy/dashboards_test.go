package deploy

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// selector matches a metric in an expression, with its labels.
var selector = regexp.MustCompile(`\b((?:berth|scheduler)_[a-z_]+)(\{[^}]*\})?`)

// TestDashboardIsOfOneCluster: every query of the dashboard selects the clusters and namespaces of
// its variables, and metrics of the reference.
func TestDashboardIsOfOneCluster(t *testing.T) {
	data, err := os.ReadFile("dashboards/berth.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Templating struct{ List []struct{ Name string } }
		Panels     []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(data, &board); err != nil {
		t.Fatal(err)
	}
	names := ""
	for _, v := range board.Templating.List {
		names += v.Name + " "
	}
	if names != "datasource cluster namespace map " {
		t.Errorf("variables %s: want datasource, cluster, namespace and map", names)
	}
	var known strings.Builder
	for _, program := range []string{"agent", "scheduler", "controller"} {
		text, err := os.ReadFile("../docs/reference/metrics-" + program + ".md")
		if err != nil {
			t.Fatal(err)
		}
		known.Write(text)
	}
	queries := 0
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			for _, m := range selector.FindAllStringSubmatch(target.Expr, -1) {
				queries++
				if !strings.Contains(m[2], `cluster=~"$cluster"`) || !strings.Contains(m[2], `namespace=~"$namespace"`) {
					t.Errorf("%s: %s: want the selectors of cluster and namespace", p.Title, m[0])
				}
				name := strings.TrimSuffix(m[1], "_bucket")
				if strings.HasPrefix(name, "berth_") && !strings.Contains(known.String(), "`"+name+"`") {
					t.Errorf("%s: %s: want a metric of docs/reference", p.Title, name)
				}
			}
		}
	}
	if queries < 40 {
		t.Errorf("%d queries found: has their form changed?", queries)
	}
}
