package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// ownUpdate is any update of the waiting pod itself. An event with the resource Pod would include
// pods with nodes, and kube-scheduler would check each of their updates against every waiting pod.
// In kube-scheduler 1.36, the only narrower event is for all pods without a node, and
// kube-scheduler logs "Incorrect event registration" about it at its start. This is harmless,
// because the queue handles updates of the pod itself anyway.
var ownUpdate = func() fwk.ClusterEvent {
	event := framework.EventUnscheduledPodUpdate
	if event.Resource == "UnscheduledPod" { // in 1.37, UnscheduledPod means pods other than the waiting pod
		event.Resource = "TargetPod"
	}
	return event
}()

var (
	podDelete = fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete}
	nodeAdd   = fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}
	// kube-scheduler 1.36 and earlier adds taintUpdate for plugins that register nodeAdd
	// (buildQueueingHintMap).
	taintUpdate = fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeTaint}
)

// EventsToRegister returns the framework's events that can help a pod that this plugin has refused.
// A node's next report helps more often, but the framework has no event for it: package wake wakes
// the pods after a report.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: podDelete, QueueingHintFn: p.afterPodDelete},
		{Event: ownUpdate, QueueingHintFn: p.afterPodUpdate},
		{Event: nodeAdd, QueueingHintFn: p.afterNodeAdd},
	}, nil
}

// MayHelp reports whether the event could help a pod that only this plugin has refused.
func MayHelp(event fwk.ClusterEvent) bool {
	return framework.ClusterEventIsWildCard(event) ||
		framework.MatchAnyClusterEvent(event, []fwk.ClusterEvent{podDelete, ownUpdate, nodeAdd, taintUpdate})
}

// afterPodDelete wakes a waiting pod if the node of the deleted pod now admits it. A waiting pod
// that may evict is also woken if the node would admit it after evictions, because it may now need
// fewer victims. kube-scheduler also sends this event when a pod loses its nomination to a node.
// Other pods may then use the resources that were kept for that pod, although the node has not
// changed.
func (p *Plugin) afterPodDelete(_ klog.Logger, pod *corev1.Pod, oldObj, _ any) (fwk.QueueingHint, error) {
	left, ok := oldObj.(*corev1.Pod)
	switch {
	case !ok || left.Spec.NodeName == "" && left.Status.NominatedNodeName == "":
		return fwk.QueueSkip, nil
	case left.Spec.NodeName == "":
		return p.hint(pod, left.Status.NominatedNodeName, admitsOrEvicts)
	case (wire.MightPin(left) || wire.HasPlacement(left)) && p.mayEvict(pod):
		return p.hint(pod, left.Spec.NodeName, admitsOrEvicts)
	default:
		return p.hint(pod, left.Spec.NodeName, (*ledger.Answer).OK)
	}
}

// mayEvict reports whether the pod is allowed to evict pods, and a pod of lower priority may be on
// a node.
func (p *Plugin) mayEvict(pod *corev1.Pod) bool {
	policy := pod.Spec.PreemptionPolicy
	return !p.args.EvictsNobody && (policy == nil || *policy != corev1.PreemptNever) && corev1helpers.PodPriority(pod) > p.core.feed.LowestPriority()
}

// admitsOrEvicts reports whether the node admits the pod, or would admit it after evictions.
func admitsOrEvicts(a *ledger.Answer) bool {
	return a.OK() || a.Outcome == ledger.Refused && a.Verdict.Scarcity == placement.Resolvable
}

// afterPodUpdate wakes a pod if its request or its Reservation affinity has changed.
func (p *Plugin) afterPodUpdate(_ klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	then, ok := oldObj.(*corev1.Pod)
	now, also := newObj.(*corev1.Pod)
	if !ok || !also || now.UID != pod.UID {
		return fwk.QueueSkip, nil
	}
	const affinity = wire.ReservationAffinityAnnotation
	if !p.core.pods.same(then, now) || then.Annotations[affinity] != now.Annotations[affinity] {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// afterNodeAdd wakes a pod if the new node may admit the pod.
func (p *Plugin) afterNodeAdd(_ klog.Logger, pod *corev1.Pod, _, newObj any) (fwk.QueueingHint, error) {
	node, ok := newObj.(*corev1.Node)
	if !ok {
		return fwk.QueueSkip, nil
	}
	if p.unexpected(node) {
		return fwk.Queue, nil
	}
	return p.hint(pod, node.Name, func(a *ledger.Answer) bool { return admitsOrEvicts(a) || a.Outcome == ledger.Waiting })
}

// hint returns Queue if the function worth accepts the node's answer, and otherwise QueueSkip. It
// also returns QueueSkip for a pod that cannot be read, because only an update of that pod helps.
func (p *Plugin) hint(pod *corev1.Pod, nodeName string, worth func(*ledger.Answer) bool) (fwk.QueueingHint, error) {
	ask, err := p.read(pod)
	_, wrong := wire.ReadReservationAffinity(pod)
	if err != nil || ask.RulesErr != nil || wrong != nil { // no node is asked about it
		return fwk.QueueSkip, nil
	}
	n := p.core.table.Known(nodeName)
	if n == nil || p.core.table.Unusable(n) != nil {
		return fwk.QueueSkip, nil
	}
	c := p.core.table.Candidate(pod, &ask.Request)
	if a := n.Account().View().Ask(ledger.Question{Candidate: &c}); worth(&a) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// SignPod signs only pods for which no kubelet pins anything, and only while no node has authority
// berth. kube-scheduler can then batch these pods (opportunistic batching). SignPod does not sign
// other pods, because a node's answer about them depends on more than their spec.
func (p *Plugin) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if !wire.MightPin(pod) && !p.core.table.Obeying() {
		return nil, nil
	}
	if ask, err := p.core.pods.read(pod); err == nil && !ask.Request.Pinnable() && !p.core.table.Obeying() {
		return nil, nil
	}
	return nil, fwk.NewStatus(fwk.Unschedulable, "the resources that a kubelet pins for a pod depend on earlier pods")
}
