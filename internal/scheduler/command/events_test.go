package command

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"

	"github.com/berth-dev/berth/internal/scheduler/turns"
)

// slow is a sink that says which event it was given, and answers when it is let.
type slow struct {
	given  chan string
	answer chan struct{}
}

func (s slow) take(event *eventsv1.Event) (*eventsv1.Event, error) {
	s.given <- event.Name
	<-s.answer
	return event, nil
}

func (s slow) Create(_ context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	return s.take(event)
}

func (s slow) Update(_ context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	return s.take(event)
}

func (s slow) Patch(_ context.Context, event *eventsv1.Event, _ []byte) (*eventsv1.Event, error) {
	return s.take(event)
}

func eventIn(namespace, name string) *eventsv1.Event {
	return &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// patience is how long a test waits for what comes at once.
const patience = time.Minute

func next(t *testing.T, from <-chan string) string {
	t.Helper()
	select {
	case name := <-from:
		return name
	case <-time.After(patience):
		t.Fatal("nothing comes")
		return ""
	}
}

// put hands an event to the sink, which keeps nobody waiting.
func (u unhurried) put(ctx context.Context, t *testing.T, event *eventsv1.Event) {
	t.Helper()
	if _, err := u.Create(ctx, event); err != nil {
		t.Errorf("event %s: %v", event.Name, err)
	}
}

// TestEventsThatComeAgain: what is said of an event that has been written waits for nobody, since
// the broadcaster may take no other event before it is written.
func TestEventsThatComeAgain(t *testing.T) {
	server := slow{given: make(chan string), answer: make(chan struct{})}
	sink := newUnhurried(server)
	for range maxEvents {
		sink.put(t.Context(), t, eventIn("many", "first"))
		next(t, server.given)
	}
	again := eventIn("many", "again")
	again.Series = &eventsv1.EventSeries{Count: 2}
	var all sync.WaitGroup
	all.Go(func() { _, _ = sink.Patch(t.Context(), again, nil) })
	next(t, server.given)
	all.Go(func() { _, _ = sink.Create(t.Context(), again) }) // it was deleted meanwhile
	next(t, server.given)
	close(server.answer)
	all.Wait()
}

// TestEventsTakeTurns: maxEvents are written at a time, and another namespace's event comes before
// the rest of one with many.
func TestEventsTakeTurns(t *testing.T) {
	server := slow{given: make(chan string), answer: make(chan struct{})}
	sink := newUnhurried(server)
	for range maxEvents {
		sink.put(t.Context(), t, eventIn("many", "first"))
		next(t, server.given)
	}
	for range 3 {
		sink.put(t.Context(), t, eventIn("many", "later"))
	}
	sink.put(t.Context(), t, eventIn("few", "other"))
	if n := sink.turns.Waiting(); n != 4 {
		t.Errorf("%d events wait, want 4", n)
	}
	select {
	case name := <-server.given:
		t.Fatalf("the event %s is written beside %d others", name, maxEvents)
	default:
	}
	for i, want := range []string{"later", "other", "later", "later"} {
		server.answer <- struct{}{}
		if got := next(t, server.given); got != want {
			t.Errorf("answer %d: the event %s comes, want %s", i, got, want)
		}
	}
	close(server.answer)
}

// TestEventsWaitInBounds: where maxWaiting wait, further ones are written at once, and those that
// wait when the process ends are lost.
func TestEventsWaitInBounds(t *testing.T) {
	server := slow{given: make(chan string, 2*maxEvents), answer: make(chan struct{})}
	sink := newUnhurried(server)
	ctx, end := context.WithCancel(t.Context())
	for range maxEvents {
		sink.put(t.Context(), t, eventIn("a", "first"))
		next(t, server.given)
	}
	for range maxWaiting {
		sink.put(ctx, t, eventIn("a", "waits"))
	}
	var written sync.WaitGroup
	written.Go(func() { sink.put(t.Context(), t, eventIn("a", "beyond")) })
	if got := next(t, server.given); got != "beyond" {
		t.Errorf("the event %s comes, want the one beyond", got)
	}
	end()
	close(server.answer)
	written.Wait()
	for range maxEvents { // all turns come back
		if _, err := sink.turns.Take(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	}
	if len(server.given) > 0 {
		t.Errorf("the event %s is written although the process ends", next(t, server.given))
	}
}

// answers is a sink that answers with one error after the other.
type answers struct {
	slow
	errs []error
}

func (a *answers) Create(_ context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	err := a.errs[0]
	a.errs = a.errs[1:]
	return event, err
}

// TestEventsAreInsistedOn: an event that the server did not answer is written again, and one that
// it rejects is not.
func TestEventsAreInsistedOn(t *testing.T) {
	gone, full := errors.New("connection refused"), apierrors.NewForbidden(eventsv1.Resource("events"), "first", errors.New("quota"))
	const tries = 4
	for name, errs := range map[string][]error{ // and one that nobody asks for
		"written":         {nil, nil},
		"no answer":       {gone, gone, nil, nil},
		"never an answer": {gone, gone, gone, gone, gone},
		"rejected":        {full, nil},
		"then rejected":   {gone, full, nil},
	} {
		t.Run(name, func(t *testing.T) {
			server := &answers{errs: errs}
			sink := newUnhurried(server)
			sink.turns, sink.again = turns.New(1), wait.Backoff{Duration: time.Millisecond, Factor: 1, Steps: tries}
			sink.put(t.Context(), t, eventIn("a", "first"))
			if _, err := sink.turns.Take(t.Context(), "a"); err != nil { // it is over
				t.Fatal(err)
			}
			if got := len(server.errs); got != 1 {
				t.Errorf("%d answers are left of %d, want 1", got, len(errs))
			}
		})
	}
}

// TestProfilesSay: what a cycle says of a pod comes by the recorder that the profile was given.
func TestProfilesSay(t *testing.T) {
	s := newSeams(t)
	recorder := events.NewFakeRecorder(2)
	say(s.sched, func(profile string) events.EventRecorderLogger {
		if profile != corev1.DefaultSchedulerName {
			t.Errorf("a recorder for %s, want one for %s", profile, corev1.DefaultSchedulerName)
		}
		return recorder
	})
	s.client.PrependReactor("create", "pods", func(a k8stesting.Action) (bool, apiruntime.Object, error) {
		return a.GetSubresource() == "binding", nil, nil
	})
	for _, tc := range []struct{ cpus, want string }{{"1", "Scheduled"}, {"1000", "FailedScheduling"}} {
		if _, err := s.client.CoreV1().Pods("default").Create(t.Context(), s.pod("cpus-"+tc.cpus, tc.cpus), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		s.cycle(t)
		if got := next(t, recorder.Events); !strings.Contains(got, tc.want) {
			t.Errorf("got %q, want %s", got, tc.want)
		}
	}
}
