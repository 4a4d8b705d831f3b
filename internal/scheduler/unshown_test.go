package scheduler

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
)

// unshownPod is a fixture whose node has 11 CPUs for pods. A pod has 5 that another scheduler has
// bound, and that neither a report nor the API has shown; a pod that shares asks for some. With it
// comes what the framework knows of the node.
func unshownPod(t *testing.T, shared string) (f *fixture, stranger *corev1.Pod, info *framework.NodeInfo) {
	f = newFixture(t)
	f.feed.ReportSeen(f.topology())
	first := pinned("first", 7)
	stranger = requesting(pinned("stranger", 5))
	f.admit(first)
	f.admit(stranger)
	f.state.Release(uidOf(first)) // one NUMA node is free: it is certain what others get
	object := nodeObject("n").object
	object.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("11"), "memory": resource.MustParse("1Gi"), "pods": resource.MustParse("10")}
	info = framework.NewNodeInfo(on(sharing("shared", shared), "n"))
	info.SetNode(object)
	return f, stranger, info
}

// requesting is the pod as the API server has it: it requests what its limits are.
func requesting(pod *corev1.Pod) *corev1.Pod {
	r := &pod.Spec.Containers[0].Resources
	r.Requests = r.Limits
	return pod
}

// wantUnshown wants Filter to say that the node waits for the API, or else that it takes the pod.
func (f *fixture) wantUnshown(what string, state *cycleData, x *corev1.Pod, info fwk.NodeInfo, waits bool) {
	f.Helper()
	s := f.Filter(f.Context(), state, x, info)
	if got := s.Code() == fwk.Pending && strings.Contains(s.Message(), ledger.Unshown.Text()); got != waits || !waits && !s.IsSuccess() {
		f.Errorf("%s: Filter says %v, want it to wait for the API: %t", what, s, waits)
	}
}

// TestFilterCountsPodsThatOnlyTheReportLists: the scheduler's watch of pods is behind that of
// reports. The report says which CPUs a pod of another scheduler has, and nobody has counted what
// it asks for: the kubelet would refuse the next pod with OutOfcpu.
func TestFilterCountsPodsThatOnlyTheReportLists(t *testing.T) {
	for what, tc := range map[string]struct {
		shared string
		cpus   int64
		waits  bool
	}{
		"there is room for all":                        {"4", 2, false},
		"too few CPUs are left":                        {"4", 3, true},
		"half a CPU is missing":                        {"3500m", 3, true},
		"NodeResourcesFit refuses the pod in any case": {"9", 3, false},
	} {
		t.Run(what, func(t *testing.T) {
			f, stranger, info := unshownPod(t, tc.shared)
			x := pinned("x", tc.cpus)
			f.wantUnshown("before the report", f.try(x), x, info, false)
			f.feed.ReportSeen(f.topology())
			f.wantUnshown("reported", f.try(x), x, info, tc.waits)
			known := info.SnapshotConcrete()
			known.AddPod(on(stranger, "n"))
			f.wantUnshown("the framework knows it", f.try(x), x, known, false)
			f.OnAdd(stranger, false)
			f.wantUnshown("shown", f.try(x), x, info, false)
		})
	}
}

// TestNominatedPodsBesideUnshownOnes: a pod that is nominated to the node asks for room as well.
func TestNominatedPodsBesideUnshownOnes(t *testing.T) {
	f, _, info := unshownPod(t, "4")
	f.feed.ReportSeen(f.topology())
	x, nominated := pinned("x", 2), requesting(pinned("nominated", 1))
	state := f.try(x)
	f.wantUnshown("alone", state, x, info, false)
	info.AddPod(nominated)
	f.AddPod(t.Context(), state, x, podInfo{pod: nominated}, info)
	f.wantUnshown("beside a nominated pod", state, x, info, true)
}

// TestGroupsBesideUnshownPods: members in Kubernetes' own group cycle are answered alike.
func TestGroupsBesideUnshownPods(t *testing.T) {
	f, stranger, info := unshownPod(t, "2")
	_, mates := f.inGroup(1)
	f.feed.ReportSeen(f.topology())
	for _, waits := range []bool{true, false} {
		Parts{f.core}.CycleBegins()
		state := groupState(framework.NewCycleState(), false)
		if _, s := f.PreFilter(t.Context(), state, mates[0], nil); !s.IsSuccess() {
			t.Fatal(s)
		}
		f.wantUnshown("a member", state, mates[0], info, waits)
		f.OnAdd(on(stranger, "n"), false)
	}
}

// TestWhoWaitsForUnshownPodsIsWoken: by the API, which shows them, and by a report without them.
func TestWhoWaitsForUnshownPodsIsWoken(t *testing.T) {
	for what, happens := range map[string]func(f *fixture, stranger *corev1.Pod){
		"the API shows the pod": func(f *fixture, stranger *corev1.Pod) { f.OnAdd(on(stranger, "n"), false) },
		"a report lists it no more": func(f *fixture, stranger *corev1.Pod) {
			f.state.Release(uidOf(stranger))
			f.feed.ReportSeen(f.topology())
		},
	} {
		t.Run(what, func(t *testing.T) {
			f, stranger, info := unshownPod(t, "4")
			x := pinned("x", 3)
			f.try(x)
			f.feed.ReportSeen(f.topology()) // the node takes x, and x is told
			f.wantUnshown("reported", f.try(x), x, info, true)
			f.blame(x, []*nodes.Node{f.table.Named("n")}, nil)
			before := f.woken["x"]
			happens(f, stranger)
			if f.woken["x"] == before {
				t.Error("x sleeps on")
			}
			f.wantUnshown("woken", f.try(x), x, info, false)
		})
	}
}
