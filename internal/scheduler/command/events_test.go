package command

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
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

// await waits until so many events wait.
func (u unhurried) await(t *testing.T, waiting int) {
	t.Helper()
	for begun := time.Now(); u.turns.Waiting() != waiting; runtime.Gosched() {
		if time.Since(begun) > patience {
			t.Fatalf("%d events wait, want %d", u.turns.Waiting(), waiting)
		}
	}
}

// TestEventsThatComeAgain: what is said of an event that has been written waits for nobody, since
// the broadcaster may take no other event before it is written.
func TestEventsThatComeAgain(t *testing.T) {
	server := slow{given: make(chan string), answer: make(chan struct{})}
	sink := newUnhurried(server)
	var all sync.WaitGroup
	for range maxEvents {
		all.Go(func() { _, _ = sink.Create(t.Context(), eventIn("many", "first")) })
		next(t, server.given)
	}
	again := eventIn("many", "again")
	again.Series = &eventsv1.EventSeries{Count: 2}
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
	var all sync.WaitGroup
	write := func(namespace, name string) {
		all.Go(func() { _, _ = sink.Create(t.Context(), eventIn(namespace, name)) })
	}
	for range maxEvents {
		write("many", "first")
		next(t, server.given)
	}
	for i := range 3 {
		write("many", "later")
		sink.await(t, i+1)
	}
	write("few", "other")
	sink.await(t, 4)
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
	all.Wait()
}

// TestEventsWaitInBounds: where maxWaiting wait, further ones are written at once, and none waits
// beyond its context.
func TestEventsWaitInBounds(t *testing.T) {
	server := slow{given: make(chan string, 2*maxEvents), answer: make(chan struct{})}
	sink := newUnhurried(server)
	ctx, end := context.WithCancel(t.Context())
	var waiting, written sync.WaitGroup
	for range maxEvents {
		written.Go(func() { _, _ = sink.Create(t.Context(), eventIn("a", "first")) })
		next(t, server.given)
	}
	for range maxWaiting {
		waiting.Go(func() {
			if _, err := sink.Create(ctx, eventIn("a", "waits")); err != nil {
				t.Errorf("%v: want that an event which is lost is no error to try again for", err)
			}
		})
	}
	sink.await(t, maxWaiting)
	written.Go(func() { _, _ = sink.Create(t.Context(), eventIn("a", "beyond")) })
	if got := next(t, server.given); got != "beyond" {
		t.Errorf("the event %s comes, want the one beyond", got)
	}
	end()
	waiting.Wait()
	sink.await(t, 0)
	close(server.answer)
	written.Wait()
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
