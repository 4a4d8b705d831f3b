package claims

import (
	resourceapi "k8s.io/api/resource/v1"

	"github.com/berth-dev/berth/topology"
)

// Show returns a copy of a slice for an allocator, without the devices on NUMA nodes outside numa
// and without Misstated devices. It keeps neutral devices, and all devices for which keep returns
// true. keep may be nil. keep must return true for an allocated device that consumes shared
// counters, because the allocator reads the consumption from the slice. Show does not change s. If
// it removes no device, it returns s itself.
//
// A slice keeps all other parts even if it has no devices left, because an allocator ignores a pool
// if one of its slices is missing.
func (i *Inventory) Show(s *resourceapi.ResourceSlice, numa topology.NUMASet, keep func(DeviceID, *resourceapi.Device) bool) *resourceapi.ResourceSlice {
	shown := func(d *resourceapi.Device) bool {
		id := DeviceID{s.Spec.Driver, s.Spec.Pool.Name, d.Name}
		p := i.Place(id)
		switch p.Standing {
		case Located:
			return numa.Has(p.NUMA) || keep != nil && keep(id, d)
		case Misstated:
			return keep != nil && keep(id, d)
		}
		return true
	}
	left := 0
	for k := range s.Spec.Devices {
		if shown(&s.Spec.Devices[k]) {
			left++
		}
	}
	if left == len(s.Spec.Devices) {
		return s
	}
	out := *s
	out.Spec.Devices = make([]resourceapi.Device, 0, left)
	for k := range s.Spec.Devices {
		if d := &s.Spec.Devices[k]; shown(d) {
			out.Spec.Devices = append(out.Spec.Devices, *d)
		}
	}
	return &out
}
