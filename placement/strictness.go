package placement

import "github.com/berth-dev/berth/topology"

// Strictness says how much a node does to keep a pod together. A greater one is stricter.
type Strictness uint8

const (
	// Floating: the kubelet's CPU manager is none, so that no pod has CPUs of its own.
	Floating Strictness = iota
	// Unaligned: the policy is none. CPUs are pinned, wherever they lie.
	Unaligned
	// BestEffort: the policy is best-effort. What does not fit together is admitted all the same.
	BestEffort
	// Restricted: the policy is restricted.
	Restricted
	// SingleNUMANode: the policy is single-numa-node.
	SingleNUMANode
)

// Strictness returns how much the node does to keep the pod together.
func (m *Model) Strictness(r *Request) Strictness {
	if m.floats() {
		return Floating
	}
	switch m.rulesFor(r.Rules).Policy {
	case PolicyBestEffort:
		return BestEffort
	case PolicyRestricted:
		return Restricted
	case PolicySingleNUMANode:
		return SingleNUMANode
	}
	return Unaligned
}

// floats says whether no pod gets CPUs of its own.
func (m *Model) floats() bool { return m.authority == AuthorityKubelet && !m.set.static }

// Reach returns the NUMA nodes over which an admitted pod is spread: those of its verdict. A pod
// that asks for CPUs of its own and gets none is spread over all, because it may run on any CPU.
func (m *Model) Reach(r *Request, v *Verdict) topology.NUMASet {
	if m.floats() && r.AsksExclusiveCPUs() {
		return m.nodes
	}
	return v.NUMA
}

// AsksExclusiveCPUs says whether a static CPU manager would pin a container
// (cpumanager.staticPolicy.guaranteedCPUs).
func (r *Request) AsksExclusiveCPUs() bool {
	if !r.Guaranteed || r.PodLevel {
		return false
	}
	for i := range r.Containers {
		if milli := r.Containers[i].MilliCPU; milli > 0 && milli%1000 == 0 {
			return true
		}
	}
	return false
}

// CPUs returns how many CPUs the pod asks for at most at one time, rounded up.
func (r *Request) CPUs() int {
	var sum podSum[int64]
	for i := range r.Containers {
		sum.add(r.Containers[i].Kind, r.Containers[i].MilliCPU)
	}
	return int((sum.peak() + 999) / 1000)
}

// SpareDevices returns how many devices of the NUMA nodes would be left over beside the pod:
// healthy, held by nobody, and not asked for by it. Devices whose NUMA node no plugin reports do
// not count.
func (s *State) SpareDevices(r *Request, on topology.NUMASet) int {
	mask, spare := s.m.compact(on), 0
	for i := range s.pools {
		p := &s.pools[i]
		free := p.pool.FreeTouching(p.inUse, mask)
		if free == 0 || !p.registered {
			continue
		}
		var asked podSum[int64]
		for j := range r.Containers {
			asked.add(r.Containers[j].Kind, r.Containers[j].devices(p.resource))
		}
		spare += max(0, free-int(min(asked.peak(), int64(free))))
	}
	return spare
}

// BreaksGroups returns how many groups of free devices that belong together the pod would take
// apart: some of a group, and not all (joint.Model.Breaks). Where the kubelet decides that is not
// known, and 0. It decides for a pod with devices once more, and costs others nothing.
func (s *State) BreaksGroups(r *Request) int {
	if s.m.joint == nil || !s.m.joint.HasGroups() || !r.AsksDevices() {
		return 0
	}
	ad := s.m.admissions.Get().(*admission)
	defer s.m.admissions.Put(ad)
	if v := ad.decide(s, r, &ad.own); !v.OK() {
		return 0
	}
	j := &ad.joint
	j.held.Devices = j.held.Devices[:0]
	for i := range ad.own.Containers {
		for k := range ad.own.Containers[i].Devices {
			j.held.Devices = s.m.addDevices(j.held.Devices, &ad.own.Containers[i].Devices[k])
		}
	}
	return s.m.joint.Breaks(s.account, j.held.Devices)
}

// AsksDevices says whether some container asks for devices.
func (r *Request) AsksDevices() bool {
	for i := range r.Containers {
		if len(r.Containers[i].Devices) > 0 {
			return true
		}
	}
	return false
}
