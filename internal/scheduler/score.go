package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Score ranks a node that takes the pod.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *corev1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	c := cycleOf(state)
	if c == nil {
		return 0, nil
	}
	a := c.ask(p.nodes.get(info.Node().Name))
	if !a.OK() {
		return 0, nil
	}
	return fwk.MaxScore / int64(max(1, a.Verdict.NUMA.Len())), nil
}

// ScoreExtensions implements fwk.ScorePlugin: scores are final.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }
