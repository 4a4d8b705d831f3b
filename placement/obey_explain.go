package placement

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/berth-dev/berth/placement/joint"
)

// explain adds to a Refusal the request of the pod, or of the refused container, and the free
// amounts of each NUMA node.
func (ad *jointAdmission) explain(s *State, r *Request, out Refusal, v *Verdict) Refusal {
	ad.begin(s, r, new(Decision))
	copy(ad.provision.given, s.given)
	at := wholePod
	if ad.rules.Scope == PodScope && ad.rules.Policy != PolicyNone {
		ad.try.Begin(s.account)
		ad.wantPod()
	} else {
		out.Container = r.Containers[v.Container].Name
		ad.run(s.account)
		at = int(v.Container)
		ad.wantContainer(at)
	}
	w, book := &ad.want, &ad.try.Book
	if v.Detail == NotExactly {
		out.NUMANodes = w.Nodes
	}
	if w.CPUs > 0 {
		n := Need{Resource: cpuResource, Asked: uint64(w.CPUs)}
		if v.Detail == Withholds && w.Rules.Exclusive == joint.ExclusiveCore {
			n.Whole = uint64(s.m.obey.joint.Cores.Threads())
		}
		for pos := range s.m.space.Len() {
			free := uint64(s.m.obey.joint.FreeOn(book, pos))
			n.add(s.m, pos, free, s.m.obey.joint.Amounts.Capacity(joint.CPU, pos)/1000)
		}
		out.Needs = append(out.Needs, n)
	}
	for _, a := range w.Amounts {
		n := Need{Resource: shareResource, Asked: a.N}
		if a.Kind != joint.CPU {
			n.Resource = s.m.obey.joint.Amounts.KindName(a.Kind)
		}
		for pos := range s.m.space.Len() {
			n.add(s.m, pos, s.m.obey.joint.Amounts.Room(book, a.Kind, pos), s.m.obey.joint.Amounts.Capacity(a.Kind, pos))
		}
		out.Needs = append(out.Needs, n)
	}
	for i := range w.Devices {
		want := &w.Devices[i]
		n := Need{Resource: s.m.obey.joint.Devices.KindName(want.Kind), Asked: uint64(want.N)}
		for pos := range s.m.space.Len() {
			free, all := s.m.obey.joint.Devices.On(book, want.Kind, pos)
			n.add(s.m, pos, uint64(free), uint64(all))
		}
		for at, d := range s.m.obey.kinds[want.Kind].Devices {
			if !d.HasNUMA && s.m.obey.joint.Devices.IsFree(book, joint.DeviceRef{Kind: want.Kind, Index: uint16(at)}) {
				n.Free++
			}
		}
		out.Needs = append(out.Needs, n)
	}
	out.Needs = ad.provision.explain(out.Needs, at)
	for i := range w.Devices {
		out.Devices = ad.explainDevices(out.Devices, w.Devices[i].Kind, out.Needs)
	}
	return out
}

// explainDevices appends to out, for each device of a kind, why it was not assigned.
func (ad *jointAdmission) explainDevices(out []DeviceAnswer, kind uint8, needs []Need) []DeviceAnswer {
	k := &ad.m.obey.kinds[kind]
	for i := range k.Devices {
		d := &k.Devices[i]
		a := DeviceAnswer{Resource: k.Resource, ID: d.ID, Root: d.Root, Switch: d.Switch}
		if d.HasNUMA {
			a.NUMA = &d.NUMA
		}
		a.Why, a.Holder = ad.explainDevice(joint.DeviceRef{Kind: kind, Index: uint16(i)}, d, needs)
		out = append(out, a)
	}
	return out
}

// explainDevice explains why a device was not assigned, and names the pod that holds it.
func (ad *jointAdmission) explainDevice(ref joint.DeviceRef, d *PlacedDevice, needs []Need) (why, holder string) {
	m, book := ad.m.obey, &ad.try.Book
	switch {
	case m.joint.Devices.IsTaken(book, ref):
		return "held", cmp.Or(ad.s.holderOf(m.kinds[ref.Kind].Resource, d.ID), "the pod itself")
	case !m.joint.Devices.IsFree(book, ref):
		return "unhealthy", ""
	}
	if lack := ad.lacks(d, needs); lack != "" {
		return "free, and " + lack, ""
	}
	return "free", ""
}

// lacks explains why the pod cannot use a free device: its place has too few other devices, or its
// NUMA node too little of another resource. It returns "" if neither is the reason.
func (ad *jointAdmission) lacks(d *PlacedDevice, needs []Need) string {
	w := &ad.want
	at, place := d.Root, "root complex"
	if w.Same == joint.SameSwitch || w.Same == joint.OneSwitch {
		at, place = d.Switch, "switch"
	}
	if w.SameHow == joint.Required {
		if at == "" {
			return "below no " + place
		}
		for i := range w.Devices {
			want := &w.Devices[i]
			least := 1
			if w.Same == joint.OneSwitch || w.Same == joint.OneRoot {
				least = want.N
			}
			if n := ad.freeAt(want.Kind, at, w.Same); n == 0 {
				return "its " + place + " has no free " + ad.m.obey.kinds[want.Kind].Resource
			} else if n < least {
				return "its " + place + " has only " + strconv.Itoa(n) + " free " + ad.m.obey.kinds[want.Kind].Resource
			}
		}
	}
	if w.Width != joint.One || !d.HasNUMA {
		return ""
	}
	for i := range needs {
		n := &needs[i]
		at := slices.IndexFunc(n.Nodes, func(a NodeAmount) bool { return a.NUMA == d.NUMA })
		if !n.isProvided() && (at < 0 || n.Nodes[at].Free < n.Asked) {
			return "NUMA " + strconv.Itoa(int(d.NUMA)) + " has too little " + n.unit()
		}
	}
	return ""
}

// freeAt returns the number of free devices of a kind at a switch or root complex.
func (ad *jointAdmission) freeAt(kind uint8, at string, same joint.Same) (n int) {
	for i := range ad.m.obey.kinds[kind].Devices {
		d := &ad.m.obey.kinds[kind].Devices[i]
		where := d.Root
		if same == joint.SameSwitch || same == joint.OneSwitch {
			where = d.Switch
		}
		if where == at && ad.m.obey.joint.Devices.IsFree(&ad.try.Book, joint.DeviceRef{Kind: kind, Index: uint16(i)}) {
			n++
		}
	}
	return n
}

// add adds the amounts of a NUMA node. It leaves out a NUMA node that has none of the resource.
func (n *Need) add(m *Model, pos int, free, total uint64) {
	n.Free += free
	if total > 0 {
		n.Nodes = append(n.Nodes, NodeAmount{NUMA: m.space.ID(pos), Free: free, Total: total})
	}
}
