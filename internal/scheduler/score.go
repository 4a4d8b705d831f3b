package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/rank"
)

// PreScore spares pods that pass untouched the calls of Score.
func (p *Plugin) PreScore(_ context.Context, state fwk.CycleState, _ *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	return skipUntouched(state)
}

func skipUntouched(state fwk.CycleState) *fwk.Status {
	if cycleOf(state) == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score says how good a node is that takes the pod, beside other plugins. What the pod would get is
// in the verdict; nothing is decided here. Tiers.Score says what comes first.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *corev1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	c := cycleOf(state)
	if c == nil {
		return 0, nil
	}
	return int64(p.rankOf(c, info).Score), nil
}

// ScoreExtensions implements fwk.ScorePlugin: scores are final.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }

// rankOf returns the rank of a node that took the pod in Filter; the last one if it has changed its
// mind. What is in flight is looked at here: nodes with equal states answer for each other,
// whatever is in flight on them.
func (p *Plugin) rankOf(c *cycle, info fwk.NodeInfo) rank.Rank {
	n := p.core.nodes.of(info.Node())
	w, ok := c.recall(n, p.args.StaleAfter.Duration)
	if !ok {
		w = p.consult(c, n)
	}
	if !w.admits() {
		return rank.Rank{Tier: rank.LastTier}
	}
	r := w.rank()
	if !n.Quiet() {
		r.Score = p.args.Scoring.Busy(r.Score)
	}
	return r
}

// rank computes the rank of a node that admits the pod with the answer.
func (p *Plugin) rank(c *cycle, n *node, a *ledger.Answer) rank.Rank {
	o := rank.OfferOf(n.Node, c.Request, a, n.machine())
	return p.args.Scoring.Rank(&o)
}
