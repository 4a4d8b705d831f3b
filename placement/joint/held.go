package joint

import "github.com/berth-dev/berth/topology"

// Held has the total resources of a pod: the union of its containers' CPUs, and for each NUMA node
// the peak of each amount.
type Held struct {
	CPUs topology.CPUSet
	// Alone are the CPUs to which the level Exclusive applies.
	Alone     topology.CPUSet
	Exclusive Exclusive
	Amounts   []NodeAmount
	Devices   []DeviceRef
}

// Amount returns the amount of a kind on all NUMA nodes. For CPU, each pinned CPU counts 1000.
func (h *Held) Amount(k KindIndex) (n uint64) {
	if k == CPU {
		n = 1000 * uint64(h.CPUs.Len())
	}
	for _, a := range h.Amounts {
		if a.Kind == k {
			n += a.N
		}
	}
	return n
}

// Count returns how many devices of a kind are held.
func (h *Held) Count(kind uint8) (n int) {
	for _, d := range h.Devices {
		if d.Kind == kind {
			n++
		}
	}
	return n
}

// NodeAmount is an amount on the NUMA node at a position.
type NodeAmount struct {
	Kind KindIndex
	Node uint8
	N    uint64
}

// DeviceRef names a device by its kind and its position in DeviceKind.Devices.
type DeviceRef struct {
	Kind  uint8
	Index uint16
}
