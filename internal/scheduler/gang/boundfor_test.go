package gang

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/wire"
)

// annotate makes the watch show annotations that a user has written.
func (w *world) annotate(name string, with map[string]string) {
	pod := w.pods[types.UID(name)].DeepCopy()
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	for key, text := range with {
		pod.Annotations[key] = text
	}
	w.pods[pod.UID] = pod
	w.groups.PodSeen(pod)
}

// lonely creates a pod of no gang on a node.
func (w *world) lonely(name string, priority int32) {
	pod := podOf("", name, 1, 1)
	pod.Annotations = nil
	pod.Spec.Priority, pod.Spec.NodeName = &priority, "n0"
	w.create(pod)
}

// TestWhoAnnotatesAPodDoesNotDeleteIt: a pod with a node belongs to a gang only if its Binding
// names the gang.
func TestWhoAnnotatesAPodDoesNotDeleteIt(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.add("x", 1, 2, 1) // so that there is a gang
		w.lonely("late", 0)
		w.lonely("old", 0)
		says := map[string]string{wire.GangAnnotation: "x", wire.GangMinimumAnnotation: "4096"}
		w.annotate("late", says)
		w.run(3 * gangTimeout)
		w.annotate("old", says)
		w.restart() // the new scheduler has not seen the annotation appear
		w.run(3 * gangTimeout)
		if len(w.deleted) > 0 {
			t.Errorf("deleted: %v, which were of no gang when they were bound", w.deleted)
		}
	})
}

// TestWhoAnnotatesAMemberDoesNotMoveIt: a bound pod stays in the gang of its Binding, whatever its
// annotations are.
func TestWhoAnnotatesAMemberDoesNotMoveIt(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.add("a", 3, 3, 1)
		w.run(time.Second)
		w.annotate("a-0", map[string]string{wire.GangAnnotation: "b", wire.GangMinimumAnnotation: "9"})
		for _, restart := range []bool{false, true} {
			if restart {
				w.restart()
				w.run(3 * gangTimeout)
			}
			if g := w.groups.book.of["a-0"]; g == nil || g.key.Name != "a" || len(g.members) != 3 || !g.settled() {
				t.Errorf("restarted: %t: the group is %+v, want a, whole", restart, g)
			}
		}
		if len(w.deleted) > 0 {
			t.Errorf("deleted: %v", w.deleted)
		}
	})
}

// TestNobodyIsShieldedByWhatAPodSays: pods of lower priority claim to be in a gang with a member of
// higher priority.
func TestNobodyIsShieldedByWhatAPodSays(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		high := podOf("x", "x-0", 1, 1)
		high.Spec.Priority = new(int32)
		*high.Spec.Priority = 100
		w.create(high)
		w.run(time.Second)
		for i := range 6 {
			name := fmt.Sprint("low-", i)
			w.lonely(name, 0)
			w.annotate(name, map[string]string{wire.GangAnnotation: "x", wire.GangMinimumAnnotation: "1"})
		}
		need := podOf("a", "a-0", 1, 3)
		need.Spec.Priority = new(int32)
		*need.Spec.Priority = 50
		w.create(need)
		w.run(3 * gangTimeout)
		w.want("a", 1, 2)
		if len(w.deleted) != 3 || slices.Contains(w.deleted, "x-0") {
			t.Errorf("deleted: %v, want three of low", w.deleted)
		}
	})
}

// TestGangsOfAnotherSchedulerCount: Berth replaces a scheduler whose Bindings do not name the gang.
// Complete gangs stay complete, and partly bound gangs are completed. If a gang never becomes
// complete, no pod is deleted only because of its annotation.
func TestGangsOfAnotherSchedulerCount(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.nameless = true
		w.breakBind["b-1"], w.breakBind["c-1"] = 1, 1<<30
		w.add("a", 3, 3, 1)
		w.add("b", 2, 2, 1)
		w.add("c", 2, 2, 1)
		w.run(500 * time.Millisecond)
		w.want("b", 1, 5)
		w.nameless = false
		w.restart()
		w.remove("a-2")
		w.run(3 * gangTimeout)
		w.want("a", 2, 5)
		w.want("b", 2, 5)
		if len(w.deleted) > 0 {
			t.Errorf("deleted: %v", w.deleted)
		}
		if g := w.groups.book.of["a-0"]; g == nil || !g.Whole {
			t.Errorf("the group is %+v, want one that was whole", g)
		}
	})
}

// TestTheLastBindingSaysThatTheGangIsWhole: a scheduler that dies directly after this Binding has
// not written a condition.
func TestTheLastBindingSaysThatTheGangIsWhole(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.add("a", 4, 4, 1)
		for w.bound("a") < 4 {
			w.obey()
			if pod, _ := w.next(w.groups.book.Logger); pod != nil {
				w.cycle(pod)
				continue
			}
			w.run(0)
		}
		w.restart()
		w.asks = nil // requests of the old scheduler are dropped
		said := slices.DeleteFunc(slices.Collect(maps.Values(w.pods)), func(pod *corev1.Pod) bool { return !wire.GangWasWhole(pod) })
		if len(said) != 1 {
			t.Fatalf("%d Bindings say that the gang is whole, want the last", len(said))
		}
		for uid := range w.pods {
			if uid != said[0].UID {
				w.remove(string(uid))
				break
			}
		}
		w.run(3 * gangTimeout)
		if len(w.deleted) > 0 {
			t.Errorf("deleted: %v, of a gang that was whole", w.deleted)
		}
	})
}
