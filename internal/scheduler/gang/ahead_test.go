package gang

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// elastic creates members of a gang in a namespace.
func (w *world) elastic(gang, namespace string, from, to, minimum int, priority int32) {
	for i := from; i < to; i++ {
		pod := podOf(gang, fmt.Sprint(gang, "-", i), minimum, 1)
		pod.Namespace, pod.Spec.Priority = namespace, &priority
		w.create(pod)
	}
}

// TestSurplusWaitsForAFailedMember: two nodes have room for 14 pods, and two gangs need 6 each. One
// Binding of the first gang fails. The pods that the second gang does not need must not take the
// place of the failed pod.
func TestSurplusWaitsForAFailedMember(t *testing.T) {
	for name, c := range map[string]struct {
		namespace string // of the second gang
		priority  int32
		refuse    bool // in Reserve, not in Bind
		a, b      int
	}{
		"equal":                   {namespace: "default", a: 8, b: 6},
		"of another namespace":    {namespace: "other", a: 8, b: 6},
		"of a higher priority":    {namespace: "default", priority: 1, a: 0, b: 9},
		"before a pod has a node": {namespace: "other", refuse: true, a: 8, b: 6},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 2, func(w *world) {
				if w.breakBind["a-3"] = 1; c.refuse {
					w.breakBind, w.refuse = nil, map[string]int{"a-3": 1}
				}
				w.elastic("a", "default", 0, 8, 6, 0)
				w.elastic("b", c.namespace, 0, 10, 6, c.priority)
				w.run(time.Minute)
				w.wantBound("a", c.a)
				w.wantBound("b", c.b)
			})
		})
	}
}

// TestSurplusSaysForWhichGangItWaits: a waiting pod is tried once, and the reason names the gang.
func TestSurplusSaysForWhichGangItWaits(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.elastic("b", "other", 0, 6, 6, -1)
		w.run(time.Second)
		w.breakBind["a-3"] = 3 // tried again after 1, 2 and 4 seconds
		w.elastic("a", "default", 0, 6, 6, 0)
		w.run(100 * time.Millisecond)
		w.elastic("b", "other", 6, 9, 6, -1)
		for range 5 {
			w.run(time.Second)
			w.groups.Stir()
		}
		w.wantBound("a", 5)
		w.wantBound("b", 6)
		const want = "Berth: the pod is beyond the minimum of its gang, and waits for gang default/a, which has nodes for 5 of 6 pods"
		for _, pod := range []string{"b-6", "b-7", "b-8"} {
			if got := w.why[pod]; len(got) != 1 || got[0] != want {
				t.Errorf("pod %s: %q, want once %q", pod, got, want)
			}
		}
		w.run(5 * time.Second)
		w.wantBound("a", 6)
		w.wantBound("b", 8)
	})
}

// TestAFailingGangHoldsSurplusOnce: surplus pods wait until the failing gang's time is over. Later
// gangs of its namespace do not make pods of other namespaces wait.
func TestAFailingGangHoldsSurplusOnce(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.breakBind["a-3"], w.breakBind["c-0"] = 1000, 1000
		w.elastic("b", "other", 0, 4, 4, 0)
		w.run(time.Second)
		w.elastic("a", "default", 0, 6, 6, 0)
		w.run(100 * time.Millisecond)
		w.elastic("b", "other", 4, 6, 4, 0)
		w.run(gangTimeout - 2*time.Second)
		w.wantBound("b", 4)
		w.run(3 * time.Second)
		w.wantBound("b", 6)
		w.end("a")
		w.elastic("c", "default", 0, 2, 2, 0)
		w.run(100 * time.Millisecond)
		w.wantBound("c", 1)
		w.elastic("b", "other", 6, 8, 4, 0)
		w.run(100 * time.Millisecond)
		w.wantBound("b", 8)
	})
}

// TestAGangThatCannotGoOnHoldsNoSurplus: the gang lacks capacity, or a pod.
func TestAGangThatCannotGoOnHoldsNoSurplus(t *testing.T) {
	for name, stop := range map[string]func(*world){
		"no room": func(w *world) {
			for _, n := range w.nodes {
				n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("2")
			}
		},
		"a pod is gone": func(w *world) { w.remove("a-3") },
		"it is deleted": func(w *world) { w.end("a") },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 2, func(w *world) {
				w.elastic("b", "other", 0, 1, 1, 0) // on NUMA node 0 of n0
				w.run(time.Second)
				w.breakBind["a-3"] = 1
				for i := range 4 {
					w.create(podOf("a", fmt.Sprint("a-", i), 4, 2+i/3))
				}
				w.run(100 * time.Millisecond)
				w.wantBound("a", 3)
				stop(w)
				w.elastic("b", "other", 1, 2, 1, 0)
				w.run(3 * time.Second)
				w.wantBound("b", 2)
				if a := w.bound("a"); a > 3 {
					t.Errorf("%d pods of the gang are bound, want 3 or none", a)
				}
				if strings.Contains(strings.Join(w.why["b-1"], ""), "waits for") && name != "no room" {
					t.Errorf("pod b-1 waited: %q", w.why["b-1"])
				}
			})
		})
	}
}
