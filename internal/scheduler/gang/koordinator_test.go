package gang

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/wire"
)

// inKoordinatorsWords declares a pod's gang with Koordinator's annotations.
func inKoordinatorsWords(pod *corev1.Pod, more map[string]string) *corev1.Pod {
	const prefix = "gang.scheduling.koordinator.sh/"
	said := map[string]string{prefix + "name": pod.Annotations[wire.GangAnnotation], prefix + "min-available": pod.Annotations[wire.GangMinimumAnnotation]}
	for key, value := range more {
		said[prefix+key] = value
	}
	pod.Annotations = said
	return pod
}

// TestOnceSatisfiedOrAlways: with the match-policy once-satisfied, which is the default, a new pod
// of a gang that was whole is placed alone, however few members are left. With waiting-and-running
// it waits until there are enough members for the minimum.
func TestOnceSatisfiedOrAlways(t *testing.T) {
	for policy, left := range map[string]int{"": 3, "once-satisfied": 3, "waiting-and-running": 2} {
		t.Run(policy, func(t *testing.T) {
			inWorld(t, 2, func(w *world) {
				pod := func(i int) *corev1.Pod {
					return inKoordinatorsWords(podOf("a", fmt.Sprintf("a-%d", i), 4, 3), map[string]string{"match-policy": policy, "mode": "NonStrict"})
				}
				for i := range 3 {
					w.create(pod(i))
				}
				w.run(time.Minute)
				w.want("a", 0, 0)
				w.create(pod(3))
				w.run(time.Second)
				w.want("a", 4, 4)
				w.remove("a-0")
				w.remove("a-1")
				w.create(pod(8))
				w.run(time.Minute)
				w.want("a", left, left)
				w.create(pod(9))
				w.run(time.Minute)
				w.want("a", 4, 4)
			})
		})
	}
}

// TestGangsOfKoordinatorStartTogether: two gangs that name each other in groups are bound together
// or not at all, each with its own minimum.
func TestGangsOfKoordinatorStartTogether(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		both := map[string]string{"groups": `["default/a","default/b"]`}
		for i := range 2 {
			w.create(inKoordinatorsWords(podOf("a", fmt.Sprintf("a-%d", i), 2, 3), both))
		}
		w.run(time.Minute)
		w.create(inKoordinatorsWords(podOf("b", "b-0", 2, 3), both))
		w.create(inKoordinatorsWords(podOf("a", "a-2", 2, 1), both))
		w.run(time.Minute)
		w.want("a", 0, 0) // four pods are there, but one of b's is missing
		w.create(inKoordinatorsWords(podOf("b", "b-1", 2, 3), both))
		w.run(time.Second)
		w.want("a", 3, 5)
		w.want("b", 2, 5)
	})
}

// TestWhatAPodGroupSaysInVainIsTold: one event on the object names the fields that have no effect.
func TestWhatAPodGroupSaysInVainIsTold(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		key := wire.GangKey{Source: wire.GangOfVolcano, Namespace: "default", Name: "a"}
		spec := wire.Gang{Key: key, UID: "u", Version: "5", Minimum: 1, Ignored: `spec.queue "research": Berth has no queues`}
		pod := podOf("a", "a-0", 1, 3)
		pod.Annotations = map[string]string{"scheduling.volcano.sh/group-name": "a"}
		w.create(pod)
		for _, version := range []string{"5", "6", "7"} {
			spec.Version = version
			w.groups.ObjectSeen(spec, nil)
		}
		said := w.said()
		if n := strings.Count(said, `PassedOver Berth ignores spec.queue "research"`); n != 1 {
			t.Errorf("told %d times: %s", n, said)
		}
	})
}
