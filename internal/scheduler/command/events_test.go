package command

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"

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

// TestEventsGiveWay: maxEvents are written at a time, new ones and further ones of a series alike,
// and another namespace's event comes before the rest of one with many.
func TestEventsGiveWay(t *testing.T) {
	server := slow{given: make(chan string), answer: make(chan struct{})}
	sink := newUnhurried(server)
	var all sync.WaitGroup
	write := func(namespace, name string, patch bool) {
		all.Go(func() {
			var err error
			if event := eventIn(namespace, name); patch {
				_, err = sink.Patch(t.Context(), event, nil)
			} else {
				_, err = sink.Create(t.Context(), event)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	for i := range maxEvents {
		write("many", "first", i%2 == 0)
		<-server.given
	}
	for i := range 2 * maxEvents {
		write("many", "later", i%2 == 0)
		sink.await(i + 1)
	}
	write("few", "other", false)
	sink.await(2*maxEvents + 1)
	select {
	case name := <-server.given:
		t.Fatalf("the event %s is written beside %d others", name, maxEvents)
	default:
	}
	for i, want := range []string{"later", "other", "later"} {
		server.answer <- struct{}{}
		if got := <-server.given; got != want {
			t.Errorf("answer %d: the event %s comes, want %s", i, got, want)
		}
	}
	go func() {
		for range server.given {
		}
	}()
	close(server.answer)
	all.Wait()
	close(server.given)
}

// await waits until so many events wait.
func (u unhurried) await(waiting int) {
	for u.turns.Waiting() != waiting {
		runtime.Gosched()
	}
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
		<-server.given
	}
	for range maxWaiting {
		waiting.Go(func() {
			if _, err := sink.Create(ctx, eventIn("a", "waits")); !errors.Is(err, context.Canceled) {
				t.Errorf("%v, want that it waited until it was given up", err)
			}
		})
	}
	sink.await(maxWaiting)
	written.Go(func() { _, _ = sink.Create(t.Context(), eventIn("a", "beyond")) })
	if got := <-server.given; got != "beyond" {
		t.Errorf("the event %s comes, want the one beyond", got)
	}
	end()
	waiting.Wait()
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
		if got := <-recorder.Events; !strings.Contains(got, tc.want) {
			t.Errorf("got %q, want %s", got, tc.want)
		}
	}
}
