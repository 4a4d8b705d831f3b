package gang

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/gangfit"
	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// seat binds a single pod with a priority and its own label to a node.
func (w *world) seat(name, node string, cpus int, priority int32) {
	pod := podOf("", name, 1, cpus)
	pod.Annotations, pod.Labels, pod.Spec.Priority = nil, map[string]string{"name": name}, &priority
	w.pods[pod.UID] = pod
	c, err := w.profile().Candidate(pod)
	w.must(err)
	if a := w.accounts[node].Reserve(c, new(placement.Decision)); !a.OK() {
		w.t.Fatalf("pod %s on %s: %+v", name, node, a)
	}
	bound := pod.DeepCopy()
	bound.Spec.NodeName = node
	w.pods[pod.UID] = bound
	time.Sleep(2 * time.Second) // no other pod is created in its second
}

// addWith does the same as add, with a priority.
func (w *world) addWith(gang string, count, minimum, cpus int, priority int32) {
	for i := range count {
		pod := podOf(gang, fmt.Sprintf("%s-%d", gang, i), minimum, cpus)
		pod.Spec.Priority = &priority
		w.create(pod)
	}
}

func (w *world) wantDeleted(names ...string) {
	w.t.Helper()
	slices.Sort(w.deleted)
	if !slices.Equal(w.deleted, names) {
		w.t.Errorf("deleted: %v, want %v", w.deleted, names)
	}
}

// TestAGangEvictsForTheWhole: NUMA nodes of 3 and 4 CPUs are full of pods of lower priorities. The
// cheapest pods are evicted, and no more than the gang needs.
func TestAGangEvictsForTheWhole(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.seat("dear-0", "n0", 4, 5)
		w.seat("cheap-0", "n0", 3, 1)
		w.seat("dear-1", "n1", 4, 5)
		w.seat("cheap-1", "n1", 3, 1)
		w.addWith("a", 2, 2, 3, 9)
		w.run(5 * time.Second)
		w.wantDeleted("cheap-0", "cheap-1")
		if got := w.bound("a"); got != 2 {
			t.Errorf("%d members are bound, want 2", got)
		}
		if said := w.said(); !strings.Contains(said, "of lower priority: default/cheap-") || !strings.Contains(said, "Preempted by gang default/a") {
			t.Errorf("said:\n%s", said)
		}
	})
}

// TestMembersOfDifferentPriority: members are planned together, and evict with the lowest of their
// priorities. Pods of priority 5 stay if the members have 9 and 3, and are evicted if they have 9
// and 6.
func TestMembersOfDifferentPriority(t *testing.T) {
	for lowest, want := range map[int32]int{3: 0, 6: 2} {
		inWorld(t, 2, func(w *world) {
			w.seat("low-0", "n0", 4, 5)
			w.seat("low-1", "n1", 4, 5)
			for i, priority := range []int32{9, lowest} {
				pod := podOf("a", fmt.Sprintf("a-%d", i), 2, 4)
				pod.Spec.Priority = &priority
				w.create(pod)
			}
			w.run(time.Minute)
			if got := w.bound("a"); got != want {
				t.Errorf("members of 9 and %d beside pods of 5: %d are bound, want %d", lowest, got, want)
			}
			if evicted := len(w.deleted) > 0; evicted != (want > 0) {
				t.Errorf("members of 9 and %d beside pods of 5: %v are deleted", lowest, w.deleted)
			}
		})
	}
}

// TestAProfileThatEvictsNobody: members of any priority wait.
func TestAProfileThatEvictsNobody(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.terms.EvictsNobody = true
		w.seat("low-0", "n0", 4, 1)
		w.addWith("a", 1, 1, 4, 9)
		w.run(time.Minute)
		w.wantDeleted()
	})
}

// TestNobodyIsEvictedForAPart: there are three members, and room for two at most.
func TestNobodyIsEvictedForAPart(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.seat("low-0", "n0", 4, 1)
		w.seat("low-1", "n0", 3, 1)
		w.addWith("a", 3, 3, 3, 9)
		w.addWith("equal", 1, 1, 4, 1)
		never := corev1.PreemptNever
		shy := podOf("shy", "shy-0", 1, 3)
		shy.Spec.Priority, shy.Spec.PreemptionPolicy = new(int32), &never
		*shy.Spec.Priority = 9
		w.create(shy)
		w.run(time.Minute)
		w.wantDeleted()
		for _, gang := range []string{"a", "equal", "shy"} {
			if got := w.bound(gang); got != 0 {
				t.Errorf("%s: %d members are bound", gang, got)
			}
		}
	})
}

// TestWhoIsLeavingIsAwaited: while victims end, no other pod is evicted, and their resources are
// kept for the gang.
func TestWhoIsLeavingIsAwaited(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.slow = true
		w.seat("low-0", "n0", 4, 1)
		w.seat("low-1", "n0", 3, 1)
		w.addWith("a", 2, 2, 3, 9)
		w.run(time.Minute)
		w.wantDeleted("low-0", "low-1")
		if got := w.groups.Nominated("a-0"); got != "n0" || w.nominated["a-1"] != "n0" {
			t.Errorf("kept for a-0: %q, for others: %v; want n0 for both", got, w.nominated)
		}
		w.wantState(gangs.Waiting)
		w.remove("low-0")
		w.run(time.Minute)
		w.wantDeleted("low-0", "low-1")
		w.remove("low-1")
		w.run(5 * time.Second)
		if got := w.bound("a"); got != 2 {
			t.Errorf("%d members are bound, want 2", got)
		}
		if got := w.groups.Nominated("a-0"); got != "" {
			t.Errorf("%q is still kept for a-0", got)
		}
	})
}

// TestWhatIsKeptInVain: a gang that lost a member is not tried any more. The resources kept for its
// other members are released, and the leader's status reports this.
func TestWhatIsKeptInVain(t *testing.T) {
	for name, c := range map[string]struct {
		leaves string
		hidden string
	}{
		"the leader leaves": {"a-0", ""},
		"another leaves":    {"a-1", "a-0"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(w *world) {
				w.slow = true
				w.seat("low-0", "n0", 4, 1)
				w.seat("low-1", "n0", 3, 1)
				w.addWith("a", 2, 2, 3, 9)
				w.run(time.Minute)
				if w.nominated["a-0"] != "n0" || w.nominated["a-1"] != "n0" {
					t.Fatalf("kept: %v; want n0 for both", w.nominated)
				}
				w.remove(c.leaves)
				delete(w.nominated, c.leaves) // by the scheduling queue
				if c.hidden != "" {
					w.showNominated(c.hidden, "n0")
				}
				w.run(time.Second)
				if len(w.nominated) > 0 || c.hidden != "" && !slices.Contains(w.hidden, c.hidden) {
					t.Errorf("still kept: %v; hidden: %v, want %q", w.nominated, w.hidden, c.hidden)
				}
			})
		})
	}
}

// showNominated makes the watch show that a pod is nominated.
func (w *world) showNominated(name, node string) {
	pod := w.pods[types.UID(name)].DeepCopy()
	pod.Status.NominatedNodeName = node
	w.pods[pod.UID], w.nominated[name] = pod, node
	w.groups.PodSeen(pod)
}

// TestAGangIsEvictedWholeOrNotAtAll: a single pod is evicted before a gang of three. If only gangs
// can be evicted, a whole gang is.
func TestAGangIsEvictedWholeOrNotAtAll(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.addWith("low", 3, 3, 3, 1)
		w.run(time.Second)
		if got := w.bound("low"); got != 3 {
			t.Fatalf("%d members are bound, want 3", got)
		}
		free := "n0"
		if w.pods["low-0"].Spec.NodeName == w.pods["low-1"].Spec.NodeName && w.pods["low-0"].Spec.NodeName == "n0" {
			free = "n1"
		}
		w.seat("single", free, 3, 2)
		w.addWith("a", 1, 1, 3, 9)
		w.run(5 * time.Second)
		w.wantDeleted("low-0", "low-1", "low-2") // their priority is lower than that of the single pod, which decides
		if got := w.bound("a"); got != 1 {
			t.Errorf("%d members are bound, want 1", got)
		}
	})
}

// TestAGangKeepsItsMinimum: a gang with more pods than its minimum loses only as many as the
// preemptor needs (volcano#3979: elastic jobs; volcano#2629: below Volcano's controller, a
// Deployment is a gang of one). The youngest go first. It goes whole if its surplus is not enough.
func TestAGangKeepsItsMinimum(t *testing.T) {
	for name, c := range map[string]struct {
		least, comes int
		deleted      []string
	}{
		"the minimum is one":             {1, 1, []string{"low-3"}},
		"all that is beyond the minimum": {2, 2, []string{"low-2", "low-3"}},
		"more than that":                 {3, 2, []string{"low-0", "low-1", "low-2", "low-3"}},
		"nothing is beyond it":           {4, 1, []string{"low-0", "low-1", "low-2", "low-3"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 2, func(w *world) {
				for i := range 4 {
					pod := podOf("low", fmt.Sprintf("low-%d", i), c.least, 3)
					pod.Spec.Priority = new(int32)
					w.create(pod)
					w.run(2 * time.Second) // so that each pod is younger than the one before
				}
				w.run(5 * time.Second)
				w.wantBound("low", 4)
				w.addWith("a", c.comes, c.comes, 3, 9)
				w.run(5 * time.Second)
				w.wantDeleted(c.deleted...)
				w.wantBound("a", c.comes)
			})
		})
	}
}

// TestAGangIsNotItsOwnVictim: a late member of higher priority evicts a member that its gang does
// not need, and none of the others.
func TestAGangIsNotItsOwnVictim(t *testing.T) {
	for least, deleted := range map[int][]string{1: {"low-1"}, 2: nil} {
		inWorld(t, 1, func(w *world) {
			w.addWith("low", 2, least, 3, 1)
			w.run(5 * time.Second)
			w.wantBound("low", 2)
			late := podOf("low", "low-2", least, 3)
			late.Spec.Priority = new(int32)
			*late.Spec.Priority = 9
			w.groups.MakeRoom(t.Context(), w.profile(), late)
			w.run(time.Second)
			w.wantDeleted(deleted...)
		})
	}
}

// TestSurplusOfTasks: a gang keeps the minimum of each task. A member that is on its way out is not
// among the members on nodes, and does not count.
func TestSurplusOfTasks(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.object("low", 2, "", func(g *wire.Gang) { g.Tasks = map[string]int{"ps": 1} })
		for i, task := range []string{"worker", "worker", "worker", "ps"} {
			w.create(taskOf("low", fmt.Sprintf("low-%d", i), task))
		}
		w.run(5 * time.Second)
		w.wantBound("low", 4)
		for _, c := range []struct{ on, want []types.UID }{
			{[]types.UID{"low-0", "low-1", "low-2", "low-3"}, []types.UID{"low-1", "low-2"}},
			{[]types.UID{"low-1", "low-2", "low-3"}, []types.UID{"low-2"}},
			{[]types.UID{"low-2", "low-3"}, nil},
		} {
			var pods []*corev1.Pod
			for _, uid := range c.on {
				pods = append(pods, w.pods[uid])
			}
			if got := slices.Sorted(maps.Keys(w.groups.evictor.surplus(pods))); !slices.Equal(got, c.want) {
				t.Errorf("of %v: %v can go, want %v", c.on, got, c.want)
			}
		}
	})
}

// TestBudgetsCount (KAI-Scheduler#146 ignored them): the victim is a pod whose budget allows it,
// although its priority is higher.
func TestBudgetsCount(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.seat("kept", "n0", 3, 1)
		w.seat("goes", "n0", 3, 2)
		w.budgets = []*policyv1.PodDisruptionBudget{
			{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": "kept"}}}},
			{ObjectMeta: metav1.ObjectMeta{Namespace: "other"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": "goes"}}}},
			{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}}},
		}
		w.addWith("a", 1, 1, 3, 9)
		w.run(5 * time.Second)
		w.wantDeleted("goes")
	})
}

// TestNobodyIsEvictedInVain: a kubelet creates a static pod again, and a pod that has not ended
// long after its grace period may never end. A gang waits for neither of them.
func TestNobodyIsEvictedInVain(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		want   []string
	}{
		"a static pod": {func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }, []string{"dear"}},
		"a pod that does not end": {func(p *corev1.Pod) {
			p.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(-10 * time.Minute)}
		}, []string{"dear"}},
		"a pod that ends": {func(p *corev1.Pod) {
			p.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(30 * time.Second)}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(w *world) {
				w.slow = true
				w.seat("cheap", "n0", 4, 1)
				w.seat("dear", "n0", 3, 5)
				pod := w.pods["cheap"].DeepCopy()
				c.change(pod)
				w.pods[pod.UID] = pod
				w.groups.PodSeen(pod)
				w.addWith("a", 1, 1, 3, 9)
				w.run(time.Minute)
				w.wantDeleted(c.want...)
			})
		})
	}
}

// TestKubernetesGroupsAreEvictedWhole: if its PodGroup says so, a member is evicted only with all
// others, and by the priority of the PodGroup.
func TestKubernetesGroupsAreEvictedWhole(t *testing.T) {
	for name, c := range map[string]struct {
		whole    string
		priority int32
		want     []string
	}{
		"whole":           {"own", 1, []string{"own-0", "own-1"}},
		"one by one":      {"", 1, []string{"own-0"}},
		"of a high group": {"own", 9, []string{"dear"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 2, func(w *world) {
				w.groups.book.OwnGroup = func(*corev1.Pod) (string, int32) { return c.whole, c.priority }
				for i := range 2 {
					name := fmt.Sprint("own-", i)
					w.seat(name, fmt.Sprint("n", i), 4, 1)
					w.pods[types.UID(name)].Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("own")}
				}
				w.seat("fill", "n1", 3, 20)
				w.seat("dear", "n0", 3, 5)
				pod := podOf("a", "a-0", 1, 3)
				pod.Spec.Priority, pod.Spec.NodeSelector = new(int32(9)), map[string]string{corev1.LabelHostname: "n0"}
				w.create(pod)
				w.run(5 * time.Second)
				w.wantDeleted(c.want...)
			})
		})
	}
}

// TestASinglePodTearsNoGang: NUMA nodes have 3 and 4 CPUs. A pod of no gang evicts single pods or a
// whole gang. If no gang has a lower priority, kube-scheduler's own preemption is used.
func TestASinglePodTearsNoGang(t *testing.T) {
	for name, c := range map[string]struct {
		gang    int32 // priorities of the gang on n0 and n1, of the pod on n1, and of the new pod
		single  int32
		comes   int32
		asked   bool
		node    string
		deleted []string
	}{
		"the gang is cheaper, and goes whole": {1, 2, 9, true, "", []string{"low-0", "low-1"}},
		"the single pod is cheaper":           {3, 2, 9, true, "n1", []string{"single"}},
		"the gang is too high":                {9, 2, 9, false, "", nil},
		"both are":                            {5, 5, 4, false, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 2, func(w *world) {
				w.slow = true
				w.addWith("low", 2, 2, 4, c.gang)
				w.run(2 * time.Second)
				w.wantBound("low", 2)
				w.seat("filler", "n0", 3, 100)
				w.seat("single", "n1", 3, c.single)
				pod := podOf("", "comes", 1, 3)
				pod.Annotations, pod.Spec.Priority = nil, &c.comes
				node, asked := w.groups.MakeRoom(t.Context(), w.profile(), pod)
				w.run(time.Second)
				if asked != c.asked || c.node != "" && node != c.node || (node == "") != (len(c.deleted) == 0) {
					t.Errorf("node %q, asked %t: want %q, %t", node, asked, c.node, c.asked)
				}
				w.wantDeleted(c.deleted...)
				again, _ := w.groups.MakeRoom(t.Context(), w.profile(), pod)
				w.run(time.Second)
				if again != node {
					t.Errorf("%q is kept for the pod, then %q", node, again)
				}
				w.wantDeleted(c.deleted...) // they are ending, and no other pod is evicted
			})
		})
	}
}

// TestANodeThatAlwaysWaitsKeepsNobodyFromEvicting: such a node delays eviction for half a minute
// only, as for a single pod.
func TestANodeThatAlwaysWaitsKeepsNobodyFromEvicting(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.seat("low-0", "n0", 4, 1)
		w.seat("low-1", "n0", 3, 1)
		w.pending = map[string]bool{"n1": true}
		w.addWith("a", 2, 2, 3, 9)
		w.run(gangs.ReportLimit - time.Second)
		w.wantDeleted()
		w.run(gangs.LongestWait + 2*time.Second)
		w.wantDeleted("low-0", "low-1")
		w.run(5 * time.Second)
		w.wantBound("a", 2)
	})
}

// TestNobodyWaitsForAReportThatCannotHelp: a node that waits for a report has no room by its
// amounts, or too little for the whole gang. The gang then evicts at once, or reports missing
// capacity if it may not evict.
func TestNobodyWaitsForAReportThatCannotHelp(t *testing.T) {
	for name, c := range map[string]struct {
		taken    []int // CPUs of pods on the node that waits, of 7
		patience bool
	}{
		"the node that waits is full":    {[]int{4, 3}, false},
		"it has room for one of two":     {[]int{4}, false},
		"it has room for both":           {[]int{1}, true},
		"it has room for both and again": {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 2, func(w *world) {
				w.seat("low-0", "n0", 4, 1)
				w.seat("low-1", "n0", 3, 1)
				for i, cpus := range c.taken {
					w.seat(fmt.Sprint("high-", i), "n1", cpus, 9)
				}
				w.pending = map[string]bool{"n1": true}
				w.addWith("a", 2, 2, 3, 9)
				w.run(time.Second)
				if c.patience {
					w.wantDeleted()
					return
				}
				w.wantDeleted("low-0", "low-1")
				w.run(5 * time.Second)
				w.wantBound("a", 2)
			})
		})
	}
	inWorld(t, 2, func(w *world) { // no pod can be evicted
		w.seat("high-0", "n0", 4, 9)
		w.seat("high-1", "n0", 3, 9)
		w.seat("high-2", "n1", 4, 9)
		w.pending = map[string]bool{"n1": true}
		w.addWith("a", 2, 2, 3, 1)
		w.run(time.Second)
		if said := w.said(); !strings.Contains(said, "does not fit") || strings.Contains(said, "next reports") {
			t.Errorf("the gang waits for no report: %q", said)
		}
	})
}

// TestEveryMemberIsToldThatItsGangDoesNotFit: each member gets the condition once, because
// autoscalers count pods.
func TestEveryMemberIsToldThatItsGangDoesNotFit(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.add("a", 3, 3, 3)
		w.run(gangs.Silence / 2)
		if len(w.told) > 0 {
			t.Errorf("after %v pods are told %q", gangs.Silence/2, w.told)
		}
		w.run(5 * time.Minute)
		want := []string{"a-1: Berth: gang default/a does not fit; the condition of pod a-0 says why", "a-2: Berth: gang default/a does not fit; the condition of pod a-0 says why"}
		if !slices.Equal(w.told, want) {
			t.Errorf("pods are told %q, want %q", w.told, want)
		}
		w.create(podOf("b", "b-0", 2, 1)) // its gang lacks a pod, not room
		w.run(time.Minute)
		if len(w.told) != len(want) {
			t.Errorf("pods are told %q", w.told)
		}
	})
}

// TestALargeGangEvictsFew: the limit of the search for victims is reached before the search could
// go from all pods of lower priority down to the two that suffice.
func TestALargeGangEvictsFew(t *testing.T) {
	const nodes = 1200
	inWorld(t, nodes, func(w *world) {
		w.shape = 1 // members are alike
		for i := range nodes {
			w.seat(fmt.Sprint("low-", i), fmt.Sprint("n", i), 3, 1)
		}
		w.addWith("a", nodes+2, nodes+2, 3, 9)
		w.run(20 * time.Second)
		w.wantBound("a", nodes+2)
		if len(w.deleted) != 2 {
			t.Errorf("%d pods were evicted, want 2", len(w.deleted))
		}
	})
}

// TestProtectedPodsStay: with volcano.sh/preemptable "false", only system-critical pods evict a pod
// or the pod's gang, if the namespace is allowed to protect pods.
func TestProtectedPodsStay(t *testing.T) {
	for name, c := range map[string]struct {
		namespaces []string // in which pods may be protected; nil for all
		comes      int32
		deleted    []string
	}{
		"the other one goes":              {nil, 9, []string{"free"}},
		"not where it may not say it":     {[]string{"others"}, 9, []string{"kept"}},
		"not from a system-critical pod":  {nil, gangfit.SystemCritical, []string{"kept"}},
		"nor from where everybody may go": {[]string{"default"}, 9, []string{"free"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(w *world) {
				if c.namespaces != nil {
					w.groups.book.Protects = func(n string) bool { return slices.Contains(c.namespaces, n) }
				}
				w.seat("kept", "n0", 4, 1) // the cheaper one
				w.seat("free", "n0", 3, 2)
				kept := w.pods["kept"]
				kept.Annotations = map[string]string{wire.PreemptableKey: "false"}
				w.groups.PodSeen(kept)
				w.run(time.Second) // until it leads
				pod := podOf("", "comes", 1, 3)
				pod.Annotations, pod.Spec.Priority = nil, &c.comes
				if _, asked := w.groups.MakeRoom(t.Context(), w.profile(), pod); asked {
					w.run(time.Second)
					w.wantDeleted(c.deleted...)
				} else if c.deleted[0] == "free" {
					t.Error("kube-scheduler's own preemption would evict it")
				}
				w.groups.PodGone(kept)
				if w.groups.evictor.sparesBelow(c.comes) {
					t.Error("it has gone, and is remembered")
				}
			})
		})
	}
}

// TestProtectedGangsStay: gangs are only evicted as a whole, so one protected member or a protected
// PodGroup protects the gang.
func TestProtectedGangsStay(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.slow = true
		low := int32(1)
		for i := range 2 {
			pod := podOf("low", fmt.Sprintf("low-%d", i), 2, 4)
			pod.Spec.Priority = &low
			if i == 1 {
				pod.Annotations[wire.PreemptableKey] = "false"
			}
			w.create(pod)
		}
		w.run(2 * time.Second)
		w.wantBound("low", 2)
		w.seat("filler-0", "n0", 3, 100)
		w.seat("filler-1", "n1", 3, 100)
		w.addWith("high", 1, 1, 4, 9)
		w.run(time.Minute)
		w.wantDeleted()
	})
}
