package command

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-dev/berth/internal/scheduler"
)

// waitingPod returns a pod with a priority and a creation time in seconds, which was put into the
// queue at the time queued in milliseconds.
func waitingPod(name string, priority int32, created, queued int64) *framework.QueuedPodInfo {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(created, 0)}, Spec: corev1.PodSpec{Priority: &priority}}
	info := &framework.QueuedPodInfo{PodInfo: &framework.PodInfo{Pod: pod}}
	info.Timestamp = time.UnixMilli(queued)
	return info
}

// triedBefore sets the number of a pod's attempts.
func triedBefore(info *framework.QueuedPodInfo, attempts int) *framework.QueuedPodInfo {
	info.Attempts = attempts
	return info
}

// TestSort: priority comes first. Then come pods of the first minute that were not tried yet, by
// the second of their creation. All others are in the queue's order: a pod that was tried does not
// go before pods that have waited since, and a pod that was created after that attempt does not go
// before it. Members that their gang does not need for its minimum come last, however old they are.
func TestSort(t *testing.T) {
	sort := Sort{started: time.UnixMilli(100_000), surplus: func(pod *corev1.Pod) bool { return strings.HasPrefix(pod.Name, "surplus") }}
	want := []*framework.QueuedPodInfo{
		waitingPod("urgent", 9, 500, 900_000),
		waitingPod("older", 1, 80, 99_900),
		waitingPod("younger, queued first", 1, 81, 99_100),
		waitingPod("younger, queued next", 1, 81, 99_200),
		triedBefore(waitingPod("tried, and queued again first", 1, 79, 99_050), 2),
		triedBefore(waitingPod("tried, and queued again next", 1, 10, 99_060), 1),
		waitingPod("created after both", 1, 99, 99_070),
		triedBefore(waitingPod("tried, and in the queue when the next came", 1, 10, 99_080), 1),
		waitingPod("created in the second of that attempt", 1, 99, 99_090),
		waitingPod("queued later", 1, 20, 100_000),
		triedBefore(waitingPod("tried, and queued again later", 1, 5, 100_000+1), 1),
		waitingPod("queued last", 1, 10, 100_002),
		waitingPod("surplus, older", 1, 1, 90_000),
		waitingPod("surplus, younger", 1, 2, 100_000),
		waitingPod("of no importance", 0, 10, 90_000),
	}
	rng := rand.New(rand.NewPCG(27, 1))
	for range 50 {
		got := slices.Clone(want)
		rng.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
		slices.SortFunc(got, func(a, b *framework.QueuedPodInfo) int {
			switch less, more := sort.Less(a, b), sort.Less(b, a); {
			case less == more:
				t.Fatalf("%s and %s: %t both ways", a.Pod.Name, b.Pod.Name, less)
			case less:
				return -1
			}
			return 1
		})
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("%d is %q, want %q", i, got[i].Pod.Name, want[i].Pod.Name)
			}
		}
	}
	if one := want[0]; sort.Less(one, one) {
		t.Error("a pod comes before itself")
	}
}

// TestSortTakesNoArguments: arguments are an error.
func TestSortTakesNoArguments(t *testing.T) {
	for raw, ok := range map[string]bool{"": true, "{}": true, "{by: name}": false} {
		p, err := NewSort(t.Context(), &runtime.Unknown{Raw: []byte(raw)}, nil)
		if (err == nil) != ok || ok && p.(fwk.QueueSortPlugin).Name() != scheduler.SortName {
			t.Errorf("%q: %v, %v", raw, p, err)
		}
		if s, _ := p.(Sort); ok && !s.started.After(time.Now()) {
			t.Error("the first minute is over at once")
		}
	}
}
