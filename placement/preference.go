package placement

import (
	"strings"

	"github.com/berth-dev/berth/placement/device"
	"github.com/berth-dev/berth/topology"
)

// Preference is how a device plugin chooses among devices (GetPreferredAllocation).
type Preference uint8

const (
	// NoPreference: the plugin has no GetPreferredAllocation, so the kubelet uses the random order
	// of a Go map.
	NoPreference Preference = iota
	// SortedPreference: the plugin takes the devices that it must include, then the first free
	// devices in order of their ids.
	SortedPreference
	// UnknownPreference: the plugin has GetPreferredAllocation, but its rules are not known.
	UnknownPreference
	// NVIDIAPreference: the order that NVIDIA documents for its plugin (package device). It needs
	// DevicePool.Points.
	NVIDIAPreference

	preferences // the number of values
)

// Connect computes Points from the machine's PCI tree and links. It computes none if the preference
// does not use Points, or if the address of a device is unknown. The address is Device.Address, or
// the id if the id is an address.
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
