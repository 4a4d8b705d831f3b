package gang

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/wire"
)

// begins makes the watch show that the pods of a gang run, one after another.
func (w *world) begins(gang string, every time.Duration) {
	for _, uid := range slices.Sorted(maps.Keys(w.pods)) {
		if !strings.HasPrefix(string(uid), gang+"-") {
			continue
		}
		pod := w.pods[uid].DeepCopy()
		pod.Status.Phase = corev1.PodRunning
		w.pods[uid] = pod
		w.groups.PodSeen(pod)
		w.run(every)
	}
}

// TestAMarkIsWrittenOnce, even if the watch shows it late and the gang changes meanwhile.
func TestAMarkIsWrittenOnce(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.add("a", 4, 4, 2)
		w.run(time.Second)
		w.begins("a", time.Second)
		// The Binding of the last one has the mark already.
		if want := []string{"a-0"}; !slices.Equal(w.marked, want) {
			t.Errorf("marked are %v, want %v", w.marked, want)
		}
	})
}

// TestAGroupWithoutPodsIsToldSo: the last pods of a group are gone, and its object stays.
func TestAGroupWithoutPodsIsToldSo(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		spec := wire.Gang{Key: sigsKey("a"), Version: "5", Minimum: 2}
		w.objects = map[wire.GangKey]wire.Gang{spec.Key: spec}
		w.groups.book.Objects = w
		w.groups.ObjectSeen(spec, nil)
		for i := range 2 {
			w.create(memberOf("a", fmt.Sprintf("a-%d", i), 2))
		}
		w.run(time.Second)
		w.begins("a", 0)
		w.run(time.Second)
		if last := w.stood[len(w.stood)-1]; last.running != 2 {
			t.Fatalf("two pods run, and %v is written", last)
		}
		for i := range 2 {
			w.remove(fmt.Sprintf("a-%d", i))
		}
		w.run(time.Second)
		if last := w.stood[len(w.stood)-1]; last.running != 0 {
			t.Errorf("no pod is there, and %v is written", last)
		}
	})
}

// TestACompletedGroupWithoutPodsStaysSo: its pods have been cleaned up.
func TestACompletedGroupWithoutPodsStaysSo(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		spec := wire.Gang{Key: sigsKey("a"), Version: "5", Minimum: 1}
		w.objects = map[wire.GangKey]wire.Gang{spec.Key: spec}
		w.groups.book.Objects = w
		w.groups.ObjectSeen(spec, nil)
		w.create(memberOf("a", "a-0", 2))
		w.run(time.Second)
		w.begins("a", 0)
		w.run(time.Second)
		done := w.pods["a-0"].DeepCopy()
		done.Status.Phase = corev1.PodSucceeded
		w.pods["a-0"] = done
		w.groups.PodSeen(done)
		w.run(time.Second)
		w.remove("a-0")
		w.run(10 * time.Second)
		if last := w.stood[len(w.stood)-1]; last.phase != "Completed" {
			t.Errorf("all of %v: the last is not Completed", w.stood)
		}
	})
}

// TestAStatusIsWrittenWhereItChanges: several changes of a group within a short time cause one
// write. If the standing of the group is the same afterwards, there is no write.
func TestAStatusIsWrittenWhereItChanges(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		spec := wire.Gang{Key: sigsKey("a"), Version: "5", Minimum: 4}
		w.objects = map[wire.GangKey]wire.Gang{spec.Key: spec}
		w.groups.book.Objects = w
		w.groups.ObjectSeen(spec, nil)
		for i := range 4 {
			w.create(memberOf("a", fmt.Sprintf("a-%d", i), 2))
		}
		w.run(time.Second)
		w.want("a", 4, 4)
		w.stood = nil
		w.begins("a", 0) // all within statusPause
		w.run(time.Second)
		if len(w.stood) != 1 || w.stood[0].running != 4 {
			t.Errorf("four pods that begin at once are told by %v, want one write", w.stood)
		}
		for range 3 {
			w.begins("a", time.Second)
		}
		if len(w.stood) != 1 {
			t.Errorf("nothing has changed, and %v were written", w.stood[1:])
		}
		w.objects[spec.Key] = wire.Gang{Key: spec.Key, Version: "6", Minimum: 4, Phase: "Pending"} // written by another client
		w.groups.ObjectSeen(w.objects[spec.Key], nil)
		w.run(time.Second)
		if len(w.stood) != 2 {
			t.Errorf("%d writes, want another one after the object has changed", len(w.stood))
		}
	})
}

// TestAReplacedPodMakesNoGroupUnknown (Volcano's e2e test of terminating PodGroups): the group
// stays Running while a member is being deleted and its replacement gets a node. It becomes Unknown
// if the replacement is missing, or if it finds no node.
func TestAReplacedPodMakesNoGroupUnknown(t *testing.T) {
	const unknown = volcano.PodGroupUnknown
	for name, c := range map[string]struct {
		members, cpus int // cpus of the replacement, or 0 if there is none
		want          []volcano.PodGroupPhase
	}{
		"of one member":        {1, 2, nil},
		"of two members":       {2, 2, nil},
		"nobody replaces it":   {2, 0, []volcano.PodGroupPhase{unknown}},
		"no node has room":     {2, 7, []volcano.PodGroupPhase{unknown}},
		"there is no one left": {1, 0, []volcano.PodGroupPhase{volcano.PodGroupInqueue}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(w *world) {
				key := w.object("a", c.members, "")
				for i := range c.members {
					w.create(staged("a", fmt.Sprint(i), 2, 0))
				}
				w.run(time.Second)
				w.report()
				w.begins("a", time.Second)
				if got := w.phase(key); got != string(volcano.PodGroupRunning) {
					t.Fatalf("the phase is %s", got)
				}
				w.stood = nil
				w.leave("a-0")
				w.run(10 * time.Second)
				w.remove("a-0")
				if c.cpus > 0 {
					w.create(staged("a", "new", c.cpus, 0))
				}
				for range 10 {
					w.run(time.Second)
					w.report()
				}
				var became []volcano.PodGroupPhase
				for _, s := range w.stood {
					if s.phase != volcano.PodGroupRunning && !slices.Contains(became, s.phase) {
						became = append(became, s.phase)
					}
				}
				if !slices.Equal(became, c.want) {
					t.Errorf("after Running the phases are %v, want %v", became, c.want)
				}
			})
		})
	}
}
