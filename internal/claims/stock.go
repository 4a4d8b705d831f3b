package claims

import (
	"context"
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Stock has the devices of one node among which an allocator can choose. Its method Claimed counts
// them.
type Stock struct {
	Inventory *Inventory
	Slices    []*resourceapi.ResourceSlice
	// Class returns a device class by name, or nil.
	Class     func(name string) *resourceapi.DeviceClass
	Selectors *cel.Cache
	// Taken reports whether a device is allocated.
	Taken func(DeviceID) bool
}

// Ask is a claim, with the containers of the pod that use it.
type Ask struct {
	*resourceapi.ResourceClaim
	Users []User
}

// usersOf returns the names of the containers that use the devices of a request.
func (a *Ask) usersOf(request string) (names []string) {
	for i := range a.Users {
		if u := &a.Users[i]; u.uses(request) && !slices.Contains(names, u.Container) {
			names = append(names, u.Container)
		}
	}
	return names
}

// Limits of the count for one pod on one node. If a limit is reached, the count may be too high.
// The allocator then has the final decision.
const (
	maxRequests   = 32
	maxWanted     = 64
	maxEvaluated  = 4096
	maxStockKinds = 128
)

// Claimed counts, for each request of the claims, the devices that the request could get, by NUMA
// node. The count is never too low. It may be too high, because Claimed ignores counters and
// capacities, and checks each constraint separately. Claimed returns nil if there is nothing to
// count, or if it would have to distinguish more than maxStockKinds groups of devices.
func (s *Stock) Claimed(ctx context.Context, asks []Ask) *placement.Claimed {
	c := counting{Stock: s, left: maxEvaluated}
	for i := range asks {
		c.add(&asks[i])
	}
	if len(c.requests) == 0 {
		return nil
	}
	c.count(ctx)
	out := c.group(c.matches)
	if len(out.Devices) > maxStockKinds {
		out = c.group(nil)
	}
	if len(out.Devices) > maxStockKinds {
		return nil
	}
	return out
}

type counting struct {
	*Stock
	requests []counted
	matches  []match
	devices  []stocked
	wanted   int
	left     int // the number of selectors that may still be evaluated
}

// counted is a request for devices. It has no alternatives if it stands for a device that the pod
// already has.
type counted struct {
	placement.ClaimRequest
	alternatives []alternative
	all          bool
}

type alternative struct {
	class       string
	selectors   []resourceapi.DeviceSelector
	tolerations []resourceapi.DeviceToleration
}

// match is a set of requests whose devices must have equal values of an attribute.
type match struct {
	attribute string
	requests  uint64
}

// stocked is a device that some request could get.
type stocked struct {
	placement.ClaimDevices
	driver string
	device *resourceapi.Device // nil for a device that is allocated to the pod
}

func (c *counting) add(ask *Ask) {
	if a := ask.Status.Allocation; a != nil {
		for i := range a.Devices.Results {
			r := &a.Devices.Results[i]
			p := c.Inventory.Place(DeviceID{r.Driver, r.Pool, r.Device})
			if bit, ok := c.request(counted{ClaimRequest: placement.ClaimRequest{Users: ask.usersOf(r.Request), N: 1}}); ok && p.Standing == Located {
				c.devices = append(c.devices, stocked{ClaimDevices: placement.ClaimDevices{NUMA: topology.NewNUMASet(p.NUMA), For: bit, Free: 1, All: 1}})
			} else if ok {
				c.requests[len(c.requests)-1].N = 0
			}
		}
		return
	}
	bits := map[string]uint64{}
	for i := range ask.Spec.Devices.Requests {
		r := &ask.Spec.Devices.Requests[i]
		if bit, ok := c.request(countedOf(r, ask.usersOf(r.Name))); ok {
			bits[r.Name] = bit
		}
	}
	for i := range ask.Spec.Devices.Constraints {
		of := &ask.Spec.Devices.Constraints[i]
		if of.MatchAttribute == nil {
			continue
		}
		m := match{attribute: string(*of.MatchAttribute)}
		for name, bit := range bits {
			if len(of.Requests) == 0 || slices.Contains(of.Requests, name) {
				m.requests |= bit
			}
		}
		if m.requests != 0 {
			c.matches = append(c.matches, m)
		}
	}
}

// request adds a request, and returns the bit that stands for it in sets of requests
// (match.requests). It returns false if there would be more than maxRequests requests, or more than
// maxWanted devices in all.
func (c *counting) request(r counted) (bit uint64, ok bool) {
	if len(c.requests) == maxRequests || c.wanted+r.N > maxWanted {
		return 0, false
	}
	c.wanted += r.N
	c.requests = append(c.requests, r)
	return 1 << (len(c.requests) - 1), true
}

func countedOf(r *resourceapi.DeviceRequest, users []string) counted {
	out := counted{ClaimRequest: placement.ClaimRequest{Users: users}}
	if e := r.Exactly; e != nil {
		out.alternatives = []alternative{{e.DeviceClassName, e.Selectors, e.Tolerations}}
		if out.all = e.AllocationMode == resourceapi.DeviceAllocationModeAll; !out.all {
			out.N = countOf(e.Count)
		}
		return out
	}
	for i := range r.FirstAvailable {
		sub := &r.FirstAvailable[i]
		out.alternatives = append(out.alternatives, alternative{sub.DeviceClassName, sub.Selectors, sub.Tolerations})
		if n := countOf(sub.Count); i == 0 || n < out.N {
			out.N = n
		}
	}
	return out
}

// countOf returns n, but at least 1, and at most one more than the maximum number of devices of an
// allocation.
func countOf(n int64) int {
	return int(min(max(n, 1), resourceapi.AllocationResultsMaxSize+1))
}

func (c *counting) count(ctx context.Context) {
	for _, s := range Newest(c.Slices) {
		for i := range s.Spec.Devices {
			c.device(ctx, s, &s.Spec.Devices[i])
		}
	}
	if c.left > 0 {
		return
	}
	// Not all devices were checked, so the size of a request for all devices is not known.
	for i := range c.requests {
		if c.requests[i].all {
			c.requests[i].N = 0
		}
	}
}

func (c *counting) device(ctx context.Context, s *resourceapi.ResourceSlice, d *resourceapi.Device) {
	id := DeviceID{s.Spec.Driver, s.Spec.Pool.Name, d.Name}
	p := c.Inventory.Place(id)
	out := stocked{ClaimDevices: placement.ClaimDevices{NUMA: placement.EveryNode, Free: 1, All: 1}, driver: id.Driver, device: d}
	switch {
	case p.Standing == Absent, p.Standing == Misstated:
		return
	case p.Standing == Located:
		out.NUMA = topology.NewNUMASet(p.NUMA)
	}
	switch {
	case d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations:
		out.Free, out.All = placement.Unlimited, placement.Unlimited
	case c.Taken(id):
		out.Free = 0
	}
	for i := range c.requests {
		r := &c.requests[i]
		if slices.ContainsFunc(r.alternatives, func(a alternative) bool { return c.mayHave(ctx, &a, id.Driver, d) }) {
			out.For |= 1 << i
			if r.all && r.N <= resourceapi.AllocationResultsMaxSize {
				r.N++
			}
		}
	}
	if out.For != 0 {
		c.devices = append(c.devices, out)
	}
}

// mayHave reports whether a request could get a device. If a selector cannot be evaluated, it
// returns true: the allocator reports such errors.
func (c *counting) mayHave(ctx context.Context, a *alternative, driver string, d *resourceapi.Device) bool {
	class := c.Class(a.class)
	if class == nil {
		return false
	}
	for i := range d.Taints {
		t := &d.Taints[i]
		keepsOff := t.Effect == resourceapi.DeviceTaintEffectNoSchedule || t.Effect == resourceapi.DeviceTaintEffectNoExecute
		if keepsOff && !slices.ContainsFunc(a.tolerations, func(o resourceapi.DeviceToleration) bool { return resourceclaim.ToleratesTaint(o, *t) }) {
			return false
		}
	}
	for _, list := range [][]resourceapi.DeviceSelector{class.Spec.Selectors, a.selectors} {
		for i := range list {
			if list[i].CEL == nil || c.left == 0 {
				continue
			}
			c.left--
			compiled := c.Selectors.GetOrCompile(list[i].CEL.Expression)
			if compiled.Error != nil {
				continue
			}
			matches, _, err := compiled.DeviceMatches(ctx, cel.Device{Driver: driver, AllowMultipleAllocations: d.AllowMultipleAllocations, Attributes: d.Attributes, Capacity: d.Capacity})
			if err == nil && !matches {
				return false
			}
		}
	}
	return true
}

// group returns the counts. Devices share one entry if no request and no constraint in matches
// distinguishes them.
func (c *counting) group(matches []match) *placement.Claimed {
	out := &placement.Claimed{}
	for i := range c.requests {
		out.Requests = append(out.Requests, c.requests[i].ClaimRequest)
	}
	values := make([]map[string][]int, len(matches))
	for i, m := range matches {
		values[i] = map[string][]int{}
		out.Matches = append(out.Matches, placement.ClaimMatch{For: m.requests})
	}
	known := map[string]int{}
	for i := range c.devices {
		d := &c.devices[i]
		key := fmt.Sprintf("%x %x %t", d.NUMA, d.For, d.All == placement.Unlimited)
		has := make([][]string, len(matches))
		for k, m := range matches {
			if m.requests&d.For != 0 {
				has[k] = valuesOf(d.driver, d.device, m.attribute)
			}
			key += fmt.Sprintf(" %q", has[k])
		}
		at, found := known[key]
		if !found {
			at = len(out.Devices)
			known[key] = at
			out.Devices = append(out.Devices, placement.ClaimDevices{NUMA: d.NUMA, For: d.For})
			for k := range has {
				for _, v := range has[k] {
					values[k][v] = append(values[k][v], at)
				}
			}
		}
		g := &out.Devices[at]
		g.Free, g.All = min(g.Free+d.Free, placement.Unlimited), min(g.All+d.All, placement.Unlimited)
	}
	for k := range values {
		for _, v := range slices.Sorted(maps.Keys(values[k])) {
			out.Matches[k].Values = append(out.Matches[k].Values, values[k][v])
		}
		if len(values[k]) == 0 {
			out.Matches[k].Values = [][]int{nil} // no device has the attribute
		}
	}
	return out
}

// valuesOf returns the value of an attribute, or all values of a list. The texts include the type,
// because values of different types are not equal.
func valuesOf(driver string, d *resourceapi.Device, name string) []string {
	a, found := attribute(driver, d, name)
	if !found {
		return nil
	}
	var out []string
	say := func(v any) { out = append(out, fmt.Sprintf("%T %v", v, v)) }
	switch {
	case a.IntValue != nil:
		say(*a.IntValue)
	case a.BoolValue != nil:
		say(*a.BoolValue)
	case a.StringValue != nil:
		say(*a.StringValue)
	case a.VersionValue != nil:
		say(*a.VersionValue)
	}
	for _, v := range a.IntValues {
		say(v)
	}
	for _, v := range a.BoolValues {
		say(v)
	}
	for _, v := range a.StringValues {
		say(v)
	}
	for _, v := range a.VersionValues {
		say(v)
	}
	return out
}
