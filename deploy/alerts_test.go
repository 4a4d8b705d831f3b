package deploy

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"text/template"
	"time"

	"sigs.k8s.io/yaml"
)

// TestAlertsNameTheNode: the chart's ServiceMonitor sets the labels node and instance, but other
// scrape configurations may only have instance. Prometheus expands annotations as text/template
// does, with $labels and $value.
func TestAlertsNameTheNode(t *testing.T) {
	data, err := os.ReadFile("alerts/berth.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert       string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(data, &rules); err != nil {
		t.Fatal(err)
	}
	about := 0
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			summary := r.Annotations["summary"]
			if !strings.Contains(summary, "$labels.node") {
				continue
			}
			about++
			for want, labels := range map[string]map[string]string{
				"n1: ":            {"node": "n1", "instance": "10.0.0.7:9746"},
				"10.0.0.7:9746: ": {"instance": "10.0.0.7:9746"},
			} {
				parsed, err := template.New(r.Alert).Option("missingkey=zero").Parse("{{$labels := .}}" + summary)
				if err != nil {
					t.Fatal(err)
				}
				var got strings.Builder
				if err := parsed.Execute(&got, labels); err != nil {
					t.Fatal(err)
				}
				if !strings.HasPrefix(got.String(), want) {
					t.Errorf("%s with labels %v: %q, want it to begin with %q", r.Alert, labels, got.String(), want)
				}
			}
		}
	}
	if about == 0 {
		t.Error("no alert is about a node")
	}
}

// happened matches an expression that is true for some time after a single event.
var happened = regexp.MustCompile(`increase\(.*\[(\w+)\]\).* > 0$`)

// TestAlertsTellOfWhatHappenedOnce: an alert for such an expression must fire well within that
// time.
func TestAlertsTellOfWhatHappenedOnce(t *testing.T) {
	data, err := os.ReadFile("alerts/berth.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr, For string }
		}
	}
	if err := yaml.Unmarshal(data, &rules); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			m := happened.FindStringSubmatch(r.Expr)
			if m == nil {
				continue
			}
			seen++
			window, err := time.ParseDuration(m[1])
			if err != nil {
				t.Fatalf("%s: %v", r.Alert, err)
			}
			pending, err := time.ParseDuration(r.For)
			if r.For != "" && err != nil {
				t.Fatalf("%s: %v", r.Alert, err)
			}
			if pending > window/2 {
				t.Errorf("%s: fires after %v of the %v in which its expression is true", r.Alert, pending, window)
			}
		}
	}
	if seen < 3 {
		t.Errorf("%d alerts look back at what happened, want 3 or more", seen)
	}
}
