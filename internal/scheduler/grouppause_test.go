package scheduler

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/berth-dev/berth/internal/gangs"
)

// TestAGroupThatFailsPauses: members that failed wait, each time longer, and are tried again
// together.
func TestAGroupThatFailsPauses(t *testing.T) {
	c := testingclock.NewFakeClock(time.Unix(1000, 0))
	woken := make(chan map[string]*corev1.Pod, 10)
	g := newGroupPauses(c, func(pods map[string]*corev1.Pod) { woken <- pods })
	a, b, other := inGroupNamed("g", "a"), inGroupNamed("g", "b"), pinned("other", 1)
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
		g.failed(a, true)
		g.failed(b, true)
		g.failed(other, true)
		free("it has no group, or is new", other, inGroupNamed("g", "new"))
		if g.hold(a) == nil || g.hold(b) == nil {
			t.Fatal("members of a group that failed are not held")
		}
		again := inGroupNamed("g", "a")
		again.UID = "another"
		free("it is another pod of that name", again)
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
	g.placed(ownGroup(a))
	free("when a member was placed", b)
	g.failed(a, true)
	if g.hold(a) == nil {
		t.Error("a member that failed is not held")
	}
	c.Step(gangs.FirstPause)
	<-woken
	free("after the first pause", a)
	g.waits(ownGroup(a))
	g.placed(ownGroup(a))
	if n := g.by.Len(); n > 0 {
		t.Errorf("%d groups are remembered that neither wait nor pause", n)
	}
}

// inGroupNamed returns a member of a group, with a UID made of its name.
func inGroupNamed(group, name string) *corev1.Pod {
	p := pinned(name, 1)
	p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	return p
}

// ordinary makes the pod one for which no kubelet pins resources.
func ordinary(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.Containers[0].Resources, pod.Status.QOSClass = corev1.ResourceRequirements{}, corev1.PodQOSBestEffort
	return pod
}

// TestOrdinaryMembersAreNotHeld: kube-scheduler alone handles groups of pods about which Berth does
// not decide, whether their attempts succeed or fail.
func TestOrdinaryMembersAreNotHeld(t *testing.T) {
	f := newFixture(t)
	pod := ordinary(inGroupNamed("g", "ordinary"))
	for range 3 {
		state := groupState(framework.NewCycleState(), false)
		if _, status := f.Plugin.PreFilter(t.Context(), state, pod, nil); status.Code() != fwk.Skip {
			t.Fatalf("PreFilter: %v, want Skip: Berth decides nothing about it", status)
		}
		if s := f.Plugin.PreEnqueue(t.Context(), ordinary(inGroupNamed("g", "next"))); !s.IsSuccess() {
			t.Errorf("the next member is held after one was tried: %s", s.Message())
		}
		Parts{f.core}.MemberFailed(pod)
		if s := f.Plugin.PreEnqueue(t.Context(), pod); !s.IsSuccess() {
			t.Errorf("an ordinary member that failed is held: %s", s.Message())
		}
	}
	member := inGroupNamed("g", "pinned")
	Parts{f.core}.MemberFailed(member)
	Parts{f.core}.MemberFailed(pod)
	for _, p := range []*corev1.Pod{member, pod} {
		if f.Plugin.PreEnqueue(t.Context(), p).IsSuccess() {
			t.Errorf("%s is not held, and Berth decides about a member of its group", p.Name)
		}
	}
}

// TestManyGroupsArePausedInBoundedMemory.
func TestManyGroupsArePausedInBoundedMemory(t *testing.T) {
	g := newGroupPauses(testingclock.NewFakeClock(time.Unix(1000, 0)), func(map[string]*corev1.Pod) {})
	quiet, group := pinned("quiet", 1), "g"
	quiet.Namespace, quiet.Spec.SchedulingGroup = "other", &corev1.PodSchedulingGroup{PodGroupName: &group}
	g.failed(quiet, true)
	for i := range 3 * maxGroups {
		p := pinned("a", 1)
		name := string(rune('a'+i%26)) + time.Duration(i).String()
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
		g.failed(p, true)
	}
	if g.by.Len() > maxGroups {
		t.Errorf("%d groups are remembered, want at most %d", g.by.Len(), maxGroups)
	}
	if g.hold(quiet) == nil {
		t.Error("the groups of another namespace have ended a group's pause")
	}
}

// TestGroupWaitsAreBounded: if there are too many groups, the waits of some groups begin again, in
// the namespace that has the most groups.
func TestGroupWaitsAreBounded(t *testing.T) {
	c := testingclock.NewFakeClock(time.Unix(0, 0))
	g := newGroupPauses(c, func(map[string]*corev1.Pod) {})
	begun := g.waits("other/g")
	for i := range 3 * maxGroups {
		c.Step(time.Second)
		g.waits(fmt.Sprint("ns/", i))
	}
	if g.by.Len() > maxGroups {
		t.Errorf("%d groups are remembered, want at most %d", g.by.Len(), maxGroups)
	}
	if since := g.waits("other/g"); since != begun {
		t.Errorf("a group waits from %v on, for the groups of another namespace; it began at %v", since, begun)
	}
}
