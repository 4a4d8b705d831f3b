package query

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/topology"
)

const gpuDriver = "gpu.example.com"

// class returns a device class; with the kind "", it matches every kind.
func class(name, kind string) *resourcev1.DeviceClass {
	text := `device.driver == "` + gpuDriver + `"`
	if kind != "" {
		text += ` && device.attributes["` + gpuDriver + `"].kind == "` + kind + `"`
	}
	return &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.DeviceClassSpec{
		Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: text}}}}}
}

// gpu returns a device of a kind on a NUMA node.
func gpu(name, kind string, on int64) resourcev1.Device {
	return resourcev1.Device{Name: name, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
		claims.StandardNUMANode: {IntValue: &on}, "kind": {StringValue: &kind}}}
}

// claim requests one device of a class. If there are several classes, it requests the first that is
// available.
func claim(name string, of ...string) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	r := resourcev1.DeviceRequest{Name: "r"}
	if len(of) == 1 {
		r.Exactly = &resourcev1.ExactDeviceRequest{DeviceClassName: of[0], AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}
	} else {
		for _, one := range of {
			r.FirstAvailable = append(r.FirstAvailable, resourcev1.DeviceSubRequest{Name: one, DeviceClassName: one, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1})
		}
	}
	c.Spec.Devices.Requests = []resourcev1.DeviceRequest{r}
	return c
}

// has allocates a device of the node to a claim.
func has(c *resourcev1.ResourceClaim, device string) *resourcev1.ResourceClaim {
	c.Status.Allocation = &resourcev1.AllocationResult{}
	c.Status.Allocation.Devices.Results = []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: gpuDriver, Pool: "n", Device: device}}
	return c
}

// claimWorld has node n with devices. A pod of two CPUs gets those of NUMA node 0.
func claimWorld(t *testing.T, of ...resourcev1.Device) *world {
	w := newWorld(t)
	w.Report(w.AddNode("n"))
	node := "n"
	w.Slices = []*resourcev1.ResourceSlice{{ObjectMeta: metav1.ObjectMeta{Name: "n-gpus"}, Spec: resourcev1.ResourceSliceSpec{
		Driver: gpuDriver, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}, Devices: of}}}
	w.Classes = []*resourcev1.DeviceClass{class("any", ""), class("big", "big"), class("small", "small")}
	w.Claims = []*resourcev1.ResourceClaim{}
	return w
}

// asks returns a pod that uses the claims.
func (w *world) asks(mode string, all ...*resourcev1.ResourceClaim) *corev1.Pod {
	p := pod("new", 2)
	if mode != "" {
		p.Annotations = map[string]string{wire.ClaimsAnnotation: mode}
	}
	for _, c := range all {
		w.Claims = append(w.Claims, c)
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "my-" + c.Name, ResourceClaimName: &c.Name})
		p.Spec.Containers[0].Resources.Claims = append(p.Spec.Containers[0].Resources.Claims, corev1.ResourceClaim{Name: "my-" + c.Name})
	}
	return p
}

// fitOf returns the survey's answer and its notes.
func (w *world) fitOf(p *corev1.Pod) (*Fitting, []string) {
	w.Helper()
	all, notes, err := Fit(w.Context(), w.cluster(), []Wanted{{Pod: p, Replicas: 1}}, FitOptions{Limit: 1})
	w.Must(err)
	return &all[0], notes
}

// scheduled returns what the scheduler's allocator allocates to all open claims together, for a pod
// on NUMA node 0 of node n. As in Berth, it first tries only devices near the pod.
func (w *world) scheduled(mode claims.Mode, p *corev1.Pod) (devices []string, takes, near bool) {
	w.Helper()
	state := structured.AllocatedState{AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](), AggregatedCapacity: structured.NewConsumedCapacityCollection()}
	m, sources := w.NodeSpec().Machine, claims.DefaultSources()
	inventory := claims.Read("n", m, w.Slices, &sources)
	var open []*resourcev1.ResourceClaim
	var judged []claims.Claim
	only, fits := topology.NUMASet(0), true
	for _, c := range w.Claims {
		at := slices.IndexFunc(p.Spec.ResourceClaims, func(of corev1.PodResourceClaim) bool { return *of.ResourceClaimName == c.Name })
		of := claims.Claim{Name: "default/" + c.Name, Users: claims.Users(p, "my-"+c.Name, claims.Lying{"main": topology.NewNUMASet(0)})}
		if a := c.Status.Allocation; a != nil {
			for _, r := range a.Devices.Results {
				state.AllocatedDevices.Insert(structured.MakeDeviceID(r.Driver, r.Pool, r.Device))
			}
			of.Results = a.Devices.Results
			if j := claims.Judge(inventory, []claims.Claim{of}); at >= 0 && !j.Keeps(claims.Required) {
				fits = false
			}
		} else if at >= 0 {
			wanted, _, _ := of.Reach(mode)
			open, judged, only = append(open, c), append(judged, of), only|wanted
		}
	}
	extended := claims.Extended(p, func(name corev1.ResourceName) *resourcev1.DeviceClass {
		return map[corev1.ResourceName]*resourcev1.DeviceClass{extendedGPU: w.Classes[0]}[name]
	})
	if extended != nil && w.Nodes[0].Status.Allocatable.Name(extendedGPU, "").IsZero() {
		of := claims.Claim{Name: claims.ForExtended, Users: claims.UsersOfExtended(p, claims.Lying{"main": topology.NewNUMASet(0)})}
		wanted, _, _ := of.Reach(mode)
		open, judged, only = append(open, extended), append(judged, of), only|wanted
	}
	if mode == claims.Free {
		only = claims.Everywhere
	}
	for _, reach := range []topology.NUMASet{only, claims.Everywhere} {
		if mode == claims.Required && !fits || mode != claims.Free && reach == only && !fits {
			continue
		}
		var shown []*resourcev1.ResourceSlice
		for _, s := range w.Slices {
			shown = append(shown, inventory.Show(s, reach, nil))
		}
		a, err := structured.NewAllocator(w.Context(), allocatorFeatures, state, classLister(w.Classes), shown, cel.NewCache(8, cel.Features{}))
		w.Must(err)
		results, err := a.Allocate(w.Context(), w.Nodes[0], open)
		w.Must(err)
		if len(results) != len(open) {
			continue
		}
		for i := range results {
			judged[i].Results = results[i].Devices.Results
		}
		j := claims.Judge(inventory, judged)
		if !j.Keeps(mode) {
			continue
		}
		for i := range results {
			devices = append(devices, deviceNames(results[i].Devices.Results))
		}
		return devices, true, j.Keeps(claims.Required) && fits
	}
	return nil, false, false
}

// compare compares the survey's answer about the pod with the scheduler's.
func (w *world) compare(mode claims.Mode, p *corev1.Pod) {
	w.Helper()
	devices, takes, near := w.scheduled(mode, p)
	f, _ := w.fitOf(p)
	if got := f.Nodes[0].Answer.Answer == Admits; got != takes || (f.Copies > 0) != takes || f.Placed > 0 != takes {
		w.Fatalf("the node takes it: %v (%s), %d copies, %d placed; the scheduler: %v", got, f.Nodes[0].Message, f.Copies, f.Placed, takes)
	}
	allNear, i := true, 0
	for _, of := range f.Claims {
		on := of.Nodes[0]
		if allNear = allNear && on.Near; of.Allocated || on.Message == byPlugin {
			continue
		}
		if i++; takes && !strings.Contains(on.Message, "would get "+devices[i-1]) || !takes && on.Near {
			w.Errorf("claim %s: near %v, %q; the scheduler gives %q", of.Name, on.Near, on.Message, devices)
		}
	}
	if allNear != near {
		w.Errorf("near: %v, the scheduler: %v: %+v", allNear, near, f.Claims)
	}
}

// TestClaimsAsTheScheduler: the survey and the scheduler's allocator choose the same devices for a
// pod's claims, in every mode.
func TestClaimsAsTheScheduler(t *testing.T) {
	near0, near1, far0, far1 := gpu("a", "big", 0), gpu("b", "small", 0), gpu("c", "big", 1), gpu("d", "small", 1)
	type list = []*resourcev1.ResourceClaim
	for name, c := range map[string]struct {
		devices []resourcev1.Device
		others  list
		asks    func() list
	}{
		"one claim":                   {[]resourcev1.Device{near0, far0}, nil, func() list { return list{claim("x", "any")} }},
		"only far":                    {[]resourcev1.Device{far0}, nil, func() list { return list{claim("x", "any")} }},
		"each has one":                {[]resourcev1.Device{near0, near1}, nil, func() list { return list{claim("x", "any"), claim("y", "any")} }},
		"two for the same device":     {[]resourcev1.Device{near0}, nil, func() list { return list{claim("x", "any"), claim("y", "any")} }},
		"two for the same near":       {[]resourcev1.Device{near0, far0}, nil, func() list { return list{claim("x", "any"), claim("y", "any")} }},
		"two for the same kind":       {[]resourcev1.Device{near0, near1, far1}, nil, func() list { return list{claim("x", "big"), claim("y", "big")} }},
		"the second is choosy":        {[]resourcev1.Device{near0, near1}, nil, func() list { return list{claim("x", "any"), claim("y", "big")} }},
		"first available gives way":   {[]resourcev1.Device{near0, near1}, nil, func() list { return list{claim("x", "big", "small"), claim("y", "big")} }},
		"first available is far":      {[]resourcev1.Device{near0, far1}, nil, func() list { return list{claim("x", "big", "small"), claim("y", "big")} }},
		"first available, none left":  {[]resourcev1.Device{near0}, nil, func() list { return list{claim("x", "big", "small"), claim("y", "big", "small")} }},
		"one device left":             {[]resourcev1.Device{near0, near1}, list{has(claim("of-another", "any"), "b")}, func() list { return list{claim("x", "any"), claim("y", "any")} }},
		"one near device left":        {[]resourcev1.Device{near0, near1, far0}, list{has(claim("of-another", "any"), "b")}, func() list { return list{claim("x", "any"), claim("y", "any")} }},
		"none left":                   {[]resourcev1.Device{near0}, list{has(claim("of-another", "any"), "a")}, func() list { return list{claim("x", "any")} }},
		"one has its device":          {[]resourcev1.Device{near0, near1}, nil, func() list { return list{has(claim("x", "any"), "a"), claim("y", "any")} }},
		"one has a far device":        {[]resourcev1.Device{near0, far0}, nil, func() list { return list{has(claim("x", "any"), "c"), claim("y", "any")} }},
		"one has what another wanted": {[]resourcev1.Device{near0, near1}, nil, func() list { return list{has(claim("x", "any"), "a"), claim("y", "big")} }},
		"three for two":               {[]resourcev1.Device{near0, near1}, nil, func() list { return list{claim("x", "any"), claim("y", "any"), claim("z", "any")} }},
	} {
		for _, mode := range []claims.Mode{claims.Free, claims.Near, claims.Required} {
			t.Run(name+"/"+mode.String(), func(t *testing.T) {
				w := claimWorld(t, c.devices...)
				w.Claims = append(w.Claims, c.others...)
				p := w.asks(mode.String(), c.asks()...)
				w.compare(mode, p)
			})
		}
	}
}

const extendedGPU = "example.com/gpu"

// extends makes a pod request devices as an extended resource.
func (w *world) extends(p *corev1.Pod, count string) *corev1.Pod {
	w.Classes[0].Spec.ExtendedResourceName = new(extendedGPU)
	p.Spec.Containers[0].Resources.Limits[extendedGPU] = resource.MustParse(count) // and requests: it is one map
	return p
}

// TestExtendedAsTheScheduler: devices of extended resources are chosen together with those of
// claims.
func TestExtendedAsTheScheduler(t *testing.T) {
	near0, near1, far0 := gpu("a", "big", 0), gpu("b", "small", 0), gpu("c", "big", 1)
	for name, c := range map[string]struct {
		devices []resourcev1.Device
		count   string
		claims  []string // classes
		plugin  bool
	}{
		"there is one":               {[]resourcev1.Device{near0, far0}, "1", nil, false},
		"only far":                   {[]resourcev1.Device{far0}, "1", nil, false},
		"none":                       {nil, "1", nil, false},
		"too many":                   {[]resourcev1.Device{near0, near1}, "3", nil, false},
		"too many near":              {[]resourcev1.Device{near0, near1, far0}, "3", nil, false},
		"beside a claim":             {[]resourcev1.Device{near0, near1}, "1", []string{"any"}, false},
		"a claim leaves none":        {[]resourcev1.Device{near0}, "1", []string{"any"}, false},
		"a claim leaves none near":   {[]resourcev1.Device{near0, far0}, "1", []string{"any"}, false},
		"a claim needs the only big": {[]resourcev1.Device{near0, near1}, "1", []string{"big"}, false},
		"a device plugin has them":   {[]resourcev1.Device{near0}, "1", []string{"any"}, true},
	} {
		for _, mode := range []claims.Mode{claims.Free, claims.Near, claims.Required} {
			t.Run(name+"/"+mode.String(), func(t *testing.T) {
				w := claimWorld(t, c.devices...)
				if c.plugin {
					w.Nodes[0].Status.Allocatable[extendedGPU] = resource.MustParse("1")
				}
				var all []*resourcev1.ResourceClaim
				for i, of := range c.claims {
					all = append(all, claim(string(rune('x'+i)), of))
				}
				w.compare(mode, w.extends(w.asks(mode.String(), all...), c.count))
			})
		}
	}
}

// TestClaimsTogether: the messages explain why claims get no devices together.
func TestClaimsTogether(t *testing.T) {
	w := claimWorld(t, gpu("a", "big", 0))
	f, _ := w.fitOf(w.asks("required", claim("x", "any"), claim("y", "any"), claim("z", "small")))
	for i, want := range []string{"claim my-z of the pod gets no devices", "claim my-z of the pod gets no devices", "no device on NUMA node 0, where the pod's CPUs would be, matches the claim's requests"} {
		if got := f.Claims[i].Nodes[0].Message; got != want {
			t.Errorf("%s: %q, want %q", f.Claims[i].Name, got, want)
		}
	}
	w = claimWorld(t, gpu("a", "big", 0))
	f, _ = w.fitOf(w.asks("near", claim("x", "any"), claim("y", "lost")))
	if x, y := f.Claims[0].Nodes[0].Message, f.Claims[1].Nodes[0].Message; x != "claim my-y of the pod gets no devices" || !strings.Contains(y, "deviceClassName lost: want a DeviceClass that exists") {
		t.Errorf("%q and %q", x, y)
	}
	w = claimWorld(t, gpu("a", "big", 0))
	f, _ = w.fitOf(w.asks("near", claim("x", "any"), claim("y", "any")))
	if got, want := f.Nodes[0].Message, "\"berth.dev/claims: near\": claim my-x: by itself it would get gpu.example.com/a, but there are not enough devices for all claims of the pod together"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestClaimsOfTheProfile: a pod without a mode gets the mode of the arguments, which a note names.
// The pod's own mode has priority.
func TestClaimsOfTheProfile(t *testing.T) {
	for _, c := range []struct {
		profile, own, asks string
		takes              bool
	}{
		{"", "", "", true}, {"near", "", "near", true}, {"required", "", "required", false}, {"required", "near", "near", true},
	} {
		w := claimWorld(t, gpu("a", "big", 1))
		w.Terms.Claims = c.profile
		f, notes := w.fitOf(w.asks(c.own, claim("x", "any")))
		if takes := f.Nodes[0].Answer.Answer == Admits; f.Claims[0].Asks != c.asks || takes != c.takes {
			t.Errorf("%+v: asks %q, takes %v", c, f.Claims[0].Asks, takes)
		}
		told := strings.Contains(strings.Join(notes, "\n"), `argument "claims" of Berth's plugin in scheduler profile berth-scheduler decides; it cannot be read here, so this answer assumes "`+c.profile+`" (--claims changes that)`)
		if told != (c.own == "") {
			t.Errorf("%+v: notes %q", c, notes)
		}
	}
	w := claimWorld(t)
	w.Terms.Claims = "far"
	if err := w.Terms.Check(); err == nil || err.Error() != `claims: "far": want near or required, or nothing` {
		t.Errorf("a wrong default: %v", err)
	}
}

// TestAttributesOfTheProfile: the NUMA node of a device is read from the attribute in the
// arguments.
func TestAttributesOfTheProfile(t *testing.T) {
	for _, c := range []struct {
		attributes []string
		want       string
	}{{nil, "none"}, {[]string{gpuDriver + "/socket"}, "1"}} {
		d := gpu("a", "big", 1)
		d.Attributes["socket"] = d.Attributes[claims.StandardNUMANode]
		delete(d.Attributes, claims.StandardNUMANode)
		w := claimWorld(t, d)
		w.Terms.NUMAAttributes = c.attributes
		w.Must(w.Terms.Check())
		f, _ := w.fitOf(w.asks("near", claim("x", "any")))
		if got := f.Claims[0].Nodes[0].NUMANodes[0].NUMANode; got != c.want {
			t.Errorf("%v: on NUMA node %s, want %s", c.attributes, got, c.want)
		}
	}
}

// TestPoolOfSeveralNodes: a node has devices even if other slices of their pool are not for it.
func TestPoolOfSeveralNodes(t *testing.T) {
	elsewhere := corev1.NodeSelectorRequirement{Key: "rack", Operator: corev1.NodeSelectorOpIn, Values: []string{"2"}}
	for name, of := range map[string]resourcev1.ResourceSliceSpec{
		"another node": {NodeName: new("m")},
		"another rack": {NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{elsewhere}}}}},
	} {
		for _, mode := range []string{"", "required"} {
			w := claimWorld(t, gpu("a", "big", 0))
			w.Slices[0].Spec.Pool.ResourceSliceCount = 2
			other := w.Slices[0].DeepCopy()
			other.Name, other.Spec.NodeName, other.Spec.NodeSelector, other.Spec.Devices = "other", of.NodeName, of.NodeSelector, []resourcev1.Device{gpu("b", "big", 0)}
			w.Slices = append(w.Slices, other)
			f, _ := w.fitOf(w.asks(mode, claim("c", "any")))
			if on := f.Claims[0].Nodes[0]; on.lacks || !on.Near || on.NUMANodes[0].FreeCount != 1 {
				t.Errorf("%s, mode %q: %+v", name, mode, on)
			}
		}
	}
}
