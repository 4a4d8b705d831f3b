package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-dev/berth/internal/scheduler/gang"
	"github.com/berth-dev/berth/internal/scheduler/lead"
	"github.com/berth-dev/berth/internal/wire"
)

// gangHandle is a framework whose only plugin is this one.
type gangHandle struct {
	fwk.Handle
	plugin *Plugin
	infos  []fwk.NodeInfo
}

type listOf struct {
	fwk.SharedLister
	fwk.NodeInfoLister
	infos []fwk.NodeInfo
}

func (l listOf) NodeInfos() fwk.NodeInfoLister { return l }
func (l listOf) List() ([]fwk.NodeInfo, error) { return l.infos, nil }

type inTurns struct{}

func (inTurns) Until(_ context.Context, n int, do workqueue.DoWorkPieceFunc, _ string) {
	for i := range n {
		do(i)
	}
}

func (h *gangHandle) SnapshotSharedLister() fwk.SharedLister                        { return listOf{infos: h.infos} }
func (h *gangHandle) SharedInformerFactory() informers.SharedInformerFactory        { return nil }
func (h *gangHandle) ProfileName() string                                           { return "p" }
func (h *gangHandle) SharedDRAManager() fwk.SharedDRAManager                        { return nil }
func (h *gangHandle) Parallelizer() fwk.Parallelizer                                { return inTurns{} }
func (h *gangHandle) DeleteNominatedPodIfExists(*corev1.Pod)                        {}
func (h *gangHandle) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}
func (h *gangHandle) NominatedPodsForNode(string) []fwk.PodInfo                     { return nil }
func (h *gangHandle) RunPreScorePlugins(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) *fwk.Status {
	return nil
}

func (h *gangHandle) RunScorePlugins(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, infos []fwk.NodeInfo) (out []fwk.NodePluginScores, _ *fwk.Status) {
	for _, n := range infos {
		out = append(out, fwk.NodePluginScores{Name: n.Node().Name})
	}
	return out, nil
}

func (h *gangHandle) RunPreFilterPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string]) {
	result, status := h.plugin.PreFilter(ctx, state, pod, h.infos)
	return result, status, nil
}

func (h *gangHandle) RunFilterPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
	return h.plugin.Filter(ctx, state, pod, info)
}

func (h *gangHandle) RunPreFilterExtensionAddPod(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, add fwk.PodInfo, info fwk.NodeInfo) *fwk.Status {
	return h.plugin.AddPod(ctx, state, pod, add, info)
}

func (h *gangHandle) RunPreFilterExtensionRemovePod(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, remove fwk.PodInfo, info fwk.NodeInfo) *fwk.Status {
	return h.plugin.RemovePod(ctx, state, pod, remove, info)
}

// forGangs gives the fixture gangs, and nodes n and m, whose NUMA nodes have 7 and 8 CPUs.
func (f *fixture) forGangs() (*gangHandle, *fake.Clientset) {
	h, client := &gangHandle{plugin: f.Plugin}, fake.NewClientset()
	f.handle = h
	for _, name := range []string{"n", "m"} {
		f.feed.ReportSeen(f.reportOf(name))
		info := framework.NewNodeInfo()
		info.SetNode(nodeObject(name).object)
		h.infos = append(h.infos, info)
	}
	leads := new(lead.Gate)
	f.core.gangs = gang.New(gang.Options{Lead: leads, Clock: f.clock, Logger: klog.Background(), Timeout: time.Minute, Client: client, Events: f.events,
		Budgets:  func() ([]*policyv1.PodDisruptionBudget, error) { return nil, nil },
		Activate: func(map[string]*corev1.Pod) {}, Waiting: func(types.UID) fwk.WaitingPod { return nil }, Ours: func(string) bool { return true }})
	leads.Open()
	f.core.gangs.Synced()
	return h, client
}

// member returns a pod of a gang that the plugin has seen.
func (f *fixture) member(name string, minimum int, cpus, created int64) *corev1.Pod {
	pod := pinned(name, cpus)
	pod.CreationTimestamp = metav1.Unix(600+created, 0)
	pod.Annotations = map[string]string{wire.GangAnnotation: "a", wire.GangMinimumAnnotation: fmt.Sprint(minimum)}
	f.core.gangs.PodSeen(pod)
	return pod
}

// plannedFor returns the node to which PreFilter limits a pod.
func (f *fixture) plannedFor(pod *corev1.Pod) (*cycleData, string) {
	f.Helper()
	state := newCycleData()
	result, s := f.PreFilter(f.Context(), state, pod, nil)
	if !s.IsSuccess() || len(result.NodeNames) != 1 {
		f.Fatalf("%s: %v, %v; want one node", pod.Name, result, s)
	}
	return state, result.NodeNames.UnsortedList()[0]
}

// TestAMemberGoesWhereItWasPlanned, and not to other nodes, even if another node is nominated. A
// member for which nothing is pinned is treated like the others.
func TestAMemberGoesWhereItWasPlanned(t *testing.T) {
	f := newFixture(t)
	h, _ := f.forGangs()
	one, two, shared := f.member("one", 3, 8, 0), f.member("two", 3, 8, 1), f.member("shared", 3, 1, 2)
	shared.Spec.Containers[0].Resources.Limits, shared.Status.QOSClass = nil, corev1.PodQOSBestEffort
	large := f.member("large", 3, 16, 3)
	on := map[string]string{}
	states := map[*corev1.Pod]*cycleData{}
	for _, pod := range []*corev1.Pod{one, two, shared} {
		states[pod], on[pod.Name] = f.plannedFor(pod)
	}
	if on["one"] == on["two"] {
		t.Fatalf("planned: %v", on)
	}
	for _, pod := range []*corev1.Pod{two, shared} {
		pod.Status.NominatedNodeName = "n"
		for _, info := range h.infos {
			name := info.Node().Name
			s := f.Filter(t.Context(), states[pod], pod, info)
			if s.IsSuccess() != (name == on[pod.Name]) || !s.IsSuccess() && !strings.Contains(s.Message(), "another node is planned") {
				t.Errorf("%s, planned for %s, on %s: %v", pod.Name, on[pod.Name], name, s)
			}
		}
		if s := f.Plugin.Reserve(t.Context(), states[pod], pod, on["one"]); pod == two && s.IsSuccess() {
			t.Error("a place is reserved where none was planned")
		}
	}
	if _, s := f.PreFilter(t.Context(), newCycleData(), large, nil); !strings.Contains(s.Message(), "is being placed without this pod") {
		t.Errorf("a member without a place is told %v", s)
	}
	for i, pod := range []*corev1.Pod{one, two, shared} {
		if s := f.Plugin.Reserve(t.Context(), states[pod], pod, on[pod.Name]); !s.IsSuccess() {
			t.Errorf("%s: Reserve says %v", pod.Name, s)
		}
		if s, _ := f.Permit(t.Context(), states[pod], pod, on[pod.Name]); s.IsWait() != (i < 2) {
			t.Errorf("%s: Permit says %v", pod.Name, s)
		}
	}
}

// TestAMemberThatWasTriedInVain loses its planned place, whichever plugin ended the attempt.
func TestAMemberThatWasTriedInVain(t *testing.T) {
	f := newFixture(t)
	f.forGangs()
	one, two := f.member("one", 2, 8, 0), f.member("two", 2, 8, 1)
	_, node := f.plannedFor(one)
	held := func() (n int) {
		for _, name := range []string{"n", "m"} {
			if at := f.table.Known(name); at != nil {
				n += at.Account().View().Census().Reserved
			}
		}
		return n
	}
	before := held()
	Parts{f.core}.MemberFailed(two)
	if after := held(); before != 2 || after == before {
		t.Errorf("planned on %s: %d places are held before, %d after", node, before, after)
	}
}

// TestTheQueueOfThoseThatBackOffAsksAgain: the pods had passed PreEnqueue before the plan was
// dropped.
func TestTheQueueOfThoseThatBackOffAsksAgain(t *testing.T) {
	f := newFixture(t)
	f.forGangs()
	one, two := f.member("one", 2, 8, 0), f.member("two", 2, 8, 1)
	state, node := f.plannedFor(one)
	if s := f.PreEnqueue(t.Context(), two); s != nil {
		t.Fatalf("PreEnqueue says %v", s)
	}
	f.Unreserve(t.Context(), state, one, node)
	if _, s := f.PreFilter(t.Context(), newCycleData(), two, nil); !strings.Contains(s.Message(), "was tried without success, and backs off") {
		t.Errorf("PreFilter says %v", s)
	}
	for _, name := range []string{"n", "m"} {
		if c := f.table.Named(name).Account().View().Census(); c.Reserved != 0 {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// TestPreemptionTearsNoGang: an urgent pod of no gang finds both nodes full of a gang, or of single
// pods. If kube-scheduler can evict the pods as well, it is left to do so.
func TestPreemptionTearsNoGang(t *testing.T) {
	for _, gangs := range []bool{true, false} {
		t.Run(fmt.Sprint("gangs: ", gangs), func(t *testing.T) {
			f := newFixture(t)
			h, client := f.forGangs()
			deleted := make(chan string, 10)
			client.PrependReactor("delete", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
				deleted <- a.(clienttesting.DeleteAction).GetName()
				return true, nil, nil
			})
			for i, info := range h.infos {
				pod := pinned(fmt.Sprint("p-", i), 8)
				if gangs {
					pod = f.member(pod.Name, 2, 8, int64(i))
				}
				f.admit(pod)
				f.feed.ReportSeen(f.reportOf(info.Node().Name))
				f.state.Release(uidOf(pod))
				pod = on(pod.DeepCopy(), info.Node().Name)
				f.feed.PodSeen(pod, false)
				f.core.gangs.PodSeen(pod)
				body, err := framework.NewPodInfo(pod)
				if err != nil {
					t.Fatal(err)
				}
				info.AddPodInfo(body)
				if err := client.Tracker().Add(pod); err != nil {
					t.Fatal(err)
				}
			}
			urgent := pinned("urgent", 8)
			urgent.Spec.Priority = new(int32(7))
			state := newCycleData()
			f.PreFilter(t.Context(), state, urgent, nil)
			said := statuses{}
			for _, info := range h.infos {
				said[info.Node().Name] = f.Filter(t.Context(), state, urgent, info)
				said[info.Node().Name].SetPlugin(Name)
			}
			result, s := f.PostFilter(t.Context(), state, urgent, said)
			if !gangs {
				if s.Code() != fwk.Unschedulable {
					t.Errorf("%v, want that kube-scheduler is asked", s)
				}
				return
			}
			if !s.IsSuccess() || result.NominatedNodeName == "" {
				t.Fatalf("%v, %v; want a node", result, s)
			}
			got := []string{<-deleted, <-deleted}
			if slices.Sort(got); !slices.Equal(got, []string{"p-0", "p-1"}) {
				t.Errorf("deleted: %v, want the whole gang", got)
			}
		})
	}
}

// TestBestFirst: Berth orders the nodes for a gang only if no other plugin prefers any node.
func TestBestFirst(t *testing.T) {
	f := newFixture(t)
	h, _ := f.forGangs()
	c, small := f.attempt(pinned("x", 8), requestOf(t, pinned("x", 8))), f.attempt(pinned("y", 1), requestOf(t, pinned("y", 1)))
	small.unpinned = true
	f.core.table.Of(h.infos[0].Node()) // the scheduler knows the node
	order := func(c *cycle, skipped ...string) []int {
		state := framework.NewCycleState()
		state.SetSkipScorePlugins(sets.New(skipped...))
		state.Write(cycleKey, c)
		return f.bestFirst(state, h.infos)
	}
	if got := order(c, weighing...); len(got) != len(h.infos) || c.query.Rank(f.table.Named(h.infos[got[1]].Node().Name)).Before(c.query.Rank(f.table.Named(h.infos[got[0]].Node().Name))) {
		t.Errorf("the order is %v", got)
	}
	if got := order(c, weighing[1:]...); got != nil {
		t.Errorf("a plugin weighs the nodes: %v, want none", got)
	}
	if got := order(small, weighing...); got != nil {
		t.Errorf("nothing is pinned: %v, want none", got)
	}
	h.infos[1].Node().Spec.Taints = []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectPreferNoSchedule}}
	again := h.infos[1].Node().DeepCopy()
	h.infos[1].(*framework.NodeInfo).SetNode(again)
	if got := order(c, weighing...); got != nil {
		t.Errorf("a node is to be left alone if others will do: %v, want none", got)
	}
}

// TestQuotasCoverPodsByTheirScopes: a quota with scopes limits only the pods that it counts.
func TestQuotasCoverPodsByTheirScopes(t *testing.T) {
	class := func(op corev1.ScopeSelectorOperator, names ...string) *corev1.ScopeSelector {
		return &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: op, Values: names}}}
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{PriorityClassName: "high", Containers: []corev1.Container{{
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}},
	}}}}
	hard := corev1.ResourceList{"requests.cpu": resource.MustParse("4")}
	for i, c := range []struct {
		spec corev1.ResourceQuotaSpec
		want bool
	}{
		{corev1.ResourceQuotaSpec{}, true},
		{corev1.ResourceQuotaSpec{ScopeSelector: class(corev1.ScopeSelectorOpIn, "high", "higher")}, true},
		{corev1.ResourceQuotaSpec{ScopeSelector: class(corev1.ScopeSelectorOpIn, "low")}, false},
		{corev1.ResourceQuotaSpec{ScopeSelector: class(corev1.ScopeSelectorOpNotIn, "high")}, false},
		{corev1.ResourceQuotaSpec{ScopeSelector: class(corev1.ScopeSelectorOpExists)}, true},
		{corev1.ResourceQuotaSpec{Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeNotBestEffort}}, true},
		{corev1.ResourceQuotaSpec{Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating}}, false},
	} {
		all := &corev1.ResourceQuota{Status: corev1.ResourceQuotaStatus{Hard: hard}}
		got := readQuotas([]*corev1.ResourceQuota{all, {Spec: c.spec, Status: all.Status}})
		at := 0 // quotas with scopes come first
		if i == 0 {
			at = 1
		}
		if got[at].Left["cpu"] != 4000 || got[at].Covers(pod) != c.want {
			t.Errorf("%+v: %v, covers the pod %t: want %t", c.spec, got[at].Left, !c.want, c.want)
		}
	}
}
