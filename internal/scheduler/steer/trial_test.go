package steer

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// TestTrial: pods that are planned together get the same devices as when placed one after the
// other.
func TestTrial(t *testing.T) {
	t.Parallel()
	type step struct {
		pod   string
		would Would
		takes bool // takes the pod's devices back
		want  bool
	}
	sure := func(numa ...int) Would {
		l := Lying{}
		if len(numa) > 0 {
			l["main"] = 0
		}
		for _, n := range numa {
			l["main"] = l["main"].With(topology.NUMAID(n))
		}
		return Would{Lying: l, Sure: true}
	}
	loose := sure(0)
	loose.Sure, loose.Loose = false, true
	unsure := sure(0)
	unsure.Sure = false
	for name, c := range map[string]struct {
		mode  claims.Mode
		steps []step
	}{
		"a NUMA node has one":              {required, []step{{"c", sure(1), false, true}, {"e", sure(1), false, false}, {"e", sure(0), false, true}}},
		"one is taken back":                {required, []step{{"c", sure(1), false, true}, {"c", Would{}, true, true}, {"e", sure(1), false, true}}},
		"CPUs on both":                     {required, []step{{"c", sure(0, 1), false, true}, {"e", sure(0, 1), false, true}, {"f", sure(0, 1), false, false}}},
		"near takes the other":             {near, []step{{"c", sure(1), false, true}, {"e", sure(1), false, true}, {"f", sure(1), false, false}}},
		"a pod that says nothing":          {claims.Free, []step{{"c", Would{}, false, true}, {"e", Would{}, false, true}, {"f", Would{}, false, false}}},
		"its CPUs are not certain":         {required, []step{{"c", unsure, false, false}}},
		"not certain, and near":            {near, []step{{"c", unsure, false, true}}},
		"nothing is pinned":                {required, []step{{"c", sure(), false, false}}},
		"another one would become loose":   {required, []step{{"c", sure(1), false, true}, {"none", loose, false, false}}},
		"nobody there has to be certain":   {near, []step{{"c", sure(1), false, true}, {"none", loose, false, true}}},
		"a pod without claims takes none":  {required, []step{{"none", sure(1), false, true}, {"c", sure(1), false, true}}},
		"a claim that there is not passes": {required, []step{{"missing", sure(1), false, true}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.mode, nil, two(), claim("c", "r"), claim("e", "r"), claim("f", "r"))
			trial := w.Trial(w.ctx)
			for i, s := range c.steps {
				pod := podWith(s.pod)
				if s.pod == "none" {
					pod = podWith()
				}
				pod.UID = types.UID(s.pod)
				if s.takes {
					trial.Take(pod.UID)
					continue
				}
				if got := trial.Give(pod, w.node, s.would); got != s.want {
					t.Errorf("step %d, pod %s: %t, want %t", i, s.pod, got, s.want)
				}
			}
			if got := w.has("c"); got != "" {
				t.Errorf("claim c has %s: want a trial that nobody sees", got)
			}
		})
	}
}

// TestTrialWithDevicesOfBefore: an allocated claim is checked, and gets no other devices.
func TestTrialWithDevicesOfBefore(t *testing.T) {
	t.Parallel()
	for numa, want := range map[int]bool{0: false, 1: true} {
		w := newWorld(t, required, nil, two(), allocatedTo(claim("c", "r"), "d1", "p"), claim("e", "r"))
		trial := w.Trial(w.ctx)
		would := Would{Lying: Lying{"main": set(topology.NUMAID(numa))}, Sure: true}
		if got := trial.Give(podWith("c"), w.node, would); got != want {
			t.Errorf("its device is on NUMA node 1, its CPUs on %d: %t", numa, got)
		}
		other := podWith("e")
		other.UID = "other"
		if got := trial.Give(other, w.node, would); got != !want { // d1 is taken
			t.Errorf("another one on NUMA node %d: %t", numa, got)
		}
	}
}

// TestTrialJudges devices, if Berth cannot hide the wrong ones from the allocator.
func TestTrialJudges(t *testing.T) {
	t.Parallel()
	apart := podWith("c", "e") // a container for each claim
	other := *apart.Spec.Containers[0].DeepCopy()
	other.Name, other.Resources.Claims = "other", other.Resources.Claims[1:]
	apart.Spec.Containers[0].Resources.Claims = apart.Spec.Containers[0].Resources.Claims[:1]
	apart.Spec.Containers = append(apart.Spec.Containers, other)
	all := claim("c", "r")
	all.Spec.Devices.Requests[0].Exactly.AllocationMode, all.Spec.Devices.Requests[0].Exactly.Count = resourceapi.DeviceAllocationModeAll, 0
	for name, c := range map[string]struct {
		mode  claims.Mode
		pod   *corev1.Pod
		c     *resourceapi.ResourceClaim
		lying Lying
		want  bool
	}{
		"claims of containers apart":         {required, apart, claim("c", "r"), Lying{"main": set(0), "other": set(1)}, true},
		"the allocator swaps their devices":  {required, apart, claim("c", "r"), Lying{"main": set(1), "other": set(0)}, false},
		"the allocator swaps them, and near": {near, apart, claim("c", "r"), Lying{"main": set(1), "other": set(0)}, true},
		"all devices":                        {required, podWith("c"), all, Lying{"main": set(0, 1)}, true},
		"all devices, one is elsewhere":      {required, podWith("c"), all, Lying{"main": set(0)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.mode, nil, two(), c.c.DeepCopy(), claim("e", "r"))
			if got := w.Trial(w.ctx).Give(c.pod.DeepCopy(), w.node, Would{Lying: c.lying, Sure: true}); got != c.want {
				t.Errorf("given %t, want %t", got, c.want)
			}
		})
	}
}

// TestTrialFollowsDevices: if Berth decides and a member would not be near its devices, the member
// gets other NUMA nodes, as in its own cycle.
func TestTrialFollowsDevices(t *testing.T) {
	t.Parallel()
	watts := func(n int64) map[string]resourceapi.Counter {
		return map[string]resourceapi.Counter{"watts": {Value: *resource.NewQuantity(n, resource.DecimalSI)}}
	}
	drawing := func(name string, numa int64, power string) resourceapi.Device {
		d := gpu(name, numa)
		d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: power, Counters: watts(1)}}
		return d
	}
	counters := sliceOf()
	counters.Name, counters.UID, counters.Spec.Pool.ResourceSliceCount = "counters", "counters", 2
	counters.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "p0", Counters: watts(1)}, {Name: "p1", Counters: watts(2)}}
	drawn := sliceOf(drawing("d0", 0, "p0"), drawing("d1", 0, "p0"), drawing("d2", 1, "p1"), drawing("d3", 1, "p1"))
	drawn.Spec.Pool.ResourceSliceCount = 2
	type want struct {
		given bool
		lies  topology.NUMASet
	}
	for name, c := range map[string]struct {
		mode    claims.Mode
		objects []runtime.Object
		pods    []*corev1.Pod
		want    []want
	}{
		"the second one goes to the other": {required, []runtime.Object{two(), claim("c", "r"), claim("e", "r"), claim("f", "r")},
			[]*corev1.Pod{podWith("c"), podWith("e"), podWith("f")}, []want{{true, set(0)}, {true, set(1)}, {false, 0}}},
		"near follows, too, and takes what there is": {near, []runtime.Object{sliceOf(gpu("d", 1)), claim("c", "r"), claim("e", "r")},
			[]*corev1.Pod{podWith("c"), podWith("e")}, []want{{true, set(1)}, {false, 0}}},
		"the allocator knows better than the counts": {required, []runtime.Object{counters, drawn, claim("c", "r1", "r2")},
			[]*corev1.Pod{podWith("c")}, []want{{true, set(1)}}},
		"extended resources": {required, []runtime.Object{sliceOf(gpu("d", 1))},
			[]*corev1.Pod{extending(), extending()}, []want{{true, set(1)}, {false, 0}}},
		"extended resources of pods that say nothing": {claims.Free, []runtime.Object{sliceOf(gpu("d", 1))},
			[]*corev1.Pod{extending(), extending()}, []want{{true, set(0)}, {false, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.mode, nil, c.objects...)
			trial := w.Trial(w.ctx)
			for i, pod := range c.pods {
				pod.UID = types.UID(fmt.Sprint(i))
				d := deciding(t, w.berth.machine, placement.Rules{Policy: placement.PolicySingleNUMANode}, pod, 2000)
				first, _ := d.lie(nil)
				lies := first
				got := trial.Give(pod, w.node, Would{Lying: first, Sure: true, Again: func(near *placement.Claimed) (Lying, bool) {
					var ok bool
					lies, ok = d.lie(near)
					return lies, ok
				}})
				if got != c.want[i].given || got && lies[pod.Spec.Containers[0].Name] != c.want[i].lies {
					t.Errorf("pod %d: given %t, it lies on %v; want %+v", i, got, lies, c.want[i])
				}
			}
		})
	}
}
