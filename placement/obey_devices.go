package placement

import (
	"slices"
	"strconv"

	"github.com/berth-dev/berth/placement/joint"
)

// numbering assigns a number to each name. The empty name has 0.
type numbering map[string]int

func (n numbering) of(name string) int {
	i, known := n[name]
	if !known {
		i = len(n)
		n[name] = i
	}
	return i
}

// devices converts Config.Devices to the kinds of package joint, with NUMA nodes as positions. Two
// resources must not offer the same device.
func (in *compiling) devices() ([]joint.DeviceKind, error) {
	kinds := in.cfg.Devices
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
				pos, ok := in.m.space.Position(d.NUMA)
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

// wantsDevices fills want with the devices of container c that Berth assigns.
func (ad *jointAdmission) wantsDevices(c int) {
	for i := range ad.r.Containers[c].Devices {
		r := &ad.r.Containers[c].Devices[i]
		if kind, ours := ad.m.obey.kindOfDevice(r.Resource); ours && r.Count > 0 && !r.Claimed {
			ad.wantDevices(kind, r.Count)
		}
	}
	ad.wantTogether()
}

// wantsPodDevices fills want with the pod's peak request for devices.
func (ad *jointAdmission) wantsPodDevices() {
	for kind := range uint8(ad.m.obey.joint.Devices.Kinds()) {
		if n := ad.r.devices(ad.m.obey.joint.Devices.KindName(kind)); n > 0 {
			ad.wantDevices(kind, n)
		}
	}
	ad.wantTogether()
}

// wantTogether fills in the parts of want about devices that must be together, and about the number
// of NUMA nodes.
func (ad *jointAdmission) wantTogether() {
	w, rules := &ad.want, &ad.rules.Devices
	w.Same, w.SameHow = rules.Same, rules.SameHow
	w.Nodes, w.PerNode = int(ad.rules.NUMANodes), 0
	if rules.PerNode > 0 && len(w.Devices) > 0 {
		w.PerNode = int(rules.PerNode)
		w.Nodes = w.Devices[0].N / w.PerNode
	}
}

// uneven reports whether the requested devices cannot be divided into PerNode devices on each NUMA
// node, or whether this gives another number of NUMA nodes than the pod requires.
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
	rules, is := &ad.rules.Devices, setOf(ad.m.obey.kinds[kind].Type)
	ad.want.Devices = append(ad.want.Devices, joint.DeviceWant{
		Kind: kind, N: int(n), All: rules.All&is != 0, OnePerFunction: rules.OnePerFunction&is != 0,
	})
}

// knowsDevices returns the reason if the container's device requests are refused whichever devices
// are free. For example, a rule applies to devices that another program assigns, or does not fit
// the node's devices.
func (ad *jointAdmission) knowsDevices(c int, aligned bool) Detail {
	rules := &ad.rules.Devices
	for i := range ad.r.Containers[c].Devices {
		r := &ad.r.Containers[c].Devices[i]
		kind, ours := ad.m.obey.kindOfDevice(r.Resource)
		switch {
		case r.Count == 0 || ad.m.supplies.provides(r.Resource):
		case !ours || r.Claimed:
			if aligned || rules.insist() {
				return DevicesUndecided
			}
		case rules.Joint != 0 && rules.Joint&setOf(ad.m.obey.kinds[kind].Type) == 0 && rules.SameHow != joint.Unset:
			return DevicesApart
		case rules.All&setOf(ad.m.obey.kinds[kind].Type) != 0 && int(r.Count) != ad.m.obey.joint.Devices.Functions(kind):
			return DevicesNotAll
		}
	}
	return NoDetail
}

// giveGranted writes the devices of the grant to the decision about container c.
func (ad *jointAdmission) giveGranted(c int) {
	g, got := &ad.grant, &ad.d.Containers[c]
	got.Devices = got.Devices[:0]
	for i, d := range g.Devices {
		if i == 0 || g.Devices[i-1].Kind != d.Kind {
			got.Devices = extend(got.Devices)
			a := &got.Devices[len(got.Devices)-1]
			a.Resource, a.IDs = ad.m.obey.joint.Devices.KindName(d.Kind), a.IDs[:0]
		}
		a := &got.Devices[len(got.Devices)-1]
		a.IDs = append(a.IDs, ad.m.obey.joint.Devices.ID(d))
	}
	for i := range got.Devices {
		slices.Sort(got.Devices[i].IDs)
	}
}
