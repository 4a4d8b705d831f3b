package command

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
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
	sink := newUnhurried(server, clock.RealClock{})
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
	sink := newUnhurried(server, clock.RealClock{})
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

// TestEventsWaitInBounds: while maxWaiting events wait, the sink writes a further one at once. When
// the process ends, it writes none that waits.
func TestEventsWaitInBounds(t *testing.T) {
	server := slow{given: make(chan string, 2*maxEvents), answer: make(chan struct{})}
	sink := newUnhurried(server, clock.RealClock{})
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
	sink.takeAll(t)
	if len(server.given) > 0 {
		t.Errorf("the event %s is written although the process ends", next(t, server.given))
	}
}

// takeAll waits until all turns have come back, and keeps them until it is told otherwise.
func (u unhurried) takeAll(t *testing.T) (giveBack func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var all []func()
	for range maxEvents {
		done, err := u.turns.Take(ctx, "a")
		if err != nil {
			t.Fatalf("a turn does not come back: %v", err)
		}
		all = append(all, done)
	}
	return func() {
		for _, done := range all {
			done()
		}
	}
}

// await waits until so many events wait for their turn, and so many pause.
func (u unhurried) await(t *testing.T, waiting, pausing int) {
	t.Helper()
	for begun := time.Now(); u.turns.Waiting() != waiting || int(u.pausing.Load()) != pausing; runtime.Gosched() {
		if time.Since(begun) > patience {
			t.Fatalf("%d wait, want %d; %d pause, want %d", u.turns.Waiting(), waiting, u.pausing.Load(), pausing)
		}
	}
}

// awaitPause waits until one event pauses, and the clock knows of it.
func (u unhurried) awaitPause(t *testing.T, now *clocktesting.FakeClock) {
	t.Helper()
	u.await(t, 0, 1)
	for begun := time.Now(); !now.HasWaiters(); runtime.Gosched() {
		if time.Since(begun) > patience {
			t.Fatal("nobody waits for the end of the pause")
		}
	}
}

// answers is a sink that answers with one error after the other.
type answers struct {
	slow
	errs chan error
}

func (a answers) Create(_ context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	a.given <- event.Name
	return event, <-a.errs
}

// TestEventsAreTriedAgain: an event that the server did not answer is written again after a pause,
// in which others are written, and one that it answered is not.
func TestEventsAreTriedAgain(t *testing.T) {
	gone, full := errors.New("connection refused"), apierrors.NewForbidden(eventsv1.Resource("events"), "first", errors.New("quota"))
	there := apierrors.NewAlreadyExists(eventsv1.Resource("events"), "first")
	for name, errs := range map[string][]error{
		"written":         {nil},
		"no answer":       {gone, gone, nil},
		"never an answer": slices.Repeat([]error{gone}, maxTries),
		"rejected":        {full},
		"then rejected":   {gone, full},
		"then there":      {gone, there},
	} {
		t.Run(name, func(t *testing.T) {
			now := clocktesting.NewFakeClock(time.Now())
			server := answers{slow{given: make(chan string, 1)}, make(chan error)}
			sink := newUnhurried(server, now)
			sink.put(t.Context(), t, eventIn("a", "first"))
			for i, err := range errs {
				next(t, server.given)
				server.errs <- err
				if i == len(errs)-1 {
					break
				}
				sink.awaitPause(t, now)
				sink.put(t.Context(), t, eventIn("a", "other"))
				if got := next(t, server.given); got != "other" {
					t.Fatalf("the event %s is written, want the other one", got)
				}
				server.errs <- nil
				now.Step(2 * pause)
			}
			sink.takeAll(t)
			sink.await(t, 0, 0)
			if now.HasWaiters() {
				t.Errorf("an event is tried again after %d answers", len(errs))
			}
		})
	}
}

// TestEventsThatPauseEnd: an event that is to be tried again is lost when the process ends.
func TestEventsThatPauseEnd(t *testing.T) {
	now := clocktesting.NewFakeClock(time.Now())
	server := answers{slow{given: make(chan string, 1)}, make(chan error)}
	sink := newUnhurried(server, now)
	ctx, end := context.WithCancel(t.Context())
	sink.put(ctx, t, eventIn("a", "first"))
	next(t, server.given)
	server.errs <- errors.New("connection refused")
	sink.awaitPause(t, now)
	giveBack := sink.takeAll(t)
	now.Step(2 * pause)
	sink.await(t, 1, 0)
	end()
	giveBack()
	sink.takeAll(t)
	if len(server.given) > 0 {
		t.Error("the event is written although the process ends")
	}
}

// TestEventsOfASeries: with client-go's broadcaster, what is said a second time while the first
// event waits is written as a series, and the first one finds it there.
func TestEventsOfASeries(t *testing.T) {
	client := fake.NewClientset()
	var created atomic.Int64
	client.PrependReactor("create", "events", func(k8stesting.Action) (bool, apiruntime.Object, error) {
		created.Add(1)
		return false, nil, nil
	})
	series := func() bool {
		list, err := client.EventsV1().Events("a").List(t.Context(), metav1.ListOptions{})
		return err == nil && len(list.Items) == 1 && list.Items[0].Series != nil && list.Items[0].Series.Count == 2
	}
	sink := newUnhurried(&events.EventSinkImpl{Interface: client.EventsV1()}, clock.RealClock{})
	giveBack := sink.takeAll(t)
	broadcaster := events.NewBroadcaster(sink)
	defer broadcaster.Shutdown()
	if err := broadcaster.StartRecordingToSinkWithContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	recorder := broadcaster.NewRecorder(scheme.Scheme, "berth")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "pod", UID: "1"}}
	say := func() {
		recorder.Eventf(pod, nil, corev1.EventTypeWarning, "FailedScheduling", "Scheduling", "no node")
	}
	say()
	sink.await(t, 1, 0)
	say()
	for begun := time.Now(); !series(); runtime.Gosched() {
		if time.Since(begun) > patience {
			t.Fatal("the second is not written while the first waits")
		}
	}
	before := created.Load()
	giveBack()
	sink.takeAll(t)
	if created.Load() == before || !series() {
		t.Error("the first is not written, or there is not one event that came twice")
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
