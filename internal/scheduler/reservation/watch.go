package reservation

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/apiclient"
	"github.com/berth-dev/berth/internal/scheduler/later"
)

// These are the intervals of discover: discoverEvery while the kind is not served, retryEvery while
// the API server gives no clear answer, and forbiddenEvery while reading the kind is forbidden.
const (
	discoverEvery  = time.Minute
	retryEvery     = time.Second
	forbiddenEvery = 10 * time.Second
)

// Watch watches the Reservation objects as soon as the API server serves the kind, and writes their
// status, until ctx ends.
func (rs *Reservations) Watch(ctx context.Context, config *rest.Config) error {
	client, err := apiclient.Koordinator(config)
	if err != nil {
		return err
	}
	rs.mu.Lock()
	rs.writer = restWriter{client}
	rs.mu.Unlock()
	go (&reader{rs, client}).discover(ctx)
	go rs.Write(ctx)
	return nil
}

type reader struct {
	reservations *Reservations
	client       rest.Interface
}

// discover starts the watch as soon as the kind is served and may be read. If the kind is not
// served, discover calls allRead, because there are no Reservations, and asks again later.
func (r *reader) discover(ctx context.Context) {
	begun := r.reservations.Clock.Now()
	for ctx.Err() == nil {
		err := r.client.Get().Resource("reservations").Param("limit", "1").Do(ctx).Error()
		pause, late := retryEvery, r.reservations.Clock.Now().Sub(begun) > readLimit
		switch {
		case err == nil:
			r.watch(ctx)
			return
		case apierrors.IsNotFound(err):
			r.reservations.allRead()
			pause = discoverEvery
		case late && apierrors.IsForbidden(err): // an API server that is starting forbids every request for a while
			if r.absent(ctx) {
				r.reservations.allRead()
				pause = discoverEvery
				break
			}
			r.reservations.Logger.Error(err, "The API server serves Reservations but forbids reading them: want the right to list and watch reservations.scheduling.koordinator.sh")
			pause = forbiddenEvery
		}
		later.Wait(ctx, r.reservations.Clock, pause)
	}
}

// absent reports whether the kind is not served. It asks the discovery API, which every user may
// read, even a user without the right to read the objects.
func (r *reader) absent(ctx context.Context) bool {
	served, err := r.client.Get().AbsPath("/apis", koordinator.GroupVersion.String()).Do(ctx).Raw()
	if err != nil {
		return apierrors.IsNotFound(err)
	}
	var list metav1.APIResourceList
	return json.Unmarshal(served, &list) == nil &&
		!slices.ContainsFunc(list.APIResources, func(k metav1.APIResource) bool { return k.Name == "reservations" })
}

func (r *reader) watch(ctx context.Context) {
	seen := func(obj any) {
		if o, ok := obj.(*koordinator.Reservation); ok {
			r.reservations.ObjectSeen(o)
		}
	}
	gone := func(obj any) {
		if o, ok := apiclient.Last(obj).(*koordinator.Reservation); ok {
			r.reservations.ObjectGone(o.UID)
		}
	}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(r.client, "reservations", metav1.NamespaceAll, fields.Everything()),
		ObjectType:    &koordinator.Reservation{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: seen,
			UpdateFunc: func(old, now any) {
				if was, is := old.(*koordinator.Reservation), now.(*koordinator.Reservation); was.UID != is.UID {
					gone(was)
				}
				seen(now)
			},
			DeleteFunc: gone,
		},
	})
	go informer.RunWithContext(klog.NewContext(ctx, r.reservations.Logger))
	if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		r.reservations.allRead()
	}
}
