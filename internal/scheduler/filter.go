package scheduler

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// PreFilter translates the pod. Pods for which no kubelet pins anything are skipped.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	p.core.feed.tellIgnored(pod)
	if !mightPin(pod) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	ask, err := wire.ReadPod(pod)
	if err != nil {
		podsRefused.WithLabelValues("request").Inc()
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Berth cannot read the pod: "+err.Error())
	}
	if !ask.Request.Pinnable() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if ask.RulesErr != nil {
		podsRefused.WithLabelValues("policy").Inc()
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Berth cannot read the pod: "+ask.RulesErr.Error())
	}
	state.Write(cycleKey, p.attempt(pod, &ask.Request))
	if why := p.core.notYet(ctx); why != "" {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
	}
	return nil, nil
}

// attempt begins an attempt to place a pod.
func (p *Plugin) attempt(pod *corev1.Pod, r *placement.Request) *cycle {
	now := p.core.clock.Now()
	c := &cycle{Candidate: p.candidate(pod, r), plugin: p, begun: since(now), nominated: pod.Status.NominatedNodeName}
	c.patientUntil = p.core.waiters.Add(waiterOf(pod), &c.Candidate).Add(p.args.Patience.Duration)
	p.forgetIfGone(pod)
	c.patient = now.Before(c.patientUntil)
	if r.Rules == (placement.Rules{}) && c.Shape != 0 {
		c.board = p.boards.of(c.Shape, int(p.core.nodes.count.Load()))
	}
	return c
}

// candidate says of a pod what a ledger wants to know.
func (p *Plugin) candidate(pod *corev1.Pod, r *placement.Request) ledger.Candidate {
	return ledger.Candidate{Request: r, Shape: p.core.nodes.ledger.Shape(r), Created: pod.CreationTimestamp.Unix(), Mortal: wire.Mortal(pod)}
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
	name := n.Node().Name
	// It was taken away by its UID, whether it can be read or not.
	if slices.Contains(c.trials[name].Without, uidOf(pod)) {
		c.change(name, func(t *ledger.Trial) { t.Restore(uidOf(pod)) })
		return nil
	}
	ask, err := wire.ReadPod(pod)
	if err != nil || !ask.Request.Pinnable() {
		return nil
	}
	c.change(name, func(t *ledger.Trial) { t.Add(&ask.Request) })
	return nil
}

// RemovePod assumes that a pod is not on the node.
func (p *Plugin) RemovePod(_ context.Context, state fwk.CycleState, _ *corev1.Pod, remove fwk.PodInfo, n fwk.NodeInfo) *fwk.Status {
	pod := remove.GetPod()
	c := cycleOf(state)
	if c == nil || !mightPin(pod) {
		return nil
	}
	c.change(n.Node().Name, func(t *ledger.Trial) { t.Remove(uidOf(pod)) })
	return nil
}

// Filter asks the node for its verdict. It changes nothing.
func (p *Plugin) Filter(_ context.Context, state fwk.CycleState, _ *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
	c := cycleOf(state)
	if c == nil {
		return nil
	}
	n := p.core.nodes.of(info.Node())
	if w, ok := c.recall(n, p.args.StaleAfter.Duration); ok {
		return w.status(c.patient)
	}
	if why := p.unusable(n); why != nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why.Text)
	}
	if why := n.misses(c.Request.Rules); why != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
	}
	return p.consult(c, n).status(c.patient && !c.dry())
}

// consult asks the node, unless one of the same standing has answered, and notes an answer that
// will hold for others.
func (p *Plugin) consult(c *cycle, n *node) word {
	if c.dry() {
		a := c.askWithoutSome(n)
		if a.Outcome == ledger.Waiting {
			p.core.waiters.BlameToo(c.Request.UID, n)
		}
		return newWord(0, sayingOf(&a), int64(a.Wait), &a.Verdict)
	}
	var stamp ledger.Stamp
	if c.board != nil {
		stamp = n.Stamp()
		if w, ok := c.common(n, stamp.Count, stamp.State); ok {
			return w
		}
	}
	s := p.sample(c, n)
	w := p.wordOf(c, n, &s)
	if s.Lasts && c.board != nil {
		c.note(n, w)
		if n.still(&stamp) {
			c.board.noteCommon(stamp.State, w)
		}
	}
	return w
}

// wordOf puts the node's answer into a word.
func (p *Plugin) wordOf(c *cycle, n *node, s *ledger.Sample) word {
	a, said := &s.Answer, sayingOf(&s.Answer)
	if s.Estimated {
		said = saysYes
	}
	if !a.OK() {
		return newWord(s.Count, said, int64(a.Wait), &a.Verdict)
	}
	return newAdmission(s.Count, said, p.rank(c, n, a))
}

// manyNodes makes a large cluster. There Filter estimates: it asks for the order of Reserve alone.
// If Reserve then refuses, the pod tries another node at once. The nominated node is always asked
// in full, because failing there costs the nomination.
const manyNodes = 256

func (p *Plugin) many() bool { return p.core.nodes.count.Load() >= manyNodes }

// sample asks the node for its answer, for an estimate where there are many.
func (p *Plugin) sample(c *cycle, n *node) ledger.Sample {
	return n.Sample(ledger.Question{Candidate: &c.Candidate, Estimate: p.many() && n.name != c.nominated})
}
