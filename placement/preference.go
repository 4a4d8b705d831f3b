package placement

import (
	"strings"

	"github.com/berth-dev/berth/placement/device"
	"github.com/berth-dev/berth/topology"
)

// Preference is how a device plugin chooses among devices (GetPreferredAllocation).
type Preference = device.Preference

// The preferences. NVIDIAPreference needs DevicePool.Points.
const (
	NoPreference      = device.None
	SortedPreference  = device.Sorted
	UnknownPreference = device.Unknown
	NVIDIAPreference  = device.NVIDIA
)

// Connect computes Points from the machine's PCI tree and links. It computes none if the preference
// does not use Points, if the address of a device is unknown, or if there are too many devices
// (device.PointsOf). The address is Device.Address, or otherwise the part of the id before "::".
func (p *DevicePool) Connect(m *topology.Machine) {
	p.Points = nil
	if p.Preference != NVIDIAPreference {
		return
	}
	addresses := make([]string, len(p.Devices))
	for i := range p.Devices {
		d := &p.Devices[i]
		if addresses[i] = d.Address; d.Address == "" {
			addresses[i], _, _ = strings.Cut(d.ID, "::")
		}
	}
	p.Points = device.PointsOf(m, addresses)
}
