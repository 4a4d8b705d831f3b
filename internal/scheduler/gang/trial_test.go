package gang

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/plan"
)

// oddFirst is a framework that prefers every second node.
type oddFirst struct{ *fakeHandle }

func (h oddFirst) RunScorePlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, infos []fwk.NodeInfo) ([]fwk.NodePluginScores, *fwk.Status) {
	scores, status := h.fakeHandle.RunScorePlugins(ctx, state, pod, infos)
	for i := range scores {
		scores[i].TotalScore = int64(slices.Index(h.w.nodes, infos[i].Node()) % 2)
	}
	return scores, status
}

// TestTheBestNodesAreScored: if Berth knows the best nodes, the framework scores only these, and
// the others follow in Berth's order. Otherwise the framework scores all nodes. It also does so in
// a trial without some pods, because Berth's order includes them.
func TestTheBestNodesAreScored(t *testing.T) {
	inWorld(t, 100, func(w *world) {
		all, last := make([]int, 100), make([]int, 100)
		for i := range all {
			all[i], last[i] = i, 99-i
		}
		for _, tc := range []struct {
			name    string
			best    []int // nil: Berth has no order
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
			t := &trial{ctx: w.t.Context(), profile: profile, infos: infos, cleared: tc.cleared}
			got := t.ranked(&kind{size: tc.members}, slices.Clone(all))
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

// TestTheBestNodesAreAsked: if Berth has an order, its first nodes are asked, and no others if all
// members fit there. The plan is the same as with all nodes, and so is the reason if there is no
// plan.
func TestTheBestNodesAreAsked(t *testing.T) {
	rng := rand.New(rand.NewPCG(26, 11))
	did, widened, few := 0, 0, 0
	inWorld(t, 160, func(w *world) {
		for range 60 {
			w.fill(func() bool { return rng.IntN(20) > 0 }, rng.IntN(2)*len(w.nodes))
			order, size, cpus := rng.Perm(len(w.nodes)), 1+rng.IntN(20), 3+2*rng.IntN(2) // no NUMA node has 5 CPUs
			got := w.plan(order, size, cpus, false)
			asked := w.filtered
			want := w.plan(order, size, cpus, true)
			switch {
			case !got.trial.left:
				few++
			case got.trial.wide:
				widened++
			case asked >= w.filtered:
				w.t.Errorf("%d members: %d questions, and %d where all nodes are asked", size, asked, w.filtered)
			default:
				did++
			}
			if got.Whole != want.Whole || !reflect.DeepEqual(got.Places, want.Places) {
				w.t.Fatalf("%d members: whole %t, %v; with all nodes %t, %v", size, got.Whole, got.Places, want.Whole, want.Places)
			}
			why, wantWhy := got.trial.job.explain(got), want.trial.job.explain(want)
			if !got.Whole && why != wantWhy {
				w.t.Errorf("%d members: %q; with all nodes %q", size, why, wantWhy)
			}
		}
	})
	if min(did, widened, few) < 10 {
		t.Errorf("the best nodes did %d times, %d times not, and %d times there were too few", did, widened, few)
	}
}

// likes is a framework that prefers one node.
type likes struct {
	*fakeHandle
	node *corev1.Node
}

func (h likes) RunScorePlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, infos []fwk.NodeInfo) ([]fwk.NodePluginScores, *fwk.Status) {
	scores, status := h.fakeHandle.RunScorePlugins(ctx, state, pod, infos)
	for i := range scores {
		scores[i].TotalScore = 0
		if infos[i].Node() == h.node {
			scores[i].TotalScore = 1
		}
	}
	return scores, status
}

// TestAPreferredNodeIsFound: a gang for which Berth has no order searches as many nodes as
// kube-scheduler does for a pod: all of 100 nodes, and a part of a larger cluster.
func TestAPreferredNodeIsFound(t *testing.T) {
	for _, tc := range []struct{ nodes, likes, kinds, looks int }{{100, 99, 1, 100}, {400, 187, 1, 188}, {400, 63, 256, 64}} {
		inWorld(t, tc.nodes, func(w *world) {
			profile := w.profile()
			profile.Handle = likes{&fakeHandle{w: w}, w.nodes[tc.likes]}
			profile.BestFirst = func(fwk.CycleState, []fwk.NodeInfo) []int { return nil }
			j := &job{Asked: gangs.Asked{Pods: []*corev1.Pod{podOf("g", "m", 1, 3)}, Tasks: make([]string, 1)}}
			t := &trial{ctx: w.t.Context(), profile: profile, job: j, over: map[int]fwk.NodeInfo{}}
			if status := t.prepare(); status != nil {
				w.t.Fatal(status)
			}
			for len(t.kinds) < tc.kinds {
				t.kinds = append(t.kinds, t.kinds[0])
			}
			if got := t.Nodes(0); len(got) != tc.looks || got[0] != tc.likes {
				w.t.Errorf("%+v: %d nodes, node %d first", tc, len(got), got[0])
			}
		})
	}
}

// fill fills some of the first nodes, and empties all others.
func (w *world) fill(some func() bool, first int) {
	w.pods = map[types.UID]*corev1.Pod{}
	for _, n := range w.nodes[:first] {
		if full := podOf("others", "on-"+n.Name, 1, 7); some() {
			full.Spec.NodeName = n.Name
			w.pods[full.UID] = full
		}
	}
}

// plan plans a gang with order as Berth's order of the nodes.
func (w *world) plan(order []int, size, cpus int, wide bool) *result {
	profile := w.profile()
	profile.Handle = oddFirst{&fakeHandle{w: w}}
	profile.BestFirst = func(_ fwk.CycleState, infos []fwk.NodeInfo) (places []int) {
		for _, node := range order {
			if i := slices.IndexFunc(infos, func(n fwk.NodeInfo) bool { return n.Node() == w.nodes[node] }); i >= 0 {
				places = append(places, i)
			}
		}
		return places
	}
	j := &job{Asked: gangs.Asked{Tasks: make([]string, size)}}
	for i := range size {
		j.Pods = append(j.Pods, podOf("g", fmt.Sprint("m-", i), size, cpus))
	}
	j.gang.Minimum, j.gang.Start = size, size
	t := &trial{ctx: w.t.Context(), profile: profile, job: j, over: map[int]fwk.NodeInfo{}, wide: wide}
	if status := t.prepare(); status != nil {
		w.t.Fatal(status)
	}
	w.filtered = 0
	return &result{Verdict: j.gang.Ask(t), trial: t}
}

// scarce is a cluster with one device on each node.
type scarce struct {
	w  *world
	by map[string]types.UID
}

func (s *scarce) Give(pod *corev1.Pod, on fwk.NodeInfo, would plan.Lies, _ plan.Again) bool {
	node := on.Node().Name
	if !would.Sure || would.Loose || len(would.Decision.Containers) == 0 {
		s.w.t.Errorf("pod %s on %s: %+v", pod.Name, node, would)
	}
	if s.by[node] != "" {
		return false
	}
	s.by[node] = pod.UID
	return true
}

func (s *scarce) Take(uid types.UID) {
	maps.DeleteFunc(s.by, func(_ string, by types.UID) bool { return by == uid })
}

// TestMembersGoWhereTheirDevicesAre: each node has CPUs for all members, but only one device.
func TestMembersGoWhereTheirDevicesAre(t *testing.T) {
	for size, whole := range map[int]bool{3: true, 4: false} {
		inWorld(t, 3, func(w *world) {
			profile, there := w.profile(), &scarce{w, map[string]types.UID{}}
			profile.Devices = func(context.Context) Devices { return there }
			j := &job{Asked: gangs.Asked{Tasks: make([]string, size)}}
			for i := range size {
				pod := podOf("g", fmt.Sprint("m-", i), size, 1)
				pod.CreationTimestamp = metav1.Unix(int64(1000+i), 0) // otherwise their order could be different
				j.Pods = append(j.Pods, pod)
			}
			j.gang.Minimum, j.gang.Start = size, size
			r := j.try(w.t.Context(), profile)
			if r.wrong != nil || r.Whole != whole {
				w.t.Fatalf("%d members: whole %t, %v; want %t", size, r.Whole, r.wrong, whole)
			}
			nodes := map[int]bool{}
			for _, at := range r.Places {
				nodes[at.Node] = true
			}
			if whole && (len(nodes) != size || len(there.by) != size) || !whole && len(there.by) > 0 {
				w.t.Errorf("%d members: on %d nodes, %d devices given", size, len(nodes), len(there.by))
			}
		})
	}
}
