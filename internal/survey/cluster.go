package survey

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/internal/wire"
)

// ErrNotInstalled means that the cluster does not have the kind NodeTopology.
var ErrNotInstalled = errors.New("this cluster has no nodetopologies.berth.dev: Berth's agent is not installed there (see docs/install.md)")

// Options select the cluster that is read, and how it is read.
type Options struct {
	// Config is the configuration for the API server. It is copied.
	Config *rest.Config
	// Namespace is the namespace of pods; metav1.NamespaceAll means all.
	Namespace string
	// Heartbeats is the namespace of the agents' Leases.
	Heartbeats string
	// StaleAfter is the time without a heartbeat or report after which an agent counts as silent.
	StaleAfter time.Duration
	// Terms are the scheduler's arguments that apply to every pod. They have been checked.
	Terms wire.Terms
	// Where names the data source in errors: the API server and the kubeconfig, or the snapshot.
	Where string
}

// Cluster reads a cluster, or a snapshot of one. It never writes to it.
type Cluster struct {
	Options
	from source
}

// Connect returns a Cluster that reads an API server. It sends no request yet.
func Connect(o Options) (*Cluster, error) {
	a, err := connect(o)
	if err != nil {
		return nil, err
	}
	return &Cluster{Options: o, from: a}, nil
}

// errStill is the error of watching a Cluster that reads a snapshot.
var errStill = errors.New("--watch: a snapshot never changes: want a cluster, or no --watch")

// live returns the API server that the Cluster reads, or errStill if the Cluster reads a snapshot.
func (c *Cluster) live() (*api, error) {
	if a, ok := c.from.(*api); ok {
		return a, nil
	}
	return nil, errStill
}

// PodNames returns the names of the namespace's pods.
func (c *Cluster) PodNames(ctx context.Context) ([]string, error) {
	pods, err := c.from.podsIn(ctx, c.Namespace, "")
	names := make([]string, len(pods))
	for i := range pods {
		names[i] = pods[i].Name
	}
	return names, err
}

// NodeNames returns the names of the nodes.
func (c *Cluster) NodeNames(ctx context.Context) ([]string, error) { return c.from.nodeNames(ctx) }

// NamespaceNames returns the names of the namespaces.
func (c *Cluster) NamespaceNames(ctx context.Context) ([]string, error) {
	return c.from.namespaces(ctx)
}

// podNamed returns a pod of the namespace.
func (c *Cluster) podNamed(ctx context.Context, name string) (*corev1.Pod, error) {
	pod, err := c.from.pod(ctx, c.Namespace, name)
	if pod == nil && err == nil {
		err = c.noPod(name)
	}
	return pod, err
}
