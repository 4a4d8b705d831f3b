package topology

import (
	"fmt"
	"slices"
	"strings"
)

// DeviceKind is the kind of a PCI device.
type DeviceKind uint8

// The kinds of PCI devices.
const (
	// OtherDevice, the zero value, is any device that none of the other kinds describes.
	OtherDevice DeviceKind = iota
	// Bridge is a part of PCI itself: a root port, or a port of a switch.
	Bridge
	GPU
	// Accelerator computes but is not a GPU: an NPU, an FPGA, a co-processor.
	Accelerator
	// NIC is a network card without RDMA. RDMANIC is a network card with RDMA (InfiniBand, RoCE,
	// iWARP).
	NIC
	RDMANIC
	// NVMe is a disk on PCIe.
	NVMe
)

var deviceKindNames = [...]string{
	OtherDevice: "other", Bridge: "bridge", GPU: "GPU", Accelerator: "accelerator", NIC: "NIC", RDMANIC: "RDMA NIC", NVMe: "NVMe",
}

// String returns the name of the kind for people, such as "RDMA NIC".
func (k DeviceKind) String() string { return spell(k, deviceKindNames[:]) }

// gpuVendors are NVIDIA, AMD and Intel. If another vendor's device has the display class 0300 or
// 0380, it is the console of a server's management chip, and not a GPU.
var gpuVendors = []string{"10de", "1002", "8086"}

// Kind returns the kind of the device, by its PCI class and vendor (pci.ids), and by its RDMA name.
// Class 1200 is an accelerator, but AMD uses it for GPUs.
func (d *Device) Kind() DeviceKind {
	class := func(prefixes ...string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(d.Class, p) })
	}
	switch {
	case class("0604"):
		return Bridge
	case class("0302"), class("0300", "0380") && slices.Contains(gpuVendors, d.Vendor), class("1200") && d.Vendor == "1002":
		return GPU
	case class("12", "0b40"):
		return Accelerator
	case class("0207"), class("02") && d.RDMA != "":
		return RDMANIC
	case class("02"):
		return NIC
	case class("0108"):
		return NVMe
	}
	return OtherDevice
}

// Device returns the device with an address, or nil.
func (m *Machine) Device(address string) *Device {
	i, found := slices.BinarySearchFunc(m.Devices, address, func(d Device, address string) int { return CompareAddresses(d.Address, address) })
	if !found {
		return nil
	}
	return &m.Devices[i]
}

// SetDevices returns a copy of m with the given devices and links instead of its own. The slices
// may be in any order. SetDevices returns the same errors as Check.
func (m *Machine) SetDevices(devices []Device, links []Link) (*Machine, error) {
	out := *m
	out.Devices, out.Links = slices.SortedStableFunc(slices.Values(devices), compareDevices), slices.SortedStableFunc(slices.Values(links), CompareLinks)
	if err := out.Check(); err != nil {
		return nil, err
	}
	return &out, nil
}

// maxSwitches is the maximum number of PCI switches above a device.
const maxSwitches = 32

// Switches returns the PCI switches above a device, the nearest first. The list may end with a
// switch that is not itself a device of the machine.
func (m *Machine) Switches(d *Device) []string {
	var out []string
	for d != nil && d.Switch != "" && len(out) <= maxSwitches {
		out = append(out, d.Switch)
		d = m.Device(d.Switch)
	}
	return out
}

// PCIPort is a root complex or a switch, with the PCI devices below it.
type PCIPort struct {
	// Name is the root complex ("pci0000:3a"), or "" if it is not known. For a switch it is the
	// address of its upstream port.
	Name string
	// Ports are the switches just below, ascending by address.
	Ports []*PCIPort
	// Functions are the devices just below, ascending by address, without bridges and virtual
	// functions.
	Functions []PCIFunction
}

// PCIFunction is a device with its virtual functions.
type PCIFunction struct {
	*Device
	Virtual []*Device // ascending by address
}

// PCITree returns the devices of a machine as a PCI tree. Root complexes are in the order of their
// lowest devices. PCITree leaves out bridges other than switches, and ports without devices. The
// machine must pass Check.
func (m *Machine) PCITree() []*PCIPort {
	t := pciTree{m: m, ports: map[[2]string]*PCIPort{}, functions: map[string]*PCIPort{}}
	for i := range m.Devices {
		d := &m.Devices[i]
		if d.Physical != "" || d.Kind() == Bridge {
			continue
		}
		at := t.port(d)
		at.Functions = append(at.Functions, PCIFunction{Device: d})
		t.functions[d.Address] = at
	}
	for i := range m.Devices {
		d := &m.Devices[i]
		if at := t.functions[d.Physical]; d.Physical != "" && at != nil {
			pf := slices.IndexFunc(at.Functions, func(f PCIFunction) bool { return f.Address == d.Physical })
			at.Functions[pf].Virtual = append(at.Functions[pf].Virtual, d)
		}
	}
	return t.roots
}

type pciTree struct {
	m         *Machine
	roots     []*PCIPort
	ports     map[[2]string]*PCIPort // by root and switch
	functions map[string]*PCIPort    // the port above a function, by the function's address
}

// port returns the port above a device. It adds this port, and the ports above it, to the tree if
// they are missing.
func (t *pciTree) port(d *Device) *PCIPort {
	at := t.ports[[2]string{d.Root, ""}]
	if at == nil {
		at = &PCIPort{Name: d.Root}
		t.ports[[2]string{d.Root, ""}] = at
		t.roots = append(t.roots, at)
	}
	above := t.m.Switches(d)
	slices.Reverse(above)
	for _, address := range above {
		below := t.ports[[2]string{d.Root, address}]
		if below == nil {
			below = &PCIPort{Name: address}
			t.ports[[2]string{d.Root, address}] = below
			at.Ports = append(at.Ports, below)
			slices.SortFunc(at.Ports, func(a, b *PCIPort) int { return CompareAddresses(a.Name, b.Name) })
		}
		at = below
	}
	return at
}

// checkPCI verifies that switches and virtual functions make a tree.
func (m *Machine) checkPCI() error {
	for i := range m.Devices {
		d := &m.Devices[i]
		object := "device " + d.Address
		if len(m.Switches(d)) > maxSwitches {
			return &Violation{object, "Switch", d.Switch, fmt.Sprintf("at most %d switches above it, and no cycle", maxSwitches)}
		}
		if above := m.Device(d.Switch); above != nil && above.Root != d.Root {
			return &Violation{object, "Root", d.Root, fmt.Sprintf("the root of its switch %s, %q", d.Switch, above.Root)}
		}
		if d.Physical == "" {
			continue
		}
		if pf := m.Device(d.Physical); pf == nil || pf == d || pf.Physical != "" {
			return &Violation{object, "Physical", d.Physical, "the address of a physical function of this machine"}
		}
	}
	return nil
}
