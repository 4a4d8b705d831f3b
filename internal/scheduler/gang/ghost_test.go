package gang

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/wire"
)

// TestThePodsOfTheDeadAreNoMembers: the scheduling queue may ask about a pod after the watch has
// shown that it is gone. Such a pod must not count as a member, or the new pods of the gang, which
// have the same names, wait for it forever.
func TestThePodsOfTheDeadAreNoMembers(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		old := podOf("a", "a-0", 2, 1)
		old.UID = "old"
		w.groups.PodSeen(old)
		w.groups.PodGone(old)
		if s := w.groups.PreEnqueue(old); s.IsSuccess() {
			t.Error("a pod that is gone may be tried")
		}
		if turn := w.groups.PreFilter(w.t.Context(), w.profile(), old); turn.Held == nil {
			t.Error("a pod that is gone is planned")
		}
		if len(w.groups.book.groups)+len(w.groups.book.of) > 0 {
			t.Errorf("%d groups and %d members are known: want none", len(w.groups.book.groups), len(w.groups.book.of))
		}
		w.add("a", 2, 2, 1)
		w.run(time.Second)
		w.want("a", 2, 2)
	})
}

// TestAPodThatTheQueueKnowsFirstIsTried: the watch may show a pod to the scheduling queue before it
// shows the pod to Groups.
func TestAPodThatTheQueueKnowsFirstIsTried(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		for _, name := range []string{"a-0", "a-1", "a-2"} { // the third one comes after its gang
			pod := podOf("a", name, 2, 1)
			w.pods[pod.UID] = pod
			w.idle[pod.UID] = true
			w.tryActivate(pod.UID)
			w.groups.PodSeen(pod)
			w.run(time.Second)
		}
		w.want("a", 3, 3)
	})
}

// TestWhatIsRememberedOfPodsIsSwept: even if an event is lost, data about deleted pods is removed.
func TestWhatIsRememberedOfPodsIsSwept(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.add("a", 3, 2, 1)
		w.run(time.Second)
		w.groups.book.mu.Lock()
		w.groups.lone["a-2"] = w.groups.book.of["a-2"]
		w.groups.evictor.evicted = map[types.UID]time.Time{"b": time.Now().Add(-leaveTimeout)}
		w.groups.book.mu.Unlock()
		w.groups.sweep(func(_, name string) types.UID {
			switch name {
			case "a-0":
				return "another" // the name of a member that is gone
			case "a-1":
				return "a-1"
			}
			return ""
		}, noneGone)
		if g := w.groups.book.of["a-1"]; len(w.groups.book.of) != 1 || len(g.members) != 1 || g.done.All != 1 {
			t.Errorf("the members are %v, want a-1 alone", w.groups.book.of)
		}
		if len(w.groups.lone)+len(w.groups.evictor.evicted) > 0 {
			t.Errorf("%v comes after its gang, %v is on its way out: want none", w.groups.lone, w.groups.evictor.evicted)
		}
		w.groups.sweep(noUID, noneGone)
		if len(w.groups.book.groups)+len(w.groups.book.of) > 0 {
			t.Errorf("%d groups and %d members are known: want none", len(w.groups.book.groups), len(w.groups.book.of))
		}
	})
}

func noneGone(string) bool { return false }

func noUID(_, _ string) types.UID { return "" }

// TestAPodMayLeaveItsGang, or change to another gang, until it has a node.
func TestAPodMayLeaveItsGang(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.add("a", 2, 3, 1)
		w.add("b", 1, 2, 1)
		w.run(time.Second)
		change := func(name string, to func(map[string]string)) {
			pod := w.pods[types.UID(name)].DeepCopy()
			to(pod.Annotations)
			w.pods[pod.UID] = pod
			w.groups.PodSeen(pod)
			w.run(time.Second)
		}
		change("a-0", func(says map[string]string) {
			says[wire.GangAnnotation], says[wire.GangMinimumAnnotation] = "b", "2"
		})
		w.want("b", 1, 2)
		change("a-1", func(says map[string]string) { says[wire.GangMinimumAnnotation] = "1" })
		w.want("a", 2, 3)
		w.add("c", 1, 2, 1)
		change("c-0", func(says map[string]string) { delete(says, wire.GangAnnotation) })
		w.want("c", 1, 4)
	})
}
