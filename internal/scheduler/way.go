package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	dra "github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/scheduler/steer"
	"github.com/berth-dev/berth/internal/wire"
)

// Filter reports whether the node admits the pod.
func (p *Plugin) Filter(ctx context.Context, state fwk.CycleState, _ *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
	if c := cycleOf(state); c != nil {
		return c.way.filter(ctx, c, info)
	}
	return nil
}

// PostFilter runs before kube-scheduler's preemption. To prevent preemption, it returns
// UnschedulableAndUnresolvable. The framework then does not run PostFilter of the plugin for
// claims, which would deallocate devices, so Berth's PostFilter calls that plugin itself. If some
// node only waits for a report, the pod keeps its devices, because they may be on that node.
func (p *Plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	result, status := p.postFilter(ctx, state, pod, statuses)
	if status.Code() == fwk.UnschedulableAndUnresolvable && dra.MayClaim(pod) && p.claimsPlugin() != nil && !p.awaitsReport(statuses) {
		p.giveClaimsBack(ctx, state, pod, statuses)
	}
	return result, status
}

// giveClaimsBack makes the plugin for claims deallocate the pod's devices, because no node admits
// the pod with them. If the attempt ended before the plugin's PreFilter, giveClaimsBack calls this
// PreFilter first, so that the plugin finds the claim that kube-scheduler has created for the pod's
// extended resources.
func (p *Plugin) giveClaimsBack(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) {
	claims := p.claimsPlugin()
	if !steer.Saw(state) {
		if _, found := claims.PreFilter(ctx, state, pod, nil); !found.IsSuccess() {
			return
		}
	}
	_, said := claims.PostFilter(ctx, state, pod, statuses)
	klog.FromContext(ctx).V(4).Info("Tried to deallocate claims of a pod that no node admits", "pod", klog.KObj(pod), "status", said)
}

// awaitsReport reports whether the pod waits for the report of some node.
func (p *Plugin) awaitsReport(statuses fwk.NodeToStatusReader) bool {
	waiting, err := statuses.NodesForStatusCode(p.handle.SnapshotSharedLister().NodeInfos(), fwk.Pending)
	return err != nil || len(waiting) > 0
}

func (p *Plugin) postFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	c := p.cycle(state)
	_, member := c.way.(*gangMember)
	switch {
	case member:
	case wire.InGang(pod) && !p.core.gangs.Alone(pod):
		c.way = &gangMember{}
	case c.way != untouched{} && p.core.notYet(ctx) != "":
		// Otherwise preemption would run, find no node on which evictions help, and remove the
		// pod's nomination.
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
	}
	return c.way.postFilter(ctx, c, pod, statuses)
}

// Reserve decides with the current state of the node and reserves the pod's place. It does nothing
// for a pod about which Berth decides nothing.
func (p *Plugin) Reserve(_ context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	if c := cycleOf(state); c != nil {
		return c.way.reserve(state, c, pod, p.core.table.Named(nodeName))
	}
	return nil
}

// Unreserve releases the place of a pod whose Binding was not written. If the Binding may have been
// written, the pod keeps its place.
func (p *Plugin) Unreserve(_ context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) {
	if wire.InGang(pod) {
		defer p.core.gangs.Failed(pod.UID, "pod "+pod.Name+" did not get its place")
	}
	if c := cycleOf(state); c != nil {
		c.way.unreserve(state, c, pod, p.core.table.Named(nodeName))
	}
}

// untouched implements the extension points for a pod about which Berth decides nothing.
type untouched struct{}

var _ way = untouched{}

func (untouched) filter(context.Context, *cycle, fwk.NodeInfo) *fwk.Status { return nil }

func (untouched) postFilter(ctx context.Context, c *cycle, pod *corev1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if result, status := c.plugin.makeRoom(ctx, pod, ""); status != nil {
		return result, status
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

func (untouched) reserve(fwk.CycleState, *cycle, *corev1.Pod, *nodes.Node) *fwk.Status { return nil }

func (untouched) unreserve(fwk.CycleState, *cycle, *corev1.Pod, *nodes.Node) {}
