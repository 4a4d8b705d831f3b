package reservation

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/apiclient"
)

// discoverEvery is how often the kind is looked for while it is not served, and retryEvery while
// the API server cannot say.
const (
	discoverEvery = time.Minute
	retryEvery    = time.Second
)

// Watch hears of the objects until ctx ends. Where the kind is not served nothing is watched.
func (rs *Reservations) Watch(ctx context.Context, config *rest.Config) error {
	client, err := apiclient.Koordinator(config)
	if err != nil {
		return err
	}
	rs.mu.Lock()
	rs.writer = restWriter{client}
	rs.mu.Unlock()
	go rs.discover(ctx, client)
	go rs.Write(ctx)
	return nil
}

// discover begins to watch when the kind is served.
func (rs *Reservations) discover(ctx context.Context, client rest.Interface) {
	begun := rs.Clock.Now()
	for ctx.Err() == nil {
		err := client.Get().Resource("reservations").Param("limit", "1").Do(ctx).Error()
		pause := retryEvery
		switch {
		case err == nil:
			rs.watch(ctx, client)
			return
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
			if apierrors.IsForbidden(err) {
				rs.Logger.Error(err, "Reservations are not read")
			}
			rs.allRead()
			pause = discoverEvery
		case rs.Clock.Now().Sub(begun) > readLimit:
			pause = discoverEvery
		}
		select {
		case <-ctx.Done():
		case <-rs.Clock.After(pause):
		}
	}
}

func (rs *Reservations) allRead() { rs.once.Do(func() { close(rs.read) }) }

func (rs *Reservations) watch(ctx context.Context, client rest.Interface) {
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(client, "reservations", metav1.NamespaceAll, fields.Everything()),
		ObjectType:    &koordinator.Reservation{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: rs.seen,
			UpdateFunc: func(old, now any) {
				if was, is := old.(*koordinator.Reservation), now.(*koordinator.Reservation); was.UID != is.UID {
					rs.gone(was)
				}
				rs.seen(now)
			},
			DeleteFunc: rs.gone,
		},
	})
	go informer.RunWithContext(klog.NewContext(ctx, rs.Logger))
	if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		rs.allRead()
	}
}

func (rs *Reservations) seen(obj any) {
	if o, ok := obj.(*koordinator.Reservation); ok {
		rs.ObjectSeen(o)
	}
}

func (rs *Reservations) gone(obj any) {
	if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	if o, ok := obj.(*koordinator.Reservation); ok {
		rs.ObjectGone(o.UID)
	}
}
