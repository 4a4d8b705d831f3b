package witness

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-dev/berth/internal/version"
	"github.com/berth-dev/berth/test/golden"
	"github.com/berth-dev/berth/test/reference"
)

// TestReferenceMetrics compares docs/reference/metrics-shadow.md with the metrics. `make reference`
// writes it.
func TestReferenceMetrics(t *testing.T) {
	m := newMetricSet()
	all := reference.Of(version.Info())
	for _, c := range m.all() {
		all = append(all, reference.Of(c.(prometheus.Collector))...)
	}
	golden.File(t, "../../../docs/reference/metrics-shadow.md", "# Metrics of shadow mode\n\nWritten by `make reference`; [metrics.md](../metrics.md) says more.\n\n"+
		reference.MetricTable(t, all))
}
