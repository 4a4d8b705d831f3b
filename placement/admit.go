package placement

import "github.com/berth-dev/berth/topology"

// Admit says whether the kubelet would admit the request on a node in this state. It is pure and, once warm, allocates
// nothing.
func Admit(s *State, r *Request) Verdict {
	ad := s.m.admissions.Get().(*admission)
	v := ad.decide(s, r, &ad.own)
	s.m.admissions.Put(ad)
	return v
}

// Decide is Admit, and fills d with what the kubelet will hand out. On refusal d holds what it handed out before it
// refused: the kubelet keeps that until it next looks for pods that are gone.
func Decide(s *State, r *Request, d *Decision) Verdict {
	ad := s.m.admissions.Get().(*admission)
	v := ad.decide(s, r, d)
	s.m.admissions.Put(ad)
	return v
}

func (ad *admission) decide(s *State, r *Request, d *Decision) Verdict {
	if !r.sane() {
		d.UID, d.Containers = r.UID, d.Containers[:0]
		return Verdict{Reason: InvalidRequest, Detail: BadRequest, Scarcity: Unresolvable}
	}
	ad.rules = ad.m.rulesFor(r.Rules)
	if ad.m.set.cannot[ad.rules.Policy] != nil {
		d.UID, d.Containers = r.UID, d.Containers[:0]
		return Verdict{Reason: InvalidRequest, Detail: PolicyUnsupported, Scarcity: Unresolvable}
	}
	ad.begin(s, r, d, false)
	detail, c := ad.run(len(r.Containers))
	if detail == NoDetail && r.PodLevel && ad.m.guard && ad.m.set.refusesPodLevel {
		ad.end()
		return Verdict{Reason: PodLevelOff.Reason(), Detail: PodLevelOff, Scarcity: Unresolvable}
	}
	v := Verdict{Reason: detail.Reason(), Detail: detail, Random: ad.chance}
	if detail == NoDetail {
		v.NUMA = ad.nodes()
		ad.end()
		return v
	}
	v.Container = int16(c)
	v.Scarcity = Resolvable
	if ad.hopeless(s, r) {
		v.Scarcity = Unresolvable
	}
	return v
}

// hopeless is a second admission, to an empty node.
func (ad *admission) hopeless(s *State, r *Request) bool {
	ad.begin(s, r, &ad.empty, true)
	detail, _ := ad.run(len(r.Containers))
	ad.end()
	return detail != NoDetail && !detail.passing()
}

// passing says whether a node that is fuller may admit what an empty one refuses for this reason: the CPU manager's arithmetic
// can fail on one set of free CPUs and not on another, and fewer hints are merged faster.
func (d Detail) passing() bool {
	switch d {
	case CPUsNotFound, CPUAccounting, MemoryGroup,
		DefectHang, DefectTooComplex, DefectSlowMerge, DefectForeignCPUs, DefectMixedGroups, DefectUnequalGroup:
		return true
	}
	return false
}

// nodes is the union of the NUMA nodes of all that the decision pins.
func (ad *admission) nodes() topology.NUMASet {
	nodes := ad.m.expand(ad.devices.nodes)
	for i := range ad.d.Containers {
		c := &ad.d.Containers[i]
		if !c.CPUs.IsEmpty() {
			nodes |= ad.m.nodesOf(&c.CPUs)
		}
		for j := range c.Memory {
			nodes |= c.Memory[j].NUMA
		}
	}
	return nodes
}

// The largest amounts that are evaluated: beyond them sums over a pod's containers could overflow, and the API server
// would have refused the quantity.
const (
	maxMilliCPU   = int64(topology.MaxCPUs) * 1000 * 1000
	maxBytes      = uint64(1) << 60
	maxDevices    = int64(1) << 30
	maxContainers = 1 << 14
)

// sane says whether the amounts can be evaluated.
func (r *Request) sane() bool {
	if len(r.Containers) > maxContainers || !r.Rules.sane() {
		return false
	}
	for i := range r.Containers {
		c := &r.Containers[i]
		if c.MilliCPU < 0 || c.MilliCPU > maxMilliCPU || c.Kind > Sidecar {
			return false
		}
		for j := range c.Memory {
			if c.Memory[j].Bytes > maxBytes {
				return false
			}
		}
		for j := range c.Devices {
			if c.Devices[j].Count < 0 || c.Devices[j].Count > maxDevices {
				return false
			}
		}
	}
	return true
}
