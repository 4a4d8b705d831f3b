package claims

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/topology"
)

func TestModes(t *testing.T) {
	for text, want := range map[string]Mode{"near": Near, "required": Required, "": Free, "Near": Free, "near,required": Free, " near": Free} {
		got, ok := ParseMode(text)
		if got != want || ok != (want != Free) {
			t.Errorf("%q is %d, %t", text, got, ok)
		}
	}
}

func FuzzParseMode(f *testing.F) {
	f.Add("near")
	f.Fuzz(func(t *testing.T, text string) {
		if m, ok := ParseMode(text); ok && m.String() != text || !ok && m != Free {
			t.Errorf("%q is %v", text, m)
		}
	})
}

// inventory has devices n0 and n1 on NUMA nodes 0 and 1, none on no NUMA node, and wrong on one
// that the machine does not have.
func inventory(t testing.TB) *Inventory {
	t.Helper()
	sources := DefaultSources()
	return Read(node, machine(t), []*resourceapi.ResourceSlice{sliceOf("d", device("n0", attributes{StandardNUMANode: number64(0)}),
		device("n1", attributes{StandardNUMANode: number64(1)}), device("none", nil), device("wrong", attributes{StandardNUMANode: number64(9)}))}, &sources)
}

func results(devices ...string) (out []resourceapi.DeviceRequestAllocationResult) {
	for _, name := range devices {
		out = append(out, resourceapi.DeviceRequestAllocationResult{Request: "r", Driver: "d", Pool: node, Device: name})
	}
	return out
}

func set(ids ...topology.NUMAID) topology.NUMASet { return topology.NewNUMASet(ids...) }

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		devices []string
		users   []User
		want    Alignment
		why     string
	}{
		"on the NUMA node of the CPUs":   {[]string{"n0"}, []User{{"a", set(0), ""}}, Aligned, "device d/n0 of claim ns/c (request r) is on NUMA node 0 (resource.kubernetes.io/numaNode), as are the CPUs and memory of container a"},
		"on one of them":                 {[]string{"n0", "n1"}, []User{{"a", set(0, 1), ""}}, Aligned, "as are the CPUs and memory of container a; 1 other device has the same alignment"},
		"on another":                     {[]string{"n0", "n1"}, []User{{"a", set(0), ""}}, Misaligned, "device d/n1 of claim ns/c (request r) is on NUMA node 1 (resource.kubernetes.io/numaNode), but the CPUs and memory of container a are on NUMA node 0"},
		"two containers on two nodes":    {[]string{"n0"}, []User{{"a", set(0), ""}, {"b", set(1), ""}}, Misaligned, "container b are on NUMA node 1"},
		"each has its own request":       {[]string{"n0"}, []User{{"a", set(0), "r"}, {"b", set(1), "other"}}, Aligned, "container a"},
		"the request has no user":        {[]string{"n0"}, []User{{"b", set(1), "other"}}, Indifferent, "and no container uses it"},
		"one of them is not pinned":      {[]string{"n0"}, []User{{"a", 0, ""}, {"b", set(0), ""}}, Aligned, "container b"},
		"nobody is pinned":               {[]string{"n0"}, []User{{"a", 0, ""}}, Unpinned, "the node pins no container that uses it"},
		"nobody uses it":                 {[]string{"n1"}, nil, Indifferent, "no container uses it"},
		"no NUMA node":                   {[]string{"none"}, []User{{"a", set(0), ""}}, Indifferent, "is on no NUMA node (its driver states none)"},
		"a NUMA node that is not there":  {[]string{"wrong", "n0"}, []User{{"a", set(0), ""}}, Unknown, "9: want a NUMA node of the machine"},
		"no slice lists it":              {[]string{"vanished"}, []User{{"a", set(0), ""}}, Unknown, "in no ResourceSlice of the node"},
		"misaligned is worse than gone":  {[]string{"vanished", "n1"}, []User{{"a", set(0), ""}}, Misaligned, "d/n1"},
		"neutral is worse than aligned":  {[]string{"n0", "none"}, []User{{"a", set(0), ""}}, Indifferent, "d/none"},
		"several misaligned are counted": {[]string{"n1", "n1", "n1"}, []User{{"a", set(0), ""}}, Misaligned, "; 2 other devices have the same alignment"},
	} {
		t.Run(name, func(t *testing.T) {
			j := Judge(inventory(t), []Claim{{Name: "ns/c", Results: results(c.devices...), Users: c.users}})
			if got := j.Alignment(); got != c.want || len(j.Findings) != len(c.devices) {
				t.Errorf("%s, want %s: %v", got, c.want, j.Findings)
			}
			if !strings.Contains(j.Why(), c.why) {
				t.Errorf("%q, want %q", j.Why(), c.why)
			}
			if !j.Keeps(Near) || j.Keeps(Required) != (c.want <= Indifferent) {
				t.Error("kept for another mode")
			}
		})
	}
	if j := (Judgement{}); j.Alignment() != Indifferent || j.Why() != "" {
		t.Error("a pod without devices has findings")
	}
}

// TestJudgeAgainstSlow compares the worst alignment with a slow twin. The wanted NUMA nodes are
// those on which a device would be aligned.
func TestJudgeAgainstSlow(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	i := inventory(t)
	names := []string{"n0", "n1", "none", "wrong", "vanished"}
	for range 20_000 {
		var c Claim
		for range r.IntN(4) {
			c.Results = append(c.Results, results(names[r.IntN(len(names))])...)
		}
		for range r.IntN(4) {
			c.Users = append(c.Users, User{"c", topology.NUMASet(r.IntN(4)), ""})
		}
		if got, want := Judge(i, []Claim{c}).Alignment(), slow(&c); got != want {
			t.Fatalf("%+v: %s, want %s", c, got, want)
		}
		wanted, pinned := c.Wanted("")
		if pinned != slices.ContainsFunc(c.Users, func(u User) bool { return u.NUMA != 0 }) {
			t.Fatalf("%+v: pinned %t", c, pinned)
		}
		for numa, device := range []string{"n0", "n1"} {
			one := Claim{Results: results(device), Users: c.Users}
			if fits := Judge(i, []Claim{one}).Alignment() != Misaligned; fits != wanted.Has(topology.NUMAID(numa)) {
				t.Fatalf("%+v: wanted %s, and %s fits: %t", c.Users, wanted, device, fits)
			}
		}
	}
}

func slow(c *Claim) Alignment {
	has := func(a Alignment) bool {
		return slices.ContainsFunc(c.Results, func(r resourceapi.DeviceRequestAllocationResult) bool { return slowDevice(c, r.Device) == a })
	}
	for _, a := range []Alignment{Misaligned, Unknown, Unpinned, Indifferent} {
		if has(a) {
			return a
		}
	}
	if len(c.Results) == 0 {
		return Indifferent
	}
	return Aligned
}

func slowDevice(c *Claim, device string) Alignment {
	numa := map[string]topology.NUMASet{"n0": set(0), "n1": set(1)}[device]
	any := false
	for _, u := range c.Users {
		if u.NUMA == 0 {
			continue
		}
		any = true
		if numa != 0 && numa&u.NUMA == 0 {
			return Misaligned
		}
	}
	switch {
	case device == "wrong" || device == "vanished":
		return Unknown
	case device == "none" || len(c.Users) == 0:
		return Indifferent
	case !any:
		return Unpinned
	}
	return Aligned
}

func TestShow(t *testing.T) {
	i := inventory(t)
	s := sliceOf("d", device("n0", nil), device("n1", nil), device("none", nil), device("wrong", nil), device("new", nil))
	s.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "c"}}
	names := func(s *resourceapi.ResourceSlice) string {
		var out []string
		for k := range s.Spec.Devices {
			out = append(out, s.Spec.Devices[k].Name)
		}
		return strings.Join(out, " ")
	}
	allocated := func(id DeviceID, _ *resourceapi.Device) bool { return id.Name == "n1" }
	for _, c := range []struct {
		numa topology.NUMASet
		keep func(DeviceID, *resourceapi.Device) bool
		want string
	}{
		{set(0), nil, "n0 none new"}, {set(1), nil, "n1 none new"}, {set(0), allocated, "n0 n1 none new"}, {0, nil, "none new"},
	} {
		got := i.Show(s, c.numa, c.keep)
		if names(got) != c.want || len(got.Spec.SharedCounters) != 1 || got.Spec.Pool != s.Spec.Pool {
			t.Errorf("NUMA nodes %s: %s, want %s; %+v", c.numa, names(got), c.want, got.Spec)
		}
	}
	part := device("n1", nil)
	part.AllowMultipleAllocations = new(true)
	parts := sliceOf("d", device("n0", nil), part)
	got := i.Show(parts, set(0), allocated)
	if first, second := got.Spec.Devices[0].NodeName, got.Spec.Devices[1].NodeName; got.Spec.NodeName != nil || !*got.Spec.PerDeviceNodeSelection || first == nil || *first != node || second != nil {
		t.Errorf("a kept device can be allocated: %+v", got.Spec)
	}
	if i.Show(parts, set(0, 1), allocated) != parts || *parts.Spec.NodeName != node || parts.Spec.Devices[0].NodeName != nil {
		t.Errorf("the slice has become %+v", parts.Spec)
	}
	if got := names(s); got != "n0 n1 none wrong new" {
		t.Errorf("the slice has become %s", got)
	}
	if all := sliceOf("d", device("n0", nil), device("none", nil)); i.Show(all, set(0), nil) != all {
		t.Error("a slice of which nothing is left out was copied")
	}
}

func TestUnserved(t *testing.T) {
	yes := true
	claim := func(change func(*resourceapi.ResourceClaim)) *resourceapi.ResourceClaim {
		c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
		c.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "r", Exactly: &resourceapi.ExactDeviceRequest{}}}
		change(c)
		return c
	}
	user := func(kind, name string) func(*resourceapi.ResourceClaim) {
		return func(c *resourceapi.ResourceClaim) {
			c.Status.ReservedFor = append(c.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: kind, Name: name, UID: "uid-of-" + "x"})
		}
	}
	for _, c := range []struct {
		change func(*resourceapi.ResourceClaim)
		want   string
	}{
		{func(*resourceapi.ResourceClaim) {}, ""},
		{func(c *resourceapi.ResourceClaim) { c.Spec.Devices.Requests[0].Exactly = nil }, ""},
		{func(c *resourceapi.ResourceClaim) { c.Spec.Devices.Requests[0].Exactly.AdminAccess = &yes }, "claim ns/c: request r has adminAccess: want a request without adminAccess, so that the devices are allocated to this pod only"},
		{user("pods", "other"), "claim ns/c is shared with pod other: want a claim for each pod"},
		{user("podgroups", "g"), "claim ns/c is reserved for podgroups g: want a claim for each pod"},
		{func(c *resourceapi.ResourceClaim) {
			c.OwnerReferences = []metav1.OwnerReference{{Kind: "PodGroup", Name: "g", Controller: &yes}}
		}, "claim ns/c belongs to PodGroup g: want a claim for each pod"},
		{func(c *resourceapi.ResourceClaim) {
			c.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: "p", Controller: &yes}}
			c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "me"}}
		}, ""},
	} {
		if got := Unserved("me", claim(c.change)); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestTakesAll(t *testing.T) {
	const all = resourceapi.DeviceAllocationModeAll
	for want, requests := range map[bool][]resourceapi.DeviceRequest{
		false: {{Exactly: &resourceapi.ExactDeviceRequest{}}, {FirstAvailable: []resourceapi.DeviceSubRequest{{}}}, {}},
		true:  {{Exactly: &resourceapi.ExactDeviceRequest{}}, {FirstAvailable: []resourceapi.DeviceSubRequest{{}, {AllocationMode: all}}}},
	} {
		c := &resourceapi.ResourceClaim{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: requests}}}
		if TakesAll(c) != want {
			t.Errorf("%+v takes all: %t", requests, !want)
		}
	}
}

func TestUsers(t *testing.T) {
	uses := func(name string, claims ...corev1.ResourceClaim) corev1.Container {
		return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Claims: claims}}
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{uses("i", corev1.ResourceClaim{Name: "gpu"})},
		Containers: []corev1.Container{
			uses("a", corev1.ResourceClaim{Name: "gpu", Request: "r1"}, corev1.ResourceClaim{Name: "gpu", Request: "r2"}), uses("b"), uses("c", corev1.ResourceClaim{Name: "nic"}),
		},
	}}
	got := Users(pod, "gpu", Lying{"a": set(1)})
	if !slices.Equal(got, []User{{"i", 0, ""}, {"a", set(1), "r1"}, {"a", set(1), "r2"}}) {
		t.Errorf("%+v", got)
	}
}
