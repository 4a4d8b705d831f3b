package gang

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/wire"
)

// theEnded are pods that have ended, as in the API.
type theEnded map[types.UID]*corev1.Pod

func (theEnded) Want()  {}
func (theEnded) Await() {}

func (e theEnded) Of(key wire.GangKey) (pods []*corev1.Pod) {
	for _, pod := range e {
		if m, _ := gangs.PartOf(pod, true); m.Says.Gang == key {
			pods = append(pods, pod)
		}
	}
	return pods
}

func (e theEnded) Last(pod *corev1.Pod) *corev1.Pod { return e[pod.UID] }

// finish ends a pod. The pod stays in the API, and no watch shows the change.
func (w *world) finish(name string, how corev1.PodPhase) (before, after *corev1.Pod) {
	before = w.pods[types.UID(name)]
	after = before.DeepCopy()
	after.Status.Phase = how
	after.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.Now()}}}}
	trimmed, err := trimEnded(after)
	w.must(err)
	after = trimmed.(*corev1.Pod)
	w.groups.book.Ended.(theEnded)[after.UID] = after
	delete(w.pods, before.UID)
	w.accounts[before.Spec.NodeName].Forget(string(before.UID))
	w.release(before)
	return before, after
}

// endsAs ends a pod, and both watches show it.
func (w *world) endsAs(name string, how corev1.PodPhase) *corev1.Pod {
	before, after := w.finish(name, how)
	w.groups.PodGone(before)
	w.groups.PodSeen(after)
	return after
}

// addRun creates members with a controller.
func (w *world) addRun(gang, run string, first, count, minimum int) {
	for i := range count {
		pod := podOf(gang, fmt.Sprintf("%s-%d", gang, first+i), minimum, 1)
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: run, UID: types.UID(run), Controller: new(true)}}
		w.create(pod)
	}
}

func (w *world) doneOf(gang string) int {
	w.groups.book.mu.Lock()
	defer w.groups.book.mu.Unlock()
	if g := w.groups.book.groups[wire.GangKey{Source: wire.GangOfPods, Namespace: "default", Name: gang}]; g != nil {
		return g.done.All
	}
	return 0
}

// TestAMemberThatEndedWellCounts: kube-scheduler's watch shows a succeeded member as gone, before
// or after the watch of ended pods shows it. The replacement of another member must not be kept out
// forever.
func TestAMemberThatEndedWellCounts(t *testing.T) {
	for _, first := range []string{"gone", "ended", "ended, and late news", "gone for long"} {
		inWorld(t, 2, func(w *world) {
			w.groups.book.Ended = theEnded{}
			w.add("a", 4, 4, 1)
			w.run(time.Second)
			w.want("a", 4, 4)
			for name, how := range map[string]corev1.PodPhase{"a-0": corev1.PodSucceeded, "a-1": corev1.PodFailed} {
				before, after := w.finish(name, how)
				switch first {
				case "gone":
					w.groups.PodGone(before)
					w.groups.PodSeen(after)
				case "ended":
					w.groups.PodSeen(after)
					w.groups.PodGone(before)
				case "ended, and late news":
					w.groups.PodSeen(after)
					w.groups.PodSeen(before)
					w.groups.PodGone(before)
				default:
					delete(w.groups.book.Ended.(theEnded), after.UID)
					w.groups.PodGone(before)
					w.run(time.Second)
					w.groups.book.Ended.(theEnded)[after.UID] = after
					w.groups.PodSeen(after)
				}
			}
			w.run(time.Minute)
			if done := w.doneOf("a"); done != 3 {
				t.Errorf("%s first: %d are done: want 3, with the one that ended well", first, done)
			}
			w.groups.sweep(func(_, name string) types.UID {
				if w.pods[types.UID(name)] == nil {
					return ""
				}
				return types.UID(name)
			}, noneGone)
			if done := w.doneOf("a"); done != 3 {
				t.Errorf("%s first: %d are done after a sweep: want 3", first, done)
			}
			w.create(podOf("a", "a-4", 4, 1))
			w.run(time.Second)
			w.want("a", 3, 3)
			endings{w.groups}.gone("a-0")
			if done := w.doneOf("a"); done != 3 {
				t.Errorf("%s first: %d are done once the API has forgotten the one that ended well: want 3", first, done)
			}
		})
	}
}

// TestAGangThatEndsIsCompleted: the status of the gang's object reports this.
func TestAGangThatEndsIsCompleted(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		key := wire.GangKey{Source: wire.GangOfVolcano, Namespace: "default", Name: "a"}
		w.objects = map[wire.GangKey]wire.Gang{key: {Key: key, Minimum: 2, Version: "1"}}
		w.groups.book.Objects, w.groups.book.Ended = w, theEnded{}
		for i := range 2 {
			pod := podOf("a", fmt.Sprint("a-", i), 2, 1)
			pod.Annotations = map[string]string{volcano.GroupNameAnnotation: "a"}
			w.create(pod)
		}
		w.run(time.Second)
		w.want("a", 2, 2)
		for _, name := range []string{"a-0", "a-1"} {
			w.endsAs(name, corev1.PodSucceeded)
			w.run(time.Second)
		}
		for i, s := range w.stood {
			if s.phase == volcano.PodGroupUnknown {
				t.Errorf("status %d says Unknown: %+v", i, w.stood)
			}
		}
		if last := w.stood[len(w.stood)-1]; last.phase != volcano.PodGroupCompleted || last.succeeded != 2 {
			t.Errorf("the status says %+v: want Completed, 2 succeeded", last)
		}
	})
}

// TestAMemberThatIsGoneCountsNoLonger: a gone member counts only until the watch of ended pods
// would have shown it.
func TestAMemberThatIsGoneCountsNoLonger(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.groups.book.Ended = theEnded{}
		w.add("a", 4, 4, 1)
		w.run(time.Second)
		w.remove("a-0") // by force
		w.run(endedPatience / 2)
		if done := w.doneOf("a"); done != 4 {
			t.Errorf("%d are done: want 4, since it may have ended", done)
		}
		w.run(endedPatience)
		if done := w.doneOf("a"); done != 3 {
			t.Errorf("%d are done: want 3", done)
		}
		again := w.pods["a-2"] // one list lacks it, and the next one has it
		w.groups.PodGone(again)
		w.groups.PodSeen(again)
		w.run(2 * endedPatience)
		if done := w.doneOf("a"); done != 3 {
			t.Errorf("%d are done: want 3, one is back", done)
		}
		w.leave("a-1")
		w.remove("a-1")
		if done := w.doneOf("a"); done != 2 || w.groups.book.of["a-1"] != nil {
			t.Errorf("%d are done: want 2, one was deleted", done)
		}
	})
}

// TestANewRunBeginsAnew: the pods of a CronJob's last Job have ended. The pods of its next Job are
// a new gang with the same name.
func TestANewRunBeginsAnew(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.groups.book.Ended = theEnded{}
		w.addRun("a", "one", 0, 2, 2)
		w.run(time.Second)
		w.want("a", 2, 2)
		for _, name := range []string{"a-0", "a-1"} {
			w.endsAs(name, corev1.PodSucceeded)
		}
		w.run(time.Second)
		w.addRun("a", "two", 2, 1, 2)
		w.run(time.Second)
		w.want("a", 0, 0)
		for _, pod := range w.groups.book.Ended.(theEnded) { // another client changes them
			w.groups.PodSeen(pod)
		}
		w.run(time.Second)
		w.want("a", 0, 0)
		if g := w.groups.book.of["a-2"]; g.Whole || len(g.members) != 1 {
			t.Errorf("of the new run %d pods are there, and it was whole: %v; want 1, false", len(g.members), g.Whole)
		}
		w.addRun("a", "two", 3, 1, 2)
		w.run(time.Second)
		w.want("a", 2, 2)
	})
}

// TestAGangThatIsStartedAgainBeginsAnew: all members failed, and the same controller creates new
// ones.
func TestAGangThatIsStartedAgainBeginsAnew(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.groups.book.Ended = theEnded{}
		w.addRun("a", "one", 0, 3, 3)
		w.run(time.Second)
		w.want("a", 3, 3)
		for i := range 3 {
			w.endsAs(fmt.Sprint("a-", i), corev1.PodFailed)
		}
		w.run(time.Second)
		w.addRun("a", "one", 3, 2, 3)
		for _, pod := range w.groups.book.Ended.(theEnded) { // another client changes them
			w.groups.PodSeen(pod)
		}
		w.run(time.Second)
		w.want("a", 0, 0)
		if g := w.groups.book.of["a-3"]; g.Whole {
			t.Error("what failed says that the gang was whole")
		}
		w.addRun("a", "one", 5, 1, 3)
		w.run(time.Second)
		w.want("a", 3, 3)
	})
}

// TestMembersThatAreToldToEndAreNotDone: a deleted member does not count as done, even if it
// succeeds. Its replacements are placed as a gang.
func TestMembersThatAreToldToEndAreNotDone(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.groups.book.Ended = theEnded{}
		w.add("a", 2, 2, 3)
		w.run(time.Second)
		w.want("a", 2, 2)
		w.add("full", 1, 1, 1) // so that others do not fit
		w.run(time.Second)
		for _, name := range []string{"a-0", "a-1"} {
			w.leave(name)
			before, after := w.finish(name, corev1.PodSucceeded)
			w.groups.PodGone(before)
			handler := endings{w.groups}.handler()
			handler.OnAdd(after, false)
			if done := w.doneOf("a"); done > 1 {
				t.Errorf("%s was told to end, and %d are done", name, done)
			}
		}
		if n := len(w.groups.book.groups); n != 1 {
			t.Errorf("%d gangs are known: want the one that is full alone", n)
		}
	})
}

// TestNobodyIsTriedWhileAMemberMayBeGone: for a moment it is unknown how many pods the gang needs.
func TestNobodyIsTriedWhileAMemberMayBeGone(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.groups.book.Ended = theEnded{}
		w.add("a", 3, 3, 1)
		w.run(time.Second)
		w.want("a", 3, 3)
		for i := range 3 {
			w.remove(fmt.Sprint("a-", i)) // by force
		}
		for i := range 2 {
			w.create(podOf("a", fmt.Sprint("a-", 3+i), 3, 1))
		}
		w.run(endedPatience - time.Second)
		w.want("a", 0, 0)
		w.run(time.Minute)
		w.want("a", 0, 0)
		w.create(podOf("a", "a-5", 3, 1))
		w.run(time.Second)
		w.want("a", 3, 3)
	})
}

// TestMembersOfSeveralControllers: the launcher of a job succeeds while its workers run.
func TestMembersOfSeveralControllers(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		ended := theEnded{}
		w.groups.book.Ended = ended
		w.addRun("a", "launcher", 0, 1, 3)
		w.addRun("a", "workers", 1, 2, 3)
		w.run(time.Second)
		w.want("a", 3, 3)
		after := w.endsAs("a-0", corev1.PodSucceeded)
		if done := w.doneOf("a"); done != 3 {
			t.Errorf("%d are done: want 3", done)
		}
		w.restart()
		w.groups.book.Ended = ended
		w.groups.PodSeen(after)
		if done := w.doneOf("a"); done != 3 {
			t.Errorf("%d are done for a scheduler that has begun: want 3", done)
		}
		w.run(time.Second)
		// The launcher of an earlier run, which the watch shows late, does not count.
		old := after.DeepCopy()
		old.UID, old.Name = "a-old", "a-old"
		old.CreationTimestamp = metav1.NewTime(old.CreationTimestamp.Add(-time.Hour))
		old.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.NewTime(old.CreationTimestamp.Add(time.Minute))
		old.OwnerReferences[0].UID = "launcher before"
		w.groups.PodSeen(old)
		if done := w.doneOf("a"); done != 3 || w.groups.book.of["a-old"] != nil {
			t.Errorf("%d are done: want 3, without the one of a former run", done)
		}
		// Pods of another controller replace the workers. So the launcher belongs to an earlier
		// run.
		for _, name := range []string{"a-1", "a-2"} {
			w.leave(name)
		}
		w.addRun("a", "workers after", 3, 1, 3)
		for _, name := range []string{"a-1", "a-2"} {
			w.remove(name)
		}
		w.run(time.Second)
		w.groups.PodSeen(w.pods["a-3"])
		if g := w.groups.book.of["a-3"]; len(g.members) != 1 || g.done.All != 0 || g.Whole {
			t.Errorf("%d members, %d done, it was whole: %v; want the new one alone, false", len(g.members), g.done.All, g.Whole)
		}
	})
}

// TestASchedulerThatBeginsHearsOfTheEnded: before the scheduler started, one member succeeded and
// another one failed.
func TestASchedulerThatBeginsHearsOfTheEnded(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		ended := theEnded{}
		w.groups.book.Ended = ended
		w.addRun("a", "one", 0, 2, 2)
		w.run(time.Second)
		w.want("a", 2, 2)
		w.finish("a-0", corev1.PodSucceeded)
		w.finish("a-1", corev1.PodFailed)
		w.restart()
		w.groups.book.Ended = ended
		for _, pod := range ended { // no other pod of the gang is there
			w.groups.PodSeen(pod)
		}
		if len(w.groups.book.groups) > 0 {
			t.Errorf("%d gangs are known of which all pods have ended: want none", len(w.groups.book.groups))
		}
		w.addRun("a", "one", 2, 1, 2)
		w.run(time.Second)
		w.want("a", 1, 1)
	})
}

// TestTheLineForgetsWhoIsGone: pods of a gang are created and deleted behind a waiting pod, and do
// not stay in memory.
func TestTheLineForgetsWhoIsGone(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.add("a", 1, 5, 1)
		for i := range 1000 {
			pod := podOf("a", fmt.Sprint("a-x", i), 5, 1)
			w.groups.PodSeen(pod)
			w.groups.PodGone(pod)
		}
		g := w.groups.book.of["a-0"]
		if len(g.line) != 1 || g.leader() == nil || g.leader().pod.Name != "a-0" {
			t.Errorf("%d pods are in line: want a-0 alone", len(g.line))
		}
	})
}
