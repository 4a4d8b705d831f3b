package command

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// nominator has the pods that are nominated to nodes, by node.
type nominator map[string][]fwk.PodInfo

func (n nominator) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}
func (n nominator) DeleteNominatedPodIfExists(*corev1.Pod)                        {}
func (n nominator) UpdateNominatedPod(klog.Logger, *corev1.Pod, fwk.PodInfo)      {}
func (n nominator) NominatedPodsForNode(node string) []fwk.PodInfo                { return n[node] }

// TestSparing: in random clusters the same nodes are refused as by the profile alone, by the same
// plugins in the same words, and the sums of scores differ from it by the same on all nodes.
func TestSparing(t *testing.T) {
	metrics.Register()
	spared, refused := map[string]int{}, map[string]int{}
	for seed := range uint64(300) {
		c := &sparingCluster{T: t, rng: rand.New(rand.NewPCG(seed, 31)), effects: []string{"NoSchedule", "NoExecute"}}
		if seed%2 == 0 {
			c.effects = append(c.effects, "PreferNoSchedule")
		}
		alone, pod := c.profile(), c.pod("new", c.one("500m", "1"))
		if c.rng.IntN(3) == 0 {
			pod.Spec.Tolerations = []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}}
		}
		if c.rng.IntN(4) == 0 {
			pod.Spec.NodeName = "n7"
		}
		want, _ := cycleWith(t, alone, pod)
		got, state := cycleWith(t, sparing{alone}, pod)
		for name := range state.GetSkipFilterPlugins().Union(state.GetSkipScorePlugins()) {
			spared[name]++
		}
		compareJudged(t, seed, got, want, refused)
	}
	t.Log("spared:", spared, "refused:", refused)
	if n := spared[names.TaintToleration]; spared[names.NodeName] < 100 || n < 50 || n > 250 || len(refused) < 4 {
		t.Errorf("spared %v and refused %v: want both plugins spared and not, and refusals of all four", spared, refused)
	}
}

// compareJudged counts refusals.
func compareJudged(t *testing.T, seed uint64, got, want map[string]judged, refused map[string]int) {
	t.Helper()
	shift, first := int64(0), true
	for name, w := range want {
		g := got[name]
		if w.refused != "" {
			refused[w.refused]++
		} else if first {
			shift, first = w.score-g.score, false
		}
		if g.refused != w.refused || w.refused == "" && w.score-g.score != shift {
			t.Fatalf("seed %d, %s: %+v, want %+v with scores %d less", seed, name, g, w, shift)
		}
	}
}

// sparingCluster is a random cluster, in kube-scheduler's own cache.
type sparingCluster struct {
	*testing.T
	rng     *rand.Rand
	effects []string // of taints
}

func (c *sparingCluster) one(of ...string) string { return of[c.rng.IntN(len(of))] }

func (c *sparingCluster) pod(name, cpus string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name, UID: types.UID(name)}}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpus)}}}}
	return pod
}

// node is one that may be cordoned, or have a taint.
func (c *sparingCluster) node(name string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
		"cpu": resource.MustParse(c.one("1", "2", "4")), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("9"),
	}}}
	node.Spec.Unschedulable = c.rng.IntN(6) == 0
	if c.rng.IntN(4) == 0 {
		node.Spec.Taints = []corev1.Taint{{Key: c.one("a", "b"), Effect: corev1.TaintEffect(c.one(c.effects...))}}
	}
	return node
}

// profile is the genuine one. Pods are nominated to a quarter of its nodes.
func (c *sparingCluster) profile() framework.Framework {
	c.Helper()
	cache, snapshot, nominated := schedulercache.New(c.Context(), nil, false), schedulercache.NewEmptySnapshot(), nominator{}
	for i := range 20 {
		node := c.node(fmt.Sprint("n", i))
		cache.AddNode(klog.Background(), node)
		if c.rng.IntN(4) == 0 {
			info, err := framework.NewPodInfo(c.pod(fmt.Sprint("nominated-", i), "1500m"))
			if err != nil {
				c.Fatal(err)
			}
			nominated[node.Name] = []fwk.PodInfo{info}
		}
	}
	if err := cache.UpdateSnapshot(klog.Background(), snapshot); err != nil {
		c.Fatal(err)
	}
	profile := config.KubeSchedulerProfile{
		SchedulerName: "p", PluginConfig: []config.PluginConfig{{Name: names.NodeResourcesFit, Args: &config.NodeResourcesFitArgs{
			ScoringStrategy: &config.ScoringStrategy{Type: config.LeastAllocated, Resources: []config.ResourceSpec{{Name: "cpu", Weight: 1}}},
		}}},
		Plugins: &config.Plugins{MultiPoint: config.PluginSet{Enabled: []config.Plugin{
			{Name: names.PrioritySort}, {Name: names.DefaultBinder}, {Name: names.NodeUnschedulable}, {Name: names.NodeName},
			{Name: names.TaintToleration, Weight: 3}, {Name: names.NodeResourcesFit, Weight: 1},
		}}},
	}
	alone, err := frameworkruntime.NewFramework(c.Context(), plugins.NewInTreeRegistry(), &profile, frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithInformerFactory(informers.NewSharedInformerFactory(fake.NewClientset(), 0)), frameworkruntime.WithPodNominator(nominated))
	if err != nil {
		c.Fatal(err)
	}
	return alone
}

// judged is what a profile says about a node.
type judged struct {
	refused string // by which plugin and why; "" where it passed
	score   int64
}

// cycleWith is a cycle of the pod: what the profile says of all nodes, and its state.
func cycleWith(t *testing.T, profile framework.Framework, pod *corev1.Pod) (map[string]judged, fwk.CycleState) {
	t.Helper()
	state, out := framework.NewCycleState(), map[string]judged{}
	if _, status, _ := profile.RunPreFilterPlugins(t.Context(), state, pod); !status.IsSuccess() {
		t.Fatal(status)
	}
	all, err := profile.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		t.Fatal(err)
	}
	var passed []fwk.NodeInfo
	for _, info := range all {
		status := profile.RunFilterPluginsWithNominatedPods(t.Context(), state, pod, info)
		if status.IsSuccess() {
			passed = append(passed, info)
		} else {
			out[info.Node().Name] = judged{refused: status.Plugin() + ": " + status.Message()}
		}
	}
	if status := profile.RunPreScorePlugins(t.Context(), state, pod, passed); !status.IsSuccess() {
		t.Fatal(status)
	}
	scores, status := profile.RunScorePlugins(t.Context(), state, pod, passed)
	if !status.IsSuccess() {
		t.Fatal(status)
	}
	for _, s := range scores {
		out[s.Name] = judged{score: s.TotalScore}
	}
	return out, state
}
