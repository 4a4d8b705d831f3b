package survey

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/wire"
)

func TestGangs(t *testing.T) {
	w := newWorld(t)
	w.Report(w.AddNode("n1"))
	for i := range 2 {
		w.Member("forming", i, 3, 2)
	}
	for i := range 2 {
		w.Member("gated", i, 2, 2)
	}
	w.Pods[len(w.Pods)-1].Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}}
	w.Member("ordered", 0, 2, 2).OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: "set", Controller: new(true)}}
	for i := range 2 {
		one := w.Member("waiting", i, 2, 2)
		if i == 0 {
			one.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
				Message: "0/1 nodes are available: Berth: gang default/waiting does not fit: no room. no new claims to deallocate, preemption: none."}}
		}
	}
	w.Member("partial", 0, 2, 2).Spec.NodeName = "n1"
	w.Member("partial", 1, 2, 2)
	w.Member("whole", 0, 1, 2).Spec.NodeName = "n1"
	reduced := w.Member("reduced", 0, 2, 2)
	reduced.Spec.NodeName = "n1"
	reduced.Status.Conditions = []corev1.PodCondition{{Type: wire.GangWholeCondition, Status: corev1.ConditionTrue}}
	w.Member("reduced", 1, 2, 2)
	for i := range 2 {
		done := w.Member("completed", i, 2, 2)
		done.Spec.NodeName, done.Status.Phase = "n1", corev1.PodSucceeded
	}
	for i := range 3 {
		leaves := w.Member("leaving", i, 3, 2)
		leaves.Spec.NodeName, leaves.DeletionTimestamp = "n1", &metav1.Time{Time: noon}
	}
	w.Member("differing", 0, 2, 2)
	w.Member("differing", 1, 3, 2)
	low, high := int32(1), int32(2)
	w.Member("unequal", 0, 2, 2).Spec.Priority = &low
	w.Member("unequal", 1, 2, 2).Spec.Priority = &high
	lost := pod("lost", 2)
	lost.Annotations = map[string]string{"scheduling.k8s.io/group-name": "missing"}
	twice := pod("twice", 2)
	twice.Annotations = map[string]string{"scheduling.k8s.io/group-name": "empty", wire.GangAnnotation: "claimed", wire.GangMinimumAnnotation: "2"}
	w.Pods = append(w.Pods, lost, twice)
	w.Group(`{"apiVersion":"scheduling.volcano.sh/v1beta1","metadata":{"name":"empty","namespace":"default"},"spec":{"minMember":2},"status":{"phase":"Pending"}}`)
	w.Group(`{"apiVersion":"scheduling.volcano.sh/v1beta1","metadata":{"name":"net","namespace":"default"},"spec":{"minMember":2,"networkTopology":{"mode":"hard"}}}`)
	w.Group(`{"apiVersion":"scheduling.x-k8s.io/v1alpha1","metadata":{"name":"sigs","namespace":"default"},"spec":{"minMember":1000000}}`)
	w.Group(`{"apiVersion":"scheduling.x-k8s.io/v1alpha1","metadata":{"name":"mad","namespace":"default"},"spec":{"minMember":"many"}}`)
	w.Group(`{"apiVersion":"scheduling.x-k8s.io/v1alpha1","metadata":{"name":"odd","namespace":"default","labels":{"x":1}},"spec":{}}`)

	c := w.cluster()
	got, err := c.Gangs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, g := range got.Gangs {
		lines = append(lines, fmt.Sprintf("%s %s %d/%d of %d: %s", g.Name, g.State, g.Bound, g.Minimum, g.Members, g.Why))
	}
	want := []string{
		`claimed wrong 0/0 of 1: Pod default/twice: metadata.annotations[scheduling.k8s.io/group-name]: "empty": want one gang only; the pod also names gang default/claimed`,
		"completed completed 0/2 of 2: ",
		`differing wrong 0/2 of 2: Pod default/differing-1: metadata.annotations[berth.dev/gang-minimum]: "3": want 2, as pod differing-0 of the gang says`,
		"empty forming 0/2 of 0: 0 of 2 pods are there",
		"forming forming 0/3 of 2: 2 of 3 pods are there",
		"gated forming 0/2 of 2: 1 of 2 pods are there; pod gated-1 has the scheduling gate example.com/quota",
		"leaving forming 0/3 of 3: 0 of 3 pods are there, and 3 pods ending",
		`mad wrong 0/0 of 0: PodGroup default/mad: spec.minMember: "many": want a whole number (int32)`,
		"missing wrong 0/0 of 1: PodGroup.scheduling.volcano.sh default/missing does not exist",
		`net wrong 0/0 of 0: PodGroup default/net: spec.networkTopology.mode: "hard": want soft, or no networkTopology: Berth does not look at the network, so it cannot keep this requirement`,
		"ordered forming 0/2 of 1: 1 of 2 pods are there; StatefulSet set creates no other pod before pod ordered-0 is ready, if its podManagementPolicy is not Parallel",
		"partial partial 1/2 of 2: ",
		"reduced reduced 1/2 of 2: ",
		`sigs wrong 0/0 of 0: PodGroup default/sigs: spec.minMember: "1000000": want 0 to 4096`,
		`unequal waiting 0/2 of 2: `,
		"waiting waiting 0/2 of 2: gang default/waiting does not fit: no room",
		"whole whole 1/1 of 1: ",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	if len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "metadata.labels") {
		t.Errorf("notes %q, want one of the group that cannot be read", got.Notes)
	}
}

// TestAGroupWithoutPodsSaysWhyItWaits: the reason is in the status that the scheduler has written.
func TestAGroupWithoutPodsSaysWhyItWaits(t *testing.T) {
	w := newWorld(t)
	w.Group(`{"apiVersion":"scheduling.volcano.sh/v1beta1","metadata":{"name":"large","namespace":"default"},"spec":{"minMember":1,"minResources":{"cpu":"73"}},
		"status":{"phase":"Pending","conditions":[{"type":"Unschedulable","status":"True","message":"minResources asks for 73 CPUs, and 8 are free"}]}}`)
	all, err := w.cluster().Gangs(t.Context())
	if err != nil || len(all.Gangs) != 1 || all.Gangs[0].Why != "0 of 1 pods are there: minResources asks for 73 CPUs, and 8 are free" {
		t.Errorf("%+v, %v", all, err)
	}
}
