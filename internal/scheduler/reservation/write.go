package reservation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// errElsewhere means that the Reservation no longer needs the place, because it has another place,
// is over or is gone.
var errElsewhere = errors.New("the Reservation no longer needs a place")

// Place writes the place of a Reservation into its object, and holds the place. The node's account
// must already have a reservation for the pod that stands for the Reservation. The parameter
// decision is nil if the kubelet decides on the node. If Place returns an error, it holds nothing.
// A write whose answer was lost may still have succeeded; the watch then shows it.
func (rs *Reservations) Place(ctx context.Context, uid types.UID, node string, decision *placement.Decision, annotations map[string]any) error {
	rs.writes.Lock()
	defer rs.writes.Unlock()
	rs.mu.Lock()
	it := rs.all[uid]
	if it == nil || it.read == nil || it.stage != waiting {
		rs.mu.Unlock()
		return errElsewhere
	}
	name, version, r, object, writer := it.object.Name, it.version, it.read, it.object, rs.writer
	rs.mu.Unlock()

	status, _ := r.Status(object, &wire.ReservationNews{
		Phase: koordinator.ReservationAvailable, Node: node, Reason: koordinator.ReasonReservationAvailable,
	}, rs.Clock.Now())
	var err error
	annotations = withoutStale(object.Annotations, annotations)
	if len(annotations) > 0 {
		if version, err = writer.Annotate(ctx, name, version, annotations); err != nil {
			return fmt.Errorf("decision of Reservation %s: %w", name, err)
		}
	}
	if _, err = writer.Status(ctx, name, version, status); err != nil {
		return fmt.Errorf("status of Reservation %s: %w", name, err)
	}
	return rs.settle(uid, node, decision)
}

// withoutStale returns a merge patch for the annotations of an object. The parameter has contains
// the object's annotations, and the parameter now contains the annotations to set. The patch also
// removes annotations that describe an earlier place and are not in now.
func withoutStale(has map[string]string, now map[string]any) map[string]any {
	out := maps.Clone(now)
	for _, key := range []string{wire.PlacementAnnotation, wire.KoordinatorStatusAnnotation, wire.KoordinatorDevicesAnnotation} {
		_, stale := has[key]
		if _, said := now[key]; stale && !said {
			if out == nil {
				out = map[string]any{}
			}
			out[key] = nil
		}
	}
	return out
}

// settle records a written place, and holds it.
func (rs *Reservations) settle(uid types.UID, node string, decision *placement.Decision) error {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	it := rs.all[uid]
	switch {
	case it == nil || it.read == nil || it.stage == over:
		return errElsewhere
	case it.stage == placed && it.node != node: // the watch has shown another node
		return errElsewhere
	}
	it.stage, it.node, it.decision, it.unchecked, it.queued = placed, node, decision, false, nil
	it.say(koordinator.ReservationAvailable, koordinator.ReasonReservationAvailable, "")
	rs.sync(it)
	rs.wake(it)
	return nil
}

// Write handles the Reservations in rs.dirty until ctx ends: it writes the status of each into its
// object unless the object already shows this status.
func (rs *Reservations) Write(ctx context.Context) {
	go func() {
		<-ctx.Done()
		rs.dirty.ShutDown()
	}()
	for {
		uid, stop := rs.dirty.Get()
		if stop {
			return
		}
		if err := rs.write(ctx, uid); err != nil {
			if !apierrors.IsConflict(err) { // after a conflict, the watch will show the newer object
				rs.Logger.Error(err, "The status of a Reservation cannot be written")
			}
			rs.dirty.AddRateLimited(uid)
		} else {
			rs.dirty.Forget(uid)
		}
		rs.dirty.Done(uid)
	}
}

func (rs *Reservations) write(ctx context.Context, uid types.UID) error {
	rs.writes.Lock()
	defer rs.writes.Unlock()
	rs.mu.Lock()
	it := rs.all[uid]
	if it == nil || !rs.Lead.Leads() || rs.writer == nil {
		rs.mu.Unlock()
		return nil
	}
	if it.read == nil && it.wrong != nil {
		rs.tell(it, it.wrong.Error())
	}
	status, news := it.news(&rs.users, rs.Clock.Now())
	object, version, writer := it.object, it.version, rs.writer
	rs.mu.Unlock()
	if !news {
		return nil
	}
	now, err := writer.Status(ctx, object.Name, version, status)
	if apierrors.IsNotFound(err) {
		return nil
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if err == nil && it.object == object { // the watch has not shown a newer version
		it.version = now
	}
	return err
}

// Writer writes into the object of a Reservation. A write fails if the object no longer has the
// given version.
type Writer interface {
	// Annotate writes annotations, and returns the object's new version.
	Annotate(ctx context.Context, name, version string, annotations map[string]any) (string, error)
	// Status replaces the status, and returns the object's new version.
	Status(ctx context.Context, name, version string, status *koordinator.ReservationStatus) (string, error)
}

type restWriter struct{ client rest.Interface }

// Annotate implements Writer.
func (w restWriter) Annotate(ctx context.Context, name, version string, annotations map[string]any) (string, error) {
	return w.patch(ctx, name, types.MergePatchType, map[string]any{"metadata": map[string]any{"resourceVersion": version, "annotations": annotations}})
}

// Status implements Writer.
func (w restWriter) Status(ctx context.Context, name, version string, status *koordinator.ReservationStatus) (string, error) {
	return w.patch(ctx, name, types.JSONPatchType, []map[string]any{
		{"op": "add", "path": "/metadata/resourceVersion", "value": version},
		{"op": "add", "path": "/status", "value": status},
	}, "status")
}

func (w restWriter) patch(ctx context.Context, name string, kind types.PatchType, change any, sub ...string) (string, error) {
	patch, err := json.Marshal(change)
	if err != nil {
		return "", err
	}
	out := new(koordinator.Reservation)
	err = w.client.Patch(kind).Resource("reservations").Name(name).SubResource(sub...).Body(patch).Do(ctx).Into(out)
	return out.ResourceVersion, err
}

var _ Writer = restWriter{}
