package e2e

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/demo"
)

// lineWriter passes lines on to the test's log.
type lineWriter struct{ t *testing.T }

func (w lineWriter) Write(b []byte) (int, error) {
	w.t.Logf("%s", b)
	return len(b), nil
}

// TestStockIsRefused plays the demo's workload under kube-scheduler: adding up amounts is not enough.
func TestStockIsRefused(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	report, err := demo.Play(ctx, demo.Options{Seed: 2, Nodes: demo.MinNodes, Self: []string{os.Args[0]}, Progress: lineWriter{t}}, demo.Stock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", report)
	if report.Rejected["TopologyAffinityError"] == 0 {
		t.Errorf("no TopologyAffinityError in %v", report.Rejected)
	}
	if report.Mispredicted != 0 || report.Predicted != 0 {
		t.Errorf("kube-scheduler predicted %d, %d of them wrongly: it does not predict", report.Predicted, report.Mispredicted)
	}
}
