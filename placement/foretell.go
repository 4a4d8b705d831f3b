package placement

import "slices"

// Foresight says whether a kubelet is sure to put a pod, if it admits it, on as many NUMA nodes as
// the pod's Rules say.
type Foresight uint8

// The answers.
const (
	// Foretold: it does. Also where the pod names no number, and where Berth decides.
	Foretold Foresight = iota
	// OtherNumber: it is sure to be another number.
	OtherNumber
	// PolicyOpen: none and best-effort allow any number.
	PolicyOpen
	// SocketsOpen: with align-by-socket, restricted allows more than are needed.
	SocketsOpen
	// ScopeOpen: the kubelet places containers one by one, and the number is the pod's.
	ScopeOpen
	// PinsOpen: the kubelet gives the pod, or a container with memory or devices, no CPUs of its
	// own to go by.
	PinsOpen
	// DistanceOpen: the kubelet does not go by distances (prefer-closest-numa-nodes).
	DistanceOpen
	// OtherDevices: all devices of a resource are sure to be on one NUMA node, and they are not as
	// many as the pod wants there.
	OtherDevices
	// ClaimsOpen: not the kubelet chooses the devices of a resource, but a driver
	// (DeviceRequest.Claimed).
	ClaimsOpen
)

// Foretell predicts whether the kubelet puts the pod on the nearest Rules.NUMANodes, and on how
// many it would where the answer is OtherNumber. It goes by the configuration alone, so that the
// answer holds whatever the kubelet has handed out. A policy that insists wants the same NUMA nodes
// for all resources (mergePermutation), and as few as the resource needs on an empty machine: fewer
// cannot have the CPUs.
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
		f, width = m.foretellPod(r)
	} else {
		f, width = m.foretellEach(r)
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

// foretellPod is for a kubelet that places pods as a whole.
func (m *Model) foretellPod(r *Request) (Foresight, int) {
	var sum podSum[int]
	for c := range r.Containers {
		sum.add(r.Containers[c].Kind, m.exclusiveCPUs(r, c))
	}
	return m.foretellWidth(sum.peak())
}

// foretellEach is for a kubelet that places containers one by one. Containers without pinned
// resources do not count.
func (m *Model) foretellEach(r *Request) (f Foresight, width int) {
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

// foretellWidth is how many NUMA nodes a strict policy spreads that many CPUs over.
func (m *Model) foretellWidth(cpus int) (Foresight, int) {
	switch {
	case cpus == 0:
		return PinsOpen, 0
	case m.own.Policy == PolicySingleNUMANode:
		return Foretold, 1
	}
	return Foretold, m.fewestForCPUs(cpus)
}

// ForetellDevices says whether the kubelet gives the pod Rules.Devices.PerNode devices of each
// resource on each NUMA node, and which resource it fails for where the answer is OtherDevices or
// ClaimsOpen. single-numa-node puts devices on one NUMA node (filterSingleNumaHints), and the ones
// that the hint was made for are there (generateDeviceTopologyHints). It only looks at devices that
// have a NUMA node; whether they have is the state's to say (DevicesNowhere).
func (m *Model) ForetellDevices(r *Request) (f Foresight, resource string) {
	n := int64(r.Rules.Devices.PerNode)
	switch {
	case n == 0 || m.authority != AuthorityKubelet:
		return Foretold, ""
	case m.own.Policy != PolicySingleNUMANode:
		return PolicyOpen, ""
	}
	holders := 0
	for c := range r.Containers {
		if m.holds(r, c) {
			holders++
		}
		for i := range r.Containers[c].Devices {
			d := &r.Containers[c].Devices[i]
			asked := d.Count
			if m.own.Scope == PodScope {
				asked = r.peakDevices(d.Resource)
			}
			switch {
			case d.Count == 0:
			case d.Claimed:
				return ClaimsOpen, d.Resource
			case asked != n:
				return OtherDevices, d.Resource
			}
		}
	}
	if holders > 1 && m.own.Scope != PodScope && r.Rules.Scope != ContainerScope {
		return ScopeOpen, ""
	}
	return Foretold, ""
}

// peakDevices is how many devices of a resource the pod's containers hold at one time.
func (r *Request) peakDevices(resource string) int64 {
	var sum podSum[int64]
	for c := range r.Containers {
		sum.add(r.Containers[c].Kind, r.Containers[c].devices(resource))
	}
	return sum.peak()
}

// holds says whether the kubelet pins anything for container c.
func (m *Model) holds(r *Request, c int) bool {
	return m.exclusiveCPUs(r, c) > 0 || m.pinsMemory(r, c) || len(r.Containers[c].Devices) > 0
}

// nowhere returns the first resource that the pod wants by devices on each NUMA node, while not all
// of the kubelet's are on one each, and the container that asks for it. A pod that is admitted
// already keeps what it has.
func (s *State) nowhere(r *Request) (c int, resource string, found bool) {
	if r.Rules.Devices.PerNode == 0 || s.m.authority != AuthorityKubelet || !s.m.guard || s.Has(r.UID) {
		return 0, "", false
	}
	for c := range r.Containers {
		for i := range r.Containers[c].Devices {
			d := &r.Containers[c].Devices[i]
			if p := s.poolIndex(d.Resource); d.Count > 0 && (p < 0 || slices.ContainsFunc(s.pools[p].source.Devices, func(d Device) bool { return !d.HasTopology || d.NUMA.Len() != 1 })) {
				return c, d.Resource, true
			}
		}
	}
	return 0, "", false
}

// pinsMemory says whether the memory manager gives container c memory.
func (m *Model) pinsMemory(r *Request, c int) bool {
	if m.mem == nil || !m.pins(r) {
		return false
	}
	for i := range r.Containers[c].Memory {
		if r.Containers[c].Memory[i].Bytes > 0 {
			return true
		}
	}
	return false
}
