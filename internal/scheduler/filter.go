package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// PreFilter translates the pod. Pods for which no kubelet pins anything are skipped.
func (p *Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if !mightPin(pod) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	request, err := wire.Request(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Berth cannot read the pod: "+err.Error())
	}
	if !request.Pinnable() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	policy, _, err := wire.PolicyOf(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Berth cannot read the pod: "+err.Error())
	}
	request.UID = string(pod.UID)
	c := &cycle{Candidate: p.candidate(pod, &request), policy: policy}
	state.Write(cycleKey, c)
	c.patientUntil = p.waiters.add(pod, &c.Candidate, p.clock.Now()).Add(p.args.Patience.Duration)
	if !p.ready.Load() {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Berth has not read all NodeTopologies yet")
	}
	return nil, nil
}

// candidate says of a pod what a ledger wants to know.
func (p *Plugin) candidate(pod *corev1.Pod, r *placement.Request) ledger.Candidate {
	return ledger.Candidate{Request: r, Shape: p.nodes.ledger.Shape(r), Created: pod.CreationTimestamp.Unix()}
}

// PreFilterExtensions returns the plugin: dry runs of preemption and nominated pods are trials.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod assumes that a pod is on the node.
func (p *Plugin) AddPod(_ context.Context, state fwk.CycleState, _ *corev1.Pod, add fwk.PodInfo, n fwk.NodeInfo) *fwk.Status {
	pod := add.GetPod()
	c := cycleOf(state)
	if c == nil || !mightPin(pod) {
		return nil
	}
	request, err := wire.Request(pod)
	if err != nil || !request.Pinnable() {
		return nil
	}
	request.UID = uidOf(pod)
	c.change(n.Node().Name, func(t *ledger.Trial) { arrive(t, &request) })
	return nil
}

// RemovePod assumes that a pod is not on the node.
func (p *Plugin) RemovePod(_ context.Context, state fwk.CycleState, _ *corev1.Pod, remove fwk.PodInfo, n fwk.NodeInfo) *fwk.Status {
	pod := remove.GetPod()
	c := cycleOf(state)
	if c == nil || !mightPin(pod) {
		return nil
	}
	c.change(n.Node().Name, func(t *ledger.Trial) { leave(t, uidOf(pod)) })
	return nil
}

// Filter asks the node for its verdict. It changes nothing.
func (p *Plugin) Filter(_ context.Context, state fwk.CycleState, _ *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
	c := cycleOf(state)
	if c == nil {
		return nil
	}
	n := p.nodes.get(info.Node().Name)
	now := p.clock.Now()
	if why := n.refusal(now, p.args.StaleAfter.Duration); why != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
	}
	if why := n.misses(&c.policy); why != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
	}
	a := c.ask(n)
	if a.OK() && !a.Exact && !a.Verdict.Random && now.Before(c.patientUntil) && !c.dry() {
		return fwk.NewStatus(fwk.Pending, waitCertainty)
	}
	return statusOf(&a)
}

// statusOf says an answer in the framework's words; nil for an admission.
func statusOf(a *ledger.Answer) *fwk.Status {
	switch a.Outcome {
	case ledger.Admitted:
		return nil
	case ledger.Waiting:
		return fwk.NewStatus(fwk.Pending, waitReport)
	case ledger.Refused:
		if a.Verdict.Scarcity == placement.Unresolvable {
			return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonText(&a.Verdict)+", even when empty")
		}
		return fwk.NewStatus(fwk.Unschedulable, reasonText(&a.Verdict))
	default:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, noReport)
	}
}

// reasonText says a refusal in few words, the same for every node with the same cause.
func reasonText(v *placement.Verdict) string {
	return "its kubelet would refuse the pod: " + v.Reason.String() + ": " + v.Detail.Text()
}
