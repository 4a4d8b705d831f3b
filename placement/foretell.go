package placement

import (
	"cmp"
	"slices"

	"github.com/berth-dev/berth/topology"
)

// Foresight is the answer of Model.Foretell and Model.ForetellDevices. It tells whether a kubelet
// that admits a pod always uses the number that the pod's Rules require (NUMANodes or
// Devices.PerNode), and if not, why.
type Foresight uint8

// The predictions.
const (
	// Foretold: the kubelet always uses the pod's number. Foretold is also the prediction if the
	// pod has no number, or if Berth decides.
	Foretold Foresight = iota
	// OtherNumber: the kubelet always uses a different number.
	OtherNumber
	// PolicyOpen: the policies none and best-effort allow any number.
	PolicyOpen
	// SocketsOpen: with align-by-socket, the policy restricted allows more NUMA nodes than
	// necessary. It also allows CPUs and other resources on different NUMA nodes.
	SocketsOpen
	// ScopeOpen: the kubelet places containers one by one, but the number applies to the pod.
	ScopeOpen
	// PinsOpen: the pod, or a container with memory or devices, gets no exclusive CPUs, so the
	// number of CPUs does not determine the number of NUMA nodes.
	PinsOpen
	// DistanceOpen: the kubelet runs without prefer-closest-numa-nodes, so it can choose NUMA nodes
	// that are not the nearest.
	DistanceOpen
	// OtherDevices: the kubelet cannot take exactly the pod's number of devices of a resource from
	// each NUMA node, for example because single-numa-node takes all of them from one.
	OtherDevices
	// ClaimsOpen: a driver chooses the devices of a resource, not the kubelet
	// (DeviceRequest.Claimed).
	ClaimsOpen
)

// Foretell predicts whether the kubelet places the pod on exactly Rules.NUMANodes NUMA nodes, as
// near to each other as possible. If the answer is OtherNumber, width is the number that the
// kubelet would use. The answer depends only on the node's Model, so it applies to every state of
// the node. restricted and single-numa-node require the same NUMA nodes for all resources
// (mergePermutation), and allow no more NUMA nodes than a resource needs on an empty machine.
func (m *Model) Foretell(r *Request) (f Foresight, width int) {
	n := int(r.Rules.NUMANodes)
	switch own := m.own.Policy; {
	case n == 0 || m.authority != AuthorityKubelet:
		return Foretold, n
	case own != PolicyRestricted && own != PolicySingleNUMANode:
		return PolicyOpen, 0
	case own == PolicyRestricted && m.set.cpu.AlignBySocket:
		return SocketsOpen, 0
	}
	if m.own.Scope == PodScope {
		f, width = m.foretellWidth(m.podCPUs(r))
	} else {
		f, width = prediction{m, r}.each()
	}
	switch {
	case f != Foretold:
		return f, 0
	case width != n:
		return OtherNumber, width
	case n > 1 && n < len(m.nodeCPUs) && !m.set.closest:
		return DistanceOpen, 0
	}
	return Foretold, n
}

// prediction predicts what a kubelet with the Model m does with the pod of the Request r.
type prediction struct {
	m *Model
	r *Request
}

// each implements Foretell for a kubelet that places containers one by one. Containers without
// pinned resources do not count.
func (p prediction) each() (f Foresight, width int) {
	m, r := p.m, p.r
	f = PinsOpen
	for c := range r.Containers {
		cpus := m.exclusiveCPUs(r, c)
		if !m.holds(r, c) {
			continue
		}
		if f == Foretold && r.Rules.Scope != ContainerScope {
			return ScopeOpen, 0
		}
		before := width
		if f, width = m.foretellWidth(cpus); f != Foretold {
			return f, 0
		}
		if before != 0 && width != before && before != int(r.Rules.NUMANodes) {
			width = before
		}
	}
	return f, width
}

// foretellWidth returns the number of NUMA nodes that restricted or single-numa-node uses for a
// number of CPUs.
func (m *Model) foretellWidth(cpus int) (Foresight, int) {
	switch {
	case cpus == 0:
		return PinsOpen, 0
	case m.own.Policy == PolicySingleNUMANode:
		return Foretold, 1
	}
	return Foretold, m.fewestForCPUs(cpus)
}

// ForetellDevices predicts whether the kubelet gives the pod Rules.Devices.PerNode devices of each
// resource on each NUMA node. resource is a resource of which the pod may get other numbers of
// devices, or "" if the answer is not about one resource. The answer depends only on the Model.
// Decide then checks how many devices the NUMA nodes have (DevicesNowhere, DevicesOpen). The
// policies differ:
//
//   - single-numa-node accepts only hints with one NUMA node (filterSingleNumaHints), and a hint
//     has enough devices on its NUMA nodes (generateDeviceTopologyHints).
//   - restricted uses as few NUMA nodes as an empty machine needs, the same for all resources. If
//     no NUMA node has more devices than the rules' number, each gives all its devices.
//   - none and best-effort allow any NUMA nodes. Only a pod that asks for all devices of the
//     machine certainly gets its number.
func (m *Model) ForetellDevices(r *Request) (f Foresight, resource string) {
	n, p := int64(r.Rules.Devices.PerNode), prediction{m, r}
	switch {
	case n == 0 || m.authority != AuthorityKubelet:
		return Foretold, ""
	case m.own.Policy == PolicyRestricted && m.set.cpu.AlignBySocket:
		return SocketsOpen, ""
	}
	var holders int
	var first int64 // the first number of devices that the pod, or the current container, asks for
	for c := range r.Containers {
		if m.holds(r, c) {
			holders++
		}
		if !p.countsPod() {
			first = 0
		}
		for i := range r.Containers[c].Devices {
			d := &r.Containers[c].Devices[i]
			if d.Count == 0 {
				continue
			}
			if d.Claimed {
				return ClaimsOpen, d.Resource
			}
			asked := p.together(d)
			first = cmp.Or(first, asked)
			if f := p.count(asked, n); f != Foretold {
				return f, d.Resource
			}
			if asked != first {
				return OtherDevices, d.Resource
			}
		}
	}
	switch {
	case m.own.Policy.leavesOpen():
		if first == 0 {
			return PolicyOpen, ""
		}
	case holders > 1 && m.own.Scope != PodScope && r.Rules.Scope != ContainerScope:
		return ScopeOpen, ""
	}
	return Foretold, ""
}

// leavesOpen reports whether the policy admits a pod whatever its NUMA nodes are.
func (p Policy) leavesOpen() bool { return p != PolicyRestricted && p != PolicySingleNUMANode }

// countsPod reports whether a number of devices per NUMA node applies to the pod as a whole, and
// not to each container.
func (p prediction) countsPod() bool {
	own := p.m.own
	return own.Scope == PodScope || own.Policy.leavesOpen() && p.r.Rules.Scope != ContainerScope
}

// together returns how many devices of d's resource are placed together. d is a request of one
// container.
func (p prediction) together(d *DeviceRequest) int64 {
	if p.countsPod() {
		return p.r.devices(d.Resource)
	}
	return d.Count
}

// count predicts, without knowledge of the machine's devices, whether a pod gets n devices of a
// resource on each NUMA node. asked is the result of together.
func (p prediction) count(asked, n int64) Foresight {
	switch own := p.m.own.Policy; {
	case own == PolicySingleNUMANode && asked != n, asked%n != 0:
		return OtherDevices
	case own.leavesOpen() && asked != n*int64(p.m.nodes.Len()):
		return PolicyOpen
	}
	return Foretold
}

// holds reports whether the kubelet pins CPUs, memory or devices for container c.
func (m *Model) holds(r *Request, c int) bool {
	return m.exclusiveCPUs(r, c) > 0 || m.pinsMemory(r, c) || len(r.Containers[c].Devices) > 0
}

// uncounted finds the first resource for which the machine's devices do not guarantee the pod's
// number of devices per NUMA node. It returns the resource, its container and the reason. It does
// not check pods that are already admitted, because they keep their devices.
func (s *State) uncounted(r *Request) (c int, resource string, d Detail) {
	if r.Rules.Devices.PerNode == 0 || s.m.authority != AuthorityKubelet || !s.m.guard || s.Has(r.UID) {
		return 0, "", NoDetail
	}
	for c := range r.Containers {
		for i := range r.Containers[c].Devices {
			asked := &r.Containers[c].Devices[i]
			if asked.Count == 0 {
				continue
			}
			if d := s.counts(asked.Resource, prediction{s.m, r}.together(asked), int64(r.Rules.Devices.PerNode)); d != NoDetail {
				return c, asked.Resource, d
			}
		}
	}
	return 0, "", NoDetail
}

// counts returns the reason why it is not certain that a pod gets n devices of a resource on each
// NUMA node, or NoDetail. asked is the result of together. Devices that are in use or unhealthy
// count too, because the kubelet computes its hints from all devices (minAffinitySize). A pod that
// asks for all devices of a NUMA node gets them when they are free and healthy.
func (s *State) counts(resource string, asked, n int64) Detail {
	p := s.pools.index(resource)
	if p < 0 {
		return DevicesNowhere
	}
	var has [topology.MaxNUMANodes]int64
	for _, d := range s.pools[p].source.Devices {
		if !d.HasTopology || d.NUMA.Len() != 1 {
			return DevicesNowhere
		}
		has[d.NUMA.Lowest()]++
	}
	var exact, more int64
	for id, h := range has {
		switch {
		case h > n || h > 0 && !s.m.nodes.Has(topology.NUMAID(id)):
			more++
		case h == n:
			exact++
		}
	}
	switch k := asked / n; {
	case s.m.own.Policy == PolicySingleNUMANode: // all devices are on the one NUMA node of the hint
	case k == 1 && exact+more > 0 && (s.m.own.Policy == PolicyRestricted || s.m.nodes.Len() == 1): // one NUMA node is enough
	case more == 0 && exact >= k: // the devices of k NUMA nodes are needed
	default:
		return DevicesOpen
	}
	return NoDetail
}

// pinsMemory reports whether the memory manager gives memory to container c.
func (m *Model) pinsMemory(r *Request, c int) bool {
	asksFor := func(a MemoryRequest) bool { return a.Bytes > 0 }
	return m.mem != nil && m.pins(r) && !m.shares(r, c) && slices.ContainsFunc(r.Containers[c].Memory, asksFor)
}
