package handover

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestResizedPodsAreFencedThoughBound: if a pod only has to be bound, the takeover is done with it
// when it is bound. If a decision may still be in flight, the watch must show the fence.
func TestResizedPodsAreFencedThoughBound(t *testing.T) {
	pod := func(uid types.UID, node, fence string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}, Spec: corev1.PodSpec{NodeName: node}}
		if fence != "" {
			p.Status.Conditions = []corev1.PodCondition{{Type: fenceType, Message: fence}}
		}
		return p
	}
	var f fences
	done := f.await("ours", []*corev1.Pod{pod("new", "", ""), pod("resized", "n", "before")})
	waits := func(what string, want bool) {
		t.Helper()
		select {
		case <-done:
			if want {
				t.Fatal(what + ": it waits for nobody")
			}
		default:
			if !want {
				t.Fatal(what + ": it waits")
			}
		}
	}
	f.seen(pod("new", "n", ""))
	f.seen(pod("resized", "n", "before"))
	waits("another fence", true)
	f.seen(pod("resized", "n", "ours"))
	waits("ours", false)
	done = f.await("ours", []*corev1.Pod{pod("resized", "n", "")})
	waits("bound", true)
	f.gone("resized")
	waits("gone", false)
}
