package gang

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/wire"
)

// TestMembersAskForEachOthersNUMANodes: there are two nodes, each with NUMA nodes of 3 and 4 CPUs.
// One node has room for the whole gang.
func TestMembersAskForEachOthersNUMANodes(t *testing.T) {
	for name, c := range map[string]struct {
		cpus  int
		wish  map[string]string
		bound int
		nodes int
		said  string
	}{
		"other":     {1, map[string]string{wire.OtherNUMAAnnotation: "*"}, 2, 2, ""},
		"same":      {1, map[string]string{wire.SameNUMAAnnotation: "a-0"}, 2, 1, ""},
		"never":     {3, map[string]string{wire.SameNUMAAnnotation: "a-0"}, 0, 0, "2 nodes: has room, but the pods might not get the NUMA nodes that gang-same-numa-node or gang-other-numa-node requests"},
		"preferred": {3, map[string]string{wire.SameNUMAAnnotation: "preferred: a-0"}, 2, 1, ""},
		"missing":   {1, map[string]string{wire.SameNUMAAnnotation: "b-0"}, 0, 0, `"b-0": want the name of a waiting or running pod of the same gang`},
		"wrong":     {1, map[string]string{wire.SameNUMAAnnotation: "a-1"}, 0, 0, "want another pod of the gang, not the pod itself"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 2, func(w *world) {
				w.create(podOf("a", "a-0", 2, c.cpus))
				pod := podOf("a", "a-1", 2, c.cpus)
				for key, value := range c.wish {
					pod.Annotations[key] = value
				}
				w.create(pod)
				w.run(20 * time.Second)
				nodes := map[string]bool{}
				for _, pod := range w.pods {
					if pod.Spec.NodeName != "" {
						nodes[pod.Spec.NodeName] = true
					}
				}
				if got := w.bound("a"); got != c.bound || len(nodes) != c.nodes {
					t.Errorf("%d members are bound to %v: want %d on %d nodes", got, nodes, c.bound, c.nodes)
				}
				if said := w.said(); !strings.Contains(said, c.said) {
					t.Errorf("said %q, want %q", said, c.said)
				}
			})
		})
	}
}

// asking returns a pod of gang a with an annotation about the NUMA nodes of other members.
func asking(name string, cpus int, key, text string) *corev1.Pod {
	pod := podOf("a", name, 2, cpus)
	pod.Annotations[key] = text
	return pod
}

// TestAMemberAsksForThePlaceOfOneThatRuns: the gang has its minimum, and another member comes. NUMA
// nodes have 3 and 4 CPUs. A node is certain when its report shows where the running member is.
func TestAMemberAsksForThePlaceOfOneThatRuns(t *testing.T) {
	for name, c := range map[string]struct {
		key, text string
		cpus      int
		bound     bool
		same      bool // on the NUMA node of a-0
		early     bool // bound before a report shows where a-0 is
	}{
		"same":                  {wire.SameNUMAAnnotation, "a-0", 1, true, true, false},
		"other":                 {wire.OtherNUMAAnnotation, "a-0", 1, true, false, true},
		"same, and no room":     {wire.SameNUMAAnnotation, "a-0", 3, false, false, false},
		"same, preferred":       {wire.SameNUMAAnnotation, "preferred: a-0", 3, true, false, true},
		"nobody of the name":    {wire.SameNUMAAnnotation, "b-7", 1, false, false, false},
		"both, which are apart": {wire.SameNUMAAnnotation, "a-0, a-1", 1, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 2, func(w *world) {
				w.create(podOf("a", "a-0", 2, 2))
				w.create(asking("a-1", 2, wire.OtherNUMAAnnotation, "a-0"))
				w.run(time.Second)
				w.want("a", 2, 2)
				w.create(asking("a-9", c.cpus, c.key, c.text))
				w.run(2 * time.Second)
				w.create(podOf("a", "a-8", 2, 3)) // has no such request and must not wait
				w.run(20 * time.Second)
				if (w.pods["a-9"].Spec.NodeName != "") != c.early || w.pods["a-8"].Spec.NodeName == "" {
					t.Errorf("before any report: a-9 is on %q, a-8 on %q; said %s", w.pods["a-9"].Spec.NodeName, w.pods["a-8"].Spec.NodeName, w.said())
				}
				w.report()
				w.run(20 * time.Second)
				if got := w.pods["a-9"].Spec.NodeName != ""; got != c.bound {
					t.Fatalf("a-9 is bound: %t, want %t; said %s", got, c.bound, w.said())
				}
				w.report()
				if at, of := w.holding("a-9"), w.holding("a-0"); c.bound && (at == of) != c.same {
					t.Errorf("a-9 holds %s, a-0 %s: the same %t, want %t", at, of, at == of, c.same)
				}
				w.wantState(gangs.Whole)
			})
		})
	}
}

// TestAPodThatComesLaterEvicts: the pod requests the NUMA node of a running member, which has 3 or
// 4 CPUs and pods of lower priority. Pods on the other NUMA node stay.
func TestAPodThatComesLaterEvicts(t *testing.T) {
	for name, c := range map[string]struct {
		cpus  int
		never bool
		bound bool
	}{
		"whoever is there":    {2, false, true},
		"nobody, in vain":     {3, false, false},
		"nobody, by its wish": {2, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(w *world) {
				w.live(1)
				create := func(pod *corev1.Pod, priority int32) {
					pod.Spec.Priority = &priority
					w.create(pod)
					w.run(2 * time.Second)
				}
				create(podOf("a", "a-0", 2, 2), 9)
				create(asking("a-1", 2, wire.OtherNUMAAnnotation, "a-0"), 9)
				w.wantBound("a", 2)
				for _, cpus := range []int{1, 2} {
					low := podOf("", fmt.Sprint("low-", cpus), 1, cpus)
					low.Annotations = nil
					create(low, 1)
				}
				var there []string
				for _, low := range []string{"low-1", "low-2"} {
					if w.holding(low) == w.holding("a-1") {
						there = append(there, low)
					}
				}
				if len(there) != 1 {
					t.Fatalf("%v are with a-1: the test shows nothing", there)
				}
				late := asking("a-9", c.cpus, wire.SameNUMAAnnotation, "a-1")
				if never := corev1.PreemptNever; c.never {
					late.Spec.PreemptionPolicy = &never
				}
				create(late, 9)
				w.run(2 * gangs.ReportLimit)
				if !c.bound {
					w.wantDeleted()
					w.wantBound("a", 2)
					return
				}
				w.wantDeleted(there...)
				w.wantBound("a", 3)
				if w.holding("a-9") != w.holding("a-1") {
					t.Errorf("a-9 holds %s, a-1 %s", w.holding("a-9"), w.holding("a-1"))
				}
			})
		})
	}
}

// holding returns the node and the NUMA nodes on which a pod has resources.
func (w *world) holding(name string) string {
	node := w.pods[types.UID(name)].Spec.NodeName
	if node == "" {
		return "nothing"
	}
	numa, told := w.accounts[node].View().Holding(name)
	return fmt.Sprint(node, " ", numa, " ", told)
}

// TestAMemberKeepsAwayWhoComesLater: the member requested a NUMA node without other members, and
// got one.
func TestAMemberKeepsAwayWhoComesLater(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.create(asking("a-0", 2, wire.OtherNUMAAnnotation, "*"))
		w.create(podOf("a", "a-1", 2, 3))
		w.run(time.Second)
		w.wantBound("a", 2)
		w.report()
		w.create(podOf("a", "a-2", 2, 1)) // its kubelet would give it the last CPU on the NUMA node of a-0
		w.run(time.Minute)
		w.wantBound("a", 2)
		if said := w.said(); !strings.Contains(said, "pod a-2 is placed after its gang") {
			t.Errorf("said %q", said)
		}
		w.remove("a-0")
		w.run(time.Second)
		w.wantBound("a", 2)
		if w.pods["a-2"].Spec.NodeName == "" {
			t.Error("a-2 waits though a-0 has gone")
		}
	})
}

func (w *world) wantBound(gang string, bound int) {
	w.t.Helper()
	if got := w.bound(gang); got != bound {
		w.t.Errorf("%s: %d members bound, want %d", gang, got, bound)
	}
}
