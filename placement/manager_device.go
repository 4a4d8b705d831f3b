package placement

import (
	"slices"

	"github.com/berth-dev/berth/placement/device"
	"github.com/berth-dev/berth/placement/hint"
)

// deviceManager is the device manager (pkg/kubelet/cm/devicemanager), with a slot for each resource
// that the pod requests and the device manager manages.
type deviceManager struct {
	ad    *admission
	slots []slot
	used  int
	// nodes are the NUMA nodes of the devices that were assigned so far.
	nodes hint.Mask
}

type slot struct {
	pool *devicePool
	// inUse has the devices of the pool that containers hold, and reusable has the devices that
	// later containers of the pod may reuse. Both belong to this admission and not to the State.
	// out and held are working memory.
	inUse, reusable, out, held device.Set
}

// begin creates a slot for each managed resource of the request.
func (dm *deviceManager) begin(empty bool) {
	ad := dm.ad
	dm.used, dm.nodes = 0, 0
	if len(ad.s.pools) == 0 {
		return
	}
	for i := range ad.r.Containers {
		for j := range ad.r.Containers[i].Devices {
			at := ad.s.pools.index(ad.r.Containers[i].Devices[j].Resource)
			if at >= 0 && dm.slot(ad.s.pools[at].resource) == nil {
				dm.open(&ad.s.pools[at], empty)
			}
		}
	}
}

func (dm *deviceManager) open(pool *devicePool, empty bool) {
	if dm.used == len(dm.slots) {
		dm.slots = append(dm.slots, slot{})
	}
	s := &dm.slots[dm.used]
	dm.used++
	s.pool = pool
	s.inUse = append(s.inUse[:0], pool.inUse...)
	if empty {
		clear(s.inUse)
	}
	words := len(pool.inUse)
	for _, set := range [...]*device.Set{&s.reusable, &s.out, &s.held} {
		*set = slices.Grow((*set)[:0], words)[:words]
		clear(*set)
	}
}

// slot returns the slot of a resource, or nil if the device manager does not manage it.
func (dm *deviceManager) slot(resource string) *slot {
	for i := range dm.slots[:dm.used] {
		if s := &dm.slots[i]; s.pool.resource == resource {
			return s
		}
	}
	return nil
}

// giveBack frees the devices of a container in the admission.
func (dm *deviceManager) giveBack(c *ContainerAllocation) {
	for i := range c.Devices {
		s := dm.slot(c.Devices[i].Resource)
		if s == nil {
			continue
		}
		for _, id := range c.Devices[i].IDs {
			if j, ok := s.pool.pool.Find(id); ok {
				s.inUse.Remove(j)
			}
		}
	}
}

// hints implements GetTopologyHints and GetPodTopologyHints.
func (dm *deviceManager) hints(c int, want hint.Want) Detail {
	ad := dm.ad
	if c == wholePod {
		return dm.podHints(want)
	}
	for i := range ad.r.Containers[c].Devices {
		r := &ad.r.Containers[c].Devices[i]
		s := dm.slot(r.Resource)
		if s == nil {
			continue
		}
		clear(s.held)
		held := s.hold(ad.heldBy(c))
		if d := s.hints(ad, held, device.HintInput{N: int(r.Count), Reusable: s.reusable, Want: want}); d != NoDetail {
			return d
		}
	}
	return NoDetail
}

// podHints adds the hints for the pod's peak request (resource.PodLimits), without reuse of init
// containers' devices.
func (dm *deviceManager) podHints(want hint.Want) Detail {
	ad := dm.ad
	for i := range dm.slots[:dm.used] {
		s := &dm.slots[i]
		var sum Peak[int64]
		clear(s.held)
		held := holding{}
		for c := range ad.r.Containers {
			r := &ad.r.Containers[c]
			sum.Add(r.Kind, r.devices(s.pool.resource))
			if ad.whole && ad.m.guard && dm.chosenLate(r, s.pool.resource) {
				return DefectLateDevices
			}
			h := s.hold(ad.heldBy(c))
			held = holding{held.exists || h.exists, held.vanished || h.vanished, held.n + h.n}
		}
		if held.n > 0 {
			held.n = dm.distinct(s.pool.resource)
		}
		if d := s.hints(ad, held, device.HintInput{N: int(sum.Most()), Want: want}); d != NoDetail {
			return d
		}
	}
	return NoDetail
}

// distinct returns the number of devices of a resource that the pod already holds. A device that
// several containers have counts once.
func (dm *deviceManager) distinct(resource string) int {
	seen := map[string]bool{}
	for c := range dm.ad.r.Containers {
		ids, _ := dm.ad.heldBy(c).devices(resource)
		for _, id := range ids {
			seen[id] = true
		}
	}
	return len(seen)
}

// chosenLate reports whether the kubelet chooses the container's devices only when the container
// starts (GetDeviceRunContainerOptions).
func (dm *deviceManager) chosenLate(c *ContainerRequest, resource string) bool {
	return slices.ContainsFunc(c.Devices, func(d DeviceRequest) bool {
		return d.Resource == resource && d.Count > 0 && !(d.Claimed && dm.ad.m.set.claims)
	})
}

func (r *ContainerRequest) devices(resource string) int64 {
	for i := range r.Devices {
		if r.Devices[i].Resource == resource {
			return r.Devices[i].Count
		}
	}
	return 0
}

// holding describes the devices in slot.held, which a container or a pod already holds.
type holding struct {
	exists   bool
	vanished bool // the plugin no longer lists some of them
	n        int
}

// hold adds the devices of a container to slot.held.
func (s *slot) hold(c *ContainerAllocation) (h holding) {
	ids, exists := c.devices(s.pool.resource)
	h.exists, h.n = exists, len(ids)
	for _, id := range ids {
		if i, ok := s.pool.pool.Find(id); ok {
			s.held.Add(i)
		} else {
			h.vanished = true
		}
	}
	return h
}

// hints adds the hint list for in.N devices. They come from the devices that the container or pod
// already holds or, if it holds none, from the free devices.
func (s *slot) hints(ad *admission, held holding, in device.HintInput) Detail {
	switch {
	case !s.pool.pool.Aligned():
		return NoDetail
	case held.n > 0 && held.n != in.N:
		ad.list(s.pool.resource).Reset(hint.Impossible)
		return NoDetail
	case held.n > 0 && held.vanished && ad.m.set.version >= V134:
		// Kubernetes 1.33 treats the device as a device without topology.
		return DefectVanishedDevice
	case held.n > 0:
		in.Available, in.Reusable = s.held, nil
	default:
		copy(s.out, s.pool.pool.Healthy())
		s.out.AndNot(s.inUse)
		in.Available = s.out
		if in.Reusable != nil && s.out.Len()+in.Reusable.Len()-s.out.AndLen(in.Reusable) < in.N {
			ad.list(s.pool.resource).Reset(hint.Impossible)
			return NoDetail
		}
	}
	if s.pool.pool.Wide() {
		if in.Available.Len() >= in.N || in.Reusable != nil {
			return DefectWideDevices
		}
		ad.list(s.pool.resource).Reset(hint.Impossible)
		return NoDetail
	}
	s.pool.pool.Hints(&in, ad.list(s.pool.resource))
	return NoDetail
}

// allocate implements Allocate. It first allocates the devices of every resource, and then records
// the devices that later containers may reuse.
func (dm *deviceManager) allocate(c int, h hint.Hint) Detail {
	ad := dm.ad
	if c == wholePod {
		// The kubelet's words: "Device Manager does not support pod level resource allocation".
		return NoDetail
	}
	for i := range ad.r.Containers[c].Devices {
		r := &ad.r.Containers[c].Devices[i]
		s := dm.slot(r.Resource)
		if s == nil || r.Claimed && ad.m.set.claims {
			continue
		}
		if d := dm.take(c, s, int(r.Count), h); d != NoDetail {
			if dm.anotherFails(c, i+1, h) {
				ad.chance = true
			}
			return d
		}
	}
	for i := range ad.d.Containers[c].Devices {
		dm.reuse(c, &ad.d.Containers[c].Devices[i])
	}
	return NoDetail
}

// anotherFails reports whether a later resource of the container would be refused too. The kubelet
// iterates over a Go map, so it then reports a random one of these refusals.
func (dm *deviceManager) anotherFails(c, from int, h hint.Hint) bool {
	devices := dm.ad.r.Containers[c].Devices[from:]
	for i := range devices {
		s := dm.slot(devices[i].Resource)
		if s == nil || devices[i].Claimed && dm.ad.m.set.claims {
			continue
		}
		if dm.take(c, s, int(devices[i].Count), h) != NoDetail {
			return true
		}
	}
	return false
}

// take implements devicesToAllocate.
func (dm *deviceManager) take(c int, s *slot, n int, h hint.Hint) Detail {
	ad := dm.ad
	clear(s.held)
	held := s.hold(ad.heldBy(c))
	switch {
	case held.exists && held.n != n:
		return DeviceRequestChanged
	case !s.pool.registered:
		return DeviceUnregistered
	case s.pool.pool.Healthy().Len() == 0:
		return NoHealthyDevice
	case held.exists && (held.vanished || !s.held.IsSubsetOf(s.pool.pool.Healthy())):
		return HeldDeviceUnhealthy
	case held.exists:
		dm.give(c, s, s.held)
		return NoDetail
	}
	clear(s.out)
	taking := device.Taking{N: n, InUse: s.inUse, Reusable: s.reusable, Hint: h, Prefer: s.pool.source.Preference}
	chance, ok := s.pool.pool.Take(&taking, s.out)
	if !ok {
		return TooFewDevices
	}
	ad.chance = ad.chance || chance
	s.inUse.Or(s.out)
	if n > 0 {
		dm.give(c, s, s.out)
	}
	return NoDetail
}

func (dm *deviceManager) give(c int, s *slot, given device.Set) {
	got := &dm.ad.d.Containers[c]
	got.Devices = extend(got.Devices)
	a := &got.Devices[len(got.Devices)-1]
	a.Resource, a.IDs = s.pool.resource, a.IDs[:0]
	for i := range given.All() {
		a.IDs = append(a.IDs, s.pool.pool.ID(i))
	}
	dm.nodes |= s.pool.pool.Nodes(given)
}

// extend makes a slice longer by one and keeps the contents of the new element, so that its memory
// can be reused.
func extend[T any](s []T) []T {
	if len(s) < cap(s) {
		return s[:len(s)+1]
	}
	var zero T
	return append(s, zero)
}

// reuse implements addContainerAllocatedResources and removeContainerAllocatedResources.
func (dm *deviceManager) reuse(c int, a *DeviceAllocation) {
	s := dm.slot(a.Resource)
	leaves := dm.ad.r.Containers[c].Kind == Init
	if !leaves && s.reusable.IsEmpty() {
		return
	}
	for _, id := range a.IDs {
		i, ok := s.pool.pool.Find(id)
		switch {
		case !ok:
		case leaves:
			s.reusable.Add(i)
		default:
			s.reusable.Remove(i)
		}
	}
}
