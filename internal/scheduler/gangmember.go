package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-dev/berth/internal/scheduler/nodes"
)

// gangMember places a member of a gang on its planned node. If a kubelet would pin resources for
// the member, the ledger has reserved them since the gang was planned.
type gangMember struct {
	// node is the planned node, or "" if the gang has no plan yet.
	node string
}

var _ way = (*gangMember)(nil)

// filter admits the member only to its planned node. The framework may also ask about a node to
// which the pod was nominated, in spite of the result of PreFilter.
func (m *gangMember) filter(_ context.Context, c *cycle, info fwk.NodeInfo) *fwk.Status {
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

// postFilter ends the attempt without evictions, because only the plan of a gang evicts pods, for
// the whole gang. If a node is kept for the pod while evicted pods leave it (Groups.Nominated), the
// result repeats this nomination, so that kube-scheduler does not remove it. Otherwise the result
// removes the pod's nomination, if it has one.
func (m *gangMember) postFilter(_ context.Context, c *cycle, pod *corev1.Pod, _ fwk.NodeToStatusReader) (result *fwk.PostFilterResult, _ *fwk.Status) {
	gangs := c.plugin.core.gangs
	gangs.Failed(pod.UID, "pod "+pod.Name+" does not get its planned node")
	if node := gangs.Nominated(pod.UID); node != "" || pod.Status.NominatedNodeName != "" {
		result = framework.NewPostFilterResultWithNominatedNode(node)
	}
	return result, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
}

func (m *gangMember) reserve(_ fwk.CycleState, c *cycle, pod *corev1.Pod, n *nodes.Node) *fwk.Status {
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

func (m *gangMember) unreserve(_ fwk.CycleState, c *cycle, pod *corev1.Pod, n *nodes.Node) {
	if !c.unpinned {
		c.giveBack(pod, n)
	}
}
