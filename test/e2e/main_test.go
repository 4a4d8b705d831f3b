package e2e

import (
	"context"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/hollow"
)

// TestMain lets the test binary run as nodes and schedulers too.
func TestMain(m *testing.M) {
	if code, ok := demo.Role(os.Args[1:], os.Stdin, os.Stderr); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// startLimit bounds the start of a cluster on a busy machine.
const startLimit = 3 * time.Minute

// patience is how long a test waits for an event. It is long enough for a very busy machine.
const patience = 3 * time.Minute

// cluster has the hollow nodes of one test, and a namespace for its pods. Other tests may use the
// control plane at the same time, with other names of nodes.
type cluster struct {
	*demo.Cluster
	namespace string
}

// startCluster starts the nodes and returns when they are ready.
func startCluster(t *testing.T, cp *controlplane.ControlPlane, nodes ...hollow.Spec) *cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	begun := time.Now()
	c, err := demo.StartCluster(ctx, demo.ClusterOptions{Nodes: nodes, NodeCommand: nodeCommand, On: cp})
	if err != nil {
		t.Fatal(err)
	}
	atEnd(t, c.Stop)
	t.Cleanup(func() {
		for _, p := range c.Nodes {
			if t.Failed() {
				log, _ := os.ReadFile(p.Dir.Log())
				t.Logf("log of node %s:\n%s", p.Name, log[max(0, len(log)-4000):])
			}
		}
	})
	ns, err := c.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d nodes ready after %v", len(nodes), time.Since(begun).Round(10*time.Millisecond))
	return &cluster{c, ns.Name}
}

// atEnd stops something when the test ends.
func atEnd(t *testing.T, stop func() error) {
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
}

// shortDir makes a directory with a path that is short enough for sockets, unlike those of
// t.TempDir.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "berth-")
	if err != nil {
		t.Fatal(err)
	}
	atEnd(t, func() error { return os.RemoveAll(dir) })
	return dir
}

// nodeCommand makes this binary a node.
var nodeCommand = []string{os.Args[0], demo.VerbNode}
