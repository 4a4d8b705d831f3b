package survey

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/apiclient"
	"github.com/berth-dev/berth/internal/nodestate"
)

// The times of a watch.
const (
	// watchSettle is the time for which changes are collected, because the events of a pod and of
	// the report that lists it arrive shortly after each other.
	watchSettle = 100 * time.Millisecond
	// watchTick is the interval at which the watch checks if an agent has fallen silent, because no
	// event shows this.
	watchTick = 5 * time.Second
)

const byNodeIndex = "node"

const (
	leasesResource = "leases"
	podsResource   = "pods"
)

// watcher follows the data of a survey through client-go's informers. If a watch breaks, they list
// and watch again by themselves.
type watcher struct {
	c *Cluster
	informers
	look  glance
	begun time.Time
	// clock is the API server's clock, by its last answer.
	clock *serverClock
	// synced has a function for each resource. It reports whether the resource was listed, or may
	// not be listed.
	synced []cache.InformerSynced
	// contact tracks the resources that cannot be followed. swung is called when these change. If
	// swung is nil, Follower.Tell receives a description.
	contact *contact
	swung   func()

	mu      sync.Mutex
	changed changes
	ping    chan struct{}
	notes   chan string
	fatal   chan error
	// silent has the nodes whose agents are silent. deaf means that heartbeats cannot be received
	// now. listens is the time since which heartbeats can be received again. Only follow uses these
	// fields.
	silent  map[string]bool
	deaf    bool
	listens time.Time
	// looked is the time, by the monotonic clock, of the last check for a suspended machine.
	// lookedWall is the same time by the wall clock.
	looked, lookedWall time.Time
}

// informers has one informer for each resource. The informer is nil if the resource may not be
// read. The informer of reports always exists.
type informers struct {
	reports, nodes, leases, pods cache.SharedIndexInformer
	// coarse follow the reports that contain only amounts, in the order of apiclient.CoarseKinds.
	coarse [2]cache.SharedIndexInformer
	// places follows Koordinator's Reservations.
	places cache.SharedIndexInformer
}

// changes has the names of nodes, and the keys of pods, whose data may have changed.
type changes struct{ nodes, pods map[string]bool }

func (c *changes) clear() { c.nodes, c.pods = map[string]bool{}, map[string]bool{} }

// watch prepares to follow the facts. It sends no request yet. If allPods is set, it also follows
// pods without a node.
func (c *Cluster) watch(f *facts, only string, allPods bool) (*watcher, error) {
	a, err := c.live()
	if err != nil {
		return nil, err
	}
	w := &watcher{c: c, begun: time.Now(), clock: &a.clock, ping: make(chan struct{}, 1), notes: make(chan string, 16), fatal: make(chan error, 1)}
	w.changed.clear()
	w.look, w.contact = c.glance(f, a.clock.now()), newContact(w.now)
	namespace, bound := metav1.NamespaceAll, fields.Everything()
	if !f.podsKnown {
		namespace = c.Namespace
	}
	if !allPods {
		bound = fields.OneTermNotEqualSelector("spec.nodeName", "")
	}
	if !allPods && only != "" {
		bound = fields.OneTermEqualSelector("spec.nodeName", only)
	}
	name := fields.Everything()
	if only != "" && !allPods {
		name = fields.OneTermEqualSelector("metadata.name", only)
	}
	kinds := apiclient.CoarseKinds
	for _, s := range []struct {
		into      *cache.SharedIndexInformer
		wanted    bool
		client    cache.Getter
		resource  string
		namespace string
		selector  fields.Selector
		object    runtime.Object
		told      func(any)
	}{
		{&w.reports, true, a.reports, v1alpha1.NodeTopologies.Resource, "", name, &v1alpha1.NodeTopology{}, w.nodeTold},
		{&w.nodes, f.nodesKnown, rester(a.core), "nodes", "", name, &corev1.Node{}, w.nodeTold},
		{&w.leases, f.beatsKnown, rester(a.leases), leasesResource, c.Heartbeats, fields.Everything(), &coordinationv1.Lease{}, w.leaseTold},
		{&w.pods, f.podsKnown || allPods, rester(a.core), podsResource, namespace, bound, &corev1.Pod{}, w.podTold},
		{&w.coarse[0], f.served[0], a.coarse[0], kinds[0].Resource.Resource, "", name, kinds[0].New(), w.nodeTold},
		{&w.coarse[1], f.served[1], a.coarse[1], kinds[1].Resource.Resource, "", name, kinds[1].New(), w.nodeTold},
		{&w.places, f.reservationsServed, a.reservations, koordinator.Reservations.Resource, "", fields.Everything(), &koordinator.Reservation{}, w.placeTold},
	} {
		if !s.wanted {
			continue
		}
		requests := w.contact.listening(s.resource, cache.NewListWatchFromClient(s.client, s.resource, s.namespace, s.selector))
		informer := cache.NewSharedIndexInformer(requests, s.object, 0, cache.Indexers{byNodeIndex: nodeOf})
		*s.into = informer
		w.synced = append(w.synced, func() bool {
			return informer.HasSynced() || !slices.Contains(vital, s.resource) && w.contact.isDenied(s.resource)
		})
		if err := informer.SetTransform(Slim); err != nil {
			return nil, err
		}
		if err := informer.SetWatchErrorHandlerWithContext(w.failed(s.resource)); err != nil {
			return nil, err
		}
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: s.told, UpdateFunc: func(old, now any) { s.told(old); s.told(now) }, DeleteFunc: s.told}); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// rester returns the REST client of a typed client.
func rester(c interface{ RESTClient() rest.Interface }) cache.Getter { return c.RESTClient() }

// nodeOf indexes pods, and places of Reservations, by their node.
func nodeOf(obj any) ([]string, error) {
	node := ""
	switch o := obj.(type) {
	case *corev1.Pod:
		node = o.Spec.NodeName
	case *koordinator.Reservation:
		node = placeOf(o)
	}
	if node == "" {
		return nil, nil
	}
	return []string{node}, nil
}

func (w *watcher) note(nodes, pods string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if nodes != "" {
		w.changed.nodes[nodes] = true
	}
	if pods != "" {
		w.changed.pods[pods] = true
	}
	select {
	case w.ping <- struct{}{}:
	default:
	}
}

func (w *watcher) nodeTold(obj any) {
	if o, err := meta.Accessor(apiclient.Last(obj)); err == nil {
		w.note(o.GetName(), "")
	}
}

func (w *watcher) podTold(obj any) {
	if pod, ok := apiclient.Last(obj).(*corev1.Pod); ok {
		w.note(pod.Spec.NodeName, keyOf(pod.Namespace, pod.Name))
	}
}

func (w *watcher) placeTold(obj any) {
	if o, ok := apiclient.Last(obj).(*koordinator.Reservation); ok {
		w.note(placeOf(o), keyOf("", "reservation/"+o.Name)) // the Pod.Key of the Reservation's unused resources
	}
}

// leaseTold handles an event of a heartbeat. A heartbeat changes only whether the agent counts as
// silent.
func (w *watcher) leaseTold(obj any) {
	if l, ok := apiclient.Last(obj).(*coordinationv1.Lease); ok {
		if b, err := nodestate.HeartbeatOf(l); err == nil {
			w.note(b.Node, "")
		}
	}
}

// vital has the resources without which a watch cannot show correct data.
var vital = []string{v1alpha1.NodeTopologies.Resource, podsResource}

// failed returns the error handler of a resource. If a vital resource may not be watched, the
// handler ends the watch. It reports other problems, after which informers try again by themselves.
// The contact reports other missing permissions.
func (w *watcher) failed(resource string) cache.WatchErrorHandlerWithContext {
	said := ""
	return func(_ context.Context, _ *cache.Reflector, err error) {
		switch {
		case apierrors.IsForbidden(err) && !slices.Contains(vital, resource):
		case apierrors.IsForbidden(err):
			select {
			case w.fatal <- fmt.Errorf("%s may not be watched (without --watch they can be read): %w", resource, err):
			default:
			}
		case apierrors.IsResourceExpired(err), apierrors.IsGone(err), err == io.EOF:
		case err.Error() != said:
			said = err.Error()
			select {
			case w.notes <- "the watch of " + resource + " is interrupted and tried again: " + said:
			default:
			}
		}
	}
}

// now returns the API server's time. If this machine was suspended, the next answer of the API
// server corrects the result.
func (w *watcher) now() time.Time {
	now := w.look.silence.now.Add(time.Since(w.begun))
	if w.clock != nil {
		if told := w.clock.running(); told.After(now) {
			return told
		}
	}
	return now
}

// run follows the data until ctx ends. It calls each with the nodes and pods that may have changed,
// the first time with all of them. It calls tell with problems.
func (w *watcher) run(ctx context.Context, each func(*changes) error, tell func(string)) error {
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	for _, i := range []cache.SharedIndexInformer{w.reports, w.nodes, w.leases, w.pods, w.coarse[0], w.coarse[1], w.places} {
		if i != nil {
			running.Go(func() { i.RunWithContext(ctx) })
		}
	}
	ready := make(chan struct{})
	running.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), w.synced...) {
			close(ready)
		}
	})
	return w.follow(ctx, ready, each, tell)
}

func (w *watcher) follow(ctx context.Context, ready <-chan struct{}, each func(*changes) error, tell func(string)) error {
	tick := time.NewTicker(watchTick)
	defer tick.Stop()
	var due, swung <-chan time.Time
	var ping <-chan struct{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-w.fatal:
			return err
		case text := <-w.notes:
			tell(text)
		case <-ready:
			ready, ping = nil, w.ping
		case <-ping:
			if due == nil {
				due = time.After(watchSettle)
			}
		case <-w.contact.swung:
			if swung == nil {
				swung = time.After(lostPatience)
			}
		case <-swung:
			swung = nil
			w.sayLost(tell)
		case <-tick.C:
			w.lookForSleep()
			w.lookForSilence()
		case <-due:
			due = nil
			w.lookForSleep()
			c := w.take()
			if err := each(&c); err != nil {
				return err
			}
		}
	}
}

func (w *watcher) take() changes {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.changed
	w.changed.clear()
	return c
}

// sayLost reports the resources that cannot or may not be followed, if there is a change since the
// last call.
func (w *watcher) sayLost(tell func(string)) {
	lost, news := w.contact.say()
	deaf := slices.ContainsFunc(lost, func(l Lost) bool { return l.Resource == leasesResource }) || w.contact.isDenied(leasesResource)
	if w.deaf && !deaf {
		w.listens = time.Now()
	}
	w.deaf = deaf
	notes := w.contact.sayDenied()
	if news {
		notes = append(notes, lostWords(lost))
	}
	switch {
	case len(notes) == 0:
	case w.swung != nil:
		w.swung()
	default:
		for _, note := range notes {
			tell(note)
		}
	}
}

// hears reports whether heartbeats could be received during all of the last StaleAfter. If not, no
// agent counts as silent.
func (w *watcher) hears() bool {
	denied := w.contact != nil && w.contact.isDenied(leasesResource)
	return !w.deaf && !denied && time.Since(w.listens) > w.c.StaleAfter
}

// filled reports whether an informer has its initial objects. A nil informer needs none.
func filled(informer cache.SharedIndexInformer) bool { return informer == nil || informer.HasSynced() }

// lookForSleep sets listens to the present time if this machine was suspended, because heartbeats
// from the time of suspension have not arrived yet.
func (w *watcher) lookForSleep() {
	now := time.Now()
	if slept := now.Round(0).Sub(w.lookedWall) - now.Sub(w.looked); !w.looked.IsZero() && slept > watchTick {
		w.listens = now
	}
	w.looked, w.lookedWall = now, now.Round(0)
}

// lookForSilence requests a check of each node whose agent has become silent.
func (w *watcher) lookForSilence() {
	if w.leases == nil || !w.hears() {
		return
	}
	silent := map[string]bool{}
	for _, key := range w.reports.GetStore().ListKeys() {
		if w.now().Sub(w.beat(key).written) <= w.c.StaleAfter {
			continue
		}
		silent[key] = true
		if !w.silent[key] {
			w.note(key, "")
		}
	}
	w.silent = silent
}

// beat returns the last heartbeat of the node's agent, or the zero value if there is none.
func (w *watcher) beat(node string) beat {
	obj, ok, err := w.leases.GetStore().GetByKey(w.c.Heartbeats + "/" + v1alpha1.HeartbeatName(node))
	if err != nil || !ok {
		return beat{}
	}
	return beatOf(obj.(*coordinationv1.Lease))
}

// at returns the present state of a node, or nil if it no longer exists.
func (w *watcher) at(name string) *node {
	var s nodeFacts
	if obj, ok, err := w.reports.GetStore().GetByKey(name); err == nil && ok {
		s.report = obj.(*v1alpha1.NodeTopology)
	}
	if w.nodes != nil {
		if obj, ok, err := w.nodes.GetStore().GetByKey(name); err == nil && ok {
			s.object = obj.(*corev1.Node)
		}
	}
	for _, i := range w.coarse {
		if i == nil || s.object == nil && w.nodes != nil && filled(w.nodes) {
			continue
		}
		if obj, ok, err := i.GetStore().GetByKey(name); err == nil && ok {
			s.coarse = append(s.coarse, obj.(metav1.Object))
		}
	}
	if s.report == nil && s.object == nil && s.coarse == nil {
		return nil
	}
	if w.leases != nil {
		s.beat = w.beat(name)
	}
	s.pods = w.podsOn(name)
	held := placesOn(on[koordinator.Reservation](w.places, name), s.pods)
	s.pods, s.held = append(s.pods, held.pods...), held.left
	look := w.look
	look.silence.now, look.nodesKnown = w.now(), look.nodesKnown && filled(w.nodes)
	look.silence.told = look.silence.told && (w.hears() || w.silent[name])
	return look.at(name, &s)
}

func (w *watcher) podsOn(node string) []*corev1.Pod { return on[corev1.Pod](w.pods, node) }

// on returns the objects of an informer on a node. It returns none if the informer is nil.
func on[T any](informer cache.SharedIndexInformer, node string) (out []*T) {
	if informer == nil {
		return nil
	}
	objs, err := informer.GetIndexer().ByIndex(byNodeIndex, node)
	if err != nil {
		return nil
	}
	for _, obj := range objs {
		if one, ok := obj.(*T); ok {
			out = append(out, one)
		}
	}
	return out
}

// refresh updates the nodes of a survey that may have changed, and returns their names.
func (w *watcher) refresh(s *Survey, c *changes) []string {
	s.Now = w.now()
	names := slices.Sorted(maps.Keys(c.nodes))
	nodes := make([]*node, len(names))
	inParallel(len(names), func(i int) { nodes[i] = w.at(names[i]) })
	for i, name := range names {
		if nodes[i] == nil {
			delete(s.nodes, name)
		} else {
			s.nodes[name] = nodes[i]
		}
	}
	return names
}
