package handover

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	testingclock "k8s.io/utils/clock/testing"
)

// newLease returns the Lease of a scheduler. All schedulers share the client.
func newLease(client *fake.Clientset, name string, c *testingclock.FakeClock) *bindingsLease {
	return &bindingsLease{leases: client.CoordinationV1().Leases("berth-system"), clock: c, logger: klog.Background(), name: name, bindTimeout: time.Minute, fresh: time.Hour}
}

func claim(t *testing.T, l *bindingsLease, want found) {
	t.Helper()
	got, err := l.claim(t.Context())
	if err != nil || got != want {
		t.Fatalf("%s finds %d, %v, want %d", l.name, got, err, want)
	}
}

func lease(t *testing.T, client *fake.Clientset) *coordinationv1.Lease {
	t.Helper()
	l, err := client.CoordinationV1().Leases("berth-system").Get(t.Context(), LeaseName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLease(t *testing.T) {
	client, clock := fake.NewClientset(), testingclock.NewFakeClock(time.Unix(1000, 0))
	a := newLease(client, "a", clock)
	claim(t, a, foundNobody)
	claim(t, newLease(client, "b", clock), foundQuiet)
	claim(t, a, foundQuiet)
	for range 3 {
		if err := a.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	wantLease(t, client, "while Bindings are under way", bindingsUnderWay)
	writes := 0
	for _, action := range client.Actions() {
		if action.Matches("update", "leases") {
			writes++
		}
	}
	if writes != 3 { // two claims and one mark
		t.Errorf("%d writes, want 3", writes)
	}
	for range 3 {
		a.leave(clock.Now())
	}
	a.clear() // too early
	wantLease(t, client, "right after the last Binding", bindingsUnderWay)
	c := newLease(client, "c", clock)
	claim(t, c, foundUnderWay)
	c.endFound()
	clock.SetTime(clock.Now().Add(2 * leaseIdle))
	c.clear()
	wantLease(t, client, "when it is over", bindingsNone)
}

// wantLease checks what the Lease says about Bindings.
func wantLease(t *testing.T, client *fake.Clientset, when, want string) {
	t.Helper()
	if got := lease(t, client).Annotations[leaseAnnotation]; got != want {
		t.Errorf("%s the Lease says %q, want %q", when, got, want)
	}
}

// TestLeaseOfADeposedLeader: a former leader runs again, and must not begin to bind.
func TestLeaseOfADeposedLeader(t *testing.T) {
	client, clock := fake.NewClientset(), testingclock.NewFakeClock(time.Unix(1000, 0))
	a, b := newLease(client, "a", clock), newLease(client, "b", clock)
	claim(t, a, foundNobody)
	claim(t, b, foundQuiet)
	// The fake does not compare versions, but the API server does.
	client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewConflict(coordinationv1.Resource("leases"), LeaseName, errors.New("changed"))
	})
	if err := a.enter(t.Context()); !errors.Is(err, ErrDeposed) {
		t.Errorf("the deposed leader may bind: %v", err)
	}
	if a.bindings != 0 {
		t.Errorf("%d Bindings are counted", a.bindings)
	}
}

// TestLeaseWithoutAnnotations: the annotations were removed, or the Lease was restored without
// them. Their content is unknown.
func TestLeaseWithoutAnnotations(t *testing.T) {
	client := fake.NewClientset(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: LeaseName, Namespace: "berth-system"}})
	clock := testingclock.NewFakeClock(time.Unix(1000, 0))
	a := newLease(client, "a", clock)
	claim(t, a, foundUnderWay)
	a.endFound()
	clock.SetTime(clock.Now().Add(2 * leaseIdle))
	a.clear()
	wantLease(t, client, "when it is over", bindingsNone)
	// The same again, while this scheduler leads.
	a.mu.Lock() // the clock has set off a clear of its own
	a.lease.Annotations = nil
	a.mu.Unlock()
	if err := a.enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantLease(t, client, "while a Binding is under way", bindingsUnderWay)
}

// TestLeaseThatIsNotOursAnyMore: a scheduler that notices this after a series of Bindings begins no
// other series until it has taken over again.
func TestLeaseThatIsNotOursAnyMore(t *testing.T) {
	for what, lose := range map[string]func(*testing.T, *fake.Clientset, *testingclock.FakeClock){
		"taken over": func(t *testing.T, client *fake.Clientset, clock *testingclock.FakeClock) {
			claim(t, newLease(client, "b", clock), foundUnderWay)
			// The fake does not compare versions, but the API server does.
			client.PrependReactor("update", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
				l := action.(clienttesting.UpdateAction).GetObject().(*coordinationv1.Lease)
				return *l.Spec.HolderIdentity == "a", nil, apierrors.NewConflict(coordinationv1.Resource("leases"), LeaseName, errors.New("changed"))
			})
		},
		"deleted": func(t *testing.T, client *fake.Clientset, _ *testingclock.FakeClock) {
			if err := client.CoordinationV1().Leases("berth-system").Delete(t.Context(), LeaseName, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			client, clock := fake.NewClientset(), testingclock.NewFakeClock(time.Unix(1000, 0))
			a := newLease(client, "a", clock)
			claim(t, a, foundNobody)
			if err := a.enter(t.Context()); err != nil {
				t.Fatal(err)
			}
			lose(t, client, clock)
			a.leave(clock.Now())
			clock.SetTime(clock.Now().Add(2 * leaseIdle))
			a.clear()
			if err := a.enter(t.Context()); !errors.Is(err, ErrDeposed) {
				t.Errorf("it binds on: %v", err)
			}
		})
	}
}

// TestASlowWriteStallsNoBinding: the API server is slow to store that no Binding is under way.
// Neither the next Binding nor the end of one waits for this.
func TestASlowWriteStallsNoBinding(t *testing.T) {
	client, clock := fake.NewClientset(), testingclock.NewFakeClock(time.Unix(1000, 0))
	slow := &slowLeases{LeaseInterface: client.CoordinationV1().Leases("berth-system"), asked: make(chan struct{})}
	a := &bindingsLease{leases: slow, clock: clock, logger: klog.Background(), name: "a", bindTimeout: time.Minute, fresh: time.Hour}
	claim(t, a, foundNobody)
	if err := a.enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.leave(clock.Now())
	slow.on.Store(true)
	cleared := make(chan struct{})
	clock.SetTime(clock.Now().Add(leaseIdle))
	go func() {
		a.clear()
		close(cleared)
	}()
	<-slow.asked // from the timer's call, or from this one
	slow.on.Store(false)
	if err := a.enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.leave(clock.Now())
	<-cleared
	wantLease(t, client, "while a Binding was under way", bindingsUnderWay)
}

// slowLeases do not answer while on is set.
type slowLeases struct {
	coordinationclient.LeaseInterface
	on    atomic.Bool
	asked chan struct{}
}

func (s *slowLeases) Update(ctx context.Context, lease *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	if s.on.Load() {
		s.asked <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.LeaseInterface.Update(ctx, lease, o)
}

// TestASeriesIsConfirmed: a leader that was suspended during a series of Bindings asks before the
// next one, and notices that another scheduler has taken over.
func TestASeriesIsConfirmed(t *testing.T) {
	client, clock := fake.NewClientset(), testingclock.NewFakeClock(time.Unix(1000, 0))
	a := newLease(client, "a", clock)
	claim(t, a, foundNobody)
	if err := a.enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.enter(t.Context()); err != nil {
		t.Fatalf("in a series that goes on: %v", err)
	}
	claim(t, newLease(client, "b", clock), foundUnderWay)
	// The fake does not compare versions, but the API server does.
	client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewConflict(coordinationv1.Resource("leases"), LeaseName, errors.New("changed"))
	})
	a.confirmed = a.confirmed.Add(-a.fresh) // it was suspended for so long
	if err := a.enter(t.Context()); !errors.Is(err, ErrDeposed) {
		t.Errorf("the leader that was stopped may bind: %v", err)
	}
	if a.bindings != 2 {
		t.Errorf("%d Bindings are counted, want 2", a.bindings)
	}
}
