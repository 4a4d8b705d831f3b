package steer

import (
	"iter"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology"
)

// decider is a node on which Berth decides.
type decider struct {
	state   *placement.State
	machine *topology.Machine
	request placement.Request
	asked   int
}

// lie returns on which NUMA nodes the pod would be placed next to the devices; false if it cannot
// be placed.
func (d *decider) lie(near *placement.Claimed) (Lying, bool) {
	request, decision := d.request, placement.Decision{}
	request.Rules.Claimed = near
	v := placement.Decide(d.state, &request, &decision)
	return claims.NUMAOf(&decision, d.machine), v.OK()
}

func (d *decider) ways(stock func() *placement.Claimed) iter.Seq[Way] {
	return func(yield func(Way) bool) {
		near := stock()
		for lying, ok := d.lie(near); ok && near != nil; lying, ok = d.lie(near) {
			if d.asked++; !yield(Way{Lying: lying, Near: near}) {
				return
			}
		}
	}
}

// TestCPUsFollowDevices: the search finds devices on NUMA nodes where the pod has room, with the
// first attempt if the numbers of devices there suffice.
func TestCPUsFollowDevices(t *testing.T) {
	t.Parallel()
	const model, root = "model", claims.StandardPCIeRoot
	one := func(name, kind string, numa int64, at ...string) resourceapi.Device {
		d := gpu(name, numa)
		d.Attributes[model] = resourceapi.DeviceAttribute{StringValue: &kind}
		if len(at) > 0 {
			d.Attributes[root] = resourceapi.DeviceAttribute{StringValue: &at[0]}
		}
		return d
	}
	wanting := func(name string, kinds ...string) *resourceapi.ResourceClaim {
		c := claim(name, kinds...)
		for i, kind := range kinds {
			c.Spec.Devices.Requests[i].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
				Expression: `device.attributes["` + driver + `"].model == "` + kind + `"`}}}
		}
		return c
	}
	oneRoot := wanting("c", "gpu", "nic")
	oneRoot.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: new(resourceapi.FullyQualifiedName(root))}}
	all := claim("c", "r")
	all.Spec.Devices.Requests[0].Exactly.AllocationMode, all.Spec.Devices.Requests[0].Exactly.Count = resourceapi.DeviceAllocationModeAll, 0
	drawing := func(name string, numa int64, power string) resourceapi.Device {
		d := one(name, "gpu", numa)
		d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: power, Counters: map[string]resourceapi.Counter{"watts": {Value: resource.MustParse("1")}}}}
		return d
	}
	counters := sliceOf()
	counters.Name, counters.UID, counters.Spec.Pool.ResourceSliceCount = "counters", "counters", 2
	for name, watts := range map[string]string{"p0": "1", "p1": "2"} {
		counters.Spec.SharedCounters = append(counters.Spec.SharedCounters, resourceapi.CounterSet{Name: name, Counters: map[string]resourceapi.Counter{"watts": {Value: resource.MustParse(watts)}}})
	}
	drawn := sliceOf(drawing("d0", 0, "p0"), drawing("d1", 0, "p0"), drawing("d2", 1, "p1"), drawing("d3", 1, "p1"))
	drawn.Spec.Pool.ResourceSliceCount = 2
	apart := podWith("c", "e") // each claim has its own container
	other := *apart.Spec.Containers[0].DeepCopy()
	other.Name, other.Resources.Claims = "other", other.Resources.Claims[1:]
	apart.Spec.Containers[0].Resources.Claims = apart.Spec.Containers[0].Resources.Claims[:1]
	apart.Spec.Containers = append(apart.Spec.Containers, other)
	extended := extending()
	extended.Spec.Containers[0].Resources.Limits["example.com/gpu"] = resource.MustParse("2") // and requests, which are the same map
	single := placement.Rules{Policy: placement.PolicySingleNUMANode}
	for name, c := range map[string]struct {
		pod     *corev1.Pod // nil: a pod that uses claim c
		rules   placement.Rules
		milli   int64 // of each container
		objects []runtime.Object
		has     string // in claim c
		ways    int
		why     string
	}{
		"GPU and NIC on one NUMA node":                     {nil, single, 2000, []runtime.Object{sliceOf(one("g0", "gpu", 0), one("g1", "gpu", 1), one("n1", "nic", 1)), wanting("c", "gpu", "nic")}, "g1 n1", 1, ""},
		"GPU and NIC on one PCI root":                      {nil, single, 2000, []runtime.Object{sliceOf(one("g0", "gpu", 0, "a"), one("n0", "nic", 0, "b"), one("g1", "gpu", 1, "c"), one("g2", "gpu", 1, "d"), one("n2", "nic", 1, "d")), oneRoot}, "g2 n2", 1, ""},
		"no PCI root has both":                             {nil, single, 2000, []runtime.Object{sliceOf(one("g0", "gpu", 0, "a"), one("n0", "nic", 0, "b")), oneRoot}, "", 0, "cannot allocate all claims"},
		"a device on each":                                 {nil, placement.Rules{}, 2000, []runtime.Object{sliceOf(one("g0", "gpu", 0), one("n1", "nic", 1)), wanting("c", "gpu", "nic")}, "g0 n1", 1, ""},
		"a device on each, and one NUMA node is asked for": {nil, single, 2000, []runtime.Object{sliceOf(one("g0", "gpu", 0), one("n1", "nic", 1)), wanting("c", "gpu", "nic")}, "", 0, "Berth finds no NUMA nodes"},
		"the near one is taken":                            {nil, single, 2000, []runtime.Object{two(), claim("c", "r"), allocatedTo(claim("e", "r"), "d0", "other")}, "d1", 1, ""},
		"it has its device already":                        {nil, single, 2000, []runtime.Object{two(), allocatedTo(claim("c", "r"), "d1")}, "d1", 1, ""},
		"all devices":                                      {nil, placement.Rules{}, 2000, []runtime.Object{two(), all}, "d0 d1", 1, ""},
		"the allocator knows better":                       {nil, single, 2000, []runtime.Object{counters, drawn, claim("c", "r1", "r2")}, "d2 d3", 2, ""},
		"each container has its own":                       {apart, single, 6000, []runtime.Object{sliceOf(one("n", "nic", 0), one("g", "gpu", 1)), wanting("c", "gpu"), wanting("e", "nic")}, "g", 1, ""},
		"extended resources":                               {extended, single, 2000, []runtime.Object{sliceOf(gpu("d0", 0), gpu("d1", 1), gpu("d2", 1)), extended}, "", 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := c.pod
			if pod == nil {
				pod = podWith("c")
			}
			w := newWorld(t, required, nil, c.objects...)
			w.berth.decides = deciding(t, w.berth.machine, c.rules, pod, c.milli)
			_, status := w.place(pod)
			w.want(name, status, c.why)
			if len(pod.Spec.ResourceClaims) > 0 && w.has("c") != c.has {
				t.Errorf("the claim has %q, want %q", w.has("c"), c.has)
			}
			if w.berth.decides.asked != c.ways {
				t.Errorf("%d ways, want %d", w.berth.decides.asked, c.ways)
			}
		})
	}
}

func deciding(t *testing.T, m *topology.Machine, rules placement.Rules, pod *corev1.Pod, milli int64) *decider {
	t.Helper()
	view := made.View(t, m)
	model := made.ModelOf(t, view, placement.Config{Authority: placement.AuthorityBerth, ReservedMilliCPU: 1000})
	d := &decider{state: model.NewState(), machine: m, request: placement.Request{UID: "p", Guaranteed: true, Rules: rules}}
	for i := range pod.Spec.Containers {
		d.request.Containers = append(d.request.Containers, placement.ContainerRequest{Name: pod.Spec.Containers[i].Name, MilliCPU: milli})
	}
	return d
}

// TestClaimsOfContainersApart: the allocator cannot be offered different devices for each claim.
// Its choice is checked, and if the two devices are the wrong way round, the next placement is
// tried.
func TestClaimsOfContainersApart(t *testing.T) {
	t.Parallel()
	pod := podWith("c", "e")
	other := *pod.Spec.Containers[0].DeepCopy()
	other.Name, other.Resources.Claims = "other", other.Resources.Claims[1:]
	pod.Spec.Containers[0].Resources.Claims = pod.Spec.Containers[0].Resources.Claims[:1]
	pod.Spec.Containers = append(pod.Spec.Containers, other)
	w := newWorld(t, required, []Way{{Lying: Lying{"main": set(1), "other": set(0)}}, {Lying: Lying{"main": set(0), "other": set(1)}}}, two(), claim("c", "r"), claim("e", "r"))
	w.berth.decided = w.berth.ways[1].Lying
	_, status := w.place(pod)
	w.want("the second way", status, "")
	if got := strings.Join([]string{w.has("c"), w.has("e")}, " "); got != "d0 d1" {
		t.Errorf("the claims have %s", got)
	}
	if w.berth.asked != 2 {
		t.Errorf("%d ways were asked for, want 2", w.berth.asked)
	}
}

// TestANeutralDeviceIsNearToContainersApart: no other device is near to both containers.
func TestANeutralDeviceIsNearToContainersApart(t *testing.T) {
	t.Parallel()
	pod := podWith("c")
	other := *pod.Spec.Containers[0].DeepCopy()
	other.Name = "other"
	pod.Spec.Containers = append(pod.Spec.Containers, other)
	w := newWorld(t, required, []Way{{Lying: Lying{"main": set(1), "other": set(0)}}}, sliceOf(gpu("d0", 0), gpu("n", -1)), claim("c", "r"))
	_, status := w.place(pod)
	w.want("neutral", status, "")
	if got := w.has("c"); got != "n" {
		t.Errorf("the claim has %s", got)
	}
}
