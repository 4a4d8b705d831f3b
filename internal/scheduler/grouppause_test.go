package scheduler

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/berth-dev/berth/internal/gangs"
)

// TestAGroupThatWasTriedInVainPauses: its members are held, longer each time, and come back
// together.
func TestAGroupThatWasTriedInVainPauses(t *testing.T) {
	c := testingclock.NewFakeClock(time.Unix(1000, 0))
	woken := make(chan map[string]*corev1.Pod, 10)
	g := &groupPauses{clock: c, activate: func(pods map[string]*corev1.Pod) { woken <- pods }}
	group := "g"
	member := func(name string) *corev1.Pod {
		p := pinned(name, 1)
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
		return p
	}
	a, b, other := member("a"), member("b"), pinned("other", 1)
	free := func(when string, pods ...*corev1.Pod) {
		t.Helper()
		for _, p := range pods {
			if s := g.hold(p); s != nil {
				t.Errorf("%s: pod %s is held: %s", when, p.Name, s.Message())
			}
		}
	}
	free("before anything was tried", a, b, other)
	for _, pause := range []time.Duration{1, 2, 4, 8, 10, 10} {
		g.tried(a)
		g.tried(b)
		g.tried(other)
		free("it has no group", other)
		if g.hold(a) == nil || g.hold(b) == nil {
			t.Fatal("members of a group that was tried in vain are not held")
		}
		c.Step(pause*time.Second - 1)
		if g.hold(a) == nil {
			t.Errorf("it is held for less than %d s", pause)
		}
		c.Step(1)
		if got := <-woken; len(got) != 2 {
			t.Errorf("%d members are woken, want both", len(got))
		}
		free("after the pause", a, b)
	}
	g.tried(a)
	g.placed(a)
	free("when a member was placed", b)
	g.tried(a)
	if g.hold(a) == nil {
		t.Error("a member of a group that was tried in vain is not held")
	}
	c.Step(gangs.FirstPause)
	<-woken
	free("after the first pause", a)
}

// TestManyGroupsArePausedInBoundedMemory.
func TestManyGroupsArePausedInBoundedMemory(t *testing.T) {
	g := &groupPauses{clock: testingclock.NewFakeClock(time.Unix(1000, 0)), activate: func(map[string]*corev1.Pod) {}}
	quiet, group := pinned("quiet", 1), "g"
	quiet.Namespace, quiet.Spec.SchedulingGroup = "other", &corev1.PodSchedulingGroup{PodGroupName: &group}
	g.tried(quiet)
	for i := range 3 * maxGroupPauses {
		p := pinned("a", 1)
		name := string(rune('a'+i%26)) + time.Duration(i).String()
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
		g.tried(p)
	}
	if len(g.by) > maxGroupPauses {
		t.Errorf("%d groups are remembered, want at most %d", len(g.by), maxGroupPauses)
	}
	if g.hold(quiet) == nil {
		t.Error("the groups of another namespace have ended a group's pause")
	}
}

// TestGroupWaitsAreBounded: with too many groups some of the namespace that has the most begin to
// wait again.
func TestGroupWaitsAreBounded(t *testing.T) {
	var w groupWaits
	begun := time.Unix(-1, 0)
	w.begin("other/g", begun)
	for i := range 3 * maxGroupWaits {
		w.begin(fmt.Sprint("ns/", i), time.Unix(int64(i), 0))
	}
	if len(w.since) > maxGroupWaits {
		t.Errorf("%d groups are remembered, want at most %d", len(w.since), maxGroupWaits)
	}
	if since := w.begin("other/g", time.Unix(1e6, 0)); since != begun {
		t.Errorf("a group waits from %v on, for the groups of another namespace; it began at %v", since, begun)
	}
}
