package command

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// sparing is a profile that asks no plugin what is known beforehand, for one call of SchedulePod.
// The same nodes are refused, for the same reasons, and scores differ from node to node as they do
// without it. What is asked of 500 nodes for each pod is worth that, whether Berth decides about
// the pod or not.
type sparing struct{ framework.Framework }

// RunPreFilterPlugins implements framework.Framework. NodeName refuses nodes only for a pod that
// has one.
func (s sparing) RunPreFilterPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string]) {
	result, status, plugins := s.Framework.RunPreFilterPlugins(ctx, state, pod)
	if skipped := state.GetSkipFilterPlugins(); skipped != nil && pod.Spec.NodeName == "" {
		skipped.Insert(names.NodeName)
	}
	return result, status, plugins
}

// RunFilterPluginsWithNominatedPods implements framework.Framework. Where no pod is nominated to
// the node, kube-scheduler does the same after it has made a context and two loggers.
func (s sparing) RunFilterPluginsWithNominatedPods(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
	if len(s.NominatedPodsForNode(info.Node().Name)) == 0 {
		return s.RunFilterPlugins(ctx, state, pod, info)
	}
	return s.Framework.RunFilterPluginsWithNominatedPods(ctx, state, pod, info)
}

// RunPreScorePlugins implements framework.Framework. TaintToleration gives all nodes the same score
// where none has a taint PreferNoSchedule.
func (s sparing) RunPreScorePlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	status := s.Framework.RunPreScorePlugins(ctx, state, pod, nodes)
	if skipped := state.GetSkipScorePlugins(); skipped != nil && !slices.ContainsFunc(nodes, avoided) {
		skipped.Insert(names.TaintToleration)
	}
	return status
}

// avoided says whether the node has a taint PreferNoSchedule.
func avoided(info fwk.NodeInfo) bool {
	return slices.ContainsFunc(info.Node().Spec.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectPreferNoSchedule })
}
