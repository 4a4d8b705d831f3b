package placement

import (
	"slices"
	"strconv"

	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

// obeyModel translates between a Model on which Berth decides and package joint.
type obeyModel struct {
	node  *Model
	joint *joint.Model
	// kinds are the kinds of devices that joint knows, in its order.
	kinds []DeviceKind
}

// nodesHeld returns every NUMA node with resources of the container.
func (m *obeyModel) nodesHeld(c *ContainerDecision) topology.NUMASet {
	nodes := m.node.nodesOf(&c.CPUs)
	for i := range c.Memory {
		nodes |= c.Memory[i].NUMA
	}
	for i := range c.Shares {
		nodes = nodes.With(c.Shares[i].NUMA)
	}
	return nodes | m.nodesOfDevices(c.Devices)
}

// takeContainer records the memory and the devices of one container. If own is set, takeContainer
// also records the exclusive CPUs, without the CPUs that stay idle because of them. If own is not
// set, takeContainer also records the CPU shares.
func (m *obeyModel) takeContainer(b *joint.Book, c *ContainerDecision, own bool) {
	if own {
		m.joint.Cores.Take(b, c.CPUs)
	}
	for _, a := range c.Shares {
		if pos, ok := m.node.space.Position(a.NUMA); ok && !own {
			m.joint.Amounts.Take(b, joint.NodeAmount{Kind: joint.CPU, Node: uint8(pos), N: uint64(a.MilliCPU)})
		}
	}
	for i := range c.Memory {
		k, known := m.joint.Amounts.Kind(c.Memory[i].Resource)
		if mask := m.node.compact(c.Memory[i].NUMA); known && mask != 0 {
			m.joint.Amounts.Take(b, joint.NodeAmount{Kind: k, Node: uint8(mask.Lowest()), N: c.Memory[i].Bytes})
		}
	}
	m.takeDevices(b, c.Devices)
}

// peakOf adds up a pod's resources at its peak, container by container. The peak has the CPUs of
// all containers. Each amount on a NUMA node is the maximum of the sums that containers hold at the
// same time.
type peakOf struct {
	m    *obeyModel
	held *joint.Held
	peak peaks
}

// peaks are amounts by kind, then NUMA node.
type peaks []Peak[uint64]

// empty returns n empty peaks, and reuses memory.
func (ps peaks) empty(n int) peaks {
	ps = slices.Grow(ps[:0], n)[:n]
	clear(ps)
	return ps
}

func (p *peakOf) begin() {
	p.peak = p.peak.empty(int(p.m.joint.Amounts.Kinds()) * p.m.node.space.Len())
	*p.held = joint.Held{Amounts: p.held.Amounts[:0], Devices: p.held.Devices[:0]}
}

func (p *peakOf) add(c *ContainerDecision) {
	p.held.CPUs = p.held.CPUs.Or(&c.CPUs)
	if c.Exclusive != joint.Shareable {
		p.held.Exclusive = c.Exclusive
		p.held.Alone = p.held.Alone.Or(&c.CPUs)
	}
	for i := range c.Devices {
		p.held.Devices = p.m.addDevices(p.held.Devices, &c.Devices[i])
	}
	for _, a := range c.Shares {
		if pos, ok := p.m.node.space.Position(a.NUMA); ok {
			p.peak[pos].Add(c.Kind, uint64(max(a.MilliCPU, 0)))
		}
	}
	for i := range c.Memory {
		k, known := p.m.joint.Amounts.Kind(c.Memory[i].Resource)
		if mask := p.m.node.compact(c.Memory[i].NUMA); known && mask != 0 {
			p.peak[int(k)*p.m.node.space.Len()+mask.Lowest()].Add(c.Kind, c.Memory[i].Bytes)
		}
	}
}

func (p *peakOf) end() {
	nodes := p.m.node.space.Len()
	p.held.Amounts = p.held.Amounts[:0]
	for i := range p.peak {
		if n := p.peak[i].Most(); n > 0 {
			p.held.Amounts = append(p.held.Amounts, joint.NodeAmount{Kind: joint.KindIndex(i / nodes), Node: uint8(i % nodes), N: n})
		}
	}
}

// heldBy returns the resources of a pod at its peak; see peakOf.
func (m *obeyModel) heldBy(pod *PodAllocation) *joint.Held {
	h := new(joint.Held)
	p := peakOf{m: m, held: h}
	p.begin()
	for i := range pod.Containers {
		c := &pod.Containers[i]
		p.add(&ContainerDecision{Kind: c.Kind, CPUs: c.CPUs, Memory: c.Memory, Shares: c.Shares, Exclusive: c.Exclusive, Devices: c.Devices})
	}
	p.end()
	return h
}

// askedOf returns the peak request of a pod's containers for a kind.
func (m *obeyModel) askedOf(r *Request, k joint.KindIndex) uint64 {
	var sum Peak[uint64]
	for i := range r.Containers {
		c := &r.Containers[i]
		n := uint64(max(c.MilliCPU, 0))
		if k != joint.CPU {
			n, _ = c.memory(m.joint.Amounts.KindName(k))
		}
		sum.Add(c.Kind, n)
	}
	return sum.Most()
}

// hasShare reports whether the share is on a NUMA node of the machine and is not negative.
func (m *obeyModel) hasShare(a CPUShare) bool {
	_, ok := m.node.space.Position(a.NUMA)
	return ok && a.MilliCPU >= 0
}

// hasBlock reports whether the machine has this kind of memory, and the block is on exactly one of
// the machine's NUMA nodes.
func (m *obeyModel) hasBlock(b *MemoryBlock) bool {
	_, known := m.joint.Amounts.Kind(b.Resource)
	return known && b.NUMA.Len() == 1 && b.NUMA&^m.node.nodes == 0
}

// kindOfDevice returns the kind with this resource name, and whether Berth assigns its devices.
func (m *obeyModel) kindOfDevice(resource string) (uint8, bool) {
	if m == nil {
		return 0, false
	}
	return m.joint.Devices.Kind(resource)
}

// addDevices appends the devices of an allocation, each once. It leaves out devices that do not
// exist.
func (m *obeyModel) addDevices(to []joint.DeviceRef, a *DeviceAllocation) []joint.DeviceRef {
	kind, ours := m.kindOfDevice(a.Resource)
	if !ours {
		return to
	}
	for _, id := range a.IDs {
		if d, ok := m.joint.Devices.Find(kind, id); ok && !slices.Contains(to, d) {
			to = append(to, d)
		}
	}
	return to
}

// nodesOfDevices returns the NUMA nodes of devices that Berth assigns.
func (m *obeyModel) nodesOfDevices(devices []DeviceAllocation) (nodes topology.NUMASet) {
	for i := range devices {
		kind, ours := m.kindOfDevice(devices[i].Resource)
		if !ours {
			continue
		}
		for _, id := range devices[i].IDs {
			d, ok := m.joint.Devices.Find(kind, id)
			if !ok {
				continue
			}
			if node, _, _ := m.joint.Devices.PlaceOf(d); node != joint.NoNode {
				nodes = nodes.With(m.node.space.ID(node))
			}
		}
	}
	return nodes
}

// strangers describes a device of the container that no plugin offers. It returns "" if there is
// none.
func (m *obeyModel) strangers(c *ContainerAllocation) string {
	for i := range c.Devices {
		kind, ours := m.kindOfDevice(c.Devices[i].Resource)
		if !ours {
			continue
		}
		for _, id := range c.Devices[i].IDs {
			if _, ok := m.joint.Devices.Find(kind, id); !ok {
				return "no plugin offers " + c.Devices[i].Resource + " " + strconv.Quote(id)
			}
		}
	}
	return ""
}

// onlyFree returns the allocations without the devices that the book assigns to a pod, or that no
// plugin offers.
func (m *obeyModel) onlyFree(b *joint.Book, devices []DeviceAllocation) []DeviceAllocation {
	out := cloneDevices(devices)
	for i := range out {
		kind, ours := m.kindOfDevice(out[i].Resource)
		if ours {
			out[i].IDs = slices.DeleteFunc(out[i].IDs, func(id string) bool {
				d, ok := m.joint.Devices.Find(kind, id)
				return !ok || m.joint.Devices.IsTaken(b, d)
			})
		}
	}
	return slices.DeleteFunc(out, func(a DeviceAllocation) bool { return len(a.IDs) == 0 })
}

func (m *obeyModel) takeDevices(b *joint.Book, devices []DeviceAllocation) {
	for i := range devices {
		kind, ours := m.kindOfDevice(devices[i].Resource)
		if !ours {
			continue
		}
		for _, id := range devices[i].IDs {
			if d, ok := m.joint.Devices.Find(kind, id); ok {
				m.joint.Devices.Take(b, d)
			}
		}
	}
}

// checkAmounts returns an error if a container has an amount that the machine cannot have.
func (m *obeyModel) checkAmounts(p *PodAllocation, c *ContainerAllocation) error {
	for _, a := range c.Shares {
		if !m.hasShare(a) {
			return contradiction(containerField(p, c, "shares"), strconv.FormatInt(a.MilliCPU, 10)+"m on NUMA node "+strconv.Itoa(int(a.NUMA)),
				"0 or more on NUMA nodes "+m.node.nodes.String())
		}
	}
	for _, h := range c.Provided {
		if !m.node.supplies.has(h) {
			return contradiction(containerField(p, c, "provided"), h.Resource+" at "+h.Place, "a place that a provider has on the machine")
		}
	}
	for i := range c.Memory {
		b := &c.Memory[i]
		if !m.hasBlock(b) {
			return contradiction(containerField(p, c, "memory"), b.Resource+" on NUMA nodes {"+b.NUMA.String()+"}",
				"a kind of memory that the machine has, on one of the NUMA nodes "+m.node.nodes.String())
		}
	}
	return nil
}
