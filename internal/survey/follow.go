package survey

import (
	"context"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/parallel"
	"github.com/berth-dev/berth/internal/survey/source"
	"github.com/berth-dev/berth/internal/wire"
)

// watcher computes the current states of the nodes that its Watch follows.
type watcher struct {
	*source.Watch
	look glance
}

// watch returns a watcher for the objects that the user may read according to f. It sends no
// request yet.
func (c *Cluster) watch(f *source.Facts, o source.Following) (*watcher, error) {
	a, err := c.API()
	if err != nil {
		return nil, err
	}
	o.Namespace = c.Namespace
	w, err := a.Watch(f, o)
	return &watcher{w, c.glance()}, err
}

// at computes the current state of a node. It returns nil if the node no longer exists.
func (w *watcher) at(name string) *NodeState {
	f := w.Node(name)
	if f == nil {
		return nil
	}
	held := placesOn(w.PlacesOn(name), f.Pods)
	f.Pods = append(f.Pods, held.pods...)
	return w.look.at(name, f, held.left)
}

// refresh updates the nodes of a survey that may have changed, and returns their names.
func (w *watcher) refresh(s *Survey, c *source.Changes) []string {
	s.Now = w.Now()
	names := slices.Sorted(maps.Keys(c.Nodes))
	nodes := make([]*NodeState, len(names))
	parallel.Do(len(names), func(i int) { nodes[i] = w.at(names[i]) })
	for i, name := range names {
		if nodes[i] == nil {
			delete(s.States, name)
		} else {
			s.States[name] = nodes[i]
		}
	}
	return names
}

// Follower receives the results of a watch.
type Follower[T any] struct {
	// Show receives the keys of all nodes or pods that may have changed, and the current items by
	// key. If a key has no item, its node or pod is gone, or is not wanted. If Show returns an
	// error, the watch ends.
	Show func(keys []string, items map[string]*T) error
	// Tell receives each problem of the watch. The watch then continues.
	Tell func(string)
}

// WatchNodes follows the nodes of a survey until ctx ends. The keys are the names of nodes. The
// argument `only` is the name of one node to follow, or "" for all nodes.
func (c *Cluster) WatchNodes(ctx context.Context, s *Survey, only string, to Follower[Node]) error {
	w, err := c.watch(s.Facts, source.Following{Node: only})
	if err != nil {
		return err
	}
	return w.Run(ctx, func(ch *source.Changes) error {
		names := w.refresh(s, ch)
		items := map[string]*Node{}
		for _, name := range names {
			if n := s.States[name]; n != nil && (s.narrowed == nil || s.narrowed(n)) {
				sum := n.summary(s.Now)
				items[name] = &sum
			}
		}
		return to.Show(names, items)
	}, to.Tell)
}

// WatchPods follows the pods that could be pinned, until ctx ends. The keys are the results of
// Pod.Key. If the argument `only` is not "", WatchPods follows only the pods with this name, even
// if they could not be pinned. If it is "" and the Cluster has all namespaces, WatchPods also
// follows the unused resources of Reservations.
func (c *Cluster) WatchPods(ctx context.Context, p *Pods, only string, to Follower[Pod]) error {
	s := p.survey
	w, err := c.watch(s.Facts, source.Following{AllPods: true})
	if err != nil {
		return err
	}
	last := map[string]string{} // outcomes, by UID
	for i := range p.Pods {
		last[p.Pods[i].UID] = p.Pods[i].Outcome
	}
	return w.Run(ctx, func(ch *source.Changes) error {
		names := w.refresh(s, ch)
		for _, name := range names {
			for _, pod := range w.PodsOn(name) {
				ch.Pods[keyOf(pod.Namespace, pod.Name)] = true
			}
		}
		held := map[string]Pod{}
		if only == "" && c.Namespace == metav1.NamespaceAll {
			held = s.heldOn(names)
		}
		items := map[string]*Pod{}
		for key, sum := range held {
			ch.Pods[key], items[key] = true, &sum
		}
		for key := range ch.Pods {
			if pod := w.Pod(key); pod != nil && (only == "" || pod.Name == only) {
				if sum, pinned := s.Pod(pod); pinned || only != "" {
					sum.remember(last)
					items[key] = &sum
				}
			}
		}
		return to.Show(slices.Sorted(maps.Keys(ch.Pods)), items)
	}, to.Tell)
}

// remember gives an ended pod the last outcome that it had while it ran. This outcome cannot be
// computed again, because reports no longer list the pod. A report without the pod may even arrive
// before the event that shows the pod's end. `last` has the outcomes by UID.
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
		n := s.States[name]
		if n == nil {
			continue
		}
		for _, pod := range n.Bound {
			if wire.OfReservation(pod) {
				sum := s.heldPod(pod)
				out[sum.Key()] = sum
			}
		}
	}
	return out
}

func keyOf(namespace, name string) string { return namespace + "/" + name }
