package gang

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/wire"
)

// bindsElsewhere plays another replica that binds a pod. The watch shows the Binding if shown is
// true.
func (w *world) bindsElsewhere(pod *corev1.Pod, node string, shown bool) {
	pod = pod.DeepCopy()
	says, _ := wire.ReadMembership(pod)
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, wire.BoundForAnnotation, wire.WriteBoundFor(pod, wire.BoundFor{Gang: says.Gang}))
	pod.Spec.NodeName = node
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	w.pods[pod.UID] = pod
	if shown {
		w.groups.PodSeen(pod)
	}
}

// follow shows two bound members of a gang of three, and one that waits, to a replica that does not
// lead.
func (w *world) follow(gang string) {
	for i, name := range []string{gang + "-0", gang + "-1", gang + "-2"} {
		pod := podOf(gang, name, 3, 1)
		w.pods[pod.UID] = pod
		w.groups.PodSeen(pod)
		if i < 2 {
			w.bindsElsewhere(pod, "n0", true)
		}
	}
}

// TestAReplicaThatDoesNotLeadWritesNothing: its watch may be late while the leader binds the other
// members.
func TestAReplicaThatDoesNotLeadWritesNothing(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		spec := wire.Gang{Key: sigsKey("s"), Version: "5", Minimum: 1}
		w.objects = map[wire.GangKey]wire.Gang{spec.Key: spec}
		w.groups.book.Objects = w
		w.follow("a")
		w.groups.ObjectSeen(spec, nil)
		w.groups.PodSeen(memberOf("s", "s-0", 1))
		w.bindsElsewhere(memberOf("s", "s-0", 1), "n0", true)
		w.add("b", 1, 2, 1) // incomplete: a leader would send an event
		w.bindsElsewhere(podOf("c", "c-0", 1, 1), "n0", true)
		time.Sleep(10 * gangTimeout)
		synctest.Wait()
		w.obey()
		if len(w.deleted)+len(w.marked)+len(w.stood)+len(w.told) > 0 {
			t.Errorf("deleted %v, marked %v, told %v, and wrote %v: want nothing", w.deleted, w.marked, w.told, w.stood)
		}
		if said := w.said(); said != "" {
			t.Errorf("the events say %q", said)
		}
	})
}

// TestALeaderCountsAgainBeforeItDeletes: its watch may not show the last Binding yet, of this or of
// another leader.
func TestALeaderCountsAgainBeforeItDeletes(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.follow("a")
		w.breakBind["a-2"] = 1 << 30
		w.run(gangTimeout / 2)
		w.bindsElsewhere(w.pods["a-2"], "n0", false)
		w.run(2 * gangTimeout)
		if len(w.deleted) > 0 {
			t.Errorf("deleted: %v, though the gang is whole", w.deleted)
		}
		w.groups.PodSeen(w.pods["a-2"])
		w.wantState(gangs.Whole)
	})
}

// TestADeadlineCountsOnThisClock: the API server's clock may be wrong.
func TestADeadlineCountsOnThisClock(t *testing.T) {
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		inWorld(t, 1, func(w *world) {
			w.breakBind["a-2"] = 1 << 30
			w.skew = off
			w.add("a", 3, 3, 1)
			w.run(gangTimeout - time.Second)
			if len(w.deleted) > 0 {
				t.Errorf("a clock that is %v off: deleted %v before the deadline", off, w.deleted)
			}
			w.run(2 * time.Second)
			if len(w.deleted) != 2 {
				t.Errorf("a clock that is %v off: deleted %v, want the two that are bound", off, w.deleted)
			}
		})
	}
}

// TestANewLeaderWaitsAWholeTimeout: Bindings that it has not seen may still be in flight.
func TestANewLeaderWaitsAWholeTimeout(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.breakBind["a-2"] = 1 << 30
		w.add("a", 3, 3, 1)
		w.run(gangTimeout - time.Second)
		w.restart()
		w.run(gangTimeout - time.Second)
		if len(w.deleted) > 0 {
			t.Errorf("deleted: %v", w.deleted)
		}
		w.run(2 * time.Second)
		if len(w.deleted) != 2 {
			t.Errorf("deleted: %v, want the two that are bound", w.deleted)
		}
	})
}

// TestADeletionThatFailsBacksOff: it is repeated after longer and longer pauses.
func TestADeletionThatFailsBacksOff(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.breakBind["a-2"] = 1 << 30
		w.noList = true
		w.add("a", 3, 3, 1)
		w.run(gangTimeout + time.Hour)
		if len(w.deleted) > 0 {
			t.Errorf("deleted %v without having asked", w.deleted)
		}
		if w.lists > 130 {
			t.Errorf("asked %d times in an hour, want once in %v", w.lists, lastRetry)
		}
		w.noList = false
		w.run(2 * lastRetry)
		if len(w.deleted) != 2 {
			t.Errorf("deleted: %v, want the two that are bound", w.deleted)
		}
	})
}
