package scheduler

import (
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	testingclock "k8s.io/utils/clock/testing"
)

// newTrail makes the trail of a scheduler; client is shared by all.
func newTrail(client *fake.Clientset, name string, c *testingclock.FakeClock) *trail {
	return &trail{leases: client.CoordinationV1().Leases("berth-system"), clock: c, logger: klog.Background(), name: name}
}

func claim(t *testing.T, tr *trail, want legacy) {
	t.Helper()
	got, err := tr.claim(t.Context())
	if err != nil || got != want {
		t.Fatalf("%s finds %d, %v, want %d", tr.name, got, err, want)
	}
}

func lease(t *testing.T, client *fake.Clientset) *coordinationv1.Lease {
	t.Helper()
	l, err := client.CoordinationV1().Leases("berth-system").Get(t.Context(), TrailName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestTrail(t *testing.T) {
	client, clock := fake.NewClientset(), testingclock.NewFakeClock(time.Unix(1000, 0))
	a := newTrail(client, "a", clock)
	claim(t, a, legacyNone)
	claim(t, newTrail(client, "b", clock), legacyQuiet)
	claim(t, a, legacyQuiet)
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
	if writes != 3 { // two claims, one mark
		t.Errorf("%d writes, want 3", writes)
	}
	for range 3 {
		a.leave(clock.Now())
	}
	a.clear() // too early
	wantLease(t, client, "right after the last Binding", bindingsUnderWay)
	c := newTrail(client, "c", clock)
	claim(t, c, legacyUnderWay)
	c.over()
	clock.SetTime(clock.Now().Add(2 * trailIdle))
	c.clear()
	wantLease(t, client, "when it is over", bindingsNone)
}

// wantLease compares what the Lease says of Bindings.
func wantLease(t *testing.T, client *fake.Clientset, when, want string) {
	t.Helper()
	if got := lease(t, client).Annotations[trailAnnotation]; got != want {
		t.Errorf("%s the Lease says %q, want %q", when, got, want)
	}
}

// TestTrailOfADeposedLeader: the one before wakes up, and must not begin to bind.
func TestTrailOfADeposedLeader(t *testing.T) {
	client, clock := fake.NewClientset(), testingclock.NewFakeClock(time.Unix(1000, 0))
	a, b := newTrail(client, "a", clock), newTrail(client, "b", clock)
	claim(t, a, legacyNone)
	claim(t, b, legacyQuiet)
	// The tracker of the fake does not compare versions, the API server does.
	client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewConflict(coordinationv1.Resource("leases"), TrailName, errors.New("changed"))
	})
	if err := a.enter(t.Context()); !errors.Is(err, errDeposed) {
		t.Errorf("the deposed leader may bind: %v", err)
	}
	if a.bindings != 0 {
		t.Errorf("%d Bindings are counted", a.bindings)
	}
}

func unbound(name, profile string) *corev1.Pod {
	p := pinned(name, 2)
	p.Spec.SchedulerName = profile
	return p
}

func TestFences(t *testing.T) {
	var f fences
	a, b, c := unbound("a", "x"), unbound("b", "x"), unbound("c", "x")
	f.seen(a) // before anybody waits
	done := f.await("me", []*corev1.Pod{a, b, c})
	fenced := func(p *corev1.Pod, by string) *corev1.Pod {
		p = p.DeepCopy()
		p.Status.Conditions = []corev1.PodCondition{{Type: fenceType, Status: corev1.ConditionTrue, Message: by}}
		return p
	}
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

// TestTakeover: what is left under way is fenced, pod by pod, before anything is placed.
func TestTakeover(t *testing.T) {
	f := newFixture(t)
	bound, foreign, gated := on(unbound("bound", "mine"), "n"), unbound("foreign", "theirs"), unbound("gated", "mine")
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "gate"}}
	client := fake.NewClientset(unbound("a", "mine"), unbound("b", "mine"), bound, foreign, gated)
	before := newTrail(client, "before", f.clock)
	claim(t, before, legacyNone)
	if err := before.enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.core.takeover = newTakeover(f.core, client, "berth-system")
	f.core.profiles.Store("mine", true)
	// The feed sees what is written.
	client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		p := unbound(action.(clienttesting.PatchAction).GetName(), "mine")
		p.Status.Conditions = []corev1.PodCondition{{Type: fenceType, Message: f.core.takeover.trail.name}}
		go f.feed.podTold(p, false)
		return true, p, nil
	})
	// The fake does not select by field.
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &corev1.PodList{Items: []corev1.Pod{*unbound("a", "mine"), *unbound("b", "mine"), *foreign, *gated}}, nil
	})
	woken := f.wakes()
	f.wait(unbound("a", "mine"))
	f.core.takeover.synced = f.clock.Now().Add(-time.Minute)
	if why := f.notYet(t.Context()); why != waitTakeover {
		t.Fatalf("%q, want %q", why, waitTakeover)
	}
	<-woken
	if why := f.notYet(t.Context()); why != "" {
		t.Errorf("afterwards: %q", why)
	}
	fenced := map[string]bool{}
	for _, action := range client.Actions() {
		if p, ok := action.(clienttesting.PatchAction); ok {
			fenced[p.GetName()] = true
		}
	}
	if len(fenced) != 2 || !fenced["a"] || !fenced["b"] {
		t.Errorf("fenced %v, want a and b", fenced)
	}
}
