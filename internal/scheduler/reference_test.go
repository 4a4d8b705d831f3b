package scheduler

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-dev/berth/internal/scheduler/gang"
	"github.com/berth-dev/berth/internal/version"
	"github.com/berth-dev/berth/test/golden"
	"github.com/berth-dev/berth/test/reference"
)

// TestReferenceMetrics compares docs/reference/metrics-scheduler.md with the metrics. `make
// reference` writes it.
func TestReferenceMetrics(t *testing.T) {
	register()
	all := reference.Of(version.Info())
	for _, m := range append([]metrics.Registerable{verdicts, bindings, devicePods, claimPods, promises, reportsRefused, searches, delays, podsRefused}, gang.Metrics()...) {
		all = append(all, reference.Of(m.(prometheus.Collector))...)
	}
	descs := make(chan *metrics.Desc)
	go func() {
		defer close(descs)
		nodeGauges.DescribeWithStability(descs)
	}()
	for d := range descs {
		all = append(all, reference.Metric{Kind: "gauge", Text: d.String()})
	}
	golden.File(t, "../../docs/reference/metrics-scheduler.md", "# Metrics of berth-scheduler\n\nBerth's own; kube-scheduler's are there, too. Written by `make reference`; [metrics.md](../metrics.md) says more.\n\n"+
		reference.MetricTable(t, all))
}

// TestReferenceArgs compares docs/reference/arguments.md with the arguments of the plugins. `make
// reference` writes it.
func TestReferenceArgs(t *testing.T) {
	var args Args
	args.fillIn()
	var b strings.Builder
	b.WriteString("# Arguments of the plugin Berth\n\n`pluginConfig[].args` of a KubeSchedulerConfiguration; in the chart `scheduler.args`. Written by `make reference`.\n")
	table := func(of any, fields []reference.Field) {
		b.WriteString("\n| argument | default | meaning |\n|---|---|---|\n")
		for _, f := range fields {
			value := reflect.ValueOf(of).FieldByName(f.Name)
			text := fmt.Sprintf("`%v`", value.Interface())
			if d, ok := value.Interface().(metav1.Duration); ok {
				text = "`" + d.Duration.String() + "`"
			}
			if f.Name == "Scoring" || f.Name == "Admission" {
				text = "[below](#" + f.JSON + ")"
			}
			if text == "``" {
				text = ""
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.JSON, text, reference.Cell(f.Doc))
		}
	}
	table(args, reference.Fields(t, "args.go", "Args"))
	b.WriteString("\n## Admission\n\nThe fields of `admission`.\n")
	table(args.Admission, reference.Fields(t, "../gangs/admission.go", "Admission"))
	b.WriteString("\n## Scoring\n\nThe fields of `scoring`.\n")
	table(args.Scoring, reference.Fields(t, "../rank/scoring.go", "Scoring"))
	golden.File(t, "../../docs/reference/arguments.md", b.String())
}
