package scheduler

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// unequal gives node n NUMA nodes with 3, 4, 4 and 3 CPUs for pods, and fills each with one pod.
func (f *fixture) unequal() []*corev1.Pod {
	f.Helper()
	m, err := topology.Parse("package:4 numa:1 core:4 pu:1 mem:16Gi")
	if err != nil {
		f.Fatal(err)
	}
	view, err := placement.ViewOf(m)
	if err != nil {
		f.Fatal(err)
	}
	f.spec.Machine, f.spec.View = m, view
	f.spec.Config.ReservedSystemCPUs, f.spec.Config.TopologyManagerPolicy = "0,13", "restricted"
	if f.model, err = placement.NewModel(view, f.spec.Config); err != nil {
		f.Fatal(err)
	}
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

// dryRun is that of kube-scheduler's DefaultPreemption: all victims go, and come back one by one
// where the pod fits all the same.
func (f *fixture) dryRun(pod *corev1.Pod, victims []*corev1.Pod) (evicted []string, fits bool) {
	state, info := f.try(pod), nodeObject("n")
	for _, v := range victims {
		f.RemovePod(f.Context(), state, pod, podInfo{pod: v}, info)
	}
	if s := f.Filter(f.Context(), state, pod, info); !s.IsSuccess() {
		return nil, false
	}
	for _, v := range victims {
		f.AddPod(f.Context(), state, pod, podInfo{pod: v}, info)
		if s := f.Filter(f.Context(), state, pod, info); !s.IsSuccess() {
			f.RemovePod(f.Context(), state, pod, podInfo{pod: v}, info)
			evicted = append(evicted, v.Name)
		}
	}
	return evicted, f.Filter(f.Context(), state, pod, info).IsSuccess()
}

// reusing is a pod whose main container is given the CPU that its init container had.
func reusing() *corev1.Pod {
	pod, init := pinned("reuse", 4), pinned("init", 1).Spec.Containers[0]
	init.Name = "init"
	pod.Spec.InitContainers = []corev1.Container{init}
	pod.Spec.Priority = new(int32(1000))
	return pod
}

// TestOneEvictionHelpsWhereAllDoNot: on the empty machine the init container has a CPU of NUMA node
// 0, where the main container has no room; with that node full it has.
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

// TestNoEvictionHelpsAPodThatIsTooLarge for every NUMA node, and none is searched for.
func TestNoEvictionHelpsAPodThatIsTooLarge(t *testing.T) {
	f := newFixture(t)
	f.fill()
	pod := pinned("large", 9)
	if s := f.Filter(t.Context(), f.try(pod), pod, nodeObject("n")); s.Code() != fwk.UnschedulableAndUnresolvable {
		t.Errorf("%v, want that no eviction helps", s)
	}
}
