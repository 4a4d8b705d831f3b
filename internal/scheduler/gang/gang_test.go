package gang

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	sigs "github.com/berth-dev/berth/api/scheduling/sigs/v1alpha1"
	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/wire"
)

func TestAGangIsBoundWhole(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.add("a", 3, 4, 2)
		w.run(time.Minute)
		w.want("a", 0, 0) // one member is missing
		w.wantState(gangs.Forming)
		w.create(podOf("a", "a-3", 4, 2))
		w.run(time.Second)
		w.want("a", 4, 4)
		w.wantState(gangs.Whole)
	})
}

// TestAGangThatDoesNotFitHoldsNothing (scheduler-plugins#713: nine of ten pods kept their
// reservations while the tenth had none).
func TestAGangThatDoesNotFitHoldsNothing(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.add("a", 5, 5, 3) // two nodes have room for four
		w.run(time.Minute)
		w.want("a", 0, 0)
		w.add("b", 4, 4, 3)
		w.run(5 * time.Second)
		w.want("b", 4, 4)
		said := <-w.notes.Events
		if !strings.Contains(said, "4 of 5 pods fit now; pod a-") {
			t.Errorf("the event says %q", said)
		}
		for i := range 2 {
			w.remove([]string{"b-0", "b-1"}[i])
		}
		w.run(time.Minute)
		w.want("a", 0, 2)
		w.remove("b-2")
		w.remove("b-3")
		w.remove("a-4") // four are too few for five
		w.run(time.Minute)
		w.want("a", 0, 0)
	})
}

// TestCompetingGangsDoNotBlockEachOther: gangs that wait in Permit, each with half of the nodes,
// must not deadlock (scheduler-plugins#114, #117; koordinator#872).
func TestCompetingGangsDoNotBlockEachOther(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		for i := range 4 { // of each gang in turn
			w.create(podOf("a", "a-"+string(rune('0'+i)), 4, 3))
			w.create(podOf("b", "b-"+string(rune('0'+i)), 4, 3))
		}
		w.run(time.Minute)
		if a, b := w.bound("a"), w.bound("b"); a+b != 4 || a*b != 0 {
			t.Errorf("%d and %d members are bound: want one gang whole", a, b)
		}
	})
}

func TestAMemberThatFailsDropsThePlan(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.refuse["a-2"] = 1
		w.add("a", 4, 4, 3)
		w.run(100 * time.Millisecond)
		w.want("a", 0, 0)
		w.run(3 * time.Second)
		w.want("a", 4, 4)
	})
}

// TestAnOptionalMemberThatFailsIsLeftOut: the other members are sufficient.
func TestAnOptionalMemberThatFailsIsLeftOut(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.refuse["a-3"] = 1000
		w.add("a", 4, 3, 3)
		w.run(100 * time.Millisecond)
		w.want("a", 3, 3)
	})
}

// TestABindingThatFailsIsMadeGood: the whole gang is bound in the end.
func TestABindingThatFailsIsMadeGood(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.breakBind["a-1"] = 2
		w.add("a", 4, 4, 3)
		w.run(100 * time.Millisecond)
		w.want("a", 3, 3)
		w.wantState(gangs.Partial)
		w.run(gangTimeout / 2)
		w.want("a", 4, 4)
		if len(w.deleted) > 0 {
			t.Errorf("deleted: %v", w.deleted)
		}
	})
}

// TestMembersThatFailTogetherFailOnce: if a plan loses several members at a time, this is one
// failure with one back-off, not one for each member.
func TestMembersThatFailTogetherFailOnce(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.breakBind["a-0"], w.breakBind["a-1"], w.breakBind["a-2"] = 1, 1, 1
		w.add("a", 4, 4, 3)
		w.run(100 * time.Millisecond)
		w.want("a", 1, 1)
		w.run(gangs.FirstPause)
		w.want("a", 4, 4)
	})
}

// TestAGangThatIsNotWholeInTimeIsDeleted (volcano#5805: such a gang stayed forever).
func TestAGangThatIsNotWholeInTimeIsDeleted(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.breakBind["a-1"] = 1000
		w.add("a", 4, 4, 3)
		w.run(gangTimeout + time.Second)
		w.want("a", 0, 0)
		if len(w.deleted) != 3 {
			t.Errorf("deleted: %v, want the three that were bound", w.deleted)
		}
	})
}

// TestAWholeGangIsNeverTorn: members that die later are replaced, and no pod is deleted.
func TestAWholeGangIsNeverTorn(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.add("a", 4, 4, 3)
		w.run(time.Second)
		w.remove("a-2")
		w.run(time.Minute)
		w.want("a", 3, 3)
		w.wantState(gangs.Reduced)
		w.create(podOf("a", "a-9", 4, 3))
		w.run(time.Second)
		w.want("a", 4, 4)
		if len(w.deleted) > 0 {
			t.Errorf("deleted: %v", w.deleted)
		}
	})
}

func TestScaleUp(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.add("a", 2, 2, 3)
		w.run(time.Second)
		w.create(podOf("a", "a-8", 2, 3))
		w.run(time.Second)
		w.want("a", 3, 3)
		w.create(podOf("a", "a-9", 2, 7)) // it does not fit, which has no effect on others
		w.run(time.Minute)
		w.want("a", 3, 3)
	})
}

// TestANewSchedulerGoesOn: half of the gang is bound when the scheduler dies.
func TestANewSchedulerGoesOn(t *testing.T) {
	for _, c := range []struct {
		name  string
		fails int
		bound int
	}{{"it ends whole", 1, 4}, {"it ends not at all", 1000, 0}} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, 2, func(w *world) {
				w.breakBind["a-1"] = c.fails
				w.add("a", 4, 4, 3)
				w.run(100 * time.Millisecond)
				w.want("a", 3, 3)
				dead := w.groups
				w.restart()
				w.run(gangTimeout + 2*time.Second)
				w.want("a", c.bound, c.bound)
				dead.book.mu.Lock()
				defer dead.book.mu.Unlock()
			})
		})
	}
}

// TestWhatIsWrongWithAGangIsSaid: no member is tried, no other pod is affected, and an event has
// the reason.
func TestWhatIsWrongWithAGangIsSaid(t *testing.T) {
	other := podOf("a", "a-1", 2, 1)
	other.Spec.SchedulerName = "other"
	twice := podOf("a", "a-1", 2, 1)
	twice.Annotations["scheduling.k8s.io/group-name"] = "b"
	more := podOf("a", "a-1", 3, 1)
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"two schedulers": {other, "spec.schedulerName"},
		"two gangs":      {twice, "one gang only"}, "two minimums": {more, wire.GangMinimumAnnotation},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 2, func(w *world) {
				w.add("a", 1, 2, 1)
				w.create(c.pod)
				w.create(podOf("x", "x-0", 1, 1))
				w.run(time.Second)
				w.want("a", 0, 1)
				w.want("x", 1, 1)
				if s := w.groups.PreEnqueue(w.pods["a-0"]); s == nil || !strings.Contains(s.Message(), c.want) {
					t.Errorf("the pod is told %q, want %s", s.Message(), c.want)
				}
				w.run(time.Minute)
				if said := w.said(); strings.Count(said, c.want) != 1 {
					t.Errorf("the events say %q, want one with %s", said, c.want)
				}
			})
		})
	}
}

// memberOf returns a pod of a PodGroup of scheduler-plugins.
func memberOf(group, name string, cpus int) *corev1.Pod {
	p := podOf(group, name, 1, cpus)
	p.Annotations, p.Labels = nil, map[string]string{sigs.PodGroupLabel: group}
	return p
}

func sigsKey(name string) wire.GangKey {
	return wire.GangKey{Source: wire.GangOfSigs, Namespace: "default", Name: name}
}

// TestTheObjectMayComeFirstOrLast: the watch shows the object before the first question about it,
// or later.
func TestTheObjectMayComeFirstOrLast(t *testing.T) {
	spec := wire.Gang{Key: sigsKey("a"), UID: "u", Version: "5", Minimum: 2}
	for _, first := range []bool{true, false} {
		inWorld(t, 2, func(w *world) {
			w.objects = map[wire.GangKey]wire.Gang{}
			w.groups.book.Objects = w
			if first {
				w.objects[spec.Key] = spec
				w.groups.ObjectSeen(spec, nil)
			}
			w.create(memberOf("a", "a-0", 2))
			w.create(memberOf("a", "a-1", 2))
			w.run(time.Second)
			if !first {
				w.want("a", 0, 0)
				w.objects[spec.Key] = spec
				w.groups.ObjectSeen(spec, nil)
				w.run(time.Second)
			}
			w.want("a", 2, 2)
			if got := w.objects[spec.Key].Phase; got != "Running" {
				t.Errorf("the phase is %q", got)
			}
		})
	}
}

// TestAnObjectThatTheWatchHasNotShownYetCounts: the minimum was raised before the last member was
// created (volcano#6010 bound a part).
func TestAnObjectThatTheWatchHasNotShownYetCounts(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.objects = map[wire.GangKey]wire.Gang{}
		w.groups.book.Objects = w
		w.groups.ObjectSeen(wire.Gang{Key: sigsKey("a"), Version: "5", Minimum: 1}, nil)
		w.objects[sigsKey("a")] = wire.Gang{Key: sigsKey("a"), Version: "6", Minimum: 3}
		for _, name := range []string{"a-0", "a-1", "a-2"} {
			w.create(memberOf("a", name, 3)) // two fit
		}
		w.run(time.Minute)
		w.want("a", 0, 0)
	})
}

// TestADeletedObjectHoldsItsPods: the pods wait until the object exists again.
func TestADeletedObjectHoldsItsPods(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.objects = map[wire.GangKey]wire.Gang{}
		w.groups.book.Objects = w
		w.create(memberOf("a", "a-0", 2))
		w.create(memberOf("a", "a-1", 2))
		w.run(time.Minute)
		w.want("a", 0, 0)
		if w.asked > 3 {
			t.Errorf("the API server was asked %d times for what is not there", w.asked)
		}
	})
}
