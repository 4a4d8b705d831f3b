package placement

import (
	"slices"

	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

// DecideWithin is Decide for a pod that uses a part of a held place, on a node where Berth decides.
// A held place has the resources of a Reservation. In the state, a pod with the UID of the place
// holds the unused rest of the place. If the place has a kind of resource, the new pod gets this
// kind only from the rest. If the place has CPU time, the pod gets CPU time only in the same form
// (isPart). All other resources come from the rest of the node, and resources of providers come
// from the whole node. With these rules, Rest can subtract the pod's part from the place.
func DecideWithin(s *State, place *PodAllocation, r *Request, d *Decision) Verdict {
	none := Verdict{Reason: NoBerth, Detail: NoRoom, Scarcity: Resolvable}
	p := s.pod(place.UID)
	if p == nil {
		return none
	}
	in := s.Clone()
	s.m.obey.joint.Confine(in.account, s.m.obey.heldBy(place), s.m.obey.heldBy(p))
	jointBooks{in}.enterProvided(p, false)
	v := Decide(in, r, d)
	switch {
	case !v.OK():
		v.Scarcity = Resolvable
	case !isPart(d, place, p):
		return none
	}
	return v
}

// DecideBeyond is DecideWithin for a pod that may need more than the rest of the place. The missing
// amounts come from the node, if possible on the NUMA nodes of the place. The pod must take a part
// of each requested resource that the place still has, and the node must still have room for the
// rest of the place. If last is set, no other pod will use the place. It is then enough that the
// pod is on one of the NUMA nodes of the place, and the pod may get exclusive CPUs although the
// place has shares, or the reverse.
func DecideBeyond(s *State, place *PodAllocation, last bool, r *Request, d *Decision) Verdict {
	v := DecideWithin(s, place, r, d)
	p := s.pod(place.UID)
	if v.OK() || p == nil {
		return v
	}
	left := s.m.obey.heldBy(p)
	// First try the place plus any CPUs, then the place plus whole cores, then the whole node.
	for try := range 3 {
		in := s.Clone()
		s.m.obey.joint.Give(in.account, left)
		if try < 2 {
			s.m.obey.joint.Near(in.account, left, func(k joint.KindIndex) uint64 { return s.m.obey.askedOf(r, k) }, try == 1)
		}
		jointBooks{in}.enterProvided(p, false)
		if v = Decide(in, r, d); v.OK() && (last && v.NUMA&s.Holding(place.UID) != 0 || (jointBooks{s}).leaves(p, r, d)) {
			return v
		}
	}
	if v.OK() {
		return Verdict{Reason: NoBerth, Detail: NoRoom, Scarcity: Resolvable}
	}
	v.Scarcity = Resolvable
	return v
}

// leaves reports whether the decision takes a part of each requested resource that p still has, and
// whether the node then has room for the rest of p.
func (b jointBooks) leaves(p *PodAllocation, r *Request, d *Decision) bool {
	s := b.s
	owner := d.Held()
	rest := Rest(p, []*PodAllocation{owner})
	before, after, some := s.m.obey.heldBy(p), s.m.obey.heldBy(rest), false
	for k := range s.m.obey.joint.Amounts.Kinds() {
		had, has := before.Amount(k), after.Amount(k)
		if some = some || has < had; had > 0 && s.m.obey.askedOf(r, k) > 0 && has == had {
			return false
		}
	}
	for i := range s.m.obey.kinds {
		had, has := before.Count(uint8(i)), after.Count(uint8(i))
		if some = some || has < had; had > 0 && r.devicesOf(s.m.obey.kinds[i].Resource) > 0 && has == had {
			return false
		}
	}
	if !some {
		return false
	}
	then := s.m.obey.joint.NewBook()
	then.CopyFrom(s.account)
	s.m.obey.joint.Give(then, before)
	s.m.obey.joint.Take(then, s.m.obey.heldBy(owner))
	if s.m.obey.joint.Problem(then, after) != "" {
		return false
	}
	s.m.obey.joint.Take(then, after)
	return !s.m.obey.joint.Amounts.Overdrawn(then, s.account)
}

// devicesOf returns the total number of devices of a resource that the pod's containers request.
func (r *Request) devicesOf(resource string) (n int64) {
	for i := range r.Containers {
		n += r.Containers[i].devices(resource)
	}
	return n
}

// isPart reports whether a decision takes CPU time in the form that the place has: exclusive CPUs
// with the same Exclusive or, on each NUMA node, no more shares than left has.
func isPart(d *Decision, place, left *PodAllocation) bool {
	shares, time, exclusive := map[topology.NUMAID]uint64{}, false, joint.Shareable
	for i := range place.Containers {
		c := &place.Containers[i]
		time = time || !c.CPUs.IsEmpty() || len(c.Shares) > 0
		exclusive = max(exclusive, c.Exclusive)
	}
	if !time {
		return true // the place has no CPU time, so any form is allowed
	}
	for i := range left.Containers {
		for _, a := range left.Containers[i].Shares {
			shares[a.NUMA] += uint64(max(a.MilliCPU, 0))
		}
	}
	asked := Peaks[topology.NUMAID]{}
	for i := range d.Containers {
		c := &d.Containers[i]
		if !c.CPUs.IsEmpty() && c.Exclusive != exclusive {
			return false
		}
		for _, a := range c.Shares {
			asked.Add(c.Kind, a.NUMA, uint64(max(a.MilliCPU, 0)))
		}
	}
	for node, peak := range asked {
		if peak.Most() > shares[node] {
			return false
		}
	}
	return true
}

// Rest returns the part of an allocation that the pods in by have not taken. Amounts are compared
// by NUMA node.
func Rest(of *PodAllocation, by []*PodAllocation) *PodAllocation {
	t := taken{shares: map[topology.NUMAID]uint64{}, memory: map[memoryPlace]uint64{}, devices: map[string][]string{}, provided: map[Provided]uint64{}}
	for _, p := range by {
		t.add(p)
	}
	out := &PodAllocation{UID: of.UID, Containers: slices.Clone(of.Containers)}
	for i := range out.Containers {
		t.takeFrom(&out.Containers[i])
	}
	return out
}

// taken has the resources that Rest must still subtract.
type taken struct {
	cpus    topology.CPUSet
	shares  map[topology.NUMAID]uint64
	memory  map[memoryPlace]uint64
	devices map[string][]string // ids by resource
	// provided is keyed by resource and place.
	provided map[Provided]uint64
}

type memoryPlace struct {
	resource string
	numa     topology.NUMASet
}

// add adds a pod's resources. For amounts it adds the peak.
func (t *taken) add(p *PodAllocation) {
	shares, memory := Peaks[topology.NUMAID]{}, Peaks[memoryPlace]{}
	for i := range p.Containers {
		c := &p.Containers[i]
		for _, a := range c.Shares {
			shares.Add(c.Kind, a.NUMA, uint64(max(a.MilliCPU, 0)))
		}
		for k := range c.Memory {
			b := &c.Memory[k]
			memory.Add(c.Kind, memoryPlace{b.Resource, b.NUMA}, b.Bytes)
		}
		t.addWhole(c)
	}
	for of, peak := range shares {
		t.shares[of] += peak.Most()
	}
	for of, peak := range memory {
		t.memory[of] += peak.Most()
	}
}

// addWhole adds the CPUs, devices and providers' resources of a container.
func (t *taken) addWhole(c *ContainerAllocation) {
	t.cpus = t.cpus.Or(&c.CPUs)
	for _, p := range c.Provided {
		t.provided[Provided{Resource: p.Resource, Place: p.Place}] += p.Amount
	}
	for i := range c.Devices {
		d := &c.Devices[i]
		t.devices[d.Resource] = append(t.devices[d.Resource], d.IDs...)
	}
}

func (t *taken) takeFrom(c *ContainerAllocation) {
	*c = c.clone()
	c.CPUs = c.CPUs.AndNot(&t.cpus)
	for i := range c.Shares {
		a := &c.Shares[i]
		n := min(uint64(max(a.MilliCPU, 0)), t.shares[a.NUMA])
		a.MilliCPU -= int64(n)
		t.shares[a.NUMA] -= n
	}
	for i := range c.Memory {
		at := memoryPlace{c.Memory[i].Resource, c.Memory[i].NUMA}
		n := min(c.Memory[i].Bytes, t.memory[at])
		c.Memory[i].Bytes -= n
		t.memory[at] -= n
	}
	for i := range c.Provided {
		at := Provided{Resource: c.Provided[i].Resource, Place: c.Provided[i].Place}
		n := min(c.Provided[i].Amount, t.provided[at])
		c.Provided[i].Amount -= n
		t.provided[at] -= n
	}
	for i := range c.Devices {
		d := &c.Devices[i]
		d.IDs = slices.DeleteFunc(d.IDs, func(id string) bool { return slices.Contains(t.devices[d.Resource], id) })
	}
	c.Shares = slices.DeleteFunc(c.Shares, func(a CPUShare) bool { return a.MilliCPU == 0 })
	c.Memory = slices.DeleteFunc(c.Memory, func(b MemoryBlock) bool { return b.Bytes == 0 })
	c.Devices = slices.DeleteFunc(c.Devices, func(d DeviceAllocation) bool { return len(d.IDs) == 0 })
}
