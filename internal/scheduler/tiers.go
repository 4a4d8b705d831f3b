package scheduler

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/rank"
)

// TiersName is the name of the plugin Tiers in profiles.
const TiersName = "BerthTiers"

// Weight is the weight of the plugin Berth. With this weight, the plugin's score counts as much as
// the scores of NodeResourcesFit and NodeResourcesBalancedAllocation together, and as much as a
// pod's own preferred affinity.
const Weight = 2

// TiersWeight is the weight of Tiers. A difference of one tier outweighs all other plugins
// together, if their weights add up to less than a hundredth of TiersWeight.
const TiersWeight = 1_000_000

// Tiers is the score plugin for the part of a node's rank that overrides all other plugins: the
// rank.Tier.
//
// It is a separate plugin because the framework gives each plugin one weight and integer scores
// from 0 to 100. If Plugin.Score included the tier, and had a weight with which tiers override
// other plugins, the finer differences of its score would override them too.
type Tiers struct{}

var (
	_ fwk.PreScorePlugin  = Tiers{}
	_ fwk.ScorePlugin     = Tiers{}
	_ fwk.ScoreExtensions = Tiers{}
	_ fwk.SignPlugin      = Tiers{}
)

// NewTiers makes the plugin. It has the signature of frameworkruntime.PluginFactory. The plugin has
// no arguments, because scoring.first of the plugin Berth defines the tiers.
func NewTiers(_ context.Context, obj runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
	if err := NoArgs(obj); err != nil {
		return nil, fmt.Errorf("arguments of plugin %s: %w: want none; scoring.first of plugin %s defines the tiers", TiersName, err, Name)
	}
	return Tiers{}, nil
}

// Name implements fwk.Plugin.
func (Tiers) Name() string { return TiersName }

// SignPod adds nothing to a pod's signature. It exists because kube-scheduler signs no pods of a
// profile if a scoring plugin lacks SignPod. Pods with tiers are not signed anyway, because
// Plugin.SignPod refuses to sign them.
func (Tiers) SignPod(context.Context, *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) { return nil, nil }

// PreScore skips Score for pods about which Berth decides nothing, or for which no kubelet pins
// anything. It also skips Score if all nodes have the same tier.
func (Tiers) PreScore(_ context.Context, state fwk.CycleState, _ *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	if skip := skipUntouched(state); skip != nil {
		return skip
	}
	c := cycleOf(state)
	first := rank.LastTier
	for i, info := range nodes {
		switch tier := c.rankOf(info).Tier; {
		case i == 0:
			first = tier
		case tier != first:
			return nil
		}
	}
	return fwk.NewStatus(fwk.Skip)
}

// Score returns the node's tier, which NormalizeScore turns into a score.
func (Tiers) Score(_ context.Context, state fwk.CycleState, _ *corev1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	c := cycleOf(state)
	if c == nil {
		return int64(rank.LastTier), nil
	}
	return int64(c.rankOf(info).Tier), nil
}

// ScoreExtensions implements fwk.ScorePlugin.
func (t Tiers) ScoreExtensions() fwk.ScoreExtensions { return t }

// NormalizeScore gives nodes of the best tier the best score, nodes of the next tier one less, and
// so on. After a hundred tiers the score is 0.
func (Tiers) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	var tiers []int64 // ascending; there are few
	for i := range scores {
		if at, found := slices.BinarySearch(tiers, scores[i].Score); !found {
			tiers = slices.Insert(tiers, at, scores[i].Score)
		}
	}
	for i := range scores {
		at, _ := slices.BinarySearch(tiers, scores[i].Score)
		scores[i].Score = max(fwk.MinScore, fwk.MaxScore-int64(at))
	}
	return nil
}
