package gang

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// oddFirst is a framework that likes every other node better.
type oddFirst struct{ *fakeHandle }

func (h oddFirst) RunScorePlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, infos []fwk.NodeInfo) ([]fwk.NodePluginScores, *fwk.Status) {
	scores, status := h.fakeHandle.RunScorePlugins(ctx, state, pod, infos)
	for i := range scores {
		scores[i].TotalScore = int64(slices.Index(h.w.nodes, infos[i].Node()) % 2)
	}
	return scores, status
}

// TestTheBestNodesAreScored: where Berth knows the best nodes, the framework orders these alone.
// The others follow in Berth's order. Else the framework orders all, as it does where pods are
// thought away: Berth's order does not know of that.
func TestTheBestNodesAreScored(t *testing.T) {
	inWorld(t, 100, func(w *world) {
		all, last := make([]int, 100), make([]int, 100)
		for i := range all {
			all[i], last[i] = i, 99-i
		}
		for _, tc := range []struct {
			name    string
			best    []int // nil: Berth does not know
			members int
			cleared map[int]bool
			scored  int
		}{
			{"all", nil, 2, nil, 100},
			{"the last ones", last, 2, nil, scoredNodes},
			{"a large gang", last, 40, nil, 80},
			{"a gang larger than half of the cluster", last, 50, nil, 100},
			{"pods are thought away", last, 2, map[int]bool{3: true}, 100},
		} {
			profile := w.profile()
			profile.Handle = oddFirst{&fakeHandle{w: w}}
			profile.BestFirst = func(fwk.CycleState, []fwk.NodeInfo) []int { return tc.best }
			infos, err := profile.Handle.SnapshotSharedLister().NodeInfos().List()
			w.must(err)
			w.scored = 0
			t := &trial{ctx: w.t.Context(), profile: profile, infos: infos, bodies: make([]fwk.PodInfo, tc.members), cleared: tc.cleared}
			got := t.ranked(&kind{}, slices.Clone(all))
			want := slices.Clone(all)
			if tc.scored < 100 {
				want = slices.Clone(last)
			}
			slices.SortStableFunc(want[:tc.scored], func(a, b int) int { return b%2 - a%2 })
			if w.scored != tc.scored || !slices.Equal(got, want) {
				w.t.Errorf("%s: %d nodes are scored, want %d; the order is %v, want %v", tc.name, w.scored, tc.scored, got, want)
			}
		}
	})
}
