package handover

import (
	"context"
	"errors"
	goruntime "runtime"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	testingclock "k8s.io/utils/clock/testing"
)

// unbound returns a pod of a profile that has no node.
func unbound(name, profile string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name)},
		Spec: corev1.PodSpec{SchedulerName: profile}}
}

func on(pod *corev1.Pod, nodeName string) *corev1.Pod {
	pod.Spec.NodeName = nodeName
	return pod
}

// fenced returns the pod with the fence of a scheduler.
func fenced(pod *corev1.Pod, by string) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Status.Conditions = []corev1.PodCondition{{Type: fenceType, Status: corev1.ConditionTrue, Message: by}}
	return pod
}

// successor returns the Handover of a scheduler for the pods of profile mine. done is closed when
// pods may be placed.
func successor(client *fake.Clientset) (h *Handover, clock *testingclock.FakeClock, done chan struct{}) {
	clock, done = testingclock.NewFakeClock(time.Unix(1000, 0)), make(chan struct{})
	h = New(Options{
		Leases: client.CoordinationV1().Leases("berth-system"), Pods: client.CoreV1(), Clock: clock, Logger: klog.Background(),
		SettleAfter: 5 * time.Second, BindTimeout: time.Minute,
		Ours: func(pod *corev1.Pod) bool { return pod.Spec.SchedulerName == "mine" }, Decided: func(pod *corev1.Pod) bool { return pod.Name == "placed" }, Done: func() { close(done) },
	})
	return h, clock, done
}

func TestFences(t *testing.T) {
	var f fences
	a, b, c := unbound("a", "x"), unbound("b", "x"), unbound("c", "x")
	f.seen(a) // before anything waits
	done := f.await("me", []*corev1.Pod{a, b, c})
	f.seen(a)
	f.seen(fenced(a, "somebody else"))
	f.seen(fenced(a, "me"))
	f.seen(on(b.DeepCopy(), "n"))
	select {
	case <-done:
		t.Fatal("done although c has not been seen")
	default:
	}
	f.gone(c.UID)
	<-done
	if again := f.await("me", nil); again == nil {
		t.Fatal("no channel")
	} else {
		<-again
	}
}

// TestTheFirstPodWaitsForTheTakeover: for a limited time, and not after the takeover.
func TestTheFirstPodWaitsForTheTakeover(t *testing.T) {
	h, clock, done := successor(fake.NewClientset())
	answer := make(chan struct{})
	h.Leads = func(context.Context) (bool, error) {
		<-answer
		return true, nil
	}
	h.Synced()
	wait := func() <-chan struct{} {
		over := make(chan struct{})
		go func() {
			h.Await(t.Context(), time.Second)
			close(over)
		}()
		for !clock.HasWaiters() {
			goruntime.Gosched()
		}
		return over
	}
	over := wait()
	clock.Step(time.Second)
	<-over
	if h.Ready(t.Context()) {
		t.Error("taken over before anybody knows who leads")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	h.Await(ended, time.Second)
	clock.Step(time.Second) // the timer no longer has a waiter
	over = wait()
	close(answer)
	<-over
	<-done
	h.Await(t.Context(), time.Hour)
}

// TestTakeover: if Bindings may be under way, the pods are fenced one by one before any pod is
// placed.
func TestTakeover(t *testing.T) {
	foreign, gated := unbound("foreign", "theirs"), unbound("gated", "mine")
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "gate"}}
	over := unbound("over", "mine")
	over.Status.Phase = corev1.PodFailed
	client := fake.NewClientset(unbound("a", "mine"), unbound("b", "mine"), on(unbound("bound", "mine"), "n"), foreign, gated)
	h, clock, done := successor(client)
	before := newLease(client, "before", clock)
	claim(t, before, foundNobody)
	if err := before.enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The watch shows what is written.
	client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		p := fenced(unbound(action.(clienttesting.PatchAction).GetName(), "mine"), h.lease.name)
		go h.Seen(p)
		return true, p, nil
	})
	// The fake does not support field selectors.
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &corev1.PodList{Items: []corev1.Pod{*unbound("a", "mine"), *unbound("b", "mine"), *foreign, *gated, *over}}, nil
	})
	h.Synced()
	clock.Step(time.Minute)
	if h.Ready(t.Context()) {
		t.Fatal("pods are placed before anything was taken over")
	}
	<-done
	if !h.Ready(t.Context()) {
		t.Error("pods are not placed afterwards")
	}
	patched := map[string]bool{}
	for _, action := range client.Actions() {
		if p, ok := action.(clienttesting.PatchAction); ok {
			patched[p.GetName()] = true
		}
	}
	if len(patched) != 2 || !patched["a"] || !patched["b"] {
		t.Errorf("fenced %v, want a and b", patched)
	}
}

// noticing is a clock that sends each duration that is waited for.
type noticing struct {
	*testingclock.FakeClock
	waiting chan time.Duration
}

func (c noticing) After(d time.Duration) <-chan time.Time {
	after := c.FakeClock.After(d)
	c.waiting <- d
	return after
}

// TestTakeoverWaitsForWhatIsOnItsWay: before the watch began, a pod may have been bound, and
// deleted by force.
func TestTakeoverWaitsForWhatIsOnItsWay(t *testing.T) {
	client := fake.NewClientset()
	h, clock, done := successor(client)
	claim(t, newLease(client, "before", clock), foundNobody)
	waiting := make(chan time.Duration, 1)
	h.Clock = noticing{clock, waiting}
	h.Synced()
	h.Ready(t.Context())
	if d := <-waiting; d != h.SettleAfter {
		t.Errorf("waits %v, want %v", d, h.SettleAfter)
	}
	select {
	case <-done:
		t.Fatal("pods are placed at once")
	default:
	}
	clock.Step(h.SettleAfter)
	<-done
}

// TestTheFirstLeaderWaitsForNothing: there was no leader before.
func TestTheFirstLeaderWaitsForNothing(t *testing.T) {
	h, _, done := successor(fake.NewClientset())
	h.Synced()
	h.Ready(t.Context())
	<-done
}

// TestADeletedLeaseHidesNothing: the Lease was deleted while Bindings were under way. The next
// leader fences and waits as if the Lease said so.
func TestADeletedLeaseHidesNothing(t *testing.T) {
	pod := unbound("a", "mine")
	client := fake.NewClientset(pod)
	h, clock, done := successor(client)
	waiting := make(chan time.Duration, 1)
	h.Clock = noticing{clock, waiting}
	h.Seen(unbound("placed", "mine"))
	h.Synced()
	h.Ready(t.Context())
	if d := <-waiting; d != h.SettleAfter {
		t.Errorf("waits %v, want %v", d, h.SettleAfter)
	}
	clock.Step(h.SettleAfter)
	for fenceOf(pod) != h.lease.name {
		now, err := client.CoreV1().Pods("default").Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-done:
			t.Fatal("pods are placed while one may be bound")
		default:
		}
		pod = now
	}
	h.Seen(pod)
	<-done
}

// TestWithoutItsLeaseTheElectionTells: a leader that may not write its Lease asks who leads before
// it binds.
func TestWithoutItsLeaseTheElectionTells(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, LeaseName, nil)
	})
	h, clock, done := successor(client)
	var leads atomic.Bool
	leads.Store(true)
	var asked atomic.Int32
	h.Leads = func(context.Context) (bool, error) { asked.Add(1); return leads.Load(), nil }
	waiting := make(chan time.Duration, 1)
	h.Clock = noticing{clock, waiting}
	h.Synced()
	h.Ready(t.Context())
	<-waiting
	clock.Step(h.SettleAfter)
	<-done
	before := asked.Load()
	for range 2 {
		if err := h.Enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.Leave(nil)
	}
	if got := asked.Load() - before; got != 1 {
		t.Errorf("two Bindings at once: asked %d times who leads, want once", got)
	}
	leads.Store(false)
	h.lease.fresh = 0 // some time later
	if err := h.Enter(t.Context()); !errors.Is(err, ErrDeposed) {
		t.Errorf("another one leads: %v", err)
	}
}

// TestTheDeposedTakesOverAnew: a scheduler that lost the lead takes over again before it places
// another pod.
func TestTheDeposedTakesOverAnew(t *testing.T) {
	client := fake.NewClientset()
	h, clock, done := successor(client)
	h.Ready(t.Context())
	<-done
	claim(t, newLease(client, "other", clock), foundQuiet)
	// The fake does not compare versions, but the API server does.
	client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewConflict(corev1.Resource("leases"), LeaseName, errors.New("changed"))
	})
	if err := h.Enter(t.Context()); !errors.Is(err, ErrDeposed) {
		t.Fatalf("it binds on: %v", err)
	}
	if h.state.Load() != idle {
		t.Error("it still leads")
	}
}

// fencing returns a takeover that fences pods a and b. A webhook refuses the write to a. tried gets
// the name of each pod for which a write was tried.
func fencing() (h *Handover, tried chan string) {
	client := fake.NewClientset()
	h, _, _ = successor(client)
	tried = make(chan string, 10)
	client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		name := action.(clienttesting.PatchAction).GetName()
		tried <- name
		if name == "a" {
			return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), name, errors.New("a webhook says no"))
		}
		return true, unbound(name, "mine"), nil
	})
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &corev1.PodList{Items: []corev1.Pod{*unbound("a", "mine"), *unbound("b", "mine")}}, nil
	})
	return h, tried
}

// TestAPodThatCannotBeFenced: its Binding may be written until the API server gives the request up.
// The same is true for pods whose fence has not been seen.
func TestAPodThatCannotBeFenced(t *testing.T) {
	h, tried := fencing()
	limit, end := context.WithCancel(t.Context())
	outcome := make(chan error)
	go func() {
		_, err := h.fence(limit)
		outcome <- err
	}()
	if first, second := <-tried, <-tried; first == second {
		t.Errorf("%s tried twice", first)
	}
	end()
	if err := <-outcome; !errors.Is(err, context.Canceled) || !apierrors.IsForbidden(err) {
		t.Errorf("it did not wait for the limit, or does not say why: %v", err)
	}
}

// TestAPodThatCannotBeFencedIsBound: no other Binding of it can be under way.
func TestAPodThatCannotBeFencedIsBound(t *testing.T) {
	h, tried := fencing()
	outcome := make(chan error)
	go func() {
		_, err := h.fence(t.Context())
		outcome <- err
	}()
	<-tried
	<-tried
	h.Seen(on(unbound("a", "mine"), "n"))
	h.Seen(fenced(unbound("b", "mine"), h.lease.name))
	if err := <-outcome; !apierrors.IsForbidden(err) {
		t.Errorf("%v", err)
	}
}

// TestFenceInConflict: after a conflict, the fence is written again unless another pod now has the
// name.
func TestFenceInConflict(t *testing.T) {
	for name, want := range map[string]struct {
		found types.UID
		tries int
	}{
		"others wrote this pod":    {unbound("a", "mine").UID, 2},
		"another pod of this name": {"another", 1},
	} {
		client := fake.NewClientset()
		h, _, _ := successor(client)
		tries := 0
		client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			if tries++; tries == 1 {
				return true, nil, apierrors.NewConflict(corev1.Resource("pods"), "a", errors.New("changed"))
			}
			return true, unbound("a", "mine"), nil
		})
		client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			pod := unbound("a", "mine")
			pod.UID = want.found
			return true, pod, nil
		})
		if err := h.fenceOne(t.Context(), unbound("a", "mine")); err != nil || tries != want.tries {
			t.Errorf("%s: %d tries, %v; want %d", name, tries, err, want.tries)
		}
	}
}

// TestWhoDoesNotLeadTakesNothingOver: a suspended process runs again, finds that the Lease is
// taken, and believes for some seconds that it still leads. It does not take the Lease.
func TestWhoDoesNotLeadTakesNothingOver(t *testing.T) {
	client := fake.NewClientset()
	h, clock, done := successor(client)
	claim(t, newLease(client, "leader", clock), foundNobody)
	asked, leads := make(chan struct{}), make(chan bool)
	h.Leads = func(context.Context) (bool, error) {
		asked <- struct{}{}
		return <-leads, nil
	}
	waiting := make(chan time.Duration, 1)
	h.Clock = noticing{clock, waiting}
	h.Synced()
	if h.Ready(t.Context()) {
		t.Fatal("ready at once")
	}
	<-asked
	leads <- false
	<-asked // again, a second later
	if got := *lease(t, client).Spec.HolderIdentity; got != "leader" {
		t.Errorf("the Lease is held by %s, which does not lead", got)
	}
	leads <- true
	<-waiting
	clock.Step(h.SettleAfter)
	<-done
	if got := *lease(t, client).Spec.HolderIdentity; got != h.lease.name {
		t.Errorf("the Lease is held by %s once this one leads", got)
	}
}

// TestALeaseThatCannotBeClaimedIsClaimedLater: otherwise the next leader would read the data of the
// leader before this one as the data of this one.
func TestALeaseThatCannotBeClaimedIsClaimedLater(t *testing.T) {
	client := fake.NewClientset()
	before := newLease(client, "before", testingclock.NewFakeClock(time.Unix(1000, 0)))
	claim(t, before, foundNobody)
	h, clock, done := successor(client)
	var refused atomic.Bool
	refused.Store(true)
	client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		if refused.Load() {
			return true, nil, apierrors.NewForbidden(corev1.Resource("leases"), LeaseName, errors.New("not now"))
		}
		return false, nil, nil
	})
	h.Synced()
	h.Ready(t.Context())
	for {
		select {
		case <-done:
		default:
			clock.Step(time.Second)
			goruntime.Gosched()
			continue
		}
		break
	}
	if err := h.Enter(t.Context()); err != nil {
		t.Fatalf("it cannot bind without the Lease: %v", err)
	}
	refused.Store(false)
	for said := ""; said != bindingsUnderWay; {
		clock.Step(time.Second)
		lease, err := client.CoordinationV1().Leases("berth-system").Get(t.Context(), LeaseName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		said = lease.Annotations[leaseAnnotation]
		goruntime.Gosched()
	}
	claim(t, newLease(client, "after", clock), foundUnderWay)
}
