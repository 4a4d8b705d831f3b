package placement

import (
	"slices"

	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

// Admit says whether the kubelet would admit the request on a node in this state. It is pure and,
// once warm, allocates nothing.
func Admit(s *State, r *Request) Verdict {
	in := s.m.admissions.Get().(*room)
	v := in.decide(s, r, &in.own)
	s.m.admissions.Put(in)
	return v
}

// Decide is Admit, and fills d with what the kubelet will hand out. On refusal d holds what it
// handed out before it refused: the kubelet keeps that until it next looks for pods that are gone.
func Decide(s *State, r *Request, d *Decision) Verdict {
	in := s.m.admissions.Get().(*room)
	v := in.decide(s, r, d)
	s.m.admissions.Put(in)
	return v
}

func (in *room) decide(s *State, r *Request, d *Decision) Verdict {
	if !r.sane() {
		d.UID, d.Containers = r.UID, d.Containers[:0]
		return Verdict{Reason: InvalidRequest, Detail: BadRequest, Scarcity: Unresolvable}
	}
	v := in.decider.decide(s, r, d)
	if r.Rules.Keep != nil && v.OK() && s.keptFrom(r) {
		return in.keep(s, r, d, v)
	}
	return v
}

func (ad *admission) decide(s *State, r *Request, d *Decision) Verdict {
	ad.rules = ad.m.rulesFor(r.Rules)
	if len(ad.m.supplies) > 0 {
		if c, found := ad.m.supplies.foreign(r); found {
			d.UID, d.Containers = r.UID, d.Containers[:0]
			return Verdict{Reason: ProviderElsewhere.Reason(), Detail: ProviderElsewhere, Container: int16(c), Scarcity: Unresolvable}
		}
	}
	if c, _, why := s.uncounted(r); why != NoDetail {
		d.UID, d.Containers = r.UID, d.Containers[:0]
		return Verdict{Reason: why.Reason(), Detail: why, Container: int16(c), Scarcity: Unresolvable}
	}
	if ad.m.set.cannot[ad.rules.Policy] != nil {
		d.UID, d.Containers = r.UID, d.Containers[:0]
		return Verdict{Reason: InvalidRequest, Detail: PolicyUnsupported, Scarcity: Unresolvable}
	}
	ad.begin(s, r, d, false)
	detail, c := ad.run(len(r.Containers))
	if detail == NoDetail && r.PodLevel && ad.m.guard && ad.m.set.podLevel.refused {
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
	if ad.meanwhile == nil && ad.hopeless(s, r) {
		v.Scarcity = Unresolvable
	}
	return v
}

// hopeless says whether no set of other pods lets the request in. It is a second admission, to an
// empty node, which also decides for fuller ones where the request is monotone.
func (ad *admission) hopeless(s *State, r *Request) bool {
	ad.begin(s, r, &ad.empty, true)
	detail, _ := ad.run(len(r.Containers))
	hopeless := detail != NoDetail && !detail.passing() && (!detail.placed() || ad.atOnce(detail) || ad.m.side.monotone(r, false))
	ad.end()
	return hopeless
}

// passing says whether a fuller node may admit what an empty one refuses for this reason. The CPU
// manager's arithmetic can fail on one set of free CPUs and not on another, and fewer hints are
// merged faster.
func (d Detail) passing() bool {
	switch d {
	case CPUsNotFound, CPUAccounting, MemoryGroup,
		DefectHang, DefectTooComplex, DefectSlowMerge, DefectForeignCPUs, DefectMixedGroups, DefectUnequalGroup:
		return true
	}
	return false
}

// placed says whether the reason is about where the resources are, not about how much there is.
func (d Detail) placed() bool {
	switch d {
	case NotPreferred, NoDefaultMemory, DefaultMemoryNotPreferred, NoMemoryExtension, MemoryExtensionNotPreferred:
		return true
	}
	return false
}

// atOnce says whether the reason came before anything was given that matters to it. A fuller node
// has fewer hints and fewer sets of NUMA nodes with enough memory. None of them is preferred that
// is not preferred on an empty node.
func (ad *admission) atOnce(d Detail) bool {
	switch d {
	case NotPreferred:
		return ad.rules.Scope == PodScope || ad.nodes() == 0
	case NoDefaultMemory, DefaultMemoryNotPreferred:
		return !slices.ContainsFunc(ad.d.Containers, func(c ContainerDecision) bool { return len(c.Memory) > 0 })
	}
	return false
}

// Monotone says whether a node never admits the request where it would refuse it with less on it.
// Where Berth decides this holds for whatever is placed as one; containers that are placed one
// after another may stand in one another's way on one set of free CPUs and not on another.
//
// Two rules of the kubelet are not like that. A container is given what init containers before it
// had, wherever these got it: a full NUMA node keeps them off. And a group of NUMA nodes that
// memory is handed out from draws later memory to itself.
//
// Nor is a Keep: a full NUMA node keeps the pod off, and sends it where nothing is kept.
func (m *Model) Monotone(r *Request) bool {
	return m.side.monotone(r, r.Rules.Keep.from(r))
}

func (m berthSide) monotone(r *Request, _ bool) bool {
	rules := m.rulesFor(r.Rules)
	if rules.NUMANodes > 0 && rules.CPUs.L3 == joint.Required {
		return false // how CPUs are split, and so how many caches are enough, depends on what is free
	}
	return len(r.Containers) <= 1 || rules.Scope == PodScope && rules.Policy != PolicyNone
}

func (m kubeletSide) monotone(r *Request, kept bool) bool {
	if kept {
		return false
	}
	pins := m.pins(r)
	groups := pins && m.mem != nil && m.space != nil && m.space.Len() > 1
	if groups && m.rulesFor(r.Rules).Policy != PolicySingleNUMANode {
		return false
	}
	for i := range r.Containers {
		c := &r.Containers[i]
		if c.Kind == Init && (pins && (c.MilliCPU >= 1000 || m.mem != nil) || len(c.Devices) > 0) {
			return false
		}
	}
	return true
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

// The largest amounts that are evaluated. Beyond them sums over a pod's containers could overflow,
// and the API server would have refused the quantity.
const (
	maxMilliCPU = int64(topology.MaxCPUs) * 1000 * 1000
	maxBytes    = uint64(1) << 60
	maxDevices  = int64(1) << 30
)

// MaxContainers bounds the containers of a pod, init containers among them. Of a larger pod no
// decision is ever made, written or read: the time that a verdict takes grows with the square of
// their number, and a tenant chooses it.
const MaxContainers = 256

// sane says whether the amounts can be evaluated.
func (r *Request) sane() bool {
	if len(r.Containers) > MaxContainers || !r.Rules.sane() {
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
