package survey

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/wire"
)

// member adds a pending pod of a gang that is declared by annotations.
func (w *world) member(gang string, i, minimum int, cpus int64) *corev1.Pod {
	one := pod(fmt.Sprintf("%s-%d", gang, i), cpus)
	one.Annotations = map[string]string{wire.GangAnnotation: gang, wire.GangMinimumAnnotation: fmt.Sprint(minimum)}
	w.Pods = append(w.Pods, one)
	return one
}

func (w *world) group(text string) {
	w.Helper()
	if !json.Valid([]byte(text)) {
		w.Fatalf("no JSON: %s", text)
	}
	w.Groups = append(w.Groups, json.RawMessage(text))
}

func TestGangs(t *testing.T) {
	w := newWorld(t)
	w.report(w.addNode("n1"))
	for i := range 2 {
		w.member("forming", i, 3, 2)
	}
	for i := range 2 {
		w.member("gated", i, 2, 2)
	}
	w.Pods[len(w.Pods)-1].Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}}
	for i := range 2 {
		one := w.member("waiting", i, 2, 2)
		if i == 0 {
			one.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
				Message: "0/1 nodes are available: Berth: gang default/waiting does not fit: no room. no new claims to deallocate, preemption: none."}}
		}
	}
	w.member("partial", 0, 2, 2).Spec.NodeName = "n1"
	w.member("partial", 1, 2, 2)
	w.member("whole", 0, 1, 2).Spec.NodeName = "n1"
	reduced := w.member("reduced", 0, 2, 2)
	reduced.Spec.NodeName = "n1"
	reduced.Status.Conditions = []corev1.PodCondition{{Type: wire.GangWholeCondition, Status: corev1.ConditionTrue}}
	w.member("reduced", 1, 2, 2)
	for i := range 2 {
		done := w.member("completed", i, 2, 2)
		done.Spec.NodeName, done.Status.Phase = "n1", corev1.PodSucceeded
	}
	for i := range 3 {
		leaves := w.member("leaving", i, 3, 2)
		leaves.Spec.NodeName, leaves.DeletionTimestamp = "n1", &metav1.Time{Time: noon}
	}
	w.member("differing", 0, 2, 2)
	w.member("differing", 1, 3, 2)
	low, high := int32(1), int32(2)
	w.member("unequal", 0, 2, 2).Spec.Priority = &low
	w.member("unequal", 1, 2, 2).Spec.Priority = &high
	lost := pod("lost", 2)
	lost.Annotations = map[string]string{"scheduling.k8s.io/group-name": "missing"}
	twice := pod("twice", 2)
	twice.Annotations = map[string]string{"scheduling.k8s.io/group-name": "empty", wire.GangAnnotation: "claimed", wire.GangMinimumAnnotation: "2"}
	w.Pods = append(w.Pods, lost, twice)
	w.group(`{"apiVersion":"scheduling.volcano.sh/v1beta1","metadata":{"name":"empty","namespace":"default"},"spec":{"minMember":2},"status":{"phase":"Pending"}}`)
	w.group(`{"apiVersion":"scheduling.volcano.sh/v1beta1","metadata":{"name":"net","namespace":"default"},"spec":{"minMember":2,"networkTopology":{"mode":"hard"}}}`)
	w.group(`{"apiVersion":"scheduling.x-k8s.io/v1alpha1","metadata":{"name":"sigs","namespace":"default"},"spec":{"minMember":1000000}}`)
	w.group(`{"apiVersion":"scheduling.x-k8s.io/v1alpha1","metadata":{"name":"mad","namespace":"default"},"spec":{"minMember":"many"}}`)
	w.group(`{"apiVersion":"scheduling.x-k8s.io/v1alpha1","metadata":{"name":"odd","namespace":"default","labels":{"x":1}},"spec":{}}`)

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
		`mad wrong 0/0 of 0: PodGroup default/mad: spec.minMember: "many": want another type: json: cannot unmarshal string into Go struct field PodGroupSpec.spec.minMember of type int32`,
		"missing wrong 0/0 of 1: PodGroup.scheduling.volcano.sh default/missing does not exist",
		`net wrong 0/0 of 0: PodGroup default/net: spec.networkTopology.mode: "hard": want soft, or no networkTopology: Berth does not look at the network, so it cannot keep this requirement`,
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

// TestExplainGangCountsWhatCouldBeFreed: as in the scheduler, pods of lower priority count as free
// for a group's minResources.
func TestExplainGangCountsWhatCouldBeFreed(t *testing.T) {
	for priority, want := range map[int32]string{
		1: "minResources asks for 8 CPUs, and 4 are free",
		9: "0 of 1 pods fit now",
	} {
		w := newWorld(t)
		w.report(w.addNode("n1"))
		w.report(w.addNode("n2")) // 14 CPUs in all
		low := pod("low", 10)
		low.Spec.NodeName, low.Spec.Priority = "n1", &[]int32{5}[0]
		w.group(`{"apiVersion":"scheduling.volcano.sh/v1beta1","metadata":{"name":"high","namespace":"default"},"spec":{"minMember":1,"minResources":{"cpu":"8"}}}`)
		high := pod("high", 8)
		high.Annotations, high.Spec.Priority = map[string]string{"scheduling.k8s.io/group-name": "high"}, &priority
		w.Pods = append(w.Pods, low, high)
		c := w.cluster()
		c.Namespace = "default"
		e, err := c.ExplainGang(t.Context(), "", "high")
		if err != nil || !strings.HasPrefix(e.Verdict, want) {
			t.Errorf("priority %d: %+v, %v: want %q", priority, e, err, want)
		}
	}
}

// TestExplainGangKnowsProtectedGroups: as in the scheduler, pods of a PodGroup with the annotation
// preemptable=false are not evicted. What the scheduler keeps for other groups is in the status
// that it has written.
func TestExplainGangKnowsProtectedGroups(t *testing.T) {
	const raw = `{"apiVersion":"scheduling.volcano.sh/v1beta1","kind":"PodGroup","metadata":{"name":"kept","namespace":"other","annotations":{"volcano.sh/preemptable":"false"}},"spec":{"minMember":1}}`
	const said = "minResources asks for 4 CPUs, and 7 are free, 4 are kept for groups that were admitted before"
	for name, c := range map[string]struct{ group, status, asks, want string }{
		"protected":       {raw, "", "8", "minResources asks for 8 CPUs, and 4 are free"},
		"not protected":   {strings.Replace(raw, `"false"`, `"true"`, 1), "", "8", "all fit now"},
		"kept for others": {raw, `,"status":{"phase":"Inqueue","conditions":[{"type":"Unschedulable","status":"True","message":"` + said + `"}]}`, "4", "all fit now, but the scheduler last said: " + said},
		"no longer":       {raw, `,"status":{"phase":"Inqueue","conditions":[{"type":"Unschedulable","status":"False","message":"` + said + `"}]}`, "4", "all fit now"},
	} {
		w := newWorld(t)
		w.report(w.addNode("n1"))
		w.report(w.addNode("n2")) // 14 CPUs in all
		low, high := pod("low", 10), pod("high", 3)
		low.Namespace, low.Spec.NodeName, low.Spec.Priority, high.Spec.Priority = "other", "n1", new(int32), &[]int32{9}[0]
		low.Annotations, high.Annotations = map[string]string{"scheduling.k8s.io/group-name": "kept"}, map[string]string{"scheduling.k8s.io/group-name": "high"}
		w.group(c.group)
		w.group(`{"apiVersion":"scheduling.volcano.sh/v1beta1","metadata":{"name":"high","namespace":"default"},"spec":{"minMember":1,"minResources":{"cpu":"` + c.asks + `"}}` + c.status + `}`)
		w.Pods = append(w.Pods, low, high)
		cluster := w.cluster()
		cluster.Namespace = "default"
		e, err := cluster.ExplainGang(t.Context(), "", "high")
		if err != nil || e.Verdict != c.want || e.Whole != (c.want == "all fit now") {
			t.Errorf("%s: %+v, %v: want %q", name, e, err, c.want)
		}
	}
}

// TestAGroupWithoutPodsSaysWhyItWaits: the reason is in the status that the scheduler has written.
func TestAGroupWithoutPodsSaysWhyItWaits(t *testing.T) {
	w := newWorld(t)
	w.group(`{"apiVersion":"scheduling.volcano.sh/v1beta1","metadata":{"name":"large","namespace":"default"},"spec":{"minMember":1,"minResources":{"cpu":"73"}},
		"status":{"phase":"Pending","conditions":[{"type":"Unschedulable","status":"True","message":"minResources asks for 73 CPUs, and 8 are free"}]}}`)
	all, err := w.cluster().Gangs(t.Context())
	if err != nil || len(all.Gangs) != 1 || all.Gangs[0].Why != "0 of 1 pods are there: minResources asks for 73 CPUs, and 8 are free" {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestExplainGang: NUMA nodes have 3 and 4 CPUs. Some gangs fit, some fit in part, and one is
// already Inqueue.
func TestExplainGang(t *testing.T) {
	w := newWorld(t)
	w.report(w.addNode("n1"))
	w.report(w.addNode("n2"))
	for i := range 4 {
		w.member("fits", i, 4, 3)
	}
	for i := range 4 {
		w.member("large", i, 4, 4)
	}
	for i := range 5 {
		w.member("beyond", i, 2, 4)
	}
	w.group(`{"apiVersion":"scheduling.volcano.sh/v1beta1","metadata":{"name":"broad","namespace":"default"},"spec":{"minMember":1,"minResources":{"cpu":"100"}}}`)
	broad := pod("broad", 1)
	broad.Annotations = map[string]string{"scheduling.k8s.io/group-name": "broad"}
	w.group(`{"apiVersion":"scheduling.volcano.sh/v1beta1","metadata":{"name":"in","namespace":"default"},"spec":{"minMember":1,"minResources":{"cpu":"100"}},"status":{"phase":"Inqueue"}}`)
	in := pod("in", 1)
	in.Annotations = map[string]string{"scheduling.k8s.io/group-name": "in"}
	w.Pods = append(w.Pods, in)
	light := pod("light", 2)
	light.Annotations = map[string]string{wire.GangAnnotation: "light", wire.GangMinimumAnnotation: "1"}
	light.Spec.Containers[0].Resources.Limits = nil
	w.Pods = append(w.Pods, broad, light)
	c := w.cluster()
	c.Namespace = "default"
	for _, want := range []struct {
		name, verdict string
		whole         bool
		placed        int
		lacking       string
	}{
		{"fits", "all fit now", true, 4, ""},
		{"large", "2 of 4 pods fit now; even empty nodes would not be enough: they have 14 CPUs in total, and these pods ask for 16", false, 2, "large-2"},
		{"beyond", "the minimum fits now: 2 of 2 pods", true, 2, "beyond-2"},
		{"broad", "minResources asks for 100 CPUs, and 14 are free", false, 0, ""},
		{"in", "all fit now", true, 1, ""}, // its group is already Inqueue
		{"light", "all fit now", true, 1, ""},
	} {
		e, err := c.ExplainGang(t.Context(), "", want.name)
		if err != nil {
			t.Fatal(err)
		}
		placed, lacking := 0, ""
		for _, p := range e.Pods {
			if p.State == StateWouldFit {
				placed++
			}
		}
		if e.Lacking != nil {
			lacking = e.Lacking.Pod
		}
		if e.Verdict != want.verdict || e.Whole != want.whole || placed != want.placed || lacking != want.lacking {
			t.Errorf("%s: %q, whole %t, %d placed, lacking %q: want %+v", want.name, e.Verdict, e.Whole, placed, lacking, want)
		}
		for _, p := range e.Pods {
			// Members of the same second may be admitted in any order.
			if want.name == "fits" && (p.NUMANodes == "" || p.Node == "" || p.Certainty != "verdict") {
				t.Errorf("%+v: want its node, its NUMA nodes, and how certain that is", p)
			}
		}
		if want.name == "large" {
			for _, a := range e.Lacking.Nodes {
				if a.Mates != 1 || a.Refusal == nil || len(a.Refusal.Needs) == 0 {
					t.Errorf("%s: %+v: want what is there beside one member, NUMA node by NUMA node", a.Node, a)
				}
			}
		}
	}
	if _, err := c.ExplainGang(t.Context(), "podgroup", "fits"); err == nil || !strings.Contains(err.Error(), "no podgroup fits in namespace default") {
		t.Errorf("a gang without an object, as a PodGroup: %v", err)
	}
}
