package topology

// Nearness describes the connection between two PCI devices, as "nvidia-smi topo -m" does. A
// greater value is nearer.
type Nearness uint8

// The values of Nearness, with nvidia-smi's names in parentheses.
const (
	// UnknownNearness, the zero value, is the nearness of a device to itself.
	UnknownNearness Nearness = iota
	// AcrossNodes: the devices are at different NUMA nodes, or the NUMA node of a device is unknown
	// (SYS). If the machine has only one NUMA node, all devices count as being at it.
	AcrossNodes
	// OnOneNode: the devices are at one NUMA node, but not known to be at one root complex (NODE).
	OnOneNode
	// AtOneRoot: the devices are at one root complex and share no switch (PHB).
	AtOneRoot
	// BelowSwitches: the devices share a switch, but not the nearest switch of both (PXB).
	BelowSwitches
	// AtOneSwitch: the devices have the same nearest switch (PIX).
	AtOneSwitch
)

var nearnessNames = [...]string{"?", "SYS", "NODE", "PHB", "PXB", "PIX"}

// String returns the name that nvidia-smi uses.
func (n Nearness) String() string { return spell(n, nearnessNames[:]) }

// Nearness returns the nearness of each pair of devices, which are given by address. The nearness
// of devices i and j is at index i*n+j, where n is the number of addresses. Nearness returns false
// if an address is not the address of a device of the machine.
func (m *Machine) Nearness(addresses []string) ([]Nearness, bool) {
	n := len(addresses)
	devices, above := make([]*Device, n), make([][]string, n)
	for i, address := range addresses {
		if devices[i] = m.Device(address); devices[i] == nil {
			return nil, false
		}
		above[i] = m.Switches(devices[i])
	}
	out := make([]Nearness, n*n)
	for i := range n {
		for j := range i {
			if devices[i] != devices[j] {
				near := sharedSwitch(above[i], above[j])
				if near == UnknownNearness {
					near = m.rootsApart(devices[i], devices[j])
				}
				out[i*n+j], out[j*n+i] = near, near
			}
		}
	}
	return out, true
}

// sharedSwitch returns AtOneSwitch, BelowSwitches, or UnknownNearness if no switch is in both
// lists. a and b are the switches above two devices, the nearest first.
func sharedSwitch(a, b []string) Nearness {
	for i := range a {
		for j := range b {
			switch {
			case a[i] != b[j]:
			case i == 0 && j == 0:
				return AtOneSwitch
			default:
				return BelowSwitches
			}
		}
	}
	return UnknownNearness
}

// rootsApart returns the nearness of two devices that share no switch.
func (m *Machine) rootsApart(a, b *Device) Nearness {
	switch {
	case a.Root != "" && a.Root == b.Root:
		return AtOneRoot
	case len(m.NUMANodes) == 1, a.HasNUMA && b.HasNUMA && a.NUMA == b.NUMA:
		return OnOneNode
	}
	return AcrossNodes
}
