package jobs

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	group "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
)

// TestASucceededPodThatIsGone: a pod that succeeded, and whose node is removed before the Job ends,
// is neither created again nor evicted (volcano#3296, volcano#2087). Its gang no longer needs it. A
// restart of its task runs it again.
func TestASucceededPodThatIsGone(t *testing.T) {
	const goes, stays = "j-worker-0", "j-worker-1"
	fate := func(w *world, pod *corev1.Pod) {
		switch {
		case pod.Name == goes && pod.Status.Phase == corev1.PodSucceeded && w.lives[goes] == 1:
			w.evict(pod)
		case w.now.Unix() < 1_760_000_006 && pod.Status.Phase == corev1.PodRunning && pod.Name != goes:
		default:
			onceAll(failOnce(stays, 1))(w, pod)
		}
	}
	for policy, c := range map[string]struct {
		want  string
		lives int
	}{
		"{event: PodFailed, action: RestartPod}":                 {"Completed version 0 retries 1 succeeded 3 failed 0: j-ps-0:Succeeded j-worker-1:Succeeded", 1},
		"{events: [PodEvicted, PodFailed], action: RestartPod}":  {"Completed version 0 retries 1 succeeded 3 failed 0: j-ps-0:Succeeded j-worker-1:Succeeded", 1},
		"{event: PodEvicted, action: TerminateJob}":              {"Failed version 0 retries 0 succeeded 2 failed 1: j-ps-0:Succeeded j-worker-1:Failed", 1},
		"{event: PodEvicted, action: TerminateJob, timeout: 1s}": {"Failed version 0 retries 0 succeeded 2 failed 1: j-ps-0:Succeeded j-worker-1:Failed", 1},
		"{event: PodFailed, action: RestartTask}":                {"Completed version 0 retries 1 succeeded 3 failed 0: " + allDone, 2},
		"{event: PodFailed, action: RestartJob}":                 {"Completed version 1 retries 1 succeeded 3 failed 0: " + allDone, 2},
		"{event: TaskFailed, action: RestartTask}":               {"Completed version 0 retries 1 succeeded 3 failed 0: " + allDone, 2},
		"{event: TaskCompleted, action: CompleteJob}":            {"Failed version 0 retries 0 succeeded 2 failed 1: j-ps-0:Succeeded j-worker-1:Failed", 1},
	} {
		t.Run(policy, func(t *testing.T) {
			spec := fmt.Sprintf(twoTasks, "policies: ["+policy+"]", "policies: [{event: Unknown, action: AbortJob}, {event: TaskCompleted, action: RestartJob, timeout: 24h}]")
			w := newWorld(t, spec, fate)
			least := int32(3)
			for range 6 {
				w.settle()
				var g group.PodGroup
				if err := w.client.Get(t.Context(), types.NamespacedName{Namespace: "d", Name: "j-job-uid"}, &g); err != nil {
					t.Fatal(err)
				}
				least = min(least, g.Spec.MinMember)
				if g.Spec.MinMember != g.Spec.MinTaskMember["ps"]+g.Spec.MinTaskMember["worker"] {
					t.Errorf("PodGroup %+v", g.Spec)
				}
				w.act()
			}
			if least != 2 {
				t.Errorf("the gang needs at least %d pods, want 2", least)
			}
			if got := w.play(); got != c.want || w.lives[goes] != c.lives {
				t.Fatalf("it ends as\n%s, and the pod ran %d times; want\n%s, and %d", got, w.lives[goes], c.want, c.lives)
			}
			for kill := range 2 * w.writes {
				k := newWorld(t, spec, fate)
				k.kill, k.after = kill/2, kill%2 == 1
				if got := k.play(); got != c.want {
					t.Errorf("killed at write %d (after it: %v) it ends as\n%s, want\n%s", k.kill, k.after, got, c.want)
				}
			}
		})
	}
}

// TestIndexes: the text is short for many pods, and a wrong text costs nothing.
func TestIndexes(t *testing.T) {
	for text, want := range map[string][]int{"": nil, "0": {0}, "0-2,5": {0, 1, 2, 5}, "1,3-4": {1, 3, 4}} {
		written := cpuset.New(want...).String()
		if got := parseIndexes(text, 10); !slices.Equal(got, want) || written != text {
			t.Errorf("%q: %v, %q; want %v", text, got, written, want)
		}
	}
	for text, want := range map[string][]int{"x": nil, "-1": nil, "2-x": nil, "8-999999999": {8, 9}, "3-1": nil, "2-3,1-4,2": {2, 3, 4}, "99999999999999999999": nil} {
		if got := parseIndexes(text, 10); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
