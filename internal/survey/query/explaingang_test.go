package query

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/wire"
)

// TestExplainGangCountsWhatCouldBeFreed: as in the scheduler, pods of lower priority count as free
// for a group's minResources.
func TestExplainGangCountsWhatCouldBeFreed(t *testing.T) {
	for priority, want := range map[int32]string{
		1: "minResources asks for 8 CPUs, and 4 are free",
		9: "0 of 1 pods fit now",
	} {
		w := newWorld(t)
		w.Report(w.AddNode("n1"))
		w.Report(w.AddNode("n2")) // 14 CPUs in all
		low := pod("low", 10)
		low.Spec.NodeName, low.Spec.Priority = "n1", &[]int32{5}[0]
		w.Group(`{"apiVersion":"scheduling.volcano.sh/v1beta1","metadata":{"name":"high","namespace":"default"},"spec":{"minMember":1,"minResources":{"cpu":"8"}}}`)
		high := pod("high", 8)
		high.Annotations, high.Spec.Priority = map[string]string{"scheduling.k8s.io/group-name": "high"}, &priority
		w.Pods = append(w.Pods, low, high)
		c := w.cluster()
		c.Namespace = "default"
		e, err := explainGang(t.Context(), c, "", "high")
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
		w.Report(w.AddNode("n1"))
		w.Report(w.AddNode("n2")) // 14 CPUs in all
		low, high := pod("low", 10), pod("high", 3)
		low.Namespace, low.Spec.NodeName, low.Spec.Priority, high.Spec.Priority = "other", "n1", new(int32), &[]int32{9}[0]
		low.Annotations, high.Annotations = map[string]string{"scheduling.k8s.io/group-name": "kept"}, map[string]string{"scheduling.k8s.io/group-name": "high"}
		w.Group(c.group)
		w.Group(`{"apiVersion":"scheduling.volcano.sh/v1beta1","metadata":{"name":"high","namespace":"default"},"spec":{"minMember":1,"minResources":{"cpu":"` + c.asks + `"}}` + c.status + `}`)
		w.Pods = append(w.Pods, low, high)
		cluster := w.cluster()
		cluster.Namespace = "default"
		e, err := explainGang(t.Context(), cluster, "", "high")
		if err != nil || e.Verdict != c.want || e.Whole != (c.want == "all fit now") {
			t.Errorf("%s: %+v, %v: want %q", name, e, err, c.want)
		}
	}
}

// TestExplainGang: NUMA nodes have 3 and 4 CPUs. Some gangs fit, some fit in part, and one is
// already Inqueue.
func TestExplainGang(t *testing.T) {
	w := newWorld(t)
	w.Report(w.AddNode("n1"))
	w.Report(w.AddNode("n2"))
	for i := range 4 {
		w.Member("fits", i, 4, 3)
	}
	for i := range 4 {
		w.Member("large", i, 4, 4)
	}
	for i := range 5 {
		w.Member("beyond", i, 2, 4)
	}
	w.Group(`{"apiVersion":"scheduling.volcano.sh/v1beta1","metadata":{"name":"broad","namespace":"default"},"spec":{"minMember":1,"minResources":{"cpu":"100"}}}`)
	broad := pod("broad", 1)
	broad.Annotations = map[string]string{"scheduling.k8s.io/group-name": "broad"}
	w.Group(`{"apiVersion":"scheduling.volcano.sh/v1beta1","metadata":{"name":"in","namespace":"default"},"spec":{"minMember":1,"minResources":{"cpu":"100"}},"status":{"phase":"Inqueue"}}`)
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
		{"beyond", "enough pods fit now: 2 (the gang needs 2)", true, 2, "beyond-2"},
		{"broad", "minResources asks for 100 CPUs, and 14 are free", false, 0, ""},
		{"in", "all fit now", true, 1, ""}, // its group is already Inqueue
		{"light", "all fit now", true, 1, ""},
	} {
		e, err := explainGang(t.Context(), c, "", want.name)
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
	if _, err := explainGang(t.Context(), c, "podgroup", "fits"); err == nil || !strings.Contains(err.Error(), "no podgroup fits in namespace default") {
		t.Errorf("a gang without an object, as a PodGroup: %v", err)
	}
}

// TestExplainGangOfHosts: Kueue's topology-aware scheduling assigns a host to each pod of a gang,
// so each pod is a kind of its own. The budget is enough, because only that host is asked about the
// pod. The answers about the pod that does not fit are of all nodes.
func TestExplainGangOfHosts(t *testing.T) {
	const hosts = 200
	w := newWorld(t)
	for i := range hosts {
		name := fmt.Sprint("n", i)
		w.Report(w.AddNode(name))
		w.Nodes[i].Labels = map[string]string{corev1.LabelHostname: name}
		w.Member("hosts", i, hosts, 1).Spec.NodeSelector = map[string]string{corev1.LabelHostname: name}
	}
	c := w.cluster()
	c.Namespace = "default"
	if e, err := explainGang(t.Context(), c, "", "hosts"); err != nil || e.Verdict != "all fit now" {
		t.Errorf("%q, %v", e.Verdict, err)
	}
	w.Pods[7].Spec.NodeSelector[corev1.LabelHostname] = "gone"
	c = w.cluster()
	c.Namespace = "default"
	e, err := explainGang(t.Context(), c, "", "hosts")
	if err != nil || e.Lacking == nil || e.Lacking.Pod != w.Pods[7].Name || len(e.Lacking.Nodes) != hosts {
		t.Fatalf("%q, lacking %v, %v", e.Verdict, e.Lacking, err)
	}
	for _, a := range e.Lacking.Nodes {
		if a.Answer != Excluded || !strings.Contains(a.Message, "node selector") {
			t.Errorf("node %s: %s %s", a.Node, a.Answer, a.Message)
		}
	}
}
