package source

import (
	"context"
	"fmt"
	"io"
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
	// watchSettle is how long changes are collected before they are shown. The event of a pod and
	// the event of the report that lists it arrive shortly after each other.
	watchSettle = 100 * time.Millisecond
	// watchTick is the interval at which the watch checks whether an agent has fallen silent,
	// because no event shows this.
	watchTick = 5 * time.Second
)

const byNodeIndex = "node"

const (
	leasesResource = "leases"
	podsResource   = "pods"
)

// Watch follows the objects of Facts through client-go's informers. If the watch of an informer
// breaks, the informer lists and watches again by itself.
type Watch struct {
	api *API
	Following
	informers
	// nodesKnown and beatsKnown mean that the user may read Nodes and the agents' Leases.
	nodesKnown, beatsKnown bool
	// begun is the time of the API server's last answer before the Watch was created, by the API
	// server's clock. begunHere is about the same time by this machine's clock.
	begun, begunHere time.Time
	// synced has a function for each resource. It reports whether Run can stop waiting for the
	// resource, because the resource was listed, or because it is not vital and may not be listed.
	synced []cache.InformerSynced
	// contact tracks the resources that cannot be followed.
	contact *contact

	mu      sync.Mutex
	changed Changes
	ping    chan struct{}
	notes   chan string
	fatal   chan error
	// silent has the nodes whose agents are silent. `deaf` means that heartbeats cannot be received
	// now. `listens` is the time at which heartbeats could be received again. Only the method
	// follow and its callbacks use these fields.
	silent  map[string]bool
	deaf    bool
	listens time.Time
	// looked is the time of the last call of lookForSleep, by the monotonic clock. lookedWall is
	// the same time by the wall clock.
	looked, lookedWall time.Time
}

// informers has one informer for each resource. The informer `reports` always exists. Any other
// informer is nil if its resource is not served or may not be read.
type informers struct {
	reports, nodes, leases, pods cache.SharedIndexInformer
	// coarse follow the reports that contain only amounts, in the order of apiclient.CoarseKinds.
	coarse [2]cache.SharedIndexInformer
	// places follows Koordinator's Reservations.
	places cache.SharedIndexInformer
}

// Following selects the objects that a Watch follows.
type Following struct {
	// Namespace limits the results of Watch.Pod to one namespace. metav1.NamespaceAll means no
	// limit.
	Namespace string
	// AllPods means that pods without a node are followed, too. If it is false and Node is not "",
	// only this node is followed.
	AllPods bool
	Node    string
	// Swung is called when the result of Lost or Denied changes. If it is nil, the function `tell`
	// of Run receives a description of the change.
	Swung func()
}

// Changes has the names of nodes, and the keys of pods, whose data may have changed. The key of a
// pod is NAMESPACE/NAME. The key of a Reservation's unused resources is /reservation/NAME.
type Changes struct{ Nodes, Pods map[string]bool }

func (c *Changes) clear() { c.Nodes, c.Pods = map[string]bool{}, map[string]bool{} }

// Watch returns a Watch of the objects that the user may read according to f. It sends no request
// yet.
func (a *API) Watch(f *Facts, o Following) (*Watch, error) {
	w := &Watch{api: a, Following: o, nodesKnown: f.NodesKnown, beatsKnown: f.BeatsKnown, begun: a.clock.now(), begunHere: time.Now(),
		ping: make(chan struct{}, 1), notes: make(chan string, 16), fatal: make(chan error, 1)}
	w.changed.clear()
	w.contact = newContact(w.Now)
	namespace, bound, name := metav1.NamespaceAll, fields.Everything(), fields.Everything()
	if !f.PodsKnown {
		namespace = o.Namespace
	}
	if !o.AllPods {
		bound = fields.OneTermNotEqualSelector("spec.nodeName", "")
	}
	if !o.AllPods && o.Node != "" {
		bound, name = fields.OneTermEqualSelector("spec.nodeName", o.Node), fields.OneTermEqualSelector("metadata.name", o.Node)
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
		{&w.nodes, f.NodesKnown, rester(a.core), "nodes", "", name, &corev1.Node{}, w.nodeTold},
		{&w.leases, f.BeatsKnown, rester(a.leases), leasesResource, a.Heartbeats, fields.Everything(), &coordinationv1.Lease{}, w.leaseTold},
		{&w.pods, f.PodsKnown || o.AllPods, rester(a.core), podsResource, namespace, bound, &corev1.Pod{}, w.podTold},
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

func rester(c interface{ RESTClient() rest.Interface }) cache.Getter { return c.RESTClient() }

// nodeOf indexes pods, and places of Reservations, by their node.
func nodeOf(obj any) ([]string, error) {
	node := ""
	switch o := obj.(type) {
	case *corev1.Pod:
		node = o.Spec.NodeName
	case *koordinator.Reservation:
		node = PlaceOf(o)
	}
	if node == "" {
		return nil, nil
	}
	return []string{node}, nil
}

func (w *Watch) note(nodes, pods string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if nodes != "" {
		w.changed.Nodes[nodes] = true
	}
	if pods != "" {
		w.changed.Pods[pods] = true
	}
	select {
	case w.ping <- struct{}{}:
	default:
	}
}

func (w *Watch) nodeTold(obj any) {
	if o, err := meta.Accessor(apiclient.Last(obj)); err == nil {
		w.note(o.GetName(), "")
	}
}

func (w *Watch) podTold(obj any) {
	if pod, ok := apiclient.Last(obj).(*corev1.Pod); ok {
		w.note(pod.Spec.NodeName, pod.Namespace+"/"+pod.Name)
	}
}

func (w *Watch) placeTold(obj any) {
	if o, ok := apiclient.Last(obj).(*koordinator.Reservation); ok {
		w.note(PlaceOf(o), "/reservation/"+o.Name)
	}
}

// leaseTold handles an event of a heartbeat. A heartbeat changes only whether the agent counts as
// silent.
func (w *Watch) leaseTold(obj any) {
	if l, ok := apiclient.Last(obj).(*coordinationv1.Lease); ok {
		if b, err := nodestate.HeartbeatOf(l); err == nil {
			w.note(b.Node, "")
		}
	}
}

// vital has the resources without which a watch cannot show correct data.
var vital = []string{v1alpha1.NodeTopologies.Resource, podsResource}

// failed returns the error handler of a resource. If a vital resource may not be watched, the
// handler ends the watch. It writes other errors to w.notes, except errors that also occur in
// normal operation, such as an expired resource version. The informer tries again by itself. If a
// resource that is not vital may not be watched, w.contact reports this.
func (w *Watch) failed(resource string) cache.WatchErrorHandlerWithContext {
	said := ""
	return func(_ context.Context, _ *cache.Reflector, err error) {
		switch {
		case apierrors.IsForbidden(err) && !slices.Contains(vital, resource):
		case apierrors.IsForbidden(err):
			select {
			case w.fatal <- fmt.Errorf("no permission to watch %s (berth nodes and berth pods need it only with --watch): %w", resource, err):
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

// Now returns the API server's time. If this machine was suspended, the next answer of the API
// server corrects the result.
func (w *Watch) Now() time.Time {
	now := w.begun.Add(time.Since(w.begunHere))
	if told := w.api.clock.running(); told.After(now) {
		return told
	}
	return now
}

// Run watches the objects until ctx ends, `each` returns an error, or a vital resource may not be
// watched. The callback `each` receives the nodes and pods that may have changed, in the first call
// all of them. The callback `tell` receives the problems of the watch.
func (w *Watch) Run(ctx context.Context, each func(*Changes) error, tell func(string)) error {
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

func (w *Watch) follow(ctx context.Context, ready <-chan struct{}, each func(*Changes) error, tell func(string)) error {
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

func (w *Watch) take() Changes {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.changed
	w.changed.clear()
	return c
}

// sayLost reports to users which resources cannot or may not be followed, if this has changed since
// the last call.
func (w *Watch) sayLost(tell func(string)) {
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
	case w.Swung != nil:
		w.Swung()
	default:
		for _, note := range notes {
			tell(note)
		}
	}
}

// hears reports whether heartbeats could be received without interruption during the last
// StaleAfter. If not, no further agent counts as silent.
func (w *Watch) hears() bool {
	denied := w.contact != nil && w.contact.isDenied(leasesResource)
	return !w.deaf && !denied && time.Since(w.listens) > w.api.StaleAfter
}

// filled reports whether an informer has its initial objects. A nil informer needs none.
func filled(informer cache.SharedIndexInformer) bool { return informer == nil || informer.HasSynced() }

// lookForSleep sets w.listens to the current time if this machine was suspended, because heartbeats
// from the time of suspension have not arrived yet.
func (w *Watch) lookForSleep() {
	now := time.Now()
	if slept := now.Round(0).Sub(w.lookedWall) - now.Sub(w.looked); !w.looked.IsZero() && slept > watchTick {
		w.listens = now
	}
	w.looked, w.lookedWall = now, now.Round(0)
}

// lookForSilence marks as changed each node whose agent has become silent.
func (w *Watch) lookForSilence() {
	if w.leases == nil || !w.hears() {
		return
	}
	silent := map[string]bool{}
	for _, key := range w.reports.GetStore().ListKeys() {
		if w.Now().Sub(w.beat(key).Written) <= w.api.StaleAfter {
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
func (w *Watch) beat(node string) Beat {
	obj, ok, err := w.leases.GetStore().GetByKey(w.api.Heartbeats + "/" + v1alpha1.HeartbeatName(node))
	if err != nil || !ok {
		return Beat{}
	}
	return beatOf(obj.(*coordinationv1.Lease))
}

// Node returns the current objects of a node, or nil if the node no longer exists.
func (w *Watch) Node(name string) *NodeFacts {
	var f NodeFacts
	if obj, ok, err := w.reports.GetStore().GetByKey(name); err == nil && ok {
		f.Report = obj.(*v1alpha1.NodeTopology)
	}
	if w.nodes != nil {
		if obj, ok, err := w.nodes.GetStore().GetByKey(name); err == nil && ok {
			f.Object = obj.(*corev1.Node)
		}
	}
	for _, i := range w.coarse {
		if i == nil || f.Object == nil && w.nodes != nil && filled(w.nodes) {
			continue
		}
		if obj, ok, err := i.GetStore().GetByKey(name); err == nil && ok {
			f.Coarse = append(f.Coarse, obj.(metav1.Object))
		}
	}
	if f.Report == nil && f.Object == nil && f.Coarse == nil {
		return nil
	}
	if w.leases != nil {
		f.Beat = w.beat(name)
	}
	f.Pods, f.Now = w.PodsOn(name), w.Now()
	f.NodesKnown = w.nodesKnown && filled(w.nodes)
	f.BeatsKnown = w.beatsKnown && (w.hears() || w.silent[name])
	return &f
}

// PodsOn returns the pods that are bound to a node.
func (w *Watch) PodsOn(node string) []*corev1.Pod { return on[corev1.Pod](w.pods, node) }

// PlacesOn returns the Reservations with places on a node.
func (w *Watch) PlacesOn(node string) []*koordinator.Reservation {
	return on[koordinator.Reservation](w.places, node)
}

// on returns an informer's objects that are on the node. It returns none if the informer is nil.
func on[T any](informer cache.SharedIndexInformer, node string) (out []*T) {
	if informer == nil {
		return nil
	}
	objs, err := informer.GetIndexer().ByIndex(byNodeIndex, node)
	if err != nil {
		return nil
	}
	return all[T](objs)
}

func all[T any](objs []any) (out []*T) {
	for _, obj := range objs {
		if one, ok := obj.(*T); ok {
			out = append(out, one)
		}
	}
	return out
}

// Pod returns the pod with this key, or nil if it is unknown or outside of Following.Namespace.
func (w *Watch) Pod(key string) *corev1.Pod {
	obj, ok, err := w.pods.GetStore().GetByKey(key)
	if err != nil || !ok {
		return nil
	}
	if pod := obj.(*corev1.Pod); w.Namespace == metav1.NamespaceAll || pod.Namespace == w.Namespace {
		return pod
	}
	return nil
}

// Pods returns all pods, in no particular order. They are shared: do not change them.
func (w *Watch) Pods() []*corev1.Pod {
	if w.pods == nil {
		return nil
	}
	return all[corev1.Pod](w.pods.GetStore().List())
}

// Reservations returns all Reservations, in no particular order.
func (w *Watch) Reservations() []*koordinator.Reservation {
	if w.places == nil {
		return nil
	}
	return all[koordinator.Reservation](w.places.GetStore().List())
}

// Lost returns the resources that cannot be followed now.
func (w *Watch) Lost() []Lost { return w.contact.told() }

// Denied returns a note for each resource that may not be followed now.
func (w *Watch) Denied() []string { return w.contact.deniedNotes() }
