package jobs

import (
	"testing"

	"github.com/berth-dev/berth/internal/version"
	"github.com/berth-dev/berth/test/golden"
	"github.com/berth-dev/berth/test/reference"
)

// TestReference compares docs/reference/metrics-controller.md with the metrics. `make reference`
// writes it.
func TestReference(t *testing.T) {
	golden.File(t, "../../docs/reference/metrics-controller.md", "# Metrics of berth-controller\n\nWritten by `make reference`; [volcano.md](../volcano.md) says what the controller does.\n\n"+
		reference.MetricTable(t, reference.Of(phasesEntered, jobsRefused, podsCreated, podsDeleted, version.Info())))
}
