package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/placement"
)

// Reserve decides on the current state of the node and takes the pod in.
func (p *Plugin) Reserve(_ context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	c := cycleOf(state)
	if c == nil {
		return nil
	}
	n := p.nodes.get(nodeName)
	if why := n.refusal(p.clock.Now(), p.args.StaleAfter.Duration); why != "" {
		return fwk.NewStatus(fwk.Unschedulable, why)
	}
	var d placement.Decision
	a := n.Node.Reserve(&c.Candidate, &d)
	verdicts.WithLabelValues("Reserve", a.Outcome.String(), reasonOf(&a)).Inc()
	if status := statusOf(&a); status != nil {
		c.again = p.many()
		return status
	}
	c.number = p.reserved.Add(1)
	p.waiters.done(pod.UID)
	return nil
}

// Unreserve takes a pod back whose Binding was not written, and lets it wait: what kept it may be over before its back-off
// is. A pod whose Binding may have been written stays.
func (p *Plugin) Unreserve(_ context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) {
	c := cycleOf(state)
	if c == nil {
		return
	}
	n := p.nodes.get(nodeName)
	n.Forget(string(pod.UID))
	p.waiters.add(pod, &c.Candidate, p.clock.Now())
	p.waiters.tried(pod.UID)
	p.forgetIfGone(pod)
	p.waiters.wake(n)
	p.tryAgain(pod, c)
}

// tryAgain activates a pod that Reserve or Bind has refused: Filter found nodes that take it, and nothing need change about
// those for it to have one of them.
func (p *Plugin) tryAgain(pod *corev1.Pod, c *cycle) {
	if c.again {
		p.waiters.wakeOne(pod)
		return
	}
	p.clock.AfterFunc(callAgainAfter, func() { go p.waiters.wakeOne(pod) })
}
