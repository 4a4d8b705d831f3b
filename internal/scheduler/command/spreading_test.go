package command

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// spreadCluster is a cluster that changes at random, in kube-scheduler's own cache.
type spreadCluster struct {
	*testing.T
	rng      *rand.Rand
	cache    schedulercache.Cache
	snapshot *schedulercache.Snapshot
	shared   informers.SharedInformerFactory
	profile  framework.Framework
	profiles map[string]*known
	nodes    []*corev1.Node
	pods     []*corev1.Pod
	made     int
}

// TestSpreadingIsPodTopologySpreads: the scores of a profile that spares PodTopologySpread are
// those of the genuine plugin, pod by pod and node by node, whatever happens between the pods.
func TestSpreadingIsPodTopologySpreads(t *testing.T) {
	rack := []corev1.TopologySpreadConstraint{
		{TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: 2},
		{TopologyKey: "rack", WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: 1},
		{TopologyKey: "rack", WhenUnsatisfiable: corev1.DoNotSchedule, MaxSkew: 9},
	}
	for seed, args := range []*config.PodTopologySpreadArgs{
		{DefaultingType: config.SystemDefaulting},
		{DefaultingType: config.ListDefaulting, DefaultConstraints: rack},
		{DefaultingType: config.ListDefaulting},
	} {
		t.Run(fmt.Sprint(args.DefaultingType, len(args.DefaultConstraints)), func(t *testing.T) {
			c := newSpreadCluster(t, uint64(seed), args)
			spared := 0
			for range 300 {
				c.change()
				if c.compare(c.pod()) {
					spared++
				}
			}
			if t.Logf("of 300 pods the plugin was spared for %d", spared); spared < 60 {
				t.Errorf("the plugin was spared for %d of 300 pods", spared)
			}
		})
	}
}

// TestGroupCyclesAreLeftToThePlugin: Kubernetes' own cycle of a group adds pods to the snapshot and
// takes them back, and the generations of their nodes stay as they are.
func TestGroupCyclesAreLeftToThePlugin(t *testing.T) {
	c := newSpreadCluster(t, 3, &config.PodTopologySpreadArgs{DefaultingType: config.SystemDefaulting})
	c.change()
	var pod *corev1.Pod
	for spread := false; !spread; spread = c.compare(pod) {
		pod = c.pod()
	}
	member := pod.DeepCopy()
	member.Name, member.UID, member.Spec.NodeName, member.DeletionTimestamp = "member", "member", c.nodes[0].Name, nil
	info, err := framework.NewPodInfo(member)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.snapshot.AssumePod(info); err != nil {
		t.Fatal(err)
	}
	group := framework.NewCycleState()
	group.SetPodGroupSchedulingCycle(framework.NewCycleState())
	if ours, err := c.profiles["p"].spreading(c.profile, group, pod); ours != nil || err != nil {
		t.Errorf("%+v, %v, want the profile itself", ours, err)
	}
	if err := c.snapshot.ForgetPod(klog.Background(), member); err != nil {
		t.Fatal(err)
	}
	c.compare(pod)
}

func newSpreadCluster(t *testing.T, seed uint64, args *config.PodTopologySpreadArgs) *spreadCluster {
	t.Helper()
	metrics.Register()
	c := &spreadCluster{T: t, rng: rand.New(rand.NewPCG(seed, 18)), cache: schedulercache.New(t.Context(), nil, false), snapshot: schedulercache.NewEmptySnapshot()}
	c.shared = informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	for i := range 4 {
		app := map[string]string{"app": fmt.Sprint(i)}
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace(), Name: fmt.Sprint(i)}, Spec: corev1.ServiceSpec{Selector: app}}
		set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace(), Name: fmt.Sprint(i)}, Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: app}}}
		if err := c.shared.Core().V1().Services().Informer().GetIndexer().Add(service); err != nil {
			t.Fatal(err)
		}
		if err := c.shared.Apps().V1().ReplicaSets().Informer().GetIndexer().Add(set); err != nil {
			t.Fatal(err)
		}
	}
	profile := config.KubeSchedulerProfile{
		SchedulerName: "p", PluginConfig: []config.PluginConfig{{Name: names.NodeAffinity, Args: &config.NodeAffinityArgs{}}, {Name: names.PodTopologySpread, Args: args}},
		Plugins: &config.Plugins{MultiPoint: config.PluginSet{Enabled: []config.Plugin{
			{Name: names.PrioritySort}, {Name: names.DefaultBinder}, {Name: names.TaintToleration, Weight: 3}, {Name: names.NodeAffinity, Weight: 2}, {Name: names.PodTopologySpread, Weight: 7},
		}}},
	}
	var err error
	c.profile, err = frameworkruntime.NewFramework(t.Context(), plugins.NewInTreeRegistry(), &profile,
		frameworkruntime.WithSnapshotSharedLister(c.snapshot), frameworkruntime.WithInformerFactory(c.shared), frameworkruntime.WithParallelism(2))
	if err != nil {
		t.Fatal(err)
	}
	c.profiles = know(map[string]framework.Framework{"p": c.profile}, []config.KubeSchedulerProfile{profile})
	for range 90 {
		c.addNode()
	}
	return c
}

func (c *spreadCluster) one(of ...string) string { return of[c.rng.IntN(len(of))] }

func (c *spreadCluster) namespace() string { return c.one("a", "b") }

// node is one with some of the labels and taints.
func (c *spreadCluster) node(name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": c.one("x", "y")}}}
	for key, value := range map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: c.one("east", "west", "north", ""), "rack": c.one("1", "2", "3", "4", "5")} {
		if c.rng.IntN(9) > 0 {
			n.Labels[key] = value
		}
	}
	if c.rng.IntN(4) == 0 {
		n.Spec.Taints = []corev1.Taint{{Key: "kept", Effect: corev1.TaintEffect(c.one("NoSchedule", "PreferNoSchedule", "NoExecute"))}}
	}
	return n
}

func (c *spreadCluster) addNode() {
	c.made++
	n := c.node(fmt.Sprint("n", c.made))
	c.nodes = append(c.nodes, n)
	c.cache.AddNode(klog.Background(), n)
}

// pod is one that is spread in some way, or in none.
func (c *spreadCluster) pod() *corev1.Pod {
	c.made++
	name := fmt.Sprint("p", c.made)
	app := c.one("0", "1", "2", "3", "4")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace(), Name: name, UID: types.UID(name), Labels: map[string]string{"app": app, "version": c.one("1", "2")}}}
	if c.rng.IntN(3) == 0 {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app, Controller: new(true)}}
	}
	if c.rng.IntN(4) == 0 {
		pod.Spec.NodeSelector = map[string]string{"pool": "x"}
	}
	if c.rng.IntN(4) == 0 {
		pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	if c.rng.IntN(2) == 0 {
		for range 1 + c.rng.IntN(3) {
			pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, c.constraint(app))
		}
	}
	return pod
}

func (c *spreadCluster) constraint(app string) corev1.TopologySpreadConstraint {
	policy := func() *corev1.NodeInclusionPolicy {
		return []*corev1.NodeInclusionPolicy{nil, new(corev1.NodeInclusionPolicyHonor), new(corev1.NodeInclusionPolicyIgnore)}[c.rng.IntN(3)]
	}
	out := corev1.TopologySpreadConstraint{
		MaxSkew: int32(1 + c.rng.IntN(4)), TopologyKey: c.one(corev1.LabelHostname, corev1.LabelTopologyZone, "rack", "nowhere"), WhenUnsatisfiable: corev1.ScheduleAnyway,
		NodeAffinityPolicy: policy(), NodeTaintsPolicy: policy(),
	}
	switch c.rng.IntN(5) {
	case 0: // none
	case 1:
		out.LabelSelector = &metav1.LabelSelector{}
	default:
		out.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	}
	if c.rng.IntN(3) == 0 {
		out.MatchLabelKeys = []string{"version", "absent"}
	}
	if c.rng.IntN(5) == 0 {
		out.WhenUnsatisfiable = corev1.DoNotSchedule
	}
	return out
}

// change lets something happen: pods are assumed, bound, labelled, on their way out and gone, nodes
// come, change and go.
func (c *spreadCluster) change() {
	c.Helper()
	log := klog.Background()
	check := func(err error) {
		if err != nil {
			c.Fatal(err)
		}
	}
	for range 1 + c.rng.IntN(8) {
		i, j := c.rng.IntN(len(c.nodes)), c.rng.IntN(max(1, len(c.pods)))
		switch what := c.rng.IntN(20); {
		case what < 10:
			pod := c.pod()
			pod.Spec.NodeName = c.nodes[i].Name
			check(c.cache.AssumePod(log, pod))
			if c.rng.IntN(4) == 0 {
				check(c.cache.ForgetPod(log, pod))
				break
			}
			if c.rng.IntN(2) == 0 {
				check(c.cache.AddPod(log, pod))
				c.pods = append(c.pods, pod)
			}
		case what < 15 && len(c.pods) > 0:
			changed := c.pods[j].DeepCopy()
			if what < 13 {
				changed.DeletionTimestamp = &metav1.Time{}
			} else {
				changed.Labels = map[string]string{"app": c.one("0", "1"), "version": "1"}
			}
			check(c.cache.UpdatePod(log, c.pods[j], changed))
			c.pods[j] = changed
		case what < 17 && len(c.pods) > 0:
			check(c.cache.RemovePod(log, c.pods[j]))
			c.pods = slices.Delete(c.pods, j, j+1)
		case what == 17:
			changed := c.node(c.nodes[i].Name)
			c.cache.UpdateNode(log, c.nodes[i], changed)
			c.nodes[i] = changed
		case what == 18 && len(c.nodes) > 60:
			check(c.cache.RemoveNode(log, c.nodes[i]))
			c.nodes = slices.Delete(c.nodes, i, i+1)
		default:
			c.addNode()
		}
	}
	check(c.cache.UpdateSnapshot(log, c.snapshot))
}

// compare has the profile score some nodes with the genuine plugin, and without it. It says whether
// the plugin was spared.
func (c *spreadCluster) compare(pod *corev1.Pod) bool {
	c.Helper()
	all, err := c.snapshot.NodeInfos().List()
	if err != nil {
		c.Fatal(err)
	}
	taking := slices.Clone(all)
	c.rng.Shuffle(len(taking), func(i, j int) { taking[i], taking[j] = taking[j], taking[i] })
	taking = taking[:1+c.rng.IntN(len(taking))]
	named := taking[:1+c.rng.IntN(len(taking))]
	ours, err := c.profiles["p"].spreading(c.profile, framework.NewCycleState(), pod)
	if err != nil {
		c.Fatal(err)
	}
	want := c.scores(c.profile, pod, taking, named)
	if ours == nil {
		for name, scores := range want {
			if _, scored := scores[names.PodTopologySpread]; scored {
				c.Fatalf("%s: the plugin scores %s", pod.Name, name)
			}
		}
		return false
	}
	before := pod.DeepCopy()
	got := c.scores(ours, pod, taking, named)
	for name := range want {
		if !maps.Equal(got[name], want[name]) {
			c.Fatalf("%s, %+v: node %s has scores %v, want %v", pod.Name, pod.Spec, name, got[name], want[name])
		}
	}
	if !reflect.DeepEqual(pod, before) {
		c.Fatal("the pod is changed")
	}
	return true
}

// scores are those of all plugins by node, and their sum.
func (c *spreadCluster) scores(profile framework.Framework, pod *corev1.Pod, taking, named []fwk.NodeInfo) map[string]map[string]int64 {
	c.Helper()
	state := framework.NewCycleState()
	if s := profile.RunPreScorePlugins(c.Context(), state, pod, taking); !s.IsSuccess() {
		c.Fatal(s)
	}
	wordy := klog.NewContext(c.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(10), textlogger.Output(io.Discard))))
	scores, s := profile.RunScorePlugins(wordy, state, pod, named)
	if !s.IsSuccess() {
		c.Fatal(s)
	}
	out := map[string]map[string]int64{}
	for _, n := range scores {
		out[n.Name] = map[string]int64{"all": n.TotalScore}
		for _, p := range n.Scores {
			out[n.Name][p.Name] = p.Score
		}
	}
	return out
}

// foreign is a plugin that prepares scores.
type foreign struct{}

func (foreign) Name() string { return "Foreign" }
func (foreign) PreScore(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) *fwk.Status {
	return nil
}

// TestKnow: PodTopologySpread is spared where every plugin that prepares scores is known, and
// spread is what the profile says.
func TestKnow(t *testing.T) {
	metrics.Register()
	anyway := []corev1.TopologySpreadConstraint{{TopologyKey: "rack", WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: 1}}
	for _, tc := range []struct {
		name     string
		args     *config.PodTopologySpreadArgs
		plugin   config.Plugin
		weight   int64
		ours     bool
		defaults int
	}{
		{"system", &config.PodTopologySpreadArgs{DefaultingType: config.SystemDefaulting}, config.Plugin{Name: names.PodTopologySpread, Weight: 3}, 3, true, 2},
		{"list", &config.PodTopologySpreadArgs{DefaultingType: config.ListDefaulting, DefaultConstraints: anyway}, config.Plugin{Name: names.PodTopologySpread}, 1, true, 1},
		{"none", &config.PodTopologySpreadArgs{DefaultingType: config.ListDefaulting}, config.Plugin{Name: names.PodTopologySpread}, 1, true, 0},
		{"foreign", &config.PodTopologySpreadArgs{DefaultingType: config.SystemDefaulting}, config.Plugin{Name: "Foreign"}, 0, false, 2},
	} {
		profile := config.KubeSchedulerProfile{
			SchedulerName: "p", PluginConfig: []config.PluginConfig{{Name: names.NodeAffinity, Args: &config.NodeAffinityArgs{}}, {Name: names.PodTopologySpread, Args: tc.args}},
			Plugins: &config.Plugins{MultiPoint: config.PluginSet{Enabled: []config.Plugin{{Name: names.PrioritySort}, {Name: names.DefaultBinder}, {Name: names.NodeAffinity}, tc.plugin}}},
		}
		registry := plugins.NewInTreeRegistry()
		registry["Foreign"] = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return foreign{}, nil }
		made, err := frameworkruntime.NewFramework(t.Context(), registry, &profile,
			frameworkruntime.WithSnapshotSharedLister(schedulercache.NewEmptySnapshot()), frameworkruntime.WithInformerFactory(informers.NewSharedInformerFactory(fake.NewClientset(), 0)))
		if err != nil {
			t.Fatal(err)
		}
		k := know(map[string]framework.Framework{"p": made}, []config.KubeSchedulerProfile{profile})["p"]
		if k.weight != tc.weight || k.ours != tc.ours || len(k.defaults) != tc.defaults || k.system != (tc.name == "system" || tc.name == "foreign") {
			t.Errorf("%s: %+v", tc.name, k)
		}
	}
}
