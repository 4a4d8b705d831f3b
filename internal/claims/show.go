package claims

import (
	resourceapi "k8s.io/api/resource/v1"

	"github.com/berth-dev/berth/topology"
)

// Show returns a copy of a slice for an allocator, without the devices on NUMA nodes outside numa
// and without Misstated devices. It keeps neutral devices, and all devices for which keep returns
// true. keep may be nil. keep must return true for an allocated device that consumes shared
// counters, because the allocator reads the consumption from the slice. It cannot allocate such a
// device again. Show does not change s. If the copy would equal s, Show returns s itself.
//
// A slice keeps all other parts even if it has no devices left, because an allocator ignores a pool
// if one of its slices is missing.
func (i *Inventory) Show(s *resourceapi.ResourceSlice, numa topology.NUMASet, keep func(DeviceID, *resourceapi.Device) bool) *resourceapi.ResourceSlice {
	out, spent := *s, map[int]bool{} // spent: the positions of kept devices that others could share
	out.Spec.Devices = make([]resourceapi.Device, 0, len(s.Spec.Devices))
	for k := range s.Spec.Devices {
		d := &s.Spec.Devices[k]
		id := DeviceID{s.Spec.Driver, s.Spec.Pool.Name, d.Name}
		if p := i.Place(id); p.Standing == Misstated || p.Standing == Located && !numa.Has(p.NUMA) {
			if keep == nil || !keep(id, d) {
				continue
			}
			if d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations {
				spent[len(out.Spec.Devices)] = true
			}
		}
		out.Spec.Devices = append(out.Spec.Devices, *d)
	}
	switch {
	case len(spent) > 0:
		reserve(&out, spent)
	case len(out.Spec.Devices) == len(s.Spec.Devices):
		return s
	}
	return &out
}

// reserve makes the devices at these positions devices of no node. An allocator counts what they
// consume, but does not allocate them.
func reserve(s *resourceapi.ResourceSlice, spent map[int]bool) {
	for k := range s.Spec.Devices {
		d := &s.Spec.Devices[k]
		switch {
		case spent[k]:
			d.NodeName, d.NodeSelector, d.AllNodes = nil, nil, nil
		case s.Spec.NodeName != nil:
			d.NodeName = s.Spec.NodeName
		}
	}
	s.Spec.NodeName, s.Spec.PerDeviceNodeSelection = nil, new(true)
}
