package scheduler

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/rank"
)

// TestTiersAreScores compares NormalizeScore with the count of better tiers for each node.
func TestTiersAreScores(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		scores := make(fwk.NodeScoreList, 1+rng.IntN(300))
		kinds := 1 + rng.IntN(150)
		for i := range scores {
			scores[i].Score = int64(rng.IntN(kinds)) * int64(rank.LastTier) / int64(kinds)
		}
		want := make([]int64, len(scores))
		for i := range scores {
			better := map[int64]bool{}
			for j := range scores {
				if scores[j].Score < scores[i].Score {
					better[scores[j].Score] = true
				}
			}
			want[i] = max(0, 100-int64(len(better)))
		}
		if status := (Tiers{}).NormalizeScore(t.Context(), nil, nil, scores); !status.IsSuccess() {
			t.Fatal(status)
		}
		got := make([]int64, len(scores))
		for i := range scores {
			got[i] = scores[i].Score
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

func TestTiersTakeNoArguments(t *testing.T) {
	for text, ok := range map[string]bool{"": true, "{}": true, `{"first":["numaNodes"]}`: false} {
		_, err := NewTiers(t.Context(), &runtime.Unknown{Raw: []byte(text)}, nil)
		if ok != (err == nil) || !ok && !strings.Contains(err.Error(), "scoring.first") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
