package command

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/internal/scheduler/spread"
)

// known is what does not change of a profile.
type known struct {
	ahead  scheduler.Foresight
	memory *spread.Memory
	// defaults are the constraints of pods whose authors have none. system says that they are
	// kube-scheduler's own, and not the profile's.
	defaults []corev1.TopologySpreadConstraint
	system   bool
	// weight is that of PodTopologySpread; 0 where it does not score nodes.
	weight int64
	// ours: all plugins that prepare scores are kube-scheduler's or Berth's. None but
	// PodTopologySpread reads a pod's constraints, so that it can be spared, and none keeps the
	// nodes that it is given.
	ours  bool
	gates spread.Gates
}

// know reads what does not change of profiles.
func know(sched map[string]framework.Framework, profiles []config.KubeSchedulerProfile) map[string]*known {
	out, memory := map[string]*known{}, &spread.Memory{}
	gates := spread.Gates{
		MatchLabelKeys:     utilfeature.DefaultFeatureGate.Enabled(features.MatchLabelKeysInPodTopologySpread),
		CompareTolerations: utilfeature.DefaultFeatureGate.Enabled(features.TaintTolerationComparisonOperators),
	}
	for name, profile := range sched {
		listed := profile.ListPlugins()
		k := &known{ahead: foresightOf(listed), memory: memory, gates: gates, ours: onlyKnown(listed.PreScore)}
		k.weight = weightOf(names.PodTopologySpread, listed)
		memory.Parallelizer = profile.Parallelizer()
		out[name] = k
	}
	for i := range profiles {
		if k := out[profiles[i].SchedulerName]; k != nil {
			k.defaults, k.system = defaultsOf(profiles[i].PluginConfig)
		}
	}
	return out
}

// weightOf returns the weight of a plugin that prepares and gives scores; 0 for one that does not.
func weightOf(plugin string, listed *config.Plugins) int64 {
	is := func(p config.Plugin) bool { return p.Name == plugin }
	if i := slices.IndexFunc(listed.Score.Enabled, is); i >= 0 && slices.ContainsFunc(listed.PreScore.Enabled, is) {
		return int64(listed.Score.Enabled[i].Weight)
	}
	return 0
}

// onlyKnown says whether all plugins are kube-scheduler's or Berth's.
func onlyKnown(enabled config.PluginSet) bool {
	all := plugins.NewInTreeRegistry()
	return !slices.ContainsFunc(enabled.Enabled, func(p config.Plugin) bool {
		return all[p.Name] == nil && p.Name != scheduler.Name && p.Name != scheduler.TiersName
	})
}

// foreseen are the plugins that Berth can look ahead for.
var foreseen = map[string]scheduler.Foresight{
	names.NodeUnschedulable: scheduler.SeesUnschedulable, names.TaintToleration: scheduler.SeesTaints,
	names.NodeResourcesFit: scheduler.SeesAmounts, names.NodeAffinity: scheduler.SeesAffinity, names.VolumeBinding: scheduler.SeesVolumes,
}

// foresightOf says which of these plugins filter in a profile.
func foresightOf(listed *config.Plugins) (f scheduler.Foresight) {
	for _, p := range listed.Filter.Enabled {
		f |= foreseen[p.Name]
	}
	return f
}

// systemDefaults are systemDefaultConstraints of PodTopologySpread.
var systemDefaults = []corev1.TopologySpreadConstraint{
	{TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: 3},
	{TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: 5},
}

// defaultsOf returns the constraints of pods whose authors have none.
func defaultsOf(configs []config.PluginConfig) (constraints []corev1.TopologySpreadConstraint, system bool) {
	for _, c := range configs {
		if args, ok := c.Args.(*config.PodTopologySpreadArgs); ok {
			if args.DefaultingType == config.SystemDefaulting {
				return systemDefaults, true
			}
			return args.DefaultConstraints, false
		}
	}
	return nil, false
}

// spreading is a profile in the cycle of a pod for which PodTopologySpread scores nodes. The scores
// are those of package spread. The plugin is told of a pod without constraints, and has nothing to
// do.
type spreading struct {
	framework.Framework
	*known
	constraints []spread.Constraint
	complete    bool
	scores      *spread.Scores
}

// spreading returns the profile for a pod; nil where the plugin does not score nodes for it, and in
// Kubernetes' own cycle of a group: that adds pods to the snapshot and takes them back, and leaves
// the nodes' generations as they are.
func (k *known) spreading(profile framework.Framework, state fwk.CycleState, pod *corev1.Pod) (*spreading, error) {
	if k == nil || k.weight == 0 || state.IsPodGroupSchedulingCycle() {
		return nil, nil
	}
	s := &spreading{Framework: profile, known: k, complete: true}
	if len(pod.Spec.TopologySpreadConstraints) > 0 {
		asked, err := spread.Asked(pod, k.gates)
		if err != nil {
			return nil, err
		}
		s.constraints = asked
	} else if len(k.defaults) > 0 {
		s.constraints, s.complete = spread.Default(k.defaults, spreadBeside(profile, pod)), !k.system
	}
	if len(s.constraints) == 0 {
		return nil, nil
	}
	return s, nil
}

// unspread is a constraint that PodTopologySpread does not score nodes by.
var unspread = []corev1.TopologySpreadConstraint{{TopologyKey: corev1.LabelHostname, MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule}}

// RunPreScorePlugins implements framework.Framework.
func (s *spreading) RunPreScorePlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	if !s.ours {
		return s.Framework.RunPreScorePlugins(ctx, state, pod, nodes)
	}
	all, err := s.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return fwk.AsStatus(err)
	}
	s.scores = s.memory.Ask(&spread.Question{Pod: pod, Constraints: s.constraints, Complete: s.complete, Gates: s.gates, All: all, Taking: nodes})
	told := *pod
	told.Spec.TopologySpreadConstraints = unspread
	return s.Framework.RunPreScorePlugins(ctx, state, &told, nodes)
}

// RunScorePlugins implements framework.Framework.
func (s *spreading) RunScorePlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) ([]fwk.NodePluginScores, *fwk.Status) {
	out, status := s.Framework.RunScorePlugins(ctx, state, pod, nodes)
	if s.scores == nil || !status.IsSuccess() {
		return out, status
	}
	logged := klog.FromContext(ctx).V(10).Enabled()
	for i, score := range s.scores.Of(nodes) {
		score *= s.weight
		out[i].TotalScore += score
		if logged { // nothing else reads what each plugin gave
			out[i].Scores = append(out[i].Scores, fwk.PluginScore{Name: names.PodTopologySpread, Score: score})
		}
	}
	return out, status
}

// spreadBeside selects the pods beside which a profile that spreads by default spreads the pod:
// those of its Services, and of what owns it.
func spreadBeside(profile framework.Framework, pod *corev1.Pod) labels.Selector {
	core, apps := profile.SharedInformerFactory().Core().V1(), profile.SharedInformerFactory().Apps().V1()
	services := servicesOf{ServiceLister: core.Services().Lister(), pod: pod}
	return helper.DefaultSelector(pod, services, core.ReplicationControllers().Lister(), apps.ReplicaSets().Lister(), apps.StatefulSets().Lister())
}

// servicesOf lists the Services that select the pod. helper.DefaultSelector makes a selector for
// each Service that is listed, and a namespace may have hundreds.
type servicesOf struct {
	corelisters.ServiceLister
	corelisters.ServiceNamespaceLister
	pod *corev1.Pod
}

func (s servicesOf) Services(namespace string) corelisters.ServiceNamespaceLister {
	s.ServiceNamespaceLister = s.ServiceLister.Services(namespace)
	return s
}

func (s servicesOf) Get(name string) (*corev1.Service, error) {
	return s.ServiceNamespaceLister.Get(name)
}

func (s servicesOf) List(all labels.Selector) ([]*corev1.Service, error) {
	listed, err := s.ServiceNamespaceLister.List(all)
	return slices.DeleteFunc(listed, func(service *corev1.Service) bool {
		for key, value := range service.Spec.Selector {
			if has, there := s.pod.Labels[key]; !there || has != value {
				return true
			}
		}
		return false
	}), err
}
