package command

import (
	"context"
	"errors"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/berth-dev/berth/internal/scheduler/turns"
)

const (
	// maxEvents bounds the events that are written at a time. An event costs the API server almost
	// as much as a Binding, and nobody waits for it. A server that answers at once gets them as
	// fast as they come. One that has too much to do gets most of them after the Bindings.
	maxEvents = 4
	// maxWaiting bounds the events that wait, since each takes memory. Further ones are written at
	// once. kube-scheduler writes all of them at once.
	maxWaiting = 4096
)

// writeTimeout bounds how long a write may keep others from their turn. It is tried again.
const writeTimeout = 30 * time.Second

// again is how often an event is tried where the server did not answer: as the broadcaster tries
// those that it writes itself (attemptRecording in client-go's tools/events).
var again = wait.Backoff{Duration: 10 * time.Second, Jitter: 0.25, Factor: 1, Steps: 12}

// unhurriedEvents returns recorders for profiles whose events give way to Bindings. config is that
// of kube-scheduler's clients. Recording ends with ctx; events that wait then are lost, as those
// that are under way are with kube-scheduler.
func unhurriedEvents(ctx context.Context, config *rest.Config) (func(profile string) events.EventRecorderLogger, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	broadcaster := events.NewBroadcaster(newUnhurried(&events.EventSinkImpl{Interface: client.EventsV1()}))
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, broadcaster.Shutdown)
	return func(profile string) events.EventRecorderLogger {
		return broadcaster.NewRecorder(scheme.Scheme, profile)
	}, nil
}

// unhurried is a sink that writes maxEvents new events at a time. Namespaces take turns. What waits
// is the event alone, and the broadcaster takes it for written: a goroutine that waited would be
// several times as large. That an event has come again waits for nobody: it is rare, and the
// broadcaster may hold a lock meanwhile that every new event needs (finishSeries in client-go's
// tools/events).
type unhurried struct {
	events.EventSink
	turns *turns.Turns
	again wait.Backoff
}

func newUnhurried(sink events.EventSink) unhurried {
	return unhurried{sink, turns.New(maxEvents), again}
}

// Create implements events.EventSink. ctx lasts as long as the broadcaster records.
func (u unhurried) Create(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	if event.Series != nil || u.turns.Waiting() >= maxWaiting {
		return u.write(ctx, event)
	}
	u.turns.Later(event.Namespace, func() { u.insist(ctx, event) })
	return event, nil
}

func (u unhurried) write(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return u.EventSink.Create(ctx, event)
}

// insist writes an event, and tries again where no answer came. It gives up when ctx ends.
func (u unhurried) insist(ctx context.Context, event *eventsv1.Event) {
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, u.again, func(ctx context.Context) (bool, error) {
		_, last = u.write(ctx, event)
		return last == nil || answered(last), nil
	})
	switch {
	case ctx.Err() != nil: // the process ends
	case err != nil || last != nil && !apierrors.IsAlreadyExists(last):
		klog.FromContext(ctx).Error(last, "This event was not written", "event", klog.KObj(event), "reason", event.Reason, "regarding", event.Regarding)
	}
}

// answered says that trying again would fail again: the server rejects the event, or it cannot be
// sent. As the broadcaster sees it.
func answered(err error) bool {
	var status *apierrors.StatusError
	var construction *rest.RequestConstructionError
	return errors.As(err, &status) || errors.As(err, &construction)
}
