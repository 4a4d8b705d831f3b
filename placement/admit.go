package placement

import (
	"slices"

	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

// Admit predicts whether the kubelet would admit the request on a node in this state. If Berth
// decides, it returns Berth's own answer. Admit is pure. After the first calls it allocates no
// memory.
func Admit(s *State, r *Request) Verdict {
	in := s.m.admissions.Get().(*room)
	v := in.decide(s, r, &in.own)
	s.m.admissions.Put(in)
	return v
}

// Decide returns Admit's answer, and fills d with the resources that the pod gets. After a
// kubelet's refusal, d contains the assignments that the kubelet made before it refused. The
// kubelet keeps these assignments until it next cleans up after pods that are gone
// (removeStaleState).
func Decide(s *State, r *Request, d *Decision) Verdict {
	in := s.m.admissions.Get().(*room)
	v := in.decide(s, r, d)
	s.m.admissions.Put(in)
	return v
}

func (in *room) decide(s *State, r *Request, d *Decision) Verdict {
	if !r.sane() {
		d.none(r)
		return Verdict{Reason: InvalidRequest, Detail: BadRequest, Scarcity: Unresolvable}
	}
	v := in.decider.decide(s, r, d)
	if r.Rules.Keep != nil && v.OK() && s.keptFrom(r) {
		return in.keep(s, r, d, v)
	}
	return v
}

func (d *Decision) none(r *Request) { d.UID, d.Whole, d.Containers = r.UID, nil, d.Containers[:0] }

func (ad *admission) decide(s *State, r *Request, d *Decision) Verdict {
	ad.rules = ad.m.rulesFor(r.Rules)
	if len(ad.m.supplies) > 0 {
		if c, found := ad.m.supplies.foreign(r); found {
			d.none(r)
			return Verdict{Reason: ProviderElsewhere.Reason(), Detail: ProviderElsewhere, Container: int16(c), Scarcity: Unresolvable}
		}
	}
	if c, _, why := s.uncounted(r); why != NoDetail {
		d.none(r)
		return Verdict{Reason: why.Reason(), Detail: why, Container: int16(c), Scarcity: Unresolvable}
	}
	if ad.m.set.cannot[ad.rules.Policy] != nil {
		d.none(r)
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

// hopeless reports whether the kubelet would refuse the request whatever pods are on the node. It
// runs the admission again for the empty node. A refusal there is not enough if a fuller node might
// still admit the request: see passing, placed, atOnce and monotone.
func (ad *admission) hopeless(s *State, r *Request) bool {
	ad.begin(s, r, &ad.empty, true)
	detail, _ := ad.run(len(r.Containers))
	hopeless := detail != NoDetail && !detail.passing() && (!detail.placed() || ad.atOnce(detail) || ad.m.monotone(r, false))
	ad.end()
	return hopeless
}

// passing reports whether a fuller node may admit a request that an empty node refuses for this
// reason. The CPU manager's arithmetic can fail with one set of free CPUs and not with another.
// Also, the kubelet's merge is slowest on an empty node, which has the most hints.
func (d Detail) passing() bool {
	switch d {
	case CPUsNotFound, CPUAccounting, MemoryGroup, NoMemoryAsked,
		DefectHang, DefectTooComplex, DefectSlowMerge, DefectForeignCPUs, DefectMixedGroups, DefectUnequalGroup:
		return true
	}
	return false
}

// placed reports whether the refusal depends on the NUMA nodes of the free resources, and not only
// on their amounts.
func (d Detail) placed() bool {
	switch d {
	case NotPreferred, NoDefaultMemory, DefaultMemoryNotPreferred, NoMemoryExtension, MemoryExtensionNotPreferred:
		return true
	}
	return false
}

// atOnce reports whether the refusal comes before every assignment that could affect it. A fuller
// node then refuses for the same reason: it has fewer hints and fewer sets of NUMA nodes with
// enough memory, and every set that is preferred there is also preferred on the empty node.
func (ad *admission) atOnce(d Detail) bool {
	switch d {
	case NotPreferred:
		return ad.rules.Scope == PodScope || ad.nodes() == 0
	case NoDefaultMemory, DefaultMemoryNotPreferred:
		return !slices.ContainsFunc(ad.d.Containers, func(c ContainerDecision) bool { return len(c.Memory) > 0 })
	}
	return false
}

// Monotone reports whether removing pods from a node never changes an admission of the request to a
// refusal. If Berth decides, Monotone is true for most requests that are placed as a whole. It is
// false if several containers are placed one after another: when more CPUs are free, an early
// container may take the CPUs that a later container needs.
//
// Three rules of the kubelet make a request not monotone. First, a container must reuse the
// resources of earlier init containers, which may be on other NUMA nodes if a NUMA node is full.
// Second, while a container has memory from a group of NUMA nodes, other containers can get memory
// from these NUMA nodes only if they use the whole group. Third, if a pod with several containers
// is placed by spec.resources, the chosen CPUs determine whether the containers can divide them.
//
// If a kubelet decides, a request that a Keep limits is not monotone either: if pods are removed,
// the kubelet may choose a NUMA node whose free CPUs are kept.
func (m *Model) Monotone(r *Request) bool {
	if m.obey != nil {
		return m.monotoneJoint(r)
	}
	return m.monotone(r, r.Rules.Keep.from(r))
}

// monotoneJoint implements Monotone for nodes on which Berth decides.
func (m *Model) monotoneJoint(r *Request) bool {
	rules := m.rulesFor(r.Rules)
	if rules.NUMANodes > 0 && rules.CPUs.L3 == joint.Required {
		return false // the free CPUs determine how the CPUs are split, and so the number of caches
	}
	return len(r.Containers) <= 1 || rules.Scope == PodScope && rules.Policy != PolicyNone
}

// monotone implements Monotone for kubelets; kept means that a Keep limits the pod.
func (m *Model) monotone(r *Request, kept bool) bool {
	if kept {
		return false
	}
	if len(r.Containers) > 1 && m.whole(r) {
		return false // whether the containers can divide the CPUs depends on the chosen CPUs
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

// nodes returns the NUMA nodes of all pinned resources of the decision.
func (ad *admission) nodes() topology.NUMASet {
	nodes := ad.m.expand(ad.devices.nodes)
	if w := ad.d.Whole; w != nil {
		nodes |= ad.m.nodesOf(&w.CPUs)
	}
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

// The largest amounts that the engine evaluates. Larger amounts could overflow sums over a pod's
// containers, and no machine has as much.
const (
	maxMilliCPU = int64(topology.MaxCPUs) * 1000 * 1000
	maxBytes    = uint64(1) << 60
	maxDevices  = int64(1) << 30
)

// MaxContainers is the maximum number of containers of a pod, including init containers. Berth
// neither makes, writes nor reads decisions about pods with more. The time of a verdict grows with
// the square of the number of containers, which a user could otherwise choose freely.
const MaxContainers = 256

// sane reports whether the engine can evaluate the request: its amounts, its rules and its number
// of containers.
func (r *Request) sane() bool {
	if len(r.Containers) > MaxContainers || !r.Rules.sane() {
		return false
	}
	if !saneAmounts(r.Level.MilliCPU, r.Level.Memory) {
		return false
	}
	for i := range r.Containers {
		c := &r.Containers[i]
		if !saneAmounts(c.MilliCPU, c.Memory) || c.Kind > Sidecar {
			return false
		}
		for j := range c.Devices {
			if c.Devices[j].Count < 0 || c.Devices[j].Count > maxDevices {
				return false
			}
		}
	}
	return true
}

func saneAmounts(milli int64, memory []MemoryRequest) bool {
	if milli < 0 || milli > maxMilliCPU {
		return false
	}
	for i := range memory {
		if memory[i].Bytes > maxBytes {
			return false
		}
	}
	return true
}
