package scheduler

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-dev/berth/internal/scheduler/gang"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology/shapes"
)

// unequal gives node n four NUMA nodes with 3, 4, 4 and 3 CPUs for pods, and fills each with one
// pod.
func (f *fixture) unequal() []*corev1.Pod {
	f.Helper()
	m := shapes.Machine("package:4 numa:1 core:4 pu:1 mem:16Gi")
	f.spec.Machine, f.spec.View = m, made.View(f.TB, m)
	f.spec.Config.ReservedSystemCPUs, f.spec.Config.TopologyManagerPolicy = "0,13", "restricted"
	f.model = made.ModelOf(f.TB, f.spec.View, f.spec.Config)
	f.state = f.model.NewState()
	var pods []*corev1.Pod
	for i, cpus := range []int64{3, 4, 4, 3} {
		pod := pinned("f"+string(rune('0'+i)), cpus)
		f.admit(pod)
		pods = append(pods, pod)
	}
	f.feed.ReportSeen(f.topology())
	for _, pod := range pods {
		f.feed.PodSeen(on(pod, "n"), false)
	}
	return pods
}

// dryRun does the same as kube-scheduler's DefaultPreemption on node n, which has 14 CPUs and 16
// GiB for pods: it removes all victims, and adds each back if the pod still fits. It checks amounts
// as well as the plugin, as NodeResourcesFit does.
func (f *fixture) dryRun(pod *corev1.Pod, victims []*corev1.Pod) (evicted []string, fits bool) {
	object := nodeObject("n").object
	object.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("14"), "memory": resource.MustParse("16Gi"), "pods": resource.MustParse("110")}
	state, info := f.try(pod), framework.NewNodeInfo()
	info.SetNode(object)
	passes := func() bool {
		return gang.RoomIn(info).Short(wire.ReadAmounts(pod)) == nil && f.Filter(f.Context(), state, pod, info).IsSuccess()
	}
	for _, v := range victims {
		f.RemovePod(f.Context(), state, pod, podInfo{pod: v}, info)
	}
	if !passes() {
		return nil, false
	}
	for _, v := range victims {
		f.AddPod(f.Context(), state, pod, podInfo{pod: v}, info)
		if info.AddPod(v); !passes() {
			f.RemovePod(f.Context(), state, pod, podInfo{pod: v}, info)
			if err := info.RemovePod(klog.Background(), v); err != nil {
				f.Fatal(err)
			}
			evicted = append(evicted, v.Name)
		}
	}
	return evicted, passes()
}

// reusing returns a pod whose main container gets the CPU of its init container.
func reusing() *corev1.Pod {
	pod, init := pinned("reuse", 4), pinned("init", 1).Spec.Containers[0]
	init.Name = "init"
	pod.Spec.InitContainers = []corev1.Container{init}
	pod.Spec.Priority = new(int32(1000))
	return pod
}

// TestOneEvictionHelpsWhereAllDoNot: on the empty machine, the init container gets a CPU of NUMA
// node 0, where the main container has no room. If NUMA node 0 is full, both fit on another one.
func TestOneEvictionHelpsWhereAllDoNot(t *testing.T) {
	f := newFixture(t)
	fillers := f.unequal()
	pod := reusing()
	if s := f.Filter(t.Context(), f.try(pod), pod, nodeObject("n")); s.Code() != fwk.Unschedulable {
		t.Fatalf("%v, want that evictions may help", s)
	}
	evicted, fits := f.dryRun(pod, fillers)
	if !fits || len(evicted) != 1 || evicted[0] != "f1" && evicted[0] != "f2" {
		t.Fatalf("evicts %v, fits: %v, want f1 or f2", evicted, fits)
	}
	f.state.Release("uid-" + evicted[0])
	f.admit(pod)
}

// TestNoEvictionInVain: other plugins may need more victims than Berth does, and the node may
// refuse the pod without all of these. Here memory needs three of four victims. If one of them is
// on NUMA node 0, the init container is placed there, and the main container does not fit.
func TestNoEvictionInVain(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}} {
		f := newFixture(t)
		var fillers []*corev1.Pod
		for _, pod := range f.unequal() {
			pod.Spec.Containers[0].Resources.Limits[corev1.ResourceMemory] = resource.MustParse("4Gi")
			fillers = append(fillers, pod)
		}
		pod := reusing()
		pod.Spec.Containers[0].Resources.Limits[corev1.ResourceMemory] = resource.MustParse("10Gi")
		var victims []*corev1.Pod
		for _, i := range order {
			victims = append(victims, fillers[i])
		}
		evicted, fits := f.dryRun(pod, victims)
		if !fits {
			continue // no pod is evicted
		}
		for _, name := range evicted {
			f.state.Release("uid-" + name)
		}
		f.admit(pod) // fails the test if the node refuses
	}
}

// TestNoEvictionHelpsAPodThatIsTooLarge for every NUMA node. Preemption does not try the node.
func TestNoEvictionHelpsAPodThatIsTooLarge(t *testing.T) {
	f := newFixture(t)
	f.fill()
	pod := pinned("large", 9)
	if s := f.Filter(t.Context(), f.try(pod), pod, nodeObject("n")); s.Code() != fwk.UnschedulableAndUnresolvable {
		t.Errorf("%v, want that no eviction helps", s)
	}
}

// TestNobodyIsEvictedWhereSomebodyIsInFlight: two pods are in flight to a node. Which of them is in
// the way depends on the order in which they arrive. Preemption would evict both before the report
// shows this.
func TestNobodyIsEvictedWhereSomebodyIsInFlight(t *testing.T) {
	f := newFixture(t)
	f.feed.ReportSeen(f.topology())
	large, small, pod := pinned("large", 5), pinned("small", 3), pinned("x", 8)
	f.postOn(f.table.Named("n"), large)
	f.feed.PodSeen(on(large, "n"), false)
	if evicted, fits := f.dryRun(pod, []*corev1.Pod{large}); !fits || len(evicted) > 0 {
		t.Errorf("beside the one pod in flight it fits %v, and %v are evicted", fits, evicted)
	}
	f.feed.PodSeen(on(small, "n"), false) // another scheduler has bound it
	victims := []*corev1.Pod{large, small}
	if evicted, fits := f.dryRun(pod, victims); fits {
		t.Errorf("before the report %v are evicted", evicted)
	}
	f.admit(large)
	f.admit(small)
	f.feed.ReportSeen(f.topology())
	if evicted, fits := f.dryRun(pod, victims); !fits || len(evicted) != 1 || evicted[0] != "small" {
		t.Errorf("by the report it fits %v, and %v are evicted, want small alone", fits, evicted)
	}
}
