package nodes

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/apiclient"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/scheduler/later"
)

// Sources are a Feed's inputs other than pods.
type Sources struct {
	reports, heartbeats cache.ListerWatcher
	config              *rest.Config
	// Poll is the interval at which heartbeats are listed; 0 means that they are watched. A list
	// costs a fraction of a watch, but shows changes later.
	Poll time.Duration
}

// NewSources returns sources of reports, and of heartbeats in the namespace. Watches are retried
// while a kind is not served. Reports with only amounts are watched while their kinds are served.
func NewSources(config *rest.Config, client kubernetes.Interface, namespace string) (Sources, error) {
	config = rest.CopyConfig(config)
	config.DisableCompression = true // otherwise the API server compresses each event separately
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

// Watch passes reports and heartbeats to the Feed until ctx ends. The returned function reports
// whether all initial reports have been received.
func (f *Feed) Watch(ctx context.Context, s Sources) cache.InformerSynced {
	reports, heartbeats := newReflectorStore(f.ReportSeen, f.ReportGone), newReflectorStore(f.HeartbeatSeen, func(string) {})
	reports.pace(f.Table.clock)
	if f.Onlooker != nil {
		reports.early = f.early
	}
	go reports.run(ctx, s.reports, nodestate.NewObject())
	if s.Poll > 0 {
		go heartbeats.poll(ctx, s.heartbeats, f.Table.clock, s.Poll)
	} else {
		go heartbeats.run(ctx, s.heartbeats, &coordinationv1.Lease{})
	}
	if f.Beside != nil {
		for i := range apiclient.CoarseKinds {
			go f.watchAmounts(ctx, s.config, &apiclient.CoarseKinds[i])
		}
	}
	return reports.synced.Load
}

// reflectorStore receives the objects of a watch. It forwards each new version of an object; if
// objects are paced (pace), it may omit versions, but not the newest. It stores only enough to
// distinguish a change from a repetition.
type reflectorStore[T metav1.Object] struct {
	seen func(T)
	gone func(name string)

	mu       sync.Mutex
	versions map[string]string // resource version by name
	synced   atomic.Bool

	// clock is the clock for pacing objects, or nil if they are not paced.
	clock clock.WithDelayedExecution
	// limits has the rate limits by object name, also of deleted objects: a client cannot evade the
	// limit by deleting and creating the object again. When there are maxLimits, those that allow
	// everything are dropped. aside has the newest version of each object that changed faster than
	// its limit or is early (the field early).
	limits    map[string]*rate.Limiter
	maxLimits int
	aside     map[string]T
	// early reports whether an object should be put aside, because another watch will soon show
	// pods that the object lists. It is nil if no object is put aside for this reason. waits
	// counts, by name, how often an object was put aside because it was early.
	early func(T) bool
	waits map[string]int
}

// The rate at which changes of one report are processed. With its default settings, an agent writes
// no faster. Of faster changes, only the newest is kept, so that the agent of one node cannot delay
// the reports of other nodes.
const (
	reportsPerSecond = 10
	reportsInARow    = 20
	// maxWaits is the maximum number of times that an early object is put aside, each time for
	// 1/reportsPerSecond seconds.
	maxWaits = 10
	// fewLimits is the smallest maxLimits.
	fewLimits = 1024
)

// pace limits the rate at which changes of one object are forwarded.
func (s *reflectorStore[T]) pace(c clock.WithDelayedExecution) {
	s.clock, s.limits, s.aside, s.waits = c, map[string]*rate.Limiter{}, map[string]T{}, map[string]int{}
}

var _ cache.TransformingStore = (*reflectorStore[*coordinationv1.Lease])(nil)

func newReflectorStore[T metav1.Object](seen func(T), gone func(string)) *reflectorStore[T] {
	return &reflectorStore[T]{seen: seen, gone: gone, versions: map[string]string{}}
}

func (s *reflectorStore[T]) run(ctx context.Context, source cache.ListerWatcher, expected runtime.Object) {
	cache.NewReflector(source, expected, s, 0).RunWithContext(ctx)
}

// poll lists the objects at the interval every until ctx ends. The API server answers from its
// cache. After an error, poll waits for the next interval.
func (s *reflectorStore[T]) poll(ctx context.Context, source cache.ListerWatcher, c clock.Clock, every time.Duration) {
	lister := cache.ToListerWithContext(source)
	for {
		all, err := lister.ListWithContext(ctx, metav1.ListOptions{ResourceVersion: "0"})
		var list []any
		if err == nil {
			err = meta.EachListItem(all, func(o runtime.Object) error { list = append(list, o); return nil })
		}
		if err == nil {
			err = s.Replace(list, "")
		}
		if err != nil {
			klog.FromContext(ctx).V(2).Info("Heartbeats cannot be listed", "err", err)
		}
		if !later.Wait(ctx, c, every) {
			return
		}
	}
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
	if s.mayPass(o.GetName()) && !s.isEarly(o) {
		s.seen(o)
		return
	}
	if _, waits := s.aside[o.GetName()]; !waits {
		s.releaseLater(o.GetName())
	}
	s.aside[o.GetName()] = o
}

// isEarly reports whether an object must still wait because it is early. An object waits at most
// maxWaits times.
func (s *reflectorStore[T]) isEarly(o T) bool {
	if s.early != nil && s.waits[o.GetName()] < maxWaits && s.early(o) {
		s.waits[o.GetName()]++
		return true
	}
	delete(s.waits, o.GetName())
	return false
}

func (s *reflectorStore[T]) releaseLater(name string) {
	later.Call(s.clock, time.Second/reportsPerSecond, func() { s.release(name) })
}

// mayPass reports whether a change of an object is forwarded at once: no earlier change is in
// s.aside, and the rate limit allows it.
func (s *reflectorStore[T]) mayPass(name string) bool {
	if s.clock == nil {
		return true
	}
	if _, waits := s.aside[name]; waits {
		return false
	}
	return s.count(name)
}

// count counts a change of an object, and reports whether the rate limit allows it.
func (s *reflectorStore[T]) count(name string) bool {
	now, limit := s.clock.Now(), s.limits[name]
	if limit == nil {
		if len(s.limits) >= max(s.maxLimits, fewLimits) {
			maps.DeleteFunc(s.limits, func(_ string, l *rate.Limiter) bool { return l.TokensAt(now) >= reportsInARow })
			s.maxLimits = 2 * len(s.limits)
		}
		limit = rate.NewLimiter(reportsPerSecond, reportsInARow)
		s.limits[name] = limit
	}
	return limit.AllowN(now, 1)
}

// release forwards the object's newest version from s.aside, unless the object is gone or must
// still wait.
func (s *reflectorStore[T]) release(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, waits := s.aside[name]
	if !waits {
		return
	}
	if s.isEarly(o) {
		s.releaseLater(name)
		return
	}
	delete(s.aside, name)
	s.count(name)
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
	delete(s.aside, name)
	delete(s.waits, name)
	s.gone(name)
}

// Transformer implements cache.TransformingStore. The reflector keeps the initial objects of a
// watch until the last has arrived, and thousands of reports would take most of the scheduler's
// memory. So each object is forwarded when it arrives, and the reflector keeps only its name and
// version.
func (s *reflectorStore[T]) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		o, ok := obj.(T)
		if !ok {
			return obj, fmt.Errorf("got %T", obj)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.take(o)
		return &metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName(), ResourceVersion: o.GetResourceVersion()}, nil
	}
}

// Replace implements cache.ReflectorStore. The list has objects or results of Transformer.
func (s *reflectorStore[T]) Replace(list []any, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	present := make(map[string]bool, len(list))
	for _, obj := range list {
		switch o := obj.(type) {
		case T:
			present[o.GetName()] = true
			s.take(o)
		case *metav1.ObjectMeta:
			present[o.Name] = true
		default:
			return fmt.Errorf("got %T", obj)
		}
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
