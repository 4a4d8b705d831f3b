package command

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/berth-dev/berth/internal/scheduler"
)

// known has the constant properties of a profile.
type known struct {
	ahead scheduler.Foresight
	// spreads means that PodTopologySpread scores nodes.
	spreads bool
	// defaults has the spread constraints for pods without their own.
	defaults []corev1.TopologySpreadConstraint
	// ours means that all PreScore plugins are kube-scheduler's or Berth's. These plugins do not
	// keep the list of nodes after the call.
	ours bool
}

func know(sched map[string]framework.Framework, profiles []config.KubeSchedulerProfile) map[string]*known {
	out := map[string]*known{}
	for name, profile := range sched {
		listed := profile.ListPlugins()
		out[name] = &known{ahead: foresightOf(listed), ours: onlyKnown(listed.PreScore), spreads: spreads(listed.Score) && spreads(listed.PreScore)}
	}
	for i := range profiles {
		if k := out[profiles[i].SchedulerName]; k != nil {
			k.defaults = defaultsOf(profiles[i].PluginConfig)
		}
	}
	return out
}

func spreads(set config.PluginSet) bool {
	return slices.ContainsFunc(set.Enabled, func(p config.Plugin) bool { return p.Name == names.PodTopologySpread })
}

// onlyKnown reports whether all enabled plugins are kube-scheduler's or Berth's.
func onlyKnown(enabled config.PluginSet) bool {
	all := plugins.NewInTreeRegistry()
	return !slices.ContainsFunc(enabled.Enabled, func(p config.Plugin) bool {
		return all[p.Name] == nil && p.Name != scheduler.Name && p.Name != scheduler.TiersName && p.Name != scheduler.ClaimsName
	})
}

// foreseen lists the filter plugins whose refusals Berth can predict.
var foreseen = map[string]scheduler.Foresight{
	names.NodeUnschedulable: scheduler.SeesUnschedulable, names.TaintToleration: scheduler.SeesTaints,
	names.NodeResourcesFit: scheduler.SeesAmounts, names.NodeAffinity: scheduler.SeesAffinity, names.VolumeBinding: scheduler.SeesVolumes,
}

// foresightOf returns the filter plugins of the profile whose refusals Berth can predict.
func foresightOf(listed *config.Plugins) (f scheduler.Foresight) {
	for _, p := range listed.Filter.Enabled {
		f |= foreseen[p.Name]
	}
	return f
}

// systemDefaults copies systemDefaultConstraints of PodTopologySpread.
var systemDefaults = []corev1.TopologySpreadConstraint{
	{TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: 3},
	{TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: 5},
}

func defaultsOf(configs []config.PluginConfig) []corev1.TopologySpreadConstraint {
	for _, c := range configs {
		if args, ok := c.Args.(*config.PodTopologySpreadArgs); ok {
			if args.DefaultingType == config.SystemDefaulting {
				return systemDefaults
			}
			return args.DefaultConstraints
		}
	}
	return nil
}

// spreadBy returns the topology keys and selectors by which PodTopologySpread scores nodes for the
// pod. It reads constraints as that plugin does (filterTopologySpreadConstraints,
// buildDefaultConstraints). It omits the default constraint that spreads pods over nodes.
// PodTopologySpread then applies this constraint only to the nodes that Berth names.
func (k *known) spreadBy(profile framework.Framework, pod *corev1.Pod) ([]scheduler.Spread, error) {
	if k == nil || !k.spreads {
		return nil, nil
	}
	constraints, beside := pod.Spec.TopologySpreadConstraints, labels.Selector(nil)
	if len(constraints) == 0 && len(k.defaults) > 0 {
		core, apps := profile.SharedInformerFactory().Core().V1(), profile.SharedInformerFactory().Apps().V1()
		beside = helper.DefaultSelector(pod, core.Services().Lister(), core.ReplicationControllers().Lister(), apps.ReplicaSets().Lister(), apps.StatefulSets().Lister())
		if beside.Empty() {
			return nil, nil
		}
		constraints = k.defaults
	}
	var by []scheduler.Spread
	for i := range constraints {
		c, selector := &constraints[i], beside
		if c.WhenUnsatisfiable != corev1.ScheduleAnyway {
			continue
		}
		if beside != nil && c.TopologyKey == corev1.LabelHostname {
			continue // counting the pods of all nodes is expensive, and the pod's author has not requested it
		}
		if selector == nil {
			own, err := selectorOf(pod, c)
			if err != nil {
				return nil, fmt.Errorf("topologySpreadConstraints[%d].labelSelector: %w", i, err)
			}
			selector = own
		}
		by = append(by, scheduler.Spread{Key: c.TopologyKey, Selector: selector})
	}
	return by, nil
}

// selectorOf returns the selector of the pods that a constraint of the pod counts.
func selectorOf(pod *corev1.Pod, c *corev1.TopologySpreadConstraint) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
	if err != nil || !utilfeature.DefaultFeatureGate.Enabled(features.MatchLabelKeysInPodTopologySpread) {
		return selector, err
	}
	same := labels.Set{}
	for _, key := range c.MatchLabelKeys {
		if value, has := pod.Labels[key]; has {
			same[key] = value
		}
	}
	requirements, selectable := selector.Requirements()
	if len(same) == 0 || !selectable {
		return selector, nil
	}
	return labels.SelectorFromSet(same).Add(requirements...), nil
}
