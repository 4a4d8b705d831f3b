package command

import (
	"cmp"
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/berth-dev/berth/internal/scheduler"
)

// schedulePod is what Scheduler.SchedulePod is.
type schedulePod = func(context.Context, framework.Framework, fwk.CycleState, *framework.QueuedPodInfo) (kubescheduler.ScheduleResult, error)

// lookingFurther returns next with a search of its own for each pod. spreads are the profiles that
// spread pods whose authors do not ask for it.
func lookingFurther(next schedulePod, look scheduler.Look, global *int32, spreads map[string]bool) schedulePod {
	return func(ctx context.Context, profile framework.Framework, state fwk.CycleState, pod *framework.QueuedPodInfo) (kubescheduler.ScheduleResult, error) {
		set := cmp.Or(profile.PercentageOfNodesToScore(), global)
		nodes, err := profile.SnapshotSharedLister().NodeInfos().List()
		if err != nil {
			return kubescheduler.ScheduleResult{}, err
		}
		was := int32(0)
		if set != nil {
			was = *set
		}
		percentage := look(pod.Pod, len(nodes), was)
		if percentage == was {
			return next(ctx, profile, state, pod)
		}
		s := &search{Framework: profile, percentage: percentage}
		s.all = pod.Pod.Status.NominatedNodeName != "" || spreads[profile.ProfileName()] && spreadByDefault(profile, pod.Pod)
		result, err := next(ctx, s, state, pod)
		if none := (*framework.FitError)(nil); s.named == nil || !errors.As(err, &none) {
			return result, err
		}
		s.named, s.all = nil, true // an extender has refused all that was named
		scheduler.Searched(scheduler.SearchedAll)
		return next(ctx, s, state, pod)
	}
}

// search is a profile in the cycle of one pod. PreFilter names the nodes that Berth has found to be
// the best and that no plugin refuses: only on these the framework runs Filter and Score. Where
// there are none it goes on with all nodes, as if nothing had been.
//
// It is handed to kube-scheduler for the one call of SchedulePod. Plugins, preemption and cycles of
// groups have the profile itself, and nothing is named to them.
type search struct {
	framework.Framework
	// percentage is of how many nodes the best is chosen where all are looked at.
	percentage int32
	// all: there is to be no search.
	all bool
	// named are nodes that passed Filter; nil while all are looked at.
	named sets.Set[string]
}

// PercentageOfNodesToScore implements framework.Framework: all of what is named.
func (s *search) PercentageOfNodesToScore() *int32 {
	if s.named != nil {
		return new(int32(100))
	}
	return &s.percentage
}

// RunPreFilterPlugins implements framework.Framework.
func (s *search) RunPreFilterPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string]) {
	result, status, plugins := s.Framework.RunPreFilterPlugins(ctx, state, pod)
	if s.all || !status.IsSuccess() || !result.AllNodes() {
		return result, status, plugins
	}
	nodes, err := s.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return result, fwk.AsStatus(err), plugins
	}
	candidates := scheduler.CandidatesOf(state, pod, nodes, foresightOf(s.Framework))
	if candidates == nil {
		return result, status, plugins
	}
	if s.named = s.find(ctx, state, pod, candidates.Next); s.named == nil {
		return result, status, plugins
	}
	return &fwk.PreFilterResult{NodeNames: s.named}, status, plugins
}

// maxRounds bounds how often candidates are named for a pod, before all nodes are looked at: by
// then it is cheaper to ask them at once.
const maxRounds = 8

// find returns those of the best candidates that no plugin refuses; nil where there are none. next
// names a few of them at a time.
func (s *search) find(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, next func() []fwk.NodeInfo) sets.Set[string] {
	for round := range maxRounds {
		few := next()
		if len(few) == 0 {
			break
		}
		passed := make(sets.Set[string], len(few))
		for _, info := range few {
			if s.Framework.RunFilterPluginsWithNominatedPods(ctx, state, pod, info).IsSuccess() {
				passed.Insert(info.Node().Name)
			}
		}
		if len(passed) > 0 {
			how := scheduler.SearchedOnce
			if round > 0 {
				how = scheduler.SearchedFurther
			}
			scheduler.Searched(how)
			return passed
		}
	}
	scheduler.Searched(scheduler.SearchedAll)
	return nil
}

// RunFilterPluginsWithNominatedPods implements framework.Framework. What is named has passed.
func (s *search) RunFilterPluginsWithNominatedPods(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
	if s.named.Has(info.Node().Name) {
		return nil
	}
	return s.Framework.RunFilterPluginsWithNominatedPods(ctx, state, pod, info)
}

// foresightOf says which of the plugins that Foresight is about filter in the profile.
func foresightOf(profile framework.Framework) (f scheduler.Foresight) {
	for _, p := range profile.ListPlugins().Filter.Enabled {
		switch p.Name {
		case names.NodeUnschedulable:
			f.Unschedulable = true
		case names.TaintToleration:
			f.Taints = true
		case names.NodeResourcesFit:
			f.Amounts = true
		case names.NodeAffinity:
			f.Affinity = true
		case names.VolumeBinding:
			f.Volumes = true
		}
	}
	return f
}

// spreadsByDefault says which profiles spread pods over the cluster whose authors do not ask for
// it.
func spreadsByDefault(profiles []config.KubeSchedulerProfile) map[string]bool {
	out := map[string]bool{}
	for i := range profiles {
		for _, c := range profiles[i].PluginConfig {
			if args, ok := c.Args.(*config.PodTopologySpreadArgs); ok {
				out[profiles[i].SchedulerName] = args.DefaultingType == config.SystemDefaulting ||
					slices.ContainsFunc(args.DefaultConstraints, func(t corev1.TopologySpreadConstraint) bool { return t.WhenUnsatisfiable == corev1.ScheduleAnyway })
			}
		}
	}
	return out
}

// spreadByDefault says whether a profile that spreads by default has something to spread the pod
// by: a Service, or what owns it.
func spreadByDefault(profile framework.Framework, pod *corev1.Pod) bool {
	if len(pod.Spec.TopologySpreadConstraints) > 0 {
		return false
	}
	core, apps := profile.SharedInformerFactory().Core().V1(), profile.SharedInformerFactory().Apps().V1()
	return !helper.DefaultSelector(pod, core.Services().Lister(), core.ReplicationControllers().Lister(), apps.ReplicaSets().Lister(), apps.StatefulSets().Lister()).Empty()
}
