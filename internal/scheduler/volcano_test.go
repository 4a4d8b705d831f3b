package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/rank"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology/shapes"
)

// volcanoFixture has a plugin with Volcano's scores, and best-effort nodes of 16 CPUs on 1, 2 and 4
// NUMA nodes.
func volcanoFixture(t *testing.T) (*fixture, []infoOf) {
	f := newFixture(t)
	f.args.Scoring = rank.Scoring{Formula: rank.Volcano}
	f.args.Scoring.FillIn()
	f.profile.Scoring = f.args.Scoring
	var infos []infoOf
	for _, numa := range []int{1, 2, 4} {
		name := fmt.Sprint("numa-", numa)
		m := shapes.Machine(fmt.Sprintf("package:1 numa:%d core:%d pu:1 mem:16Gi", numa, 16/numa))
		view := made.View(t, m)
		node := wire.Node{Name: name, Spec: f.spec}
		node.Spec.Machine, node.Spec.View, node.Spec.Config.TopologyManagerPolicy = m, view, "best-effort"
		model := made.ModelOf(t, view, node.Spec.Config)
		node.Report = wire.Report{Sequence: 1, Observed: f.clock.Now(), Snapshot: model.NewState().Snapshot(), Conditions: f.topology().Status.Conditions}
		nt, err := wire.WriteNodeTopology(&node)
		if err != nil {
			t.Fatal(err)
		}
		nt.UID = types.UID(name)
		f.feed.ReportSeen(nt)
		infos = append(infos, nodeObject(name))
	}
	return f, infos
}

func policied(cpus int64, policy string) *corev1.Pod {
	pod := pinned("p", cpus)
	if policy != "" {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, wire.VolcanoPolicyAnnotation, policy)
	}
	return pod
}

// scores runs PreFilter, Filter, Score and NormalizeScore for a pod. A node that is filtered has
// -1.
func (f *fixture) scores(pod *corev1.Pod, infos []infoOf) (out []int64, why string) {
	f.Helper()
	state := newCycleData()
	if _, status := f.PreFilter(f.Context(), state, pod, nil); !status.IsSuccess() {
		f.Fatal(status)
	}
	var list fwk.NodeScoreList
	for _, info := range infos {
		if status := f.Filter(f.Context(), state, pod, info); !status.IsSuccess() {
			why = status.Message()
			out = append(out, -1)
			continue
		}
		score, status := f.Score(f.Context(), state, pod, info)
		if !status.IsSuccess() {
			f.Fatal(status)
		}
		list = append(list, fwk.NodeScore{Name: info.Node().Name, Score: score})
		out = append(out, 0)
		if tier, _ := (Tiers{}).Score(f.Context(), state, pod, info); tier != 0 {
			f.Errorf("tier %d on %s: the formula replaces the order", tier, info.Node().Name)
		}
	}
	f.ScoreExtensions().NormalizeScore(f.Context(), state, pod, list)
	for _, next := range list {
		for j := range infos {
			if infos[j].Node().Name == next.Name {
				out[j] = next.Score
			}
		}
	}
	return out, why
}

// TestVolcanoProfile: with Volcano's formula, a pod with a policy is scored by NUMA nodes alone. A
// pod without a policy is not scored. A pod with another policy than the node's is filtered.
func TestVolcanoProfile(t *testing.T) {
	f, infos := volcanoFixture(t)
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want []int64
	}{
		"one, two and four NUMA nodes": {policied(15, "best-effort"), []int64{75, 50, 0}},
		"one everywhere":               {policied(2, "best-effort"), []int64{0, 0, 0}},
		"one, two and three":           {policied(9, "best-effort"), []int64{67, 34, 0}},
		"without a policy":             {policied(15, ""), []int64{0, 0, 0}},
		"with none":                    {policied(15, "none"), []int64{0, 0, 0}},
		"another policy":               {policied(2, "restricted"), []int64{-1, -1, -1}},
	} {
		if got, why := f.scores(c.pod, infos); !slices.Equal(got, c.want) {
			t.Errorf("%s: scores %v (%s), want %v", name, got, why, c.want)
		}
	}
	if _, why := f.scores(policied(2, "restricted"), infos); !strings.Contains(why, wire.VolcanoPolicyAnnotation) {
		t.Errorf("filtered with %q", why)
	}
}

// TestStatusesNameThePodsKeys: if a node does not match the pod, the message has the key that is in
// the pod, in Filter and in the pod's event.
func TestStatusesNameThePodsKeys(t *testing.T) {
	f, infos := volcanoFixture(t)
	const key = "scheduling.koordinator.sh/numa-topology-spec"
	pod := with(pinned("p", 2), map[string]string{key: `{"numaTopologyPolicy":"SingleNUMANode"}`})
	if _, why := f.scores(pod, infos); !strings.Contains(why, key) || strings.Contains(why, wire.PolicyAnnotation) {
		t.Errorf("filtered with %q", why)
	}
}

// TestBestEffortAnywhere: the argument lets best-effort pods go to nodes of any policy.
func TestBestEffortAnywhere(t *testing.T) {
	f := newFixture(t)
	f.feed.ReportSeen(f.topology())
	node := nodeObject("n") // its policy is single-numa-node
	for _, anywhere := range []bool{false, true} {
		var err error
		f.args.BestEffortAnywhere = anywhere
		if f.terms, err = f.args.terms(); err != nil {
			t.Fatal(err)
		}
		for policy, want := range map[string]bool{"best-effort": anywhere, "restricted": false, "single-numa-node": true} {
			pod, state := policied(2, policy), newCycleData()
			if _, status := f.PreFilter(t.Context(), state, pod, nil); !status.IsSuccess() {
				t.Fatal(status)
			}
			if status := f.Filter(t.Context(), state, pod, node); status.IsSuccess() != want {
				t.Errorf("anywhere %v, %s: %v", anywhere, policy, status)
			}
		}
	}
}
