package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-dev/berth/internal/scheduler/nodes"
)

// planned is the way of a member of a gang. The ledger has held its place since the plan was made,
// if any kubelet would pin something for it.
type planned struct {
	// node is the planned node, or "" if the gang has no plan yet.
	node string
}

var _ way = (*planned)(nil)

// filter allows a member only its planned node. A node to which the pod was nominated before
// precedes the result of PreFilter.
func (m *planned) filter(_ context.Context, c *cycle, info fwk.NodeInfo) *fwk.Status {
	if info.Node().Name != m.node {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "another node is planned for the pod")
	}
	if c.unpinned {
		return nil
	}
	if why := c.plugin.core.table.Unusable(c.plugin.core.table.Of(info.Node())); why != nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why.Text)
	}
	return nil
}

// postFilter ends the attempt without an eviction for a part of a gang. The victims for the whole
// gang were found when it was planned; the leader keeps its place there.
func (m *planned) postFilter(_ context.Context, c *cycle, pod *corev1.Pod, _ fwk.NodeToStatusReader) (result *fwk.PostFilterResult, _ *fwk.Status) {
	gangs := c.plugin.core.gangs
	gangs.Failed(pod.UID, "pod "+pod.Name+" does not get its planned node")
	if node := gangs.Nominated(pod.UID); node != "" || pod.Status.NominatedNodeName != "" {
		result = framework.NewPostFilterResultWithNominatedNode(node)
	}
	return result, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
}

func (m *planned) reserve(_ fwk.CycleState, c *cycle, pod *corev1.Pod, n *nodes.Node) *fwk.Status {
	core := c.plugin.core
	if c.unpinned {
		return core.gangs.Reserve(pod, n.Name(), nil)
	}
	if why := core.table.Unusable(n); why != nil {
		return fwk.NewStatus(fwk.Unschedulable, why.Text)
	}
	if status := core.gangs.Reserve(pod, n.Name(), n.Account()); status != nil {
		return status
	}
	c.number = core.reserved.Add(1)
	return nil
}

func (m *planned) bind(ctx context.Context, c *cycle, pod *corev1.Pod, nodeName string) *fwk.Status {
	if c.unpinned {
		return c.bindUndecided(ctx, pod, nodeName, "")
	}
	return c.bind(ctx, pod, nodeName, "")
}

func (m *planned) unreserve(_ fwk.CycleState, c *cycle, pod *corev1.Pod, n *nodes.Node) {
	if !c.unpinned {
		c.giveBack(pod, n)
	}
}
