package claims

import (
	"fmt"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/berth-dev/berth/placement"
)

// told prints the counted devices: each request with its number of devices, then each device with a
// bit mask of the requests that it matches, then the values that must be equal.
func told(c *placement.Claimed) string {
	if c == nil {
		return "nothing"
	}
	var out []string
	for i := range c.Requests {
		out = append(out, fmt.Sprintf("%s:%d", strings.Join(c.Requests[i].Users, "+"), c.Requests[i].N))
	}
	for i := range c.Devices {
		d, numa := &c.Devices[i], "any"
		if d.NUMA != placement.EveryNode {
			numa = d.NUMA.String()
		}
		out = append(out, fmt.Sprintf("%b@%s=%d/%d", d.For, numa, d.Free, d.All))
	}
	for _, m := range c.Matches {
		out = append(out, fmt.Sprintf("%b same %v", m.For, m.Values))
	}
	return strings.Join(out, " ")
}

// asking returns a claim with requests.
func asking(requests ...resourceapi.DeviceRequest) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: requests}}}
}

func request(name, class string, n int64, selectors ...string) resourceapi.DeviceRequest {
	return resourceapi.DeviceRequest{Name: name, Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: n, Selectors: selecting(selectors...)}}
}

func selecting(expressions ...string) (out []resourceapi.DeviceSelector) {
	for _, e := range expressions {
		out = append(out, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: e}})
	}
	return out
}

func TestStock(t *testing.T) {
	const gpus, nics = "gpu.example.com", "nic.example.com"
	classes := map[string]*resourceapi.DeviceClass{}
	for _, name := range []string{gpus, nics} {
		classes[name] = &resourceapi.DeviceClass{Spec: resourceapi.DeviceClassSpec{Selectors: selecting(`device.driver == "` + name + `"`)}}
	}
	on := func(numa int64, root string) attributes {
		a := attributes{StandardNUMANode: number64(numa)}
		if root != "" {
			a[StandardPCIeRoot] = words(root)
		}
		return a
	}
	gpu := func(name string, numa int64, root string) resourceapi.Device { return device(name, on(numa, root)) }
	tainted, shared := gpu("g9", 1, ""), gpu("s", 1, "")
	tainted.Taints = []resourceapi.DeviceTaint{{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	shared.AllowMultipleAllocations = new(true)
	tolerant, all, first := request("r", gpus, 1), request("r", gpus, 0), request("r", gpus, 1)
	tolerant.Exactly.Tolerations = []resourceapi.DeviceToleration{{Operator: resourceapi.DeviceTolerationOpExists}}
	all.Exactly.AllocationMode = resourceapi.DeviceAllocationModeAll
	first.Exactly, first.FirstAvailable = nil, []resourceapi.DeviceSubRequest{{Name: "nic", DeviceClassName: nics, Count: 3}, {Name: "gpu", DeviceClassName: gpus, Count: 2}}
	sameRoot := asking(request("gpu", gpus, 1), request("nic", nics, 1), request("other", gpus, 1))
	sameRoot.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{Requests: []string{"gpu", "nic"}, MatchAttribute: new(resourceapi.FullyQualifiedName(StandardPCIeRoot))}}
	noneHasIt := asking(request("gpu", gpus, 1))
	noneHasIt.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: new(resourceapi.FullyQualifiedName("example.com/rack"))}, {DistinctAttribute: new(resourceapi.FullyQualifiedName(StandardPCIeRoot))}}
	allocated := asking(request("r", gpus, 1))
	allocated.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Driver: gpus, Pool: node, Device: "g1"}, {Driver: gpus, Pool: node, Device: "anywhere"}}}}
	var many []resourceapi.Device
	for i := range 3 * maxStockKinds {
		many = append(many, gpu(fmt.Sprint("g", i), 0, fmt.Sprint("root", i)))
	}
	old := sliceOf(gpus, gpu("g0", 0, ""), gpu("g1", 1, ""))
	old.Spec.Pool.Generation = 0
	four := sliceOf(gpus, gpu("g0", 0, "pci0"), gpu("g1", 1, "pci1"), gpu("g2", 1, "pci2"), gpu("far", 7, ""), device("anywhere", nil))
	for name, c := range map[string]struct {
		claim  *resourceapi.ResourceClaim
		slices []*resourceapi.ResourceSlice
		taken  string
		want   string
	}{
		"by NUMA node":                    {asking(request("r", gpus, 2)), []*resourceapi.ResourceSlice{four}, "", "a+b:2 1@0=1/1 1@1=2/2 1@any=1/1"},
		"one is taken":                    {asking(request("r", gpus, 1)), []*resourceapi.ResourceSlice{four}, "g1", "a+b:1 1@0=1/1 1@1=1/2 1@any=1/1"},
		"an older generation":             {asking(request("r", gpus, 1)), []*resourceapi.ResourceSlice{old, four}, "", "a+b:1 1@0=1/1 1@1=2/2 1@any=1/1"},
		"two classes":                     {asking(request("gpu", gpus, 1), request("nic", nics, 1)), []*resourceapi.ResourceSlice{sliceOf(gpus, gpu("g0", 0, "")), sliceOf(nics, gpu("n0", 0, ""), gpu("n1", 1, ""))}, "", "a+b:1 a+b:1 1@0=1/1 10@0=1/1 10@1=1/1"},
		"a selector":                      {asking(request("r", gpus, 1, `device.attributes["resource.kubernetes.io"].numaNode == 1`)), []*resourceapi.ResourceSlice{sliceOf(gpus, gpu("g0", 0, ""), gpu("g1", 1, ""))}, "", "a+b:1 1@1=1/1"},
		"a selector with an error":        {asking(request("r", gpus, 1, `device.attributes["example.com"].none == 1`)), []*resourceapi.ResourceSlice{sliceOf(gpus, gpu("g0", 0, ""))}, "", "a+b:1 1@0=1/1"},
		"no selector at all":              {asking(request("r", gpus, 1, `not CEL`)), []*resourceapi.ResourceSlice{sliceOf(gpus, gpu("g0", 0, ""))}, "", "a+b:1 1@0=1/1"},
		"no such class":                   {asking(request("r", "none", 1)), []*resourceapi.ResourceSlice{four}, "", "a+b:1"},
		"a taint":                         {asking(request("r", gpus, 1)), []*resourceapi.ResourceSlice{sliceOf(gpus, tainted)}, "", "a+b:1"},
		"a tolerated taint":               {asking(tolerant), []*resourceapi.ResourceSlice{sliceOf(gpus, tainted)}, "", "a+b:1 1@1=1/1"},
		"consumable capacity":             {asking(request("r", gpus, 3)), []*resourceapi.ResourceSlice{sliceOf(gpus, shared, gpu("g1", 1, ""))}, "s", fmt.Sprintf("a+b:3 1@1=%[1]d/%[1]d 1@1=1/1", placement.Unlimited)},
		"all devices":                     {asking(all), []*resourceapi.ResourceSlice{four}, "g1", "a+b:4 1@0=1/1 1@1=1/2 1@any=1/1"},
		"the first available":             {asking(first), []*resourceapi.ResourceSlice{sliceOf(gpus, gpu("g0", 0, "")), sliceOf(nics, gpu("n0", 1, ""))}, "", "a+b:2 1@0=1/1 1@1=1/1"},
		"one PCI root":                    {sameRoot, []*resourceapi.ResourceSlice{sliceOf(gpus, gpu("g0", 0, "pci0"), gpu("g1", 1, "pci1")), sliceOf(nics, gpu("n0", 0, "pci9"), gpu("n1", 1, "pci1"), gpu("n2", 1, "pci1"))}, "", "a+b:1 a+b:1 a+b:1 101@0=1/1 101@1=1/1 10@0=1/1 10@1=2/2 11 same [[0] [1 3] [2]]"},
		"an attribute that no device has": {noneHasIt, []*resourceapi.ResourceSlice{sliceOf(gpus, gpu("g0", 0, ""))}, "", "a+b:1 1@0=1/1 1 same [[]]"},
		"allocated earlier":               {allocated, []*resourceapi.ResourceSlice{four}, "g1 anywhere", "a+b:1 a+b:0 1@1=1/1"},
		"more kinds than are counted":     {sameRoot, []*resourceapi.ResourceSlice{sliceOf(gpus, many...)}, "", "a+b:1 a+b:1 a+b:1 101@0=384/384"},
		"a number that no allocation has": {asking(request("r", gpus, 1<<40)), []*resourceapi.ResourceSlice{sliceOf(gpus, shared)}, "", fmt.Sprintf("a+b:33 1@1=%[1]d/%[1]d", placement.Unlimited)},
		"more devices than are asked for": {asking(request("a", gpus, 32), request("b", gpus, 32), request("c", gpus, 1)), nil, "", "a+b:32 a+b:32"},
		"no request":                      {asking(), []*resourceapi.ResourceSlice{four}, "", "nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Stock{
				Inventory: Read(node, machine(t), c.slices, new(DefaultSources())), Slices: c.slices, Selectors: cel.NewCache(10, cel.Features{}),
				Class: func(name string) *resourceapi.DeviceClass { return classes[name] },
				Taken: func(id DeviceID) bool { return strings.Contains(" "+c.taken+" ", " "+id.Name+" ") },
			}
			if got := told(s.Claimed(t.Context(), []Ask{{c.claim, []User{{Container: "a"}, {Container: "b"}}}})); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// TestStockIsBounded: the number of evaluated selectors is limited, and later devices count as
// matching. A request for all devices gets all that exist.
func TestStockIsBounded(t *testing.T) {
	var devices []resourceapi.Device
	for i := range 2 * maxEvaluated {
		devices = append(devices, device(fmt.Sprint("d", i), attributes{StandardNUMANode: number64(0)}))
	}
	list := []*resourceapi.ResourceSlice{sliceOf("gpu.example.com", devices...)}
	all := request("all", "gpu", 0, "false")
	all.Exactly.AllocationMode = resourceapi.DeviceAllocationModeAll
	s := Stock{
		Inventory: Read(node, machine(t), list, new(DefaultSources())), Slices: list, Selectors: cel.NewCache(10, cel.Features{}),
		Class: func(string) *resourceapi.DeviceClass { return &resourceapi.DeviceClass{} }, Taken: func(DeviceID) bool { return false },
	}
	got := s.Claimed(t.Context(), []Ask{{asking(request("r", "gpu", 1, "false"), all), []User{{Container: "a"}}}})
	if want := fmt.Sprintf("a:1 a:0 11@0=%[1]d/%[1]d", maxEvaluated+maxEvaluated/2); told(got) != want {
		t.Errorf("%s, want %s", told(got), want)
	}
}
