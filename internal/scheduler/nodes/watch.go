package nodes

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/internal/apiclient"
	"github.com/berth-dev/berth/internal/nodestate"
)

// Sources are what a Feed is fed from, beside pods.
type Sources struct {
	reports, heartbeats cache.ListerWatcher
	config              *rest.Config
}

// NewSources makes sources of reports and heartbeats, which are in the namespace. They retry by
// themselves while their kind is not served. Reports that tell amounts alone are watched where
// their kinds are served.
func NewSources(config *rest.Config, client kubernetes.Interface, namespace string) (Sources, error) {
	reports, err := apiclient.New(config)
	if err != nil {
		return Sources{}, fmt.Errorf("client for NodeTopology: %w", err)
	}
	return Sources{
		reports:    cache.NewListWatchFromClient(reports, "nodetopologies", metav1.NamespaceAll, fields.Everything()),
		heartbeats: cache.NewListWatchFromClient(client.CoordinationV1().RESTClient(), "leases", namespace, fields.Everything()),
		config:     config,
	}, nil
}

// Watch feeds reports and heartbeats until ctx ends. The result says whether all reports that were
// there have been taken in.
func (f *Feed) Watch(ctx context.Context, s Sources) cache.InformerSynced {
	reports, heartbeats := newReflectorStore(f.ReportSeen, f.ReportGone), newReflectorStore(f.HeartbeatSeen, func(string) {})
	go reports.run(ctx, s.reports, nodestate.NewObject())
	go heartbeats.run(ctx, s.heartbeats, &coordinationv1.Lease{})
	if f.Beside != nil {
		for i := range apiclient.CoarseKinds {
			go f.watchAmounts(ctx, s.config, &apiclient.CoarseKinds[i])
		}
	}
	return reports.synced.Load
}

// reflectorStore is the end of a watch: it hands every object on and keeps only what tells a change
// from a repetition.
type reflectorStore[T metav1.Object] struct {
	seen func(T)
	gone func(name string)

	mu       sync.Mutex
	versions map[string]string // resource version by name
	synced   atomic.Bool
}

var _ cache.ReflectorStore = (*reflectorStore[*coordinationv1.Lease])(nil)

func newReflectorStore[T metav1.Object](seen func(T), gone func(string)) *reflectorStore[T] {
	return &reflectorStore[T]{seen: seen, gone: gone, versions: map[string]string{}}
}

// run watches until ctx ends.
func (s *reflectorStore[T]) run(ctx context.Context, source cache.ListerWatcher, expected runtime.Object) {
	cache.NewReflector(source, expected, s, 0).RunWithContext(ctx)
}

// Add implements cache.ReflectorStore.
func (s *reflectorStore[T]) Add(obj any) error { return s.Update(obj) }

// Update implements cache.ReflectorStore.
func (s *reflectorStore[T]) Update(obj any) error {
	o, ok := obj.(T)
	if !ok {
		return fmt.Errorf("got %T", obj)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.take(o)
	return nil
}

func (s *reflectorStore[T]) take(o T) {
	if s.versions[o.GetName()] == o.GetResourceVersion() {
		return
	}
	s.versions[o.GetName()] = o.GetResourceVersion()
	s.seen(o)
}

// Delete implements cache.ReflectorStore.
func (s *reflectorStore[T]) Delete(obj any) error {
	o, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(o.GetName())
	return nil
}

func (s *reflectorStore[T]) drop(name string) {
	delete(s.versions, name)
	s.gone(name)
}

// Replace implements cache.ReflectorStore.
func (s *reflectorStore[T]) Replace(list []any, _ string) error {
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
func (s *reflectorStore[T]) Resync() error { return nil }
