package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/rank"
	"github.com/berth-dev/berth/placement"
)

// PreScore skips Score for pods about which Berth decides nothing, or for which no kubelet pins
// anything.
func (p *Plugin) PreScore(_ context.Context, state fwk.CycleState, _ *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	return skipUntouched(state)
}

func skipUntouched(state fwk.CycleState) *fwk.Status {
	if c := cycleOf(state); c == nil || c.unpinned {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score returns the score of a node that admits the pod. The framework adds it to the scores of
// other plugins. Tiers.Score has the criteria that override other plugins.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *corev1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	c := cycleOf(state)
	if c == nil {
		return 0, nil
	}
	if p.args.Scoring.Formula == rank.Volcano && c.query.Candidate.Request.Rules.Policy == placement.NodePolicy {
		return 0, nil // Volcano does not score nodes for pods without a policy
	}
	return int64(c.rankOf(info).Score), nil
}

// ScoreExtensions implements fwk.ScorePlugin. Only the scores of Volcano's formula are normalized,
// because the formula compares the nodes of a cycle.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions {
	if p.args.Scoring.Formula == rank.Volcano {
		return volcanoScores{}
	}
	return nil
}

// volcanoScores turns the numbers of NUMA nodes that Score returned into scores.
type volcanoScores struct{}

// NormalizeScore applies rank.VolcanoScore.
func (volcanoScores) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	most := int64(0)
	for i := range scores {
		most = max(most, scores[i].Score)
	}
	for i := range scores {
		scores[i].Score = rank.VolcanoScore(scores[i].Score, most)
	}
	return nil
}

// rankOf returns the rank of a node that admitted the pod in Filter.
func (c *cycle) rankOf(info fwk.NodeInfo) rank.Rank {
	n := c.plugin.core.table.Of(info.Node())
	if g, ok := c.way.(*inGroup); ok {
		return g.rank(c, n)
	}
	return c.query.Rank(n)
}
