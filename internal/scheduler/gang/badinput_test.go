package gang

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/wire"
)

// TestAMinimumOfAMillionIsRefused: the pod or the object with the minimum is named.
func TestAMinimumOfAMillionIsRefused(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.add("a", 2, 1_000_000, 1)
		w.add("b", 2, 2, 1)
		w.run(time.Minute)
		w.want("b", 2, 2)
		if said := w.said(); !strings.Contains(said, "a-") || !strings.Contains(said, "the number of pods of the gang that start together, from 1 to 4096") {
			t.Errorf("the events say %q", said)
		}
	})
}

// TestAGangOfManyPods: as many pods as a gang may need are planned at once, including those that
// its tasks need, and the sums are right without counting.
func TestAGangOfManyPods(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		const pods = 20000
		w.groups.book.Lead.Open()
		key := wire.GangKey{Source: wire.GangOfVolcano, Namespace: "default", Name: "a"}
		w.objects = map[wire.GangKey]wire.Gang{key: {Key: key, Version: "5", Minimum: 4, Tasks: map[string]int{"last": 2}}}
		w.groups.book.Objects = w
		w.groups.ObjectSeen(w.objects[key], nil)
		all := make([]*corev1.Pod, 0, pods)
		for i := range pods {
			task := "worker"
			if i >= pods-3 {
				task = "last"
			}
			pod := taskOf("a", fmt.Sprintf("a-%05d", i), task)
			all = append(all, pod)
			w.groups.PodSeen(pod)
		}
		time.Sleep(time.Second) // in virtual time: until the object has been read
		pass := 0
		for _, pod := range all {
			if w.groups.PreEnqueue(pod) == nil {
				pass++
			}
		}
		g := w.groups.book.groups[key]
		j := w.groups.book.job(g, "")
		tasks := map[string]int{}
		for _, task := range j.Tasks {
			tasks[task]++
		}
		if pass != 1 || len(j.Pods) != wire.MaxGang || tasks["last"] != 2 {
			t.Errorf("%d pods pass, %d are planned, of tasks %v: want one, %d, and 2 of task last", pass, len(j.Pods), tasks, wire.MaxGang)
		}
		for _, pod := range all {
			w.groups.PodGone(pod)
		}
		if len(w.groups.book.groups) > 0 || len(w.groups.book.of) > 0 {
			t.Error("pods that are gone are remembered")
		}
	})
}

// TestAGroupThatIsDeletedWhileHalfBound: at its deadline, no pod of the gang has a node, or the
// whole gang has if the group was created again.
func TestAGroupThatIsDeletedWhileHalfBound(t *testing.T) {
	for _, back := range []bool{false, true} {
		t.Run(fmt.Sprint("it comes back: ", back), func(t *testing.T) {
			inWorld(t, 2, func(w *world) {
				spec := wire.Gang{Key: sigsKey("a"), Version: "5", Minimum: 4}
				w.objects = map[wire.GangKey]wire.Gang{spec.Key: spec}
				w.groups.book.Objects = w
				w.breakBind["a-1"] = 1
				for i := range 4 {
					w.create(memberOf("a", fmt.Sprint("a-", i), 3))
				}
				w.run(100 * time.Millisecond)
				w.want("a", 3, 3)
				delete(w.objects, spec.Key)
				w.groups.ObjectGone(spec.Key)
				w.run(gangTimeout / 2)
				w.want("a", 3, 3)
				if back {
					spec.Version = "6"
					w.objects[spec.Key] = spec
					w.groups.ObjectSeen(spec, nil)
				}
				w.run(gangTimeout)
				if back {
					w.want("a", 4, 4)
					return
				}
				w.want("a", 0, 0)
				if said := w.said(); !strings.Contains(said, "does not exist") {
					t.Errorf("the events say %q", said)
				}
			})
		})
	}
}

// TestAGroupThatIsNotThere: the event is about a pod, because users cannot find an event about a
// missing group.
func TestAGroupThatIsNotThere(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.groups.book.Objects = w
		w.create(taskOf("a", "a-0", "worker"))
		w.run(time.Minute)
		w.want("a", 0, 0)
		key := wire.GangKey{Source: wire.GangOfVolcano, Namespace: "default", Name: "a"}
		w.groups.book.mu.Lock()
		defer w.groups.book.mu.Unlock()
		if _, pod := w.groups.book.groups[key].reference(w.groups.book.groups[key].leader().pod).(*corev1.Pod); !pod {
			t.Error("the events are about an object that is not there")
		}
		if said := w.said(); !strings.Contains(said, "PodGroup.scheduling.volcano.sh default/a does not exist") {
			t.Errorf("the events say %q", said)
		}
	})
}

// TestMembersOfTwoNamespacesAreTwoGangs: neither of them is complete.
func TestMembersOfTwoNamespacesAreTwoGangs(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.create(podOf("a", "a-0", 2, 1))
		other := podOf("a", "a-1", 2, 1)
		other.Namespace = "other"
		w.create(other)
		w.run(time.Minute)
		w.want("a", 0, 0)
		if said := w.said(); strings.Count(said, "is not complete: 1 of 2 pods") != 2 {
			t.Errorf("the events say %q", said)
		}
	})
}
