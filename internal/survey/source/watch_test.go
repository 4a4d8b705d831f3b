package source

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
)

// TestSilenceIsSeenOnce: when an agent becomes silent, its node is reported as changed once. After
// another heartbeat, it can become silent again.
func TestSilenceIsSeenOnce(t *testing.T) {
	reports := cache.NewSharedIndexInformer(&cache.ListWatch{}, &v1alpha1.NodeTopology{}, 0, nil)
	leases := cache.NewSharedIndexInformer(&cache.ListWatch{}, &coordinationv1.Lease{}, 0, nil)
	a := &API{Options: Options{StaleAfter: time.Minute, Heartbeats: "berth-system"}}
	w := &Watch{api: a, informers: informers{reports: reports, leases: leases}, begun: time.Now(), begunHere: time.Now(), ping: make(chan struct{}, 1)}
	w.changed.clear()
	beats := func(ago time.Duration) {
		written := metav1.NewMicroTime(time.Now().Add(-ago))
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.HeartbeatName("n1"), Namespace: a.Heartbeats}, Spec: coordinationv1.LeaseSpec{RenewTime: &written}}
		if err := leases.GetStore().Add(l); err != nil {
			t.Fatal(err)
		}
	}
	if err := reports.GetStore().Add(&v1alpha1.NodeTopology{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}); err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		ago  time.Duration
		want int
	}{{time.Second, 0}, {2 * time.Minute, 1}, {3 * time.Minute, 0}, {time.Second, 0}, {2 * time.Minute, 1}} {
		beats(step.ago)
		w.lookForSilence()
		if got := len(w.take().Nodes); got != step.want {
			t.Errorf("step %d: %d nodes are looked at, want %d", i, got, step.want)
		}
	}
}

// TestSleepCounts: the time during which this machine slept has passed in the cluster. No agent
// counts as silent for this time until heartbeats have been received again for some time.
func TestSleepCounts(t *testing.T) {
	a, err := Connect(Options{Config: &rest.Config{Host: "https://nobody.invalid"}, StaleAfter: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	w, err := a.Watch(&Facts{}, Following{})
	if err != nil {
		t.Fatal(err)
	}
	now := w.Now()
	a.clock.last.Store(&lastAnswer{date: now.Add(8 * time.Hour), at: time.Now()})
	if slept := w.Now().Sub(now); slept < 8*time.Hour || slept > 9*time.Hour {
		t.Errorf("the API server says that 8 h have passed, and it counts %v", slept)
	}
	w.lookForSleep()
	if w.lookForSleep(); !w.hears() {
		t.Error("it does not hear heartbeats though it has not slept")
	}
	w.lookedWall = w.lookedWall.Add(-time.Hour)
	if w.lookForSleep(); w.hears() {
		t.Error("it calls agents silent that it could not hear while it slept")
	}
	w.listens = w.listens.Add(-2 * time.Minute)
	if w.lookForSleep(); !w.hears() {
		t.Error("it does not hear heartbeats a while after it slept")
	}
}
