package joint

import "github.com/berth-dev/berth/topology"

// Held has the resources of a pod: the CPUs of all its containers, the largest amount of each kind
// that it has at one time on each NUMA node, and its devices.
type Held struct {
	CPUs topology.CPUSet
	// Alone are the CPUs that are exclusive at the level Exclusive.
	Alone     topology.CPUSet
	Exclusive Exclusive
	Amounts   []NodeAmount
	Devices   []DeviceRef
}

// Amount returns the total amount of a kind on all NUMA nodes. In the kind CPU, each pinned CPU
// counts as 1000.
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

// Count returns the number of devices of a kind in h.
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
