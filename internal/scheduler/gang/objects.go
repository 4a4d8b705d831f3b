package gang

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/berth-dev/berth/internal/apiclient"
	"github.com/berth-dev/berth/internal/scheduler/later"
	"github.com/berth-dev/berth/internal/wire"
)

// APIObjects reads and writes the API objects of groups. APIObjects starts to watch a kind when a
// pod names a group of the kind, or when discover finds that the API server serves the kind.
type APIObjects struct {
	ctx    context.Context //nolint:containedctx // the watches, which begin later, end with ctx
	config *rest.Config
	groups *Groups

	mu      sync.Mutex
	clients map[wire.GangSource]*rest.RESTClient
	watched map[wire.GangSource]bool
	// apart records whether the API definition of a kind has a status subresource. A kind has no
	// entry before statusApart has asked about it.
	apart map[wire.GangSource]bool
}

var _ Objects = (*APIObjects)(nil)

// WatchObjects watches the API objects of groups until ctx ends, and makes the result the
// Options.Objects of groups.
func WatchObjects(ctx context.Context, config *rest.Config, groups *Groups) *APIObjects {
	o := &APIObjects{
		ctx: ctx, config: config, groups: groups,
		clients: map[wire.GangSource]*rest.RESTClient{}, watched: map[wire.GangSource]bool{}, apart: map[wire.GangSource]bool{},
	}
	groups.book.Objects = o
	go o.discover()
	return o
}

// discoverEvery is the interval at which discover asks the API server for the kinds that it does
// not watch yet.
const discoverEvery = time.Minute

// discover watches each kind from the time when it finds that the API server serves the kind.
func (o *APIObjects) discover() {
	for o.ctx.Err() == nil {
		left := 0
		for s := range wire.GroupKinds {
			if o.isWatched(s) {
				continue
			}
			left++
			if c, err := o.client(s); err == nil && c.Get().Do(o.ctx).Error() == nil {
				o.Want(s)
			}
		}
		if left == 0 {
			return
		}
		later.Wait(o.ctx, o.groups.book.Clock, discoverEvery)
	}
}

func (o *APIObjects) isWatched(s wire.GangSource) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.watched[s]
}

// Want implements Objects.
func (o *APIObjects) Want(s wire.GangSource) {
	c, err := o.client(s)
	if err != nil {
		o.groups.book.Logger.Error(err, "Groups cannot be read", "kind", s)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.watched[s] {
		return
	}
	o.watched[s] = true
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(c, groupsResource, metav1.NamespaceAll, fields.Everything()),
		ObjectType:    wire.GroupKinds[s].New(),
		Handler:       o.handler(s),
	})
	go informer.RunWithContext(klog.NewContext(o.ctx, o.groups.book.Logger))
}

// handler records events of the groups of a source. After a broken watch, the old object of an
// update may be a deleted group, and the new object another group of the same name.
func (o *APIObjects) handler(s wire.GangSource) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { o.seen(s, obj) },
		UpdateFunc: func(was, is any) {
			if was.(metav1.Object).GetUID() != is.(metav1.Object).GetUID() {
				o.gone(s, was)
			}
			o.seen(s, is)
		},
		DeleteFunc: func(obj any) { o.gone(s, obj) },
	}
}

func (o *APIObjects) seen(s wire.GangSource, obj any) {
	object, ok := obj.(runtime.Object)
	if !ok {
		return
	}
	o.groups.ObjectSeen(wire.GroupKinds[s].Read(object))
}

func (o *APIObjects) gone(s wire.GangSource, obj any) {
	if object, ok := apiclient.Last(obj).(metav1.Object); ok {
		o.groups.ObjectGone(wire.GangKey{Source: s, Namespace: object.GetNamespace(), Name: object.GetName()})
	}
}

// Read implements Objects.
func (o *APIObjects) Read(ctx context.Context, key wire.GangKey) (wire.Gang, error) {
	object, err := o.fetch(ctx, key)
	if err != nil {
		return wire.Gang{}, err
	}
	return wire.GroupKinds[key.Source].Read(object)
}

func (o *APIObjects) fetch(ctx context.Context, key wire.GangKey) (runtime.Object, error) {
	c, err := o.client(key.Source)
	if err != nil {
		return nil, err
	}
	object := wire.GroupKinds[key.Source].New()
	return object, c.Get().Namespace(key.Namespace).Resource(groupsResource).Name(key.Name).Do(ctx).Into(object)
}

func (o *APIObjects) client(s wire.GangSource) (*rest.RESTClient, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c := o.clients[s]; c != nil {
		return c, nil
	}
	kind, ok := wire.GroupKinds[s]
	if !ok {
		return nil, fmt.Errorf("%s has no object", s)
	}
	c, err := apiclient.For(o.config, kind.Version, kind.Add)
	if err != nil {
		return nil, err
	}
	o.clients[s] = c
	return c, nil
}

// reference returns the object to which events about the group refer: the group's API object if it
// exists, or the given member.
func (g *group) reference(member *corev1.Pod) runtime.Object {
	if !g.key.Source.HasObject() || g.object == "" && member != nil {
		return member
	}
	return referenceTo(g.key, g.spec.UID, g.object)
}

// referenceTo returns a reference to a version of a group's API object, for events.
func referenceTo(key wire.GangKey, uid types.UID, version string) *corev1.ObjectReference {
	api := wire.GroupKinds[key.Source].Version.String()
	return &corev1.ObjectReference{APIVersion: api, Kind: "PodGroup", Namespace: key.Namespace, Name: key.Name, UID: uid, ResourceVersion: version}
}
