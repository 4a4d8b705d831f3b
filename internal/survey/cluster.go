package survey

import (
	"context"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/survey/source"
)

// Cluster reads a cluster, or a snapshot of one. It never writes to it.
type Cluster struct {
	source.Options
	From source.Source
}

// Connect returns a Cluster that reads an API server. It sends no request yet.
func Connect(o source.Options) (*Cluster, error) {
	a, err := source.Connect(o)
	if err != nil {
		return nil, err
	}
	return &Cluster{Options: o, From: a}, nil
}

// Open reads a snapshot, and returns a Cluster that never changes. `name` is the name of the
// snapshot in errors.
func Open(r io.Reader, name string) (*Cluster, error) {
	s, o, err := source.Open(r, name)
	if err != nil {
		return nil, err
	}
	return &Cluster{Options: o, From: s}, nil
}

// Snapshot writes to w the data that a survey reads (source.Snapshot).
func (c *Cluster) Snapshot(ctx context.Context, w io.Writer) error {
	a, err := c.API()
	if err != nil {
		return fmt.Errorf("%s: want a live cluster, not a snapshot", c.Where)
	}
	s, err := a.Snapshot(ctx, c.Namespace)
	if err != nil {
		return err
	}
	return s.Write(w)
}

// errStill is the error for a snapshot, which cannot be watched (--watch).
var errStill = errors.New("--watch: a snapshot never changes: want a cluster, or no --watch")

// API returns the API server that the Cluster reads, or errStill if the Cluster reads a snapshot.
func (c *Cluster) API() (*source.API, error) {
	if a, ok := c.From.(*source.API); ok {
		return a, nil
	}
	return nil, errStill
}

// PodNames returns the names of the namespace's pods.
func (c *Cluster) PodNames(ctx context.Context) ([]string, error) {
	pods, err := c.From.PodsIn(ctx, c.Namespace, "")
	names := make([]string, len(pods))
	for i := range pods {
		names[i] = pods[i].Name
	}
	return names, err
}

// NodeNames returns the names of the nodes.
func (c *Cluster) NodeNames(ctx context.Context) ([]string, error) { return c.From.NodeNames(ctx) }

// NamespaceNames returns the names of the namespaces.
func (c *Cluster) NamespaceNames(ctx context.Context) ([]string, error) {
	return c.From.Namespaces(ctx)
}

// Cluster returns c. It implements query.Base.
func (c *Cluster) Cluster() *Cluster { return c }

// PodNamed returns a pod. If there is none, it returns an error.
func (c *Cluster) PodNamed(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	pod, err := c.From.Pod(ctx, namespace, name)
	if pod == nil && err == nil {
		err = c.noPod(namespace, name)
	}
	return pod, err
}
