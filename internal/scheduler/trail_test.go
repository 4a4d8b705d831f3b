package scheduler

import (
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	testingclock "k8s.io/utils/clock/testing"
)

// TestTrailWithoutAnnotations: somebody has taken them off the Lease, or restored it without. What it said is not known.
func TestTrailWithoutAnnotations(t *testing.T) {
	client := fake.NewClientset(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: TrailName, Namespace: "berth-system"}})
	clock := testingclock.NewFakeClock(time.Unix(1000, 0))
	a := newTrail(client, "a", clock)
	claim(t, a, legacyUnderWay)
	a.over()
	clock.SetTime(clock.Now().Add(2 * trailIdle))
	a.clear()
	wantLease(t, client, "when it is over", bindingsNone)
	// Again, while we lead.
	a.mu.Lock() // the clock has set off a clear of its own
	a.lease.Annotations = nil
	a.mu.Unlock()
	if err := a.enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantLease(t, client, "while a Binding is under way", bindingsUnderWay)
}

// TestTrailThatIsNotOursAnyMore: who finds that out after a series of Bindings does not begin another, until it has taken over anew.
func TestTrailThatIsNotOursAnyMore(t *testing.T) {
	for what, lose := range map[string]func(*testing.T, *fake.Clientset, *testingclock.FakeClock){
		"taken over": func(t *testing.T, client *fake.Clientset, clock *testingclock.FakeClock) {
			claim(t, newTrail(client, "b", clock), legacyUnderWay)
			// The tracker of the fake does not compare versions, the API server does.
			client.PrependReactor("update", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
				l := action.(clienttesting.UpdateAction).GetObject().(*coordinationv1.Lease)
				return *l.Spec.HolderIdentity == "a", nil, apierrors.NewConflict(coordinationv1.Resource("leases"), TrailName, errors.New("changed"))
			})
		},
		"deleted": func(t *testing.T, client *fake.Clientset, _ *testingclock.FakeClock) {
			if err := client.CoordinationV1().Leases("berth-system").Delete(t.Context(), TrailName, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			client, clock := fake.NewClientset(), testingclock.NewFakeClock(time.Unix(1000, 0))
			a := newTrail(client, "a", clock)
			claim(t, a, legacyNone)
			if err := a.enter(t.Context()); err != nil {
				t.Fatal(err)
			}
			lose(t, client, clock)
			a.leave(clock.Now())
			clock.SetTime(clock.Now().Add(2 * trailIdle))
			a.clear()
			if err := a.enter(t.Context()); !errors.Is(err, errDeposed) {
				t.Errorf("it binds on: %v", err)
			}
		})
	}
}
