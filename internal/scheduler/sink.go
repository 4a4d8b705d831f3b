package scheduler

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
)

// sources are what a feed lives on.
type sources struct {
	topologies, leases cache.ListerWatcher
	podsSynced         cache.InformerSynced
}

// newSources makes the sources of reports and heartbeats. They retry by themselves while their kind
// is not served.
func newSources(config *rest.Config, client kubernetes.Interface, args *Args) (sources, error) {
	reports, err := reportClient(config)
	if err != nil {
		return sources{}, fmt.Errorf("client for NodeTopology: %w", err)
	}
	return sources{
		topologies: cache.NewListWatchFromClient(reports, "nodetopologies", metav1.NamespaceAll, fields.Everything()),
		leases:     leaseSource(client, args.HeartbeatNamespace),
	}, nil
}

// reportClient returns a client that knows the group berth.dev.
func reportClient(config *rest.Config) (*rest.RESTClient, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	metav1.AddToGroupVersion(scheme, v1alpha1.GroupVersion)
	c := rest.CopyConfig(config)
	c.APIPath = "/apis"
	c.GroupVersion = &v1alpha1.GroupVersion
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	return rest.RESTClientFor(c)
}

func leaseSource(client kubernetes.Interface, namespace string) cache.ListerWatcher {
	return cache.NewListWatchFromClient(client.CoordinationV1().RESTClient(), "leases", namespace, fields.Everything())
}

// sink is the end of a watch: it hands every object on and keeps only what tells a change from a
// repetition.
type sink[T metav1.Object] struct {
	seen func(T)
	gone func(name string)

	mu       sync.Mutex
	versions map[string]string // resource version by name
	synced   atomic.Bool
}

var _ cache.ReflectorStore = (*sink[*coordinationv1.Lease])(nil)

func newSink[T metav1.Object](seen func(T), gone func(string)) *sink[T] {
	return &sink[T]{seen: seen, gone: gone, versions: map[string]string{}}
}

// run watches until ctx ends.
func (s *sink[T]) run(ctx context.Context, source cache.ListerWatcher, expected runtime.Object) {
	cache.NewReflector(source, expected, s, 0).RunWithContext(ctx)
}

func (s *sink[T]) hasSynced() bool { return s.synced.Load() }

// Add implements cache.ReflectorStore.
func (s *sink[T]) Add(obj any) error { return s.Update(obj) }

// Update implements cache.ReflectorStore.
func (s *sink[T]) Update(obj any) error {
	o, ok := obj.(T)
	if !ok {
		return fmt.Errorf("got %T", obj)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.take(o)
	return nil
}

func (s *sink[T]) take(o T) {
	if s.versions[o.GetName()] == o.GetResourceVersion() {
		return
	}
	s.versions[o.GetName()] = o.GetResourceVersion()
	s.seen(o)
}

// Delete implements cache.ReflectorStore.
func (s *sink[T]) Delete(obj any) error {
	o, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(o.GetName())
	return nil
}

func (s *sink[T]) drop(name string) {
	delete(s.versions, name)
	s.gone(name)
}

// Replace implements cache.ReflectorStore.
func (s *sink[T]) Replace(list []any, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	present := make(map[string]bool, len(list))
	for _, obj := range list {
		o, ok := obj.(T)
		if !ok {
			return fmt.Errorf("got %T", obj)
		}
		present[o.GetName()] = true
		s.take(o)
	}
	for name := range s.versions {
		if !present[name] {
			s.drop(name)
		}
	}
	s.synced.Store(true)
	return nil
}

// Resync implements cache.ReflectorStore.
func (s *sink[T]) Resync() error { return nil }
