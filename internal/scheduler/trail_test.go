package scheduler

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
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
	if got := lease(t, client).Annotations[trailAnnotation]; got != bindingsNone {
		t.Errorf("when it is over the Lease says %q", got)
	}
	// Again, while we lead.
	a.mu.Lock() // the clock has set off a clear of its own
	a.lease.Annotations = nil
	a.mu.Unlock()
	if err := a.enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := lease(t, client).Annotations[trailAnnotation]; got != bindingsUnderWay {
		t.Errorf("while a Binding is under way the Lease says %q", got)
	}
}
