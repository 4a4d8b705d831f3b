package machineview

import (
	"fmt"

	"github.com/berth-dev/berth/topology"
)

// Branch is an entry of a tree as text, with the entries below it.
type Branch struct {
	Text  string   `json:"text"`
	Below []Branch `json:"below,omitempty"`
}

// PCI returns the devices of a machine by NUMA node, and on each NUMA node by root complex and
// switch. Devices without a known NUMA node come last. Bridges are left out.
func PCI(m *topology.Machine) []Branch {
	var out []Branch
	add := func(text string, of func(*topology.Device) bool) {
		var devices []*topology.Device
		for i := range m.Devices {
			if d := &m.Devices[i]; d.Kind() != topology.Bridge && of(d) {
				devices = append(devices, d)
			}
		}
		if len(devices) == 0 {
			return
		}
		out = append(out, Branch{text, branches(deviceLines(m, devices))})
	}
	for i := range m.NUMANodes {
		id := m.NUMANodes[i].ID
		add(fmt.Sprint("NUMA ", id), func(d *topology.Device) bool { return d.HasNUMA && d.NUMA == id })
	}
	add("no NUMA node known", func(d *topology.Device) bool { return !d.HasNUMA })
	return out
}

// branches converts the lines, with the lines below them, to Branches.
func branches(lines []line) []Branch {
	var out []Branch
	for _, l := range lines {
		one := Branch{Text: l.text}
		if l.box != nil {
			one.Below = branches(l.box.more)
		}
		out = append(out, one)
	}
	return out
}
