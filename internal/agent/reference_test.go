package agent

import (
	"testing"

	"github.com/berth-dev/berth/internal/version"
	"github.com/berth-dev/berth/test/golden"
	"github.com/berth-dev/berth/test/reference"
)

// TestReference compares docs/reference/metrics-agent.md with the metrics. `make reference` writes
// it.
func TestReference(t *testing.T) {
	m := newMetrics(func() float64 { return 0 })
	golden.File(t, "../../docs/reference/metrics-agent.md", "# Metrics of berth-agent\n\nServed on port 9746 at `/metrics`. Written by `make reference`; [metrics.md](../metrics.md) says more.\n\n"+
		reference.MetricTable(t, reference.Of(append(m.collectors(), version.Info())...)))
}
