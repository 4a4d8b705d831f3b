// Package e2e holds the tests that need a real API server and hollow nodes, in one binary, because
// linking that much of Kubernetes takes long.
package e2e

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/hollow"
)

// TestMain lets the test binary be its own nodes and schedulers.
func TestMain(m *testing.M) {
	if code, ok := demo.Role(os.Args[1:], os.Stdin, os.Stderr); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// startLimit bounds the start of a cluster on a busy machine.
const startLimit = 3 * time.Minute

func startCluster(t *testing.T, nodes ...hollow.Spec) *demo.Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	begun := time.Now()
	c, err := demo.StartCluster(ctx, demo.ClusterOptions{Nodes: nodes, NodeCommand: []string{os.Args[0], demo.VerbNode}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d nodes ready after %v", len(nodes), time.Since(begun).Round(10*time.Millisecond))
	t.Cleanup(func() {
		if t.Failed() {
			for _, p := range c.Nodes {
				log, _ := os.ReadFile(p.Dir.Log())
				t.Logf("log of node %s:\n%s", p.Name, log[max(0, len(log)-4000):])
			}
		}
		if err := c.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return c
}
