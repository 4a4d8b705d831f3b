package witness

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/internal/survey/source"
)

// arrival is the way in which shadow mode learned that a pod is on its node.
type arrival uint8

const (
	// known means that the pod has been seen on its node before.
	known arrival = iota
	// watched means that the watch shows the Binding.
	watched
	// listed means that the pod is in a list that the watch read after an interruption. A list does
	// not show the order in which its pods were bound.
	listed
	// inherited means that the pod is in the list with which the watch began.
	inherited
)

// podStore receives the watch of bound pods. It passes each version on in the order of the watch,
// and stores the newest version, indexed by node.
type podStore struct {
	cache.Indexer
	seen func(*corev1.Pod, arrival)
	gone func(*corev1.Pod)
	// begun means that the first list has been read.
	begun atomic.Bool
}

const byNode = "spec.nodeName"

func newPodStore(seen func(*corev1.Pod, arrival), gone func(*corev1.Pod)) *podStore {
	return &podStore{seen: seen, gone: gone, Indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{byNode: func(obj any) ([]string, error) {
		return []string{obj.(*corev1.Pod).Spec.NodeName}, nil
	}})}
}

// run watches bound pods until ctx ends. It omits pods without a node, because shadow mode does not
// need the many changes of a pod before its Binding.
func (s *podStore) run(ctx context.Context, client kubernetes.Interface) {
	bound := fields.OneTermNotEqualSelector(byNode, "")
	source := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", metav1.NamespaceAll, bound)
	cache.NewReflector(source, &corev1.Pod{}, s, 0).RunWithContext(ctx)
}

var _ cache.TransformingStore = (*podStore)(nil)

// Transformer implements cache.TransformingStore. It removes data that shadow mode does not need
// from listed pods (source.Slim).
func (*podStore) Transformer() cache.TransformFunc { return source.Slim }

func (s *podStore) on(node string) []*corev1.Pod {
	found, err := s.ByIndex(byNode, node)
	if err != nil {
		return nil // impossible: the store has the index
	}
	pods := make([]*corev1.Pod, len(found))
	for i := range found {
		pods[i] = found[i].(*corev1.Pod)
	}
	return pods
}

// Add implements cache.ReflectorStore.
func (s *podStore) Add(obj any) error { return s.Update(obj) }

// Update implements cache.ReflectorStore.
func (s *podStore) Update(obj any) error { return s.take(obj, watched) }

// take stores a version of a pod and passes it on together with its arrival. The arrival is the
// constant known if the pod has been seen on this node before, and otherwise the argument how.
func (s *podStore) take(obj any, how arrival) error {
	slim, err := source.Slim(obj)
	if err != nil {
		return err
	}
	pod, ok := slim.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("got %T", obj)
	}
	old, there, err := s.Get(pod)
	if err != nil {
		return err
	}
	if there {
		// After a restore of the API server's data, a pod may be on another node than before.
		if was := old.(*corev1.Pod); was.UID == pod.UID && was.Spec.NodeName == pod.Spec.NodeName {
			how = known
			if was.ResourceVersion == pod.ResourceVersion {
				return nil
			}
		} else {
			s.gone(was)
		}
	}
	if err := s.Indexer.Update(pod); err != nil {
		return err
	}
	s.seen(pod, how)
	return nil
}

// Delete implements cache.ReflectorStore.
func (s *podStore) Delete(obj any) error {
	old, there, err := s.Get(obj)
	if err != nil || !there {
		return err
	}
	if err := s.Indexer.Delete(old); err != nil {
		return err
	}
	s.gone(old.(*corev1.Pod))
	return nil
}

// Replace implements cache.ReflectorStore.
func (s *podStore) Replace(list []any, _ string) error {
	how, present := inherited, make(map[string]bool, len(list))
	if s.begun.Load() {
		how = listed
	}
	for _, obj := range list {
		key, err := cache.MetaNamespaceKeyFunc(obj)
		if err != nil {
			return err
		}
		present[key] = true
	}
	for _, key := range s.ListKeys() {
		if old, there, _ := s.GetByKey(key); there && !present[key] {
			if err := s.Delete(old); err != nil {
				return err
			}
		}
	}
	for _, obj := range list {
		if err := s.take(obj, how); err != nil {
			return err
		}
	}
	s.begun.Store(true)
	return nil
}

// Resync implements cache.ReflectorStore.
func (*podStore) Resync() error { return nil }
