package survey

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/internal/apiclient"
	"github.com/berth-dev/berth/internal/wire"
)

// ErrNotInstalled says that the cluster does not know the kind NodeTopology.
var ErrNotInstalled = errors.New("this cluster has no nodetopologies.berth.dev: Berth's agent is not installed there (see docs/install.md)")

// Options say which cluster is read, and how.
type Options struct {
	// Config says how to reach the API server. It is copied.
	Config *rest.Config
	// Namespace is where pods are looked for; metav1.NamespaceAll stands for all.
	Namespace string
	// Heartbeats is the namespace of the agents' Leases.
	Heartbeats string
	// StaleAfter is how long an agent may be silent.
	StaleAfter time.Duration
	// Exclusive are the namespaces whose pods may withhold CPUs, as the scheduler is configured.
	Exclusive wire.ExclusiveNamespaces
	// Where names server and configuration, for errors.
	Where string
}

// Cluster is read, and never written to.
type Cluster struct {
	Options
	core   coreclient.CoreV1Interface
	leases coordinationclient.CoordinationV1Interface
	// reports knows the group berth.dev.
	reports rest.Interface
	// coarse knows the kinds of reports that tell amounts alone, as apiclient.CoarseKinds has them.
	coarse []rest.Interface
	// reservations knows Koordinator's group.
	reservations rest.Interface
	clock        *serverClock
	// still is what is read in place of a live cluster; nil for a live one.
	still *still
	// keepRaw has facts keep reports as they came.
	keepRaw bool
}

// The client's own limits; the API server has its own.
const (
	clientQPS   = 50
	clientBurst = 100
)

// Connect makes a Cluster. It speaks to nobody yet.
func Connect(o Options) (*Cluster, error) {
	c := &Cluster{Options: o, clock: new(serverClock)}
	config := rest.CopyConfig(o.Config)
	config.QPS, config.Burst = clientQPS, clientBurst
	config.Wrap(c.clock.listen)
	var err error
	if c.reports, err = apiclient.New(config); err != nil {
		return nil, err
	}
	if c.reservations, err = apiclient.Koordinator(config); err != nil {
		return nil, err
	}
	for i := range apiclient.CoarseKinds {
		client, err := apiclient.CoarseKinds[i].Client(config)
		if err != nil {
			return nil, err
		}
		c.coarse = append(c.coarse, client)
	}
	// A list of pods is read in a fraction of the time.
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if c.core, err = coreclient.NewForConfig(config); err != nil {
		return nil, err
	}
	if c.leases, err = coordinationclient.NewForConfig(config); err != nil {
		return nil, err
	}
	return c, nil
}

// PodNames returns the names of the pods of the namespace.
func (c *Cluster) PodNames(ctx context.Context) ([]string, error) {
	pods, err := c.allPodsIn(ctx, "")
	names := make([]string, len(pods))
	for i := range pods {
		names[i] = pods[i].Name
	}
	return names, err
}

// NodeNames returns the names of the nodes.
func (c *Cluster) NodeNames(ctx context.Context) ([]string, error) {
	if c.still != nil {
		return c.surveyOf(c.still.facts("")).Names(), nil
	}
	nodes, err := c.nodeObjects(ctx, "")
	names := make([]string, len(nodes))
	for i := range nodes {
		names[i] = nodes[i].Name
	}
	return names, err
}

// NamespaceNames returns the names of the namespaces.
func (c *Cluster) NamespaceNames(ctx context.Context) ([]string, error) {
	if c.still != nil {
		return c.still.namespaces(), nil
	}
	l, err := c.core.Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	names := make([]string, len(l.Items))
	for i := range l.Items {
		names[i] = l.Items[i].Name
	}
	return names, nil
}

// failed says what could not be read, and what to do where that is known.
func (c *Cluster) failed(what string, err error) error {
	var unreachable *url.Error
	switch {
	case errors.As(err, &unreachable):
		return fmt.Errorf("cannot reach the cluster at %s: %w", c.Where, unreachable.Err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the cluster at %s does not know who asks: %w", c.Where, err)
	}
	return fmt.Errorf("reading %s: %w", what, err)
}

// pageSize is how many objects a list asks for at a time.
const pageSize = 500

// pages reads a list page by page. Where the next page is no longer available, it reads all at
// once.
func pages[T any](list func(metav1.ListOptions) ([]T, string, error), opts metav1.ListOptions) ([]T, error) {
	var read [][]T // joined at the end: pods are large
	opts.Limit = pageSize
	for {
		items, next, err := list(opts)
		if apierrors.IsResourceExpired(err) && opts.Continue != "" {
			opts.Limit, opts.Continue = 0, ""
			all, _, err := list(opts)
			return all, err
		}
		if err != nil {
			return nil, err
		}
		read = append(read, items)
		if next == "" {
			return slices.Concat(read...), nil
		}
		opts.Continue = next
	}
}

// serverClock tells the API server's time, which is what the times in managedFields are measured
// by.
type serverClock struct{ seconds atomic.Int64 }

// now is the time of the last answer; that of this machine before the first.
func (c *serverClock) now() time.Time {
	if s := c.seconds.Load(); s != 0 {
		return time.Unix(s, 0)
	}
	return time.Now()
}

func (c *serverClock) listen(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(r)
		if err == nil {
			if date, dateErr := http.ParseTime(answer.Header.Get("Date")); dateErr == nil {
				c.seconds.Store(date.Unix())
			}
		}
		return answer, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// written is when the API server last took in a change of the object: the newest time of its
// managed fields, or else.
func written(o metav1.Object, or time.Time) time.Time {
	var newest time.Time
	for _, f := range o.GetManagedFields() {
		if f.Time != nil && f.Time.After(newest) {
			newest = f.Time.Time
		}
	}
	if newest.IsZero() {
		return or
	}
	return newest
}

// writtenOf is written of an object that says nothing else of the time.
func writtenOf(o metav1.Object) time.Time { return written(o, o.GetCreationTimestamp().Time) }
