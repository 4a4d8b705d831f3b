package survey

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/wire"
)

// Follower receives the results of a watch.
type Follower[T any] struct {
	// Show receives items that may have changed, by their keys. If a key has no item, the node or
	// the pod is gone. If Show returns an error, the watch ends.
	Show func(keys []string, items map[string]*T) error
	// Tell receives each problem of the watch. The watch then continues.
	Tell func(string)
}

// WatchNodes follows the nodes of a survey until ctx ends. The keys are the names of nodes. If only
// is set, it follows only that node.
func (c *Cluster) WatchNodes(ctx context.Context, s *Survey, only string, to Follower[Node]) error {
	w, err := c.watch(s.facts, only, false)
	if err != nil {
		return err
	}
	return w.run(ctx, func(ch *changes) error {
		names := w.refresh(s, ch)
		items := map[string]*Node{}
		for _, name := range names {
			if n := s.nodes[name]; n != nil && (s.narrowed == nil || s.narrowed(n)) {
				sum := n.summary(s.Now)
				items[name] = &sum
			}
		}
		return to.Show(names, items)
	}, to.Tell)
}

// WatchPods follows pods that could be pinned until ctx ends. The keys are the results of Pod.Key.
// If only is set, it follows the pods of that name.
func (c *Cluster) WatchPods(ctx context.Context, p *Pods, only string, to Follower[Pod]) error {
	s := p.survey
	w, err := c.watch(s.facts, "", true)
	if err != nil {
		return err
	}
	last := map[string]string{} // outcomes, by pod
	for i := range p.Pods {
		last[p.Pods[i].UID] = p.Pods[i].Outcome
	}
	return w.run(ctx, func(ch *changes) error {
		names := w.refresh(s, ch)
		for _, name := range names {
			for _, pod := range w.podsOn(name) {
				ch.pods[keyOf(pod.Namespace, pod.Name)] = true
			}
		}
		held := map[string]Pod{}
		if only == "" && c.Namespace == metav1.NamespaceAll {
			held = s.heldOn(names)
		}
		items := map[string]*Pod{}
		for key, sum := range held {
			ch.pods[key], items[key] = true, &sum
		}
		for key := range ch.pods {
			if pod := w.pod(key, only); pod != nil {
				if sum, pinned := s.pod(pod); pinned || only != "" {
					sum.remember(last)
					items[key] = &sum
				}
			}
		}
		return to.Show(slices.Sorted(maps.Keys(ch.pods)), items)
	}, to.Tell)
}

// remember keeps the last outcome of a running pod for the time after its end. Later reports do not
// list the pod, and such a report may arrive before the event that ends the pod. last has the
// outcomes by UID.
func (p *Pod) remember(last map[string]string) {
	over := p.Outcome == PromisePast || p.Outcome == PromiseOpen
	if before := last[p.UID]; over && before != "" && before != PromiseOpen {
		p.Outcome = before
	}
	last[p.UID] = p.Outcome
}

// Key identifies a pod in its cluster.
func (p *Pod) Key() string { return keyOf(p.Namespace, p.Name) }

// heldOn returns the unused parts of Reservations' places on the nodes, by key.
func (s *Survey) heldOn(names []string) map[string]Pod {
	out := map[string]Pod{}
	for _, name := range names {
		n := s.nodes[name]
		if n == nil {
			continue
		}
		for _, pod := range n.bound {
			if wire.OfReservation(pod) {
				sum := s.heldPod(pod)
				out[sum.Key()] = sum
			}
		}
	}
	return out
}

func keyOf(namespace, name string) string { return namespace + "/" + name }

// pod returns the pod with that key. It returns nil if there is none, or if only is set to another
// name.
func (w *watcher) pod(key, only string) *corev1.Pod {
	obj, ok, err := w.pods.GetStore().GetByKey(key)
	if err != nil || !ok {
		return nil
	}
	pod := obj.(*corev1.Pod)
	elsewhere := w.c.Namespace != metav1.NamespaceAll && pod.Namespace != w.c.Namespace
	if elsewhere || only != "" && pod.Name != only {
		return nil
	}
	return pod
}
