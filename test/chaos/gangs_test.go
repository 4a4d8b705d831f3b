package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// memberPod makes a pod of a gang of three.
func memberPod(name, node string) *corev1.Pod {
	plan := &PodPlan{Name: name, CPUs: []int64{1}, Gang: "g", Minimum: 3}
	pod := plan.object()
	pod.UID, pod.Spec.NodeName = types.UID(name), node
	return pod
}

// TestPartOfAGangIsNoticed: it is a violation if a part of a gang that was never complete has
// nodes. A gang that was complete may lose members.
func TestPartOfAGangIsNoticed(t *testing.T) {
	for _, c := range []struct {
		name        string
		seen, left  []*corev1.Pod
		want, waits bool
	}{
		{"none has a node", nil, []*corev1.Pod{memberPod("a", ""), memberPod("b", ""), memberPod("c", "")}, false, true},
		{"two of three have", nil, []*corev1.Pod{memberPod("a", "n"), memberPod("b", "n"), memberPod("c", "")}, true, true},
		{"all have", nil, []*corev1.Pod{memberPod("a", "n"), memberPod("b", "n"), memberPod("c", "n")}, false, false},
		{"two are left of three", []*corev1.Pod{memberPod("c", "n")}, []*corev1.Pod{memberPod("a", "n"), memberPod("b", "n")}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newObserver(nil, nil)
			var list []corev1.Pod
			for _, pod := range append(c.seen, c.left...) {
				o.pods[pod.UID] = &watched{pod: pod}
				o.seeGang(pod)
			}
			for _, pod := range c.left {
				list = append(list, *pod)
			}
			gangs := gangsOf(list)
			if got := o.partial(gangs); (len(got) > 0) != c.want {
				t.Errorf("it notes %v, want something: %v", got, c.want)
			}
			if gangs["g"].waits() != c.waits {
				t.Errorf("its members may wait: %v, want %v", gangs["g"].waits(), c.waits)
			}
		})
	}
}
