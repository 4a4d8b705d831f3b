package command

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/scheduler/later"
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

// writeTimeout bounds how long one write keeps others from their turn.
const writeTimeout = 30 * time.Second

// How often an event is tried where the server did not answer, and after which pause: as the
// broadcaster does with what it writes itself (attemptRecording in client-go's tools/events).
const (
	maxTries = 12
	pause    = 10 * time.Second
)

// unhurriedEvents returns recorders for profiles whose events give way to Bindings. config is that
// of kube-scheduler's clients. Recording ends with ctx; events that wait then are lost, as
// kube-scheduler's are that are under way.
func unhurriedEvents(ctx context.Context, config *rest.Config) (func(profile string) events.EventRecorderLogger, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	broadcaster := events.NewBroadcaster(newUnhurried(&events.EventSinkImpl{Interface: client.EventsV1()}, clock.RealClock{}))
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
	clock clock.WithDelayedExecution
	// pausing is how many wait until they are tried again.
	pausing *atomic.Int64
}

func newUnhurried(sink events.EventSink, c clock.WithDelayedExecution) unhurried {
	return unhurried{sink, turns.New(maxEvents), c, new(atomic.Int64)}
}

// Create implements events.EventSink. ctx lasts as long as the broadcaster records.
func (u unhurried) Create(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	if event.Series != nil || u.turns.Waiting()+int(u.pausing.Load()) >= maxWaiting {
		return u.write(ctx, event)
	}
	u.queue(ctx, event, maxTries)
	return event, nil
}

// queue has an event tried when its turn comes, up to so many times in all.
func (u unhurried) queue(ctx context.Context, event *eventsv1.Event, tries int) {
	u.turns.Later(event.Namespace, func() { u.try(ctx, event, tries) })
}

func (u unhurried) write(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return u.EventSink.Create(ctx, event)
}

// try writes an event. Where no answer comes the event is queued again after a pause, in which it
// has no turn. What waits when ctx ends is lost.
func (u unhurried) try(ctx context.Context, event *eventsv1.Event, tries int) {
	if ctx.Err() != nil {
		return
	}
	_, err := u.write(ctx, event)
	if err == nil || ctx.Err() != nil || apierrors.IsAlreadyExists(err) { // its series came first
		return
	}
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "event", klog.KObj(event), "regarding", klog.KRef(event.Regarding.Namespace, event.Regarding.Name),
		"type", event.Type, "reason", event.Reason, "note", event.Note)
	if final(err) || tries <= 1 {
		logger.Error(err, "An event was not written")
		return
	}
	logger.Error(err, "An event was not written yet")
	u.pausing.Add(1)
	later.Call(u.clock, wait.Jitter(pause, 0.25), func() {
		u.queue(ctx, event, tries-1)
		u.pausing.Add(-1)
	})
}

// final says that an event is not tried again after err: the server has answered, or the event
// cannot be sent. "Too many requests" is an answer, too, as it is for the broadcaster: the client
// has waited and sent the event again by itself.
func final(err error) bool {
	var status *apierrors.StatusError
	var construction *rest.RequestConstructionError
	return errors.As(err, &status) || errors.As(err, &construction)
}
