package steer

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

const (
	near     = claims.Near
	required = claims.Required
)

// two has two devices on different NUMA nodes. Without Berth, the first one is allocated.
func two() *resourceapi.ResourceSlice { return sliceOf(gpu("d0", 0), gpu("d1", 1)) }

func TestDevicesAreSteered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode  claims.Mode
		ways  []Way
		slice *resourceapi.ResourceSlice
		has   string
		why   string
	}{
		"a pod that says nothing has the first":      {claims.Free, at(1), two(), "d0", ""},
		"near its CPUs":                              {near, at(1), two(), "d1", ""},
		"required near its CPUs":                     {required, at(1), two(), "d1", ""},
		"on both NUMA nodes of its CPUs":             {required, at(0, 1), two(), "d0", ""},
		"near, and there is none":                    {near, at(1), sliceOf(gpu("d0", 0)), "d0", ""},
		"required, and there is none":                {required, at(1), sliceOf(gpu("d0", 0)), "", "\"berth.dev/claims: required\": device gpu.example.com/d0 of claim ns/c (request r) is on NUMA node 0 (resource.kubernetes.io/numaNode), but the CPUs and memory of container main are on NUMA node 1"},
		"a neutral device is near to everything":     {required, at(1), sliceOf(gpu("d0", 0), gpu("n", -1)), "n", ""},
		"a negative number is neutral":               {required, at(1), sliceOf(gpu("d0", 0), minusOne("n")), "n", ""},
		"the next way, if the best has no device":    {required, []Way{{Lying: Lying{"main": set(0)}}, {Lying: Lying{"main": set(1)}, Near: follows("main")}}, sliceOf(gpu("d1", 1)), "d1", ""},
		"not pinned, and near":                       {near, []Way{{}}, two(), "d0", ""},
		"not pinned, and required":                   {required, []Way{{}}, two(), "", "device gpu.example.com/d0 of claim ns/c (request r) is on NUMA node 0 (resource.kubernetes.io/numaNode), and the node pins no container that uses it"},
		"not pinned, required, and a neutral device": {required, []Way{{}}, sliceOf(gpu("d0", 0), gpu("n", -1)), "n", ""},
		"a NUMA node that the machine lacks":         {required, at(0), sliceOf(gpu("d7", 7)), "", "device gpu.example.com/d7 of claim ns/c (request r) is on a NUMA node that the machine does not have (resource.kubernetes.io/numaNode: 7: want a NUMA node of the machine)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.mode, c.ways, c.slice, claim("c", "r"))
			if len(c.ways) > 1 {
				w.berth.decided = c.ways[len(c.ways)-1].Lying
			}
			_, status := w.place(podWith("c"))
			w.want(name, status, c.why)
			if c.why != "" && status.Code() != fwk.UnschedulableAndUnresolvable {
				t.Errorf("%s: %v: others would be evicted for nothing", name, status.Code())
			}
			if got := w.has("c"); got != c.has {
				t.Errorf("%s: the claim has %q, want %q", name, got, c.has)
			}
			want := ""
			if way := c.ways[len(c.ways)-1]; way.Near != nil && c.why == "" {
				want = way.Near.Settled(way.Lying).Key()
			}
			if got := w.berth.kept.Key(); got != want {
				t.Errorf("%s: Berth is to keep the pod near %s, want %s", name, got, want)
			}
		})
	}
}

// follows returns devices for containers in the form of Berth's decision.
func follows(containers ...string) *placement.Claimed {
	c := &placement.Claimed{}
	for _, name := range containers {
		c.Requests = append(c.Requests, placement.ClaimRequest{Users: []string{name}, N: 1})
	}
	return c
}

func minusOne(name string) resourceapi.Device {
	d := gpu(name, 0)
	d.Attributes[claims.StandardNUMANode] = resourceapi.DeviceAttribute{IntValue: new(int64(-1))}
	return d
}

// TestWaysAreBounded: the number of calls of the original plugin for one node is limited.
func TestWaysAreBounded(t *testing.T) {
	t.Parallel()
	var ways []Way
	for range 3 * MaxWays {
		ways = append(ways, at(1)...)
	}
	w := newWorld(t, required, ways, sliceOf(gpu("d0", 0)), claim("c", "r"))
	_, status := w.attempt(podWith("c"))
	w.want("too many ways", status, "Berth tried only 8 of the possible NUMA placements on this node")
	if w.berth.asked > MaxWays+1 {
		t.Errorf("%d ways were asked for", w.berth.asked)
	}
}

// TestCases has every kind of claim.
func TestCases(t *testing.T) {
	t.Parallel()
	first := func(names ...string) *resourceapi.ResourceClaim { // of alternatives
		c := claim("c", "r")
		c.Spec.Devices.Requests[0].Exactly = nil
		for _, name := range names {
			c.Spec.Devices.Requests[0].FirstAvailable = append(c.Spec.Devices.Requests[0].FirstAvailable, resourceapi.DeviceSubRequest{
				Name: name, DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
				Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.attributes["gpu.example.com"].model == "` + name + `"`}}},
			})
		}
		return c
	}
	model := func(d resourceapi.Device, name string) resourceapi.Device {
		d.Attributes["model"] = resourceapi.DeviceAttribute{StringValue: &name}
		return d
	}
	all := claim("c", "r")
	all.Spec.Devices.Requests[0].Exactly.AllocationMode, all.Spec.Devices.Requests[0].Exactly.Count = resourceapi.DeviceAllocationModeAll, 0
	part := func(name string, numa int64, of string) resourceapi.Device {
		d := gpu(name, numa)
		d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: of, Counters: map[string]resourceapi.Counter{"slices": {Value: resource.MustParse("1")}}}}
		return d
	}
	counters := sliceOf()
	counters.Name, counters.UID = "counters", "counters"
	for _, name := range []string{"g0", "g1"} {
		counters.Spec.SharedCounters = append(counters.Spec.SharedCounters, resourceapi.CounterSet{Name: name, Counters: map[string]resourceapi.Counter{"slices": {Value: resource.MustParse("2")}}})
	}
	counters.Spec.Pool.ResourceSliceCount = 2
	parted := func(devices ...resourceapi.Device) *resourceapi.ResourceSlice {
		s := sliceOf(devices...)
		s.Spec.Pool.ResourceSliceCount = 2
		return s
	}
	attached := sliceOf(gpu("net", 0))
	attached.Name, attached.UID, attached.Spec.NodeName, attached.Spec.AllNodes, attached.Spec.Pool.Name = "net", "net", nil, new(true), "net"
	shares := func(name string, numa int64) resourceapi.Device {
		d := gpu(name, numa)
		d.AllowMultipleAllocations = new(true)
		d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("10Gi")}}
		return d
	}
	some := claim("c", "r")
	some.Spec.Devices.Requests[0].Exactly.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("4Gi")}}
	sharing := func() *corev1.Pod { // two containers with the same claim
		pod := podWith("c")
		other := *pod.Spec.Containers[0].DeepCopy()
		other.Name = "other"
		pod.Spec.Containers = append(pod.Spec.Containers, other)
		return pod
	}
	apart := sharing() // each container uses one request of the claim
	apart.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "c", Request: "r1"}}
	apart.Spec.Containers[1].Resources.Claims = []corev1.ResourceClaim{{Name: "c", Request: "r2"}}
	sharedPart := func(name string, numa int64, of string) resourceapi.Device {
		d := shares(name, numa)
		d.ConsumesCounters = part(name, numa, of).ConsumesCounters
		return d
	}
	hasShare := allocatedTo(claim("other", "r"), "s0", "other")
	hasShare.Status.Allocation.Devices.Results[0].ShareID = new(types.UID("share"))
	hasShare.Status.Allocation.Devices.Results[0].ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("4Gi")}
	ofTwoNodes := func(node string, devices ...resourceapi.Device) *resourceapi.ResourceSlice {
		s := parted(devices...)
		s.Name, s.UID, s.Spec.NodeName, s.Spec.Pool.Name = node, types.UID(node), &node, "fabric"
		return s
	}
	for name, c := range map[string]struct {
		mode    claims.Mode
		ways    []Way
		pod     *corev1.Pod
		objects []runtime.Object
		has     string // in claim c
		why     string
	}{
		"several requests":                      {required, at(1), nil, []runtime.Object{sliceOf(gpu("a", 0), gpu("b", 1), gpu("c", 1)), claim("c", "r1", "r2")}, "b c", ""},
		"several requests, one device":          {required, at(1), nil, []runtime.Object{two(), claim("c", "r1", "r2")}, "", "device gpu.example.com/d0 of claim ns/c (request r1) is on NUMA node 0"},
		"several claims":                        {required, at(1), podWith("c", "e"), []runtime.Object{sliceOf(gpu("a", 0), gpu("b", 1), gpu("c", 1)), claim("c", "r"), claim("e", "r")}, "b", ""},
		"the second alternative is near":        {required, at(1), nil, []runtime.Object{sliceOf(model(gpu("d0", 0), "big"), model(gpu("d1", 1), "small")), first("big", "small")}, "d1", ""},
		"the first alternative, if it is":       {required, at(0), nil, []runtime.Object{sliceOf(model(gpu("d0", 0), "big"), model(gpu("d1", 0), "small")), first("big", "small")}, "d0", ""},
		"all devices, aligned":                  {required, at(0, 1), nil, []runtime.Object{two(), all}, "d0 d1", ""},
		"all devices, one is elsewhere":         {required, at(0), nil, []runtime.Object{two(), all}, "", "device gpu.example.com/d1 of claim ns/c (request r) is on NUMA node 1"},
		"all devices, near":                     {near, at(0), nil, []runtime.Object{two(), all}, "d0 d1", ""},
		"a partition has its parent's node":     {required, at(1), nil, []runtime.Object{counters, parted(part("p0", -1, "g0"), part("w0", 0, "g0"), part("p1", -1, "g1"), part("w1", 1, "g1"))}, "p1", ""},
		"a network-attached device":             {required, at(1), nil, []runtime.Object{sliceOf(gpu("d0", 0)), attached}, "net", ""},
		"consumable capacity":                   {required, at(1), nil, []runtime.Object{sliceOf(shares("s0", 0), shares("s1", 1)), some}, "s1", ""},
		"a part of a device elsewhere is taken": {required, at(1), nil, []runtime.Object{counters, parted(sharedPart("s0", 0, "g0"), sharedPart("s1", 1, "g1")), hasShare, some}, "s1", ""},
		"containers with a request each":        {required, []Way{{Lying: Lying{"main": set(0), "other": set(1)}}}, apart, []runtime.Object{two(), claim("c", "r1", "r2")}, "d0 d1", ""},
		"a pool of several nodes":               {required, at(1), nil, []runtime.Object{ofTwoNodes(node, gpu("d0", 0), gpu("d1", 1)), ofTwoNodes("n2", gpu("d2", 1))}, "d1", ""},
		"containers that share, together":       {required, []Way{{Lying: Lying{"main": set(1), "other": set(0, 1)}}}, sharing(), []runtime.Object{two()}, "d1", ""},
		"containers that share, apart":          {required, []Way{{Lying: Lying{"main": set(1), "other": set(0)}}}, sharing(), []runtime.Object{two()}, "", "the containers that use claim ns/c have no NUMA node in common"},
		"containers that share, apart, near":    {near, []Way{{Lying: Lying{"main": set(1), "other": set(0)}}}, sharing(), []runtime.Object{two()}, "d0", ""},
		"a container that shares is unpinned":   {required, []Way{{Lying: Lying{"main": set(1)}}}, sharing(), []runtime.Object{two()}, "d1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod, hasClaim := c.pod, false
			if pod == nil {
				pod = podWith("c")
			}
			for _, o := range c.objects {
				if claim, is := o.(*resourceapi.ResourceClaim); is {
					hasClaim = hasClaim || claim.Name == "c"
				}
			}
			if !hasClaim {
				c.objects = append(c.objects, claim("c", "r"))
			}
			w := newWorld(t, c.mode, c.ways, c.objects...)
			_, status := w.place(pod)
			w.want(name, status, c.why)
			if got := w.has("c"); got != c.has {
				t.Errorf("%s: the claim has %q, want %q", name, got, c.has)
			}
		})
	}
}

// TestCountersStayWhole: devices that are hidden from the allocator still consume counters.
// Otherwise a parent device would be allocated twice.
func TestCountersStayWhole(t *testing.T) {
	t.Parallel()
	part := func(name string, numa int64) resourceapi.Device {
		d := gpu(name, numa)
		d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "power", Counters: map[string]resourceapi.Counter{"watts": {Value: resource.MustParse("1")}}}}
		return d
	}
	counters := sliceOf()
	counters.Name, counters.UID = "counters", "counters"
	counters.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "power", Counters: map[string]resourceapi.Counter{"watts": {Value: resource.MustParse("1")}}}}
	devices := sliceOf(part("d0", 0), part("d1", 1))
	counters.Spec.Pool.ResourceSliceCount, devices.Spec.Pool.ResourceSliceCount = 2, 2
	w := newWorld(t, required, at(1), counters, devices, claim("c", "r"), allocatedTo(claim("other", "r"), "d0", "other"))
	_, status := w.attempt(podWith("c"))
	w.want("all of the power is taken by a device on the other NUMA node", status, "cannot allocate all claims")
}

// TestReserveJudges: Berth's decision in Reserve may differ from its prediction. The pod then does
// not try the node again until it changes.
func TestReserveJudges(t *testing.T) {
	t.Parallel()
	pod := podWith("c")
	w := newWorld(t, required, at(1), two(), claim("c", "r"))
	w.berth.decided = Lying{"main": set(0)}
	_, status := w.place(pod)
	const why = "device gpu.example.com/d1 of claim ns/c (request r) is on NUMA node 1 (resource.kubernetes.io/numaNode), but the CPUs and memory of container main are on NUMA node 0"
	w.want("refused", status, why)
	if w.berth.refused != 1 {
		t.Error("Berth is not told")
	}
	if got := w.has("c"); got != "" {
		t.Errorf("the claim still has %s", got)
	}
	_, status = w.attempt(pod)
	w.want("left out", status, why)
	other := podWith("c")
	other.UID = "other"
	_, status = w.attempt(other)
	w.want("not for another pod", status, "")
	w.berth.free = 7
	_, status = w.attempt(pod)
	w.want("what is free there has changed", status, "")
	w.berth.free = 0
	w.berth.decided = Lying{"main": set(0)}
	_, status = w.place(pod)
	w.want("refused once more", status, why)
	w.clock.SetTime(w.clock.Now().Add(2 * time.Minute))
	_, status = w.attempt(pod)
	w.want("after a while", status, "")
	_, status = w.place(pod)
	w.want("refused a third time", status, why)
	s := two()
	s.ResourceVersion, s.Spec.Devices = "2", append(s.Spec.Devices, gpu("d2", 0))
	if _, err := w.client.ResourceV1().ResourceSlices().Update(w.ctx, s, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.until("the slice is seen", func() bool {
		list, err := w.handle.SharedDRAManager().ResourceSlices().ListWithDeviceTaintRules()
		return err == nil && len(list) == 1 && len(list[0].Spec.Devices) == 3
	})
	_, status = w.attempt(pod)
	w.want("its slices have changed", status, "")
}

// TestNearIsNotRefused, whatever Reserve finds, but is counted.
func TestNearIsNotRefused(t *testing.T) {
	t.Parallel()
	pod := podWith("c")
	w := newWorld(t, near, at(1), two(), claim("c", "r"), pod)
	w.berth.decided = Lying{"main": set(0)}
	state, status := w.place(pod)
	w.want("near", status, "")
	w.want("written", w.PreBind(w.ctx, state, pod, node), "")
	w.PostBind(w.ctx, state, pod, node)
	if got := strings.Join(w.berth.bound, ", "); got != "near misaligned" {
		t.Errorf("counted as %q", got)
	}
}

func TestExclusionsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, required, nil)
	for i := range 3 * maxExcluded {
		w.excluded.add("pod", string(rune(i)), version{}, "why")
	}
	if n := w.excluded.by.Len(); n > maxExcluded {
		t.Errorf("%d exclusions are remembered", n)
	}
}

// TestAllocatedEarlier: Filter checks a claim that has devices already, and PostFilter deallocates
// it if no other pod uses it.
func TestAllocatedEarlier(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode   claims.Mode
		claim  *resourceapi.ResourceClaim
		why    string
		stored string
	}{
		"aligned":               {required, allocatedTo(claim("c", "r"), "d1"), "", "d1, 0"},
		"misaligned":            {required, allocatedTo(claim("c", "r"), "d0"), "d0 of claim ns/c (request r) is on NUMA node 0", "none, 0"},
		"misaligned, the pod's": {required, allocatedTo(claim("c", "r"), "d0", "p"), "is on NUMA node 0", "none, 0"},
		"misaligned, near":      {near, allocatedTo(claim("c", "r"), "d0"), "", "d0, 0"},
		"its driver is gone":    {required, allocatedTo(claim("c", "r"), "gone"), "device gpu.example.com/gone of claim ns/c (request r) is in no ResourceSlice of the node", "none, 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.mode, at(1), two(), c.claim)
			pod := podWith("c")
			state, status := w.attempt(pod)
			w.want(name, status, c.why)
			w.PostFilter(w.ctx, state, pod, nil)
			if got := w.stored("c"); got != c.stored {
				t.Errorf("%s: the claim has %s, want %s", name, got, c.stored)
			}
		})
	}
}

// TestPostFilterOfAPodThatWasNotSeen: another plugin refused the pod in PreFilter. This plugin adds
// no error to the pod's event.
func TestPostFilterOfAPodThatWasNotSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, required, at(1), two(), claim("c", "r"))
	if _, status := w.PostFilter(w.ctx, framework.NewCycleState(), podWith("c"), nil); status.Code() != fwk.Unschedulable || status.Message() != "" {
		t.Errorf("PostFilter answers %v", status)
	}
}

// TestAnotherPodsClaimStays, if that pod began to use it after the attempt began.
func TestAnotherPodsClaimStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, required, at(1), two(), allocatedTo(claim("c", "r"), "d0"))
	pod := podWith("c")
	state, status := w.attempt(pod)
	w.want("misaligned", status, "is on NUMA node 0")
	if _, err := w.client.ResourceV1().ResourceClaims("ns").UpdateStatus(w.ctx, allocatedTo(claim("c", "r"), "d0", "other"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.PostFilter(w.ctx, state, pod, nil)
	if got := w.stored("c"); got != "d0, 1" {
		t.Errorf("the other pod's claim has %s", got)
	}
}

func TestRefusedByName(t *testing.T) {
	t.Parallel()
	admin := claim("c", "r")
	admin.Spec.Devices.Requests[0].Exactly.AdminAccess = new(true)
	group := claim("c", "r")
	group.OwnerReferences = []metav1.OwnerReference{{Kind: "PodGroup", Name: "g", Controller: new(true)}}
	shared := allocatedTo(claim("c", "r"), "d1", "other")
	for want, c := range map[string]*resourceapi.ResourceClaim{
		"claim ns/c: request r has adminAccess": admin, "claim ns/c belongs to PodGroup g": group, "claim ns/c is shared with pod other": shared,
	} {
		for _, mode := range []claims.Mode{claims.Free, near, required} {
			w := newWorld(t, mode, at(1), two(), c)
			_, status := w.PreFilter(w.ctx, framework.NewCycleState(), podWith("c"), nil)
			if mode == claims.Free {
				w.want("no annotation", status, "")
				continue
			}
			w.want(mode.String(), status, "Berth: berth.dev/claims: "+mode.String()+": "+want)
			if status.Code() != fwk.UnschedulableAndUnresolvable {
				t.Errorf("%s: %v", want, status.Code())
			}
		}
	}
}

func TestUnreadable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, required, at(1), two(), claim("c", "r"))
	w.berth.modeErr = errors.New(`Pod ns/p: metadata.annotations[berth.dev/claims]: "x": want near or required`)
	_, status := w.attempt(podWith("c"))
	w.want("a wrong value", status, "Berth cannot read the pod: Pod ns/p: metadata.annotations[berth.dev/claims]")
	_, status = w.attempt(podWith("missing"))
	if status.IsSuccess() {
		t.Error("a pod without its claim is placed")
	}
}

// TestUnforeseen: if it is unknown where the CPUs will be, a pod with required waits, and one with
// near does not.
func TestUnforeseen(t *testing.T) {
	t.Parallel()
	for mode, why := range map[claims.Mode]string{near: "", required: "\"berth.dev/claims: required\": too early"} {
		w := newWorld(t, mode, nil, two(), claim("c", "r"))
		w.berth.known, w.berth.why = Unforeseen, "too early"
		_, status := w.attempt(podWith("c"))
		w.want(mode.String(), status, why)
		if waits := status.Code() == fwk.Pending; waits != (mode == required) {
			t.Errorf("%v: %v", mode, status.Code())
		}
		w.berth.known = Unasked
		_, status = w.attempt(podWith("c"))
		w.want("a dry run", status, "")
	}
}

// TestUnreserveGivesBack what PreBind has written, in one write, unless the pod may be bound.
func TestUnreserveGivesBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		doubt, gone, sharer bool
		stored              string
	}{
		"Bind was refused":                       {false, false, false, "none, 0"},
		"the Binding is in doubt":                {true, false, false, "d1, 0"},
		"in doubt, and the pod is gone":          {true, true, false, "none, 0"},
		"in doubt, and another has its name":     {true, true, false, "none, 0"},
		"another pod has come to use it":         {false, false, true, "d1, 1"},
		"another pod uses it, and this one left": {true, true, true, "d1, 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := podWith("c")
			w := newWorld(t, required, at(1), two(), claim("c", "r"), pod)
			w.berth.decided = Lying{"main": set(1)}
			state, status := w.place(pod)
			w.want("reserved", status, "")
			w.want("written", w.PreBind(w.ctx, state, pod, node), "")
			if got := w.stored("c"); got != "d1, 1" {
				t.Fatalf("PreBind has written %s", got)
			}
			if c.gone {
				if err := w.client.CoreV1().Pods("ns").Delete(w.ctx, "p", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if strings.HasSuffix(name, "another has its name") {
				other := podWith()
				other.UID = "other"
				if _, err := w.client.CoreV1().Pods("ns").Create(w.ctx, other, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if c.sharer {
				if _, err := w.client.ResourceV1().ResourceClaims("ns").UpdateStatus(w.ctx, allocatedTo(claim("c", "r"), "d1", "p", "other"), metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			w.berth.doubt = c.doubt
			w.client.ClearActions()
			cancelled, cancel := context.WithCancel(w.ctx) // as if Bind ran out of time
			cancel()
			w.Unreserve(cancelled, state, pod, node)
			if got := w.stored("c"); got != c.stored {
				t.Errorf("the claim has %s, want %s", got, c.stored)
			}
			for _, a := range w.client.Actions() {
				if c.stored != "none, 0" {
					break // DynamicResources only removes the reservation
				}
				if a.GetVerb() == "patch" || a.GetVerb() == "update" {
					if a.GetVerb() != "update" || a.GetSubresource() != "status" {
						t.Errorf("the first write is a %s of %s", a.GetVerb(), a.GetSubresource())
					}
					break
				}
			}
		})
	}
}

// TestCheckBeforeBind: the final decision in Bind counts.
func TestCheckBeforeBind(t *testing.T) {
	t.Parallel()
	pod := podWith("c")
	w := newWorld(t, required, at(1), two(), claim("c", "r"), pod)
	w.berth.decided = Lying{"main": set(1)}
	state, status := w.place(pod)
	w.want("reserved", status, "")
	w.want("written", w.PreBind(w.ctx, state, pod, node), "")
	if err := w.Check(w.ctx, state, pod, node); err != nil {
		t.Errorf("aligned: %v", err)
	}
	w.PostBind(w.ctx, state, pod, node)
	w.PostBind(w.ctx, framework.NewCycleState(), pod, node) // of a pod without the annotation
	if got := strings.Join(w.berth.bound, ", "); got != "required aligned" {
		t.Errorf("counted as %q", got)
	}
	w.berth.decided = Lying{"main": set(0)}
	if err := w.Check(w.ctx, state, pod, node); err == nil || !strings.Contains(err.Error(), "is on NUMA node 1") {
		t.Errorf("the CPUs have moved: %v", err)
	}
	w.berth.doubt = true // a Binding that was never sent is not in doubt
	w.Unreserve(w.ctx, state, pod, node)
	if got := w.stored("c"); got != "none, 0" {
		t.Errorf("the claim has %s", got)
	}
}

// TestADeviceThatBecomesReady: Berth is told before the wait begins, whichever annotation the pod
// has.
func TestADeviceThatBecomesReady(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode       claims.Mode
		pod        *corev1.Pod
		conditions []string
		told       int
	}{
		"a pod that requires":                {required, podWith("c"), []string{"ready"}, 1},
		"a pod that asks nothing":            {claims.Free, podWith("c"), []string{"ready"}, 1},
		"a device that is ready now":         {required, podWith("c"), nil, 0},
		"an extended resource":               {required, extending(), []string{"ready"}, 1},
		"an extended resource, not asking":   {claims.Free, extending(), []string{"ready"}, 1},
		"an extended resource that is there": {required, extending(), nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod, d := c.pod, gpu("d1", 1)
			d.BindingConditions = c.conditions
			w := newWorld(t, c.mode, at(1), sliceOf(d), claim("c", "r"), pod)
			w.berth.decided = Lying{"main": set(1)}
			state, status := w.place(pod)
			w.want("reserved", status, "")
			ctx, cancel := context.WithCancel(w.ctx)
			defer cancel()
			told := 0
			w.berth.waits = func() { told++; cancel() }
			if status := w.PreBind(ctx, state, pod, node); told != c.told || status.IsSuccess() != (c.told == 0) {
				t.Errorf("told %d times, %v", told, status)
			}
		})
	}
}

// extending returns a pod that requests a GPU as an extended resource.
func extending() *corev1.Pod {
	pod := podWith()
	one := corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: one, Limits: one}
	return pod
}

// TestExtendedResources: their devices are chosen and checked before there is a claim.
func TestExtendedResources(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode    claims.Mode
		ways    []Way
		decided Lying
		d       int64
		why     string
	}{
		"near its CPUs":                 {required, at(1), nil, 1, ""},
		"there is none":                 {required, at(1), nil, 0, "device gpu.example.com/far of claim for extended resources (request container-0-request-0) is on NUMA node 0"},
		"Reserve has decided otherwise": {required, at(1), Lying{"main": set(0)}, 1, "device gpu.example.com/d of claim for extended resources (request container-0-request-0) is on NUMA node 1"},
		"near, decided otherwise":       {near, at(1), Lying{"main": set(0)}, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := extending()
			w := newWorld(t, c.mode, c.ways, sliceOf(gpu("far", 0), gpu("d", c.d)), pod)
			w.berth.decided = c.decided
			_, status := w.place(pod)
			w.want(name, status, c.why)
		})
	}
}

// TestADevicePluginOffersIt: in this case the DRA driver does not provide the resource on the node,
// and there is no claim.
func TestADevicePluginOffersIt(t *testing.T) {
	t.Parallel()
	pod := extending()
	w := newWorld(t, required, at(1), two(), pod)
	state, status := w.attempt(pod)
	w.want("the driver offers it", status, "")
	if w.on(attemptOf(state), pod, w.node).Extended == nil {
		t.Error("no claim is expected of the driver")
	}
	there := w.node.Node().DeepCopy()
	there.Status.Allocatable["example.com/gpu"] = resource.MustParse("1")
	info := framework.NewNodeInfo()
	info.SetNode(there)
	if c := w.on(attemptOf(state), pod, info).Extended; c != nil {
		t.Errorf("claim %+v is expected", c.Spec)
	}
}

// TestTheClaimForExtendedResources: the claim is created in PreBind. Its devices are then checked
// again, although no cache has the claim, and it is deleted if they are refused.
func TestTheClaimForExtendedResources(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode claims.Mode
		now  topology.NUMASet
		why  string
	}{
		"the CPUs stay":           {required, set(1), ""},
		"the CPUs have moved":     {required, set(0), "\"berth.dev/claims: required\": device gpu.example.com/d of claim for extended resources (request container-0-request-0) is on NUMA node 1"},
		"near, the CPUs moved":    {near, set(0), ""},
		"said nothing, and moved": {claims.Free, set(0), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := extending()
			w := newWorld(t, c.mode, at(1), sliceOf(gpu("d", 1)), pod)
			w.client.PrependReactor("create", "resourceclaims", func(a clienttesting.Action) (bool, runtime.Object, error) {
				made := a.(clienttesting.CreateAction).GetObject().(*resourceapi.ResourceClaim)
				made.Name, made.UID = made.GenerateName+"x", "special"
				return false, nil, nil
			})
			w.berth.decided = Lying{"main": set(1)}
			state, status := w.place(pod)
			w.want("reserved", status, "")
			w.berth.decided = Lying{"main": c.now}
			w.want(name, w.PreBind(w.ctx, state, pod, node), c.why)
			if c.why == "" {
				return
			}
			w.Unreserve(w.ctx, state, pod, node)
			list, err := w.client.ResourceV1().ResourceClaims("ns").List(w.ctx, metav1.ListOptions{})
			if err != nil || len(list.Items) > 0 {
				t.Errorf("%d claims are left, %v", len(list.Items), err)
			}
		})
	}
}

// TestPodsThatSayNothing are passed to the original plugin with the same calls.
func TestPodsThatSayNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, claims.Free, nil, two(), claim("c", "r"))
	w.berth.known = Unforeseen
	state, status := w.place(podWith("c"))
	w.want("a claim without the annotation", status, "")
	if attemptOf(state) != nil {
		t.Error("something is kept of it")
	}
	if _, status := w.PreFilter(w.ctx, framework.NewCycleState(), &corev1.Pod{}, nil); status.Code() != fwk.Skip {
		t.Errorf("a pod without claims: %v", status)
	}
}

// TestNearerNodesAreBetter: with near, nodes whose devices are near get a higher score.
func TestNearerNodesAreBetter(t *testing.T) {
	t.Parallel()
	for devices, want := range map[*resourceapi.ResourceSlice]int64{two(): nearer, sliceOf(gpu("d0", 0)): 0} {
		w := newWorld(t, near, at(1), devices, claim("c", "r"))
		state, status := w.attempt(podWith("c"))
		w.want("near", status, "")
		if got, status := w.Score(w.ctx, state, podWith("c"), w.node); got != want || !status.IsSuccess() {
			t.Errorf("%d, %v; want %d", got, status, want)
		}
	}
}

// TestALeavingPodWakes pods that need its CPUs near their devices.
func TestALeavingPodWakes(t *testing.T) {
	t.Parallel()
	for mode, want := range map[claims.Mode]fwk.QueueingHint{claims.Free: fwk.QueueSkip, required: fwk.Queue} {
		w := newWorld(t, mode, nil, two())
		all, err := w.EventsToRegister(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		left := podWith()
		left.Spec.NodeName = node
		asked := 0
		for _, e := range all {
			if e.Event.Resource == fwk.Pod && e.Event.ActionType == fwk.Delete {
				asked++
				if got, err := e.QueueingHintFn(klog.Background(), podWith("c"), left, nil); got != want || err != nil {
					t.Errorf("%v: %v, %v", mode, got, err)
				}
			}
		}
		if asked != 1 {
			t.Errorf("asked %d times", asked)
		}
	}
}

// TestExtendedAsTheOriginal: the claim that Berth expects equals the claim of the original plugin.
func TestExtendedAsTheOriginal(t *testing.T) {
	t.Parallel()
	always := corev1.ContainerRestartPolicyAlways
	const gpus, implicit = corev1.ResourceName("example.com/gpu"), corev1.ResourceName(resourceapi.ResourceDeviceClassPrefix + class)
	of := func(name string, policy *corev1.ContainerRestartPolicy, amounts map[corev1.ResourceName]string) corev1.Container {
		list := corev1.ResourceList{"cpu": resource.MustParse("1")}
		for r, n := range amounts {
			list[r] = resource.MustParse(n)
		}
		return corev1.Container{Name: name, RestartPolicy: policy, Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}
	}
	one, two, three := map[corev1.ResourceName]string{gpus: "1"}, map[corev1.ResourceName]string{gpus: "2"}, map[corev1.ResourceName]string{gpus: "3"}
	for name, c := range map[string]struct{ inits, containers []corev1.Container }{
		"one container":                {nil, []corev1.Container{of("a", nil, one)}},
		"two, and one without":         {nil, []corev1.Container{of("a", nil, one), of("b", nil, nil), of("c", nil, two)}},
		"by the name of the class":     {nil, []corev1.Container{of("a", nil, map[corev1.ResourceName]string{implicit: "1", gpus: "1", "a.b/c": "0"})}},
		"an init container with fewer": {[]corev1.Container{of("i", nil, one)}, []corev1.Container{of("a", nil, two)}},
		"an init container with more":  {[]corev1.Container{of("i", nil, three)}, []corev1.Container{of("a", nil, one), of("b", nil, one)}},
		"several init containers":      {[]corev1.Container{of("i", nil, two), of("k", nil, three), of("l", nil, three)}, []corev1.Container{of("a", nil, one)}},
		"a sidecar before and after":   {[]corev1.Container{of("i", nil, two), of("s", &always, one), of("k", nil, two)}, []corev1.Container{of("a", nil, one)}},
		"without a limit":              {nil, []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{implicit: resource.MustParse("1")}}}}},
		"only an init container":       {[]corev1.Container{of("i", nil, one)}, []corev1.Container{of("a", nil, nil)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := podWith()
			pod.Spec.InitContainers, pod.Spec.Containers = c.inits, c.containers
			var devices []resourceapi.Device
			for i := range 6 {
				devices = append(devices, gpu(string(rune('a'+i)), 1))
			}
			lying := Lying{}
			for _, c := range append(c.inits, c.containers...) {
				lying[c.Name] = set(1)
			}
			w := newWorld(t, required, []Way{{Lying: lying}}, sliceOf(devices...))
			state, status := w.place(pod)
			w.want(name, status, "")
			made := extendedOf(state)
			got := w.on(attemptOf(state), pod, w.node).Extended
			if made == nil || got == nil || !reflect.DeepEqual(got.Spec, made.Spec) {
				t.Errorf("%+v, want %+v", got, made)
			}
		})
	}
}

func TestArgs(t *testing.T) {
	for text, want := range map[string]string{"": "", "filterTimeout: 3s": "", "filterTimeout: soon": "time:", "bindTimeout: 3s": "unknown field", "filterTimeout: 1s\nfilterTimeout: 2s": "already set"} {
		args, err := parseArgs(&runtime.Unknown{Raw: []byte(text)})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		if text == "filterTimeout: 3s" && args.FilterTimeout.Duration != 3*time.Second {
			t.Errorf("%q: %v", text, args.FilterTimeout)
		}
	}
}

// TestOnlyPodsThatMayClaimAreScored: a pod without claims costs nothing on any node.
func TestOnlyPodsThatMayClaimAreScored(t *testing.T) {
	ordinary, claiming, extended := &corev1.Pod{}, &corev1.Pod{}, &corev1.Pod{}
	claiming.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
	extended.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}}}}
	for _, test := range []struct {
		what string
		pod  *corev1.Pod
		skip bool
	}{{"ordinary", ordinary, true}, {"with a claim", claiming, false}, {"with an extended resource", extended, false}} {
		if got := (&Plugin{}).PreScore(t.Context(), nil, test.pod, nil); got.IsSkip() != test.skip {
			t.Errorf("a pod %s: %v, want skipped %t", test.what, got, test.skip)
		}
	}
}
