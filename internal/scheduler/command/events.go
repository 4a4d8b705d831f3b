package command

import (
	"context"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"

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

// writeTimeout bounds how long an event may keep others from their turn. The broadcaster tries it
// again.
const writeTimeout = 30 * time.Second

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

// unhurried is a sink that takes maxEvents new events at a time. Namespaces take turns. That an
// event has come again waits for nobody: it is rare, and the broadcaster may hold a lock meanwhile
// that every new event needs (finishSeries in client-go's tools/events).
type unhurried struct {
	events.EventSink
	turns *turns.Turns
}

func newUnhurried(sink events.EventSink) unhurried { return unhurried{sink, turns.New(maxEvents)} }

// Create implements events.EventSink.
func (u unhurried) Create(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	if event.Series == nil && u.turns.Waiting() < maxWaiting {
		done, err := u.turns.Take(ctx, event.Namespace)
		if err != nil {
			return event, nil // the process ends, and the event is lost
		}
		defer done()
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return u.EventSink.Create(ctx, event)
}
