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

// unshownPod returns a fixture whose node has 11 CPUs for pods. The stranger, which another
// scheduler has bound, has 5 of them, but neither a report nor the API has shown it. Another pod
// requests shared CPU time. info is the framework's data about the node.
func unshownPod(t *testing.T, shared string) (f *fixture, stranger *corev1.Pod, info *framework.NodeInfo) {
	f = newFixture(t)
	f.feed.ReportSeen(f.topology())
	first := pinned("first", 7)
	stranger = requesting(pinned("stranger", 5))
	f.admit(first)
	f.admit(stranger)
	f.state.Release(uidOf(first)) // one NUMA node is free, so that its CPUs are certain
	object := nodeObject("n").object
	object.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("11"), "memory": resource.MustParse("1Gi"), "pods": resource.MustParse("10")}
	info = framework.NewNodeInfo(on(sharing("shared", shared), "n"))
	info.SetNode(object)
	return f, stranger, info
}

// requesting returns the pod as the API server has it, with requests equal to its limits.
func requesting(pod *corev1.Pod) *corev1.Pod {
	r := &pod.Spec.Containers[0].Resources
	r.Requests = r.Limits
	return pod
}

// wantUnshown checks whether Filter says that the node waits for the API. If waits is false, the
// node must admit the pod.
func (f *fixture) wantUnshown(what string, state *cycleData, x *corev1.Pod, info fwk.NodeInfo, waits bool) {
	f.Helper()
	s := f.Filter(f.Context(), state, x, info)
	if got := s.Code() == fwk.Pending && strings.Contains(s.Message(), ledger.Unshown.Text()); got != waits || !waits && !s.IsSuccess() {
		f.Errorf("%s: Filter says %v, want it to wait for the API: %t", what, s, waits)
	}
}

// TestFilterCountsPodsThatOnlyTheReportLists: the scheduler's watch of pods is later than its watch
// of reports. The report has the CPUs of another scheduler's pod, but its requests do not count
// yet, so that the kubelet would refuse the next pod with OutOfcpu.
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

// TestNominatedPodsBesideUnshownOnes: a pod that is nominated to the node needs room as well.
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

// TestGroupsBesideUnshownPods: members in kube-scheduler's own group cycle get the same answers.
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

// TestWhoWaitsForUnshownPodsIsWoken: when the API shows the pods, or a report no longer lists them.
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
			f.feed.ReportSeen(f.topology()) // the node would admit x
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
