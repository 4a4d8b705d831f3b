package placement

import (
	"slices"

	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/topology"
)

// Strictness rates how strictly a node keeps a pod's resources together. A greater value is
// stricter.
type Strictness uint8

const (
	// Floating: the kubelet decides, and its CPU manager has the policy none, so no pod has
	// exclusive CPUs.
	Floating Strictness = iota
	// Unaligned: the topology policy is none. CPUs are pinned without regard to NUMA nodes.
	Unaligned
	// BestEffort: the topology policy is best-effort. It also admits a pod whose resources cannot
	// be aligned.
	BestEffort
	// Restricted: the policy is restricted.
	Restricted
	// SingleNUMANode: the policy is single-numa-node.
	SingleNUMANode
)

// Strictness returns the node's Strictness for a pod.
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

// floats reports whether no pod on the node gets exclusive CPUs.
func (m *Model) floats() bool { return m.authority == AuthorityKubelet && !m.set.static }

// Reach returns the NUMA nodes that an admitted pod uses: those of its verdict. If the pod asks for
// exclusive CPUs and the node gives none to any pod, Reach returns all NUMA nodes, because the pod
// may run on any CPU.
func (m *Model) Reach(r *Request, v *Verdict) topology.NUMASet {
	if m.floats() && r.AsksExclusiveCPUs() {
		return m.nodes
	}
	return v.NUMA
}

// AsksExclusiveCPUs reports whether a static CPU manager would pin a container of the pod
// (cpumanager.staticPolicy.guaranteedCPUs). It returns false for every pod with spec.resources.
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

// CPUs returns the maximum number of CPUs that the pod asks for at one time, rounded up.
func (r *Request) CPUs() int {
	var sum Peak[int64]
	for i := range r.Containers {
		sum.Add(r.Containers[i].Kind, r.Containers[i].MilliCPU)
	}
	return int((sum.Most() + 999) / 1000)
}

// Strands returns how many free devices on the given NUMA nodes the pod would strand: enough CPUs
// are free for the device now, but too few would be free once the pod is admitted. Each device of a
// resource needs an equal share of the CPUs of these NUMA nodes. A device counts as free if it is
// healthy, no pod has it, and this pod does not take it. Devices without a reported NUMA node do
// not count.
func (s *State) Strands(r *Request, on topology.NUMASet) (stranded int) {
	mask, counted := s.m.compact(on), false
	var cpus, before, after int
	for i := range s.pools {
		p := &s.pools[i]
		all, free := p.pool.HealthyTouching(p.inUse, mask)
		if free == 0 || !p.registered {
			continue
		}
		left := max(0, free-int(min(r.devices(p.resource), int64(free))))
		if left == 0 {
			continue
		}
		if !counted {
			cpus, before = cpusOn(s, on)
			after, counted = before-min(before, ownCPUs(s.m, r)), true
		}
		stranded += shortOf(left, all, cpus, after) - shortOf(left, all, cpus, before)
	}
	return stranded
}

// SpareDevices returns the number of free devices that the pod would leave unused. If the pod asks
// for devices, the free devices of these resources on the whole node count. If the pod asks for no
// devices, the free devices of all resources on its NUMA nodes count. Unhealthy devices, and
// devices without a reported NUMA node, do not count.
func SpareDevices(s *State, r *Request, on topology.NUMASet) int {
	const everywhere = ^hint.Mask(0)
	asks, mask := r.AsksDevices(), s.m.compact(on)
	left := 0
	for i := range s.pools {
		p := &s.pools[i]
		if !p.registered {
			continue
		}
		if !asks {
			_, beside := p.pool.HealthyTouching(p.inUse, mask)
			left += beside
		} else if asked := r.devices(p.resource); asked > 0 {
			_, free := p.pool.HealthyTouching(p.inUse, everywhere)
			left += max(0, free-int(min(asked, int64(free))))
		}
	}
	return left
}

// devices returns the pod's peak request for the resource.
func (r *Request) devices(resource string) int64 {
	var asked Peak[int64]
	for i := range r.Containers {
		asked.Add(r.Containers[i].Kind, r.Containers[i].devices(resource))
	}
	return asked.Most()
}

// shortOf returns for how many of the remaining devices (left) too few CPUs are free. Every device
// needs an equal part of all CPUs: all is the number of devices, and cpus the number of CPUs.
func shortOf(left, all, cpus, free int) int { return max(0, left-free*all/max(1, cpus)) }

// cpusOn returns the number of allocatable CPUs on the NUMA nodes, and how many of them are free.
func cpusOn(s *State, on topology.NUMASet) (all, free int) {
	for i := range s.m.nodeCPUs {
		if n := &s.m.nodeCPUs[i]; on.Has(n.id) {
			cpus := n.cpus.AndNot(&s.m.cpus.reserved)
			all, free = all+cpus.Len(), free+s.FreeCPUsOn(&topology.NUMANode{ID: n.id, CPUs: n.cpus})
		}
	}
	return all, free
}

// ownCPUs returns the number of CPUs that an admitted pod takes from other pods.
func ownCPUs(m *Model, r *Request) int {
	if m.Decides() {
		return r.CPUs()
	}
	return m.ExclusiveCPUs(r)
}

// BreaksGroups returns the number of groups of free devices of which the pod would take only a part
// (joint.DeviceTable.Breaks). If the kubelet decides, the number is not known, and BreaksGroups
// returns 0. If the pod asks for devices, BreaksGroups computes the decision again.
func (s *State) BreaksGroups(r *Request) int {
	if s.m.obey == nil || !s.m.obey.joint.Devices.HasGroups() || !r.AsksDevices() {
		return 0
	}
	in := s.m.admissions.Get().(*room)
	defer s.m.admissions.Put(in)
	if v := in.decide(s, r, &in.own); !v.OK() {
		return 0
	}
	ad := in.decider.(*jointAdmission)
	ad.held.Devices = ad.held.Devices[:0]
	for i := range in.own.Containers {
		for k := range in.own.Containers[i].Devices {
			ad.held.Devices = s.m.obey.addDevices(ad.held.Devices, &in.own.Containers[i].Devices[k])
		}
	}
	return s.m.obey.joint.Devices.Breaks(s.account, ad.held.Devices)
}

// Devices returns the maximum number of devices that the pod asks for at one time, over all
// resources.
func (r *Request) Devices() (sum int64) {
	seen := map[string]bool{}
	for i := range r.Containers {
		for _, d := range r.Containers[i].Devices {
			if !seen[d.Resource] {
				seen[d.Resource] = true
				sum += r.devices(d.Resource)
			}
		}
	}
	return sum
}

// CouldTake reports whether the node might admit the request if some of its pods were removed. It
// returns false if no plugin has registered a requested resource.
func (s *State) CouldTake(r *Request) bool {
	for i := range r.Containers {
		for _, d := range r.Containers[i].Devices {
			if d.Count > 0 && !slices.ContainsFunc(s.pools, func(p devicePool) bool { return p.resource == d.Resource && p.registered }) {
				return false
			}
		}
	}
	return Admit(s, r).Scarcity != Unresolvable
}

// AsksDevices reports whether any container asks for at least one device.
func (r *Request) AsksDevices() bool { return r.anyDevices(1) }

// anyDevices reports whether any container has a request for at least that many devices of a
// resource.
func (r *Request) anyDevices(least int64) bool {
	for i := range r.Containers {
		for k := range r.Containers[i].Devices {
			if r.Containers[i].Devices[k].Count >= least {
				return true
			}
		}
	}
	return false
}
