package gang

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// TestAMemberThatIsAboutToWait: the framework makes a member wait after its Permit has answered,
// and another plugin's Permit may take long before this. If the plan is dropped in this time, or
// all members may pass, the member does not wait longer than the cycle.
func TestAMemberThatIsAboutToWait(t *testing.T) {
	for name, c := range map[string]struct {
		minimum int
		passes  bool
	}{"whose plan is dropped": {3, false}, "whose plan does without the last": {2, true}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				for _, name := range []string{"a-0", "a-1", "a-2"} {
					w.create(podOf("a", name, c.minimum, 1))
				}
				w.obey()
				var slow *corev1.Pod
				var node string
				for range 2 {
					slow, _ = w.next(klog.Background())
					if slow == nil {
						t.Fatal("no member comes")
					}
					node = w.groups.PreFilter(t.Context(), w.profile(), slow).Node
					if s := w.groups.Reserve(slow, node, w.accounts[node]); s != nil {
						t.Fatal(s)
					}
					if s, _ := w.groups.Permit(slow); !s.IsWait() {
						t.Fatalf("%s: %v, want it to wait", slow.Name, s)
					}
				}
				for uid := range w.pods {
					if at := w.groups.book.of[uid].placeOf(uid); at != nil && !at.arrived {
						w.groups.Failed(uid, "it failed")
					}
				}
				time.Sleep(10 * time.Second)
				synctest.Wait()
				w.waiting[slow.UID] = &waitingPod{w: w, uid: slow.UID, node: node}
				_, _ = w.next(klog.Background())
				synctest.Wait()
				if w.waits(slow.UID) != nil {
					t.Fatal("the member still waits")
				}
				w.obey()
				if passed := w.pods[slow.UID].Spec.NodeName != ""; passed != c.passes {
					t.Errorf("it passed: %t, want %t", passed, c.passes)
				}
			})
		})
	}
}
