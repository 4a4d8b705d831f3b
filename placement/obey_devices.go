package placement

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

// DeviceKind is a resource that Berth hands out in whole devices.
type DeviceKind struct {
	Resource string // "nvidia.com/gpu"
	// Type is what its devices are for, as far as all agree.
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
	// Root is the PCI root complex, Switch the outermost PCI switch, Function the physical
	// function, each by its name on the machine; "" is none.
	Root, Switch, Function string
}

// DevicesOf returns the kinds of devices that Berth hands out, those of the pools that say so, with
// the places that the machine knows. Of a device that the machine does not know only the NUMA node
// of its pool is known, where that is one.
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

// numbering gives numbers to names, the empty one having 0.
type numbering map[string]int

func (n numbering) of(name string) int {
	i, known := n[name]
	if !known {
		i = len(n)
		n[name] = i
	}
	return i
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

// devicesOf translates NUMA nodes to positions. Two resources must not offer one device.
func (m *Model) devicesOf(kinds []DeviceKind) ([]joint.DeviceKind, error) {
	var out []joint.DeviceKind
	offered, n := map[string]string{}, numbering{"": 0}
	for i := range kinds {
		k := joint.DeviceKind{Name: kinds[i].Resource, Links: kinds[i].Links}
		for _, d := range kinds[i].Devices {
			if other, twice := offered[d.ID]; twice {
				return nil, bad("devices["+k.Name+"]", d.ID, "devices that no other resource offers: it is also one of "+other)
			}
			offered[d.ID] = k.Name
			dev := joint.Device{ID: d.ID, Node: joint.NoNode, Root: n.of(d.Root), Switch: n.of(d.Switch), Function: n.of(d.Function)}
			if d.HasNUMA {
				pos, ok := m.space.Position(d.NUMA)
				if !ok {
					return nil, bad("devices["+k.Name+"]", d.ID+" on NUMA node "+strconv.Itoa(int(d.NUMA)), "a NUMA node of the machine")
				}
				dev.Node = pos
			}
			k.Devices = append(k.Devices, dev)
		}
		out = append(out, k)
	}
	return out, nil
}

// kindOfDevice returns the kind of devices of a resource, and whether Berth hands them out.
func (m *Model) kindOfDevice(resource string) (uint8, bool) {
	if m.joint == nil {
		return 0, false
	}
	return m.joint.DeviceKind(resource)
}

// addDevices adds the devices of an allocation that exist, each once.
func (m *Model) addDevices(to []joint.DeviceRef, a *DeviceAllocation) []joint.DeviceRef {
	kind, ours := m.kindOfDevice(a.Resource)
	if !ours {
		return to
	}
	for _, id := range a.IDs {
		if d, ok := m.joint.FindDevice(kind, id); ok && !slices.Contains(to, d) {
			to = append(to, d)
		}
	}
	return to
}

// nodesOfDevices returns the NUMA nodes of devices that Berth hands out.
func (m *Model) nodesOfDevices(devices []DeviceAllocation) (nodes topology.NUMASet) {
	for i := range devices {
		kind, ours := m.kindOfDevice(devices[i].Resource)
		if !ours {
			continue
		}
		for _, id := range devices[i].IDs {
			d, ok := m.joint.FindDevice(kind, id)
			if !ok {
				continue
			}
			if node, _, _ := m.joint.PlaceOf(d); node != joint.NoNode {
				nodes = nodes.With(m.space.ID(node))
			}
		}
	}
	return nodes
}

// strangers says which devices of a container nobody offers, "" for none.
func (m *Model) strangers(c *ContainerAllocation) string {
	for i := range c.Devices {
		kind, ours := m.kindOfDevice(c.Devices[i].Resource)
		if !ours {
			continue
		}
		for _, id := range c.Devices[i].IDs {
			if _, ok := m.joint.FindDevice(kind, id); !ok {
				return "nobody offers " + c.Devices[i].Resource + " " + strconv.Quote(id)
			}
		}
	}
	return ""
}

// onlyFree returns the allocations without those devices that somebody has in the book, or that
// nobody offers.
func (m *Model) onlyFree(b *joint.Book, devices []DeviceAllocation) []DeviceAllocation {
	out := cloneDevices(devices)
	for i := range out {
		kind, ours := m.kindOfDevice(out[i].Resource)
		if ours {
			out[i].IDs = slices.DeleteFunc(out[i].IDs, func(id string) bool {
				d, ok := m.joint.FindDevice(kind, id)
				return !ok || m.joint.IsTaken(b, d)
			})
		}
	}
	return slices.DeleteFunc(out, func(a DeviceAllocation) bool { return len(a.IDs) == 0 })
}

// takeDevices writes down devices in a book.
func (m *Model) takeDevices(b *joint.Book, devices []DeviceAllocation) {
	for i := range devices {
		kind, ours := m.kindOfDevice(devices[i].Resource)
		if !ours {
			continue
		}
		for _, id := range devices[i].IDs {
			if d, ok := m.joint.FindDevice(kind, id); ok {
				m.joint.TakeDevice(b, d)
			}
		}
	}
}

// wantsDevices fills want with the devices that container c asks for, of the ones that Berth hands
// out.
func (ad *jointAdmission) wantsDevices(c int) {
	for i := range ad.r.Containers[c].Devices {
		r := &ad.r.Containers[c].Devices[i]
		if kind, ours := ad.m.kindOfDevice(r.Resource); ours && r.Count > 0 && !r.Claimed {
			ad.wantDevices(kind, r.Count)
		}
	}
	ad.wantTogether()
}

// wantsPodDevices fills want with the most that the pod's containers hold at one time.
func (ad *jointAdmission) wantsPodDevices() {
	for kind := range uint8(ad.m.joint.DeviceKinds()) {
		var sum podSum[int64]
		for c := range ad.r.Containers {
			sum.add(ad.r.Containers[c].Kind, ad.r.Containers[c].devices(ad.m.joint.DeviceKindName(kind)))
		}
		if n := sum.peak(); n > 0 {
			ad.wantDevices(kind, n)
		}
	}
	ad.wantTogether()
}

// wantTogether fills want with where its devices lie, and with the number of NUMA nodes.
func (ad *jointAdmission) wantTogether() {
	w, rules := &ad.want, &ad.rules.Devices
	w.Same, w.SameHow = rules.Same, rules.SameHow
	w.Nodes, w.PerNode = int(ad.rules.NUMANodes), 0
	if rules.PerNode > 0 && len(w.Devices) > 0 {
		w.PerNode = int(rules.PerNode)
		w.Nodes = w.Devices[0].N / w.PerNode
	}
}

// uneven says whether the devices that are wanted cannot make up so many on each NUMA node, or not
// on as many NUMA nodes as the pod says otherwise.
func (ad *jointAdmission) uneven() bool {
	w := &ad.want
	for i := range w.Devices {
		if w.Devices[i].N != w.Nodes*w.PerNode {
			return true
		}
	}
	n := int(ad.rules.NUMANodes)
	return len(w.Devices) > 0 && (n > 0 && w.Nodes != n || ad.rules.Policy == PolicySingleNUMANode && w.Nodes != 1)
}

func (ad *jointAdmission) wantDevices(kind uint8, n int64) {
	rules, is := &ad.rules.Devices, setOf(ad.m.deviceKinds[kind].Type)
	ad.want.Devices = append(ad.want.Devices, joint.DeviceWant{
		Kind: kind, N: int(n), All: rules.All&is != 0, OnePerFunction: rules.OnePerFunction&is != 0,
	})
}

// knowsDevices says what is wrong with a container's devices, whatever is free: that others would
// choose them though the pod cares, or that the wishes do not fit what the node has.
func (ad *jointAdmission) knowsDevices(c int, aligned bool) Detail {
	rules := &ad.rules.Devices
	for i := range ad.r.Containers[c].Devices {
		r := &ad.r.Containers[c].Devices[i]
		kind, ours := ad.m.kindOfDevice(r.Resource)
		switch {
		case r.Count == 0 || ad.m.isProvided(r.Resource):
		case !ours || r.Claimed:
			if aligned || rules.insist() {
				return DevicesUndecided
			}
		case rules.Joint != 0 && rules.Joint&setOf(ad.m.deviceKinds[kind].Type) == 0 && rules.SameHow != joint.Unset:
			return DevicesApart
		case rules.All&setOf(ad.m.deviceKinds[kind].Type) != 0 && int(r.Count) != ad.m.joint.Functions(kind):
			return DevicesNotAll
		}
	}
	return NoDetail
}

// giveGranted writes the devices of the grant down as container c's.
func (ad *jointAdmission) giveGranted(c int) {
	g, got := &ad.grant, &ad.d.Containers[c]
	got.Devices = got.Devices[:0]
	for i, d := range g.Devices {
		if i == 0 || g.Devices[i-1].Kind != d.Kind {
			got.Devices = extend(got.Devices)
			a := &got.Devices[len(got.Devices)-1]
			a.Resource, a.IDs = ad.m.joint.DeviceKindName(d.Kind), a.IDs[:0]
		}
		a := &got.Devices[len(got.Devices)-1]
		a.IDs = append(a.IDs, ad.m.joint.DeviceID(d))
	}
	for i := range got.Devices {
		slices.Sort(got.Devices[i].IDs)
	}
}
