package placement

import (
	"cmp"

	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

// DeviceKind is a resource whose devices Berth assigns.
type DeviceKind struct {
	Resource string // such as "nvidia.com/gpu"
	// Type is the type of all devices of the resource, or OtherDevice if their types differ.
	Type    topology.DeviceKind
	Devices []PlacedDevice // ascending by ID
	// Links are direct connections, by positions in Devices.
	Links []joint.DeviceLink
}

// PlacedDevice is a device with its place.
type PlacedDevice struct {
	ID      string
	NUMA    topology.NUMAID
	HasNUMA bool
	// Root is the name of the PCI root complex, Switch the name of the outermost PCI switch, and
	// Function the name of the physical function. "" means none.
	Root, Switch, Function string
}

// DevicesOf returns the kinds of devices that Berth assigns, one for each pool with
// DevicePool.Decided. The places of the devices come from m. If m does not have a device, only its
// NUMA node is known, and only if the pool names exactly one NUMA node for it.
func DevicesOf(m *topology.Machine, pools []DevicePool) []DeviceKind {
	var out []DeviceKind
	for i := range pools {
		if !pools[i].Decided {
			continue
		}
		kind := DeviceKind{Resource: pools[i].Resource}
		at := map[string]int{}
		for j := range pools[i].Devices {
			d := &pools[i].Devices[j]
			known := m.Device(d.ID)
			if t := typeOf(known); j == 0 {
				kind.Type = t
			} else if t != kind.Type {
				kind.Type = topology.OtherDevice
			}
			at[d.ID] = j
			kind.Devices = append(kind.Devices, placeOfDevice(m, known, d))
		}
		for _, l := range m.Links {
			a, hasA := at[l.A]
			b, hasB := at[l.B]
			if hasA && hasB {
				kind.Links = append(kind.Links, joint.DeviceLink{A: a, B: b, Count: int(l.Count)})
			}
		}
		out = append(out, kind)
	}
	return out
}

func typeOf(d *topology.Device) topology.DeviceKind {
	if d == nil {
		return topology.OtherDevice
	}
	return d.Kind()
}

func placeOfDevice(m *topology.Machine, known *topology.Device, d *Device) PlacedDevice {
	out := PlacedDevice{ID: d.ID}
	if known == nil {
		if d.HasTopology && d.NUMA.Len() == 1 {
			out.NUMA, out.HasNUMA = d.NUMA.Lowest(), true
		}
		return out
	}
	out.NUMA, out.HasNUMA = known.NUMA, known.HasNUMA
	out.Root = known.Root
	if above := m.Switches(known); len(above) > 0 {
		out.Switch = above[len(above)-1]
	}
	out.Function = cmp.Or(known.Physical, known.Address)
	return out
}
