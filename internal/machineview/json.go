package machineview

import (
	"strconv"

	"github.com/berth-dev/berth/topology"
)

// Document is the JSON form of a machine, the output of "berth topology -o json". The format of a
// Document is stable: releases add fields, but never rename or remove them. CPU lists hold online
// CPUs only, in the kernel's list format.
type Document struct {
	CPUs      string     `json:"cpus"`
	Packages  []Package  `json:"packages"`
	Cores     []Core     `json:"cores"`
	L3        []L3       `json:"l3"`
	NUMANodes []NUMANode `json:"numaNodes"`
	Devices   []Device   `json:"devices"`
	Links     []Link     `json:"links"`
}

// Package is a processor package (socket).
type Package struct {
	ID   int    `json:"id"`
	CPUs string `json:"cpus"`
}

// Core is a physical core. Package is -1 if the platform reports no package. The ID is not unique
// across packages, and on some platforms not even inside a package.
type Core struct {
	Package int    `json:"package"`
	ID      int    `json:"id"`
	CPUs    string `json:"cpus"`
}

// L3 is a level-3 cache. ID is the kernel's id, or the lowest CPU of the cache if the kernel gives
// no id.
type L3 struct {
	ID   int    `json:"id"`
	CPUs string `json:"cpus"`
}

// NUMANode is a NUMA node.
type NUMANode struct {
	ID   int    `json:"id"`
	CPUs string `json:"cpus"`
	// MemoryBytes is MemTotal in the NUMA node's meminfo file, in bytes.
	MemoryBytes uint64 `json:"memoryBytes"`
	// HugePages is the number of pages, free or not, by page size ("2Mi", "1Gi").
	HugePages map[string]uint64 `json:"hugepages"`
	// Distances has the distance to every NUMA node by its id; 10 is the distance to itself. It is
	// empty if the platform reports no distances.
	Distances map[string]uint32 `json:"distances"`
}

// Device is a PCI device.
type Device struct {
	Address string `json:"address"`
	// Class is six hexadecimal digits, Vendor and Device are four.
	Class  string `json:"class"`
	Vendor string `json:"vendor"`
	Device string `json:"device"`
	// NUMANode is null if the platform does not report it.
	NUMANode *int `json:"numaNode"`
	// PCIRoot is the root complex ("pci0000:3a"), or "". PCISwitch is the address of the upstream
	// port of the nearest switch, or "".
	PCIRoot   string `json:"pciRoot"`
	PCISwitch string `json:"pciSwitch"`
	// Name is the operating system's name of the device ("eth0"), or "".
	Name string `json:"name"`
	// Kind is "GPU", "RDMA NIC", "NIC", "NVMe", "accelerator", "bridge" or "other".
	Kind string `json:"kind"`
	// RDMA is the RDMA subsystem's name of the device ("mlx5_0"), or "".
	RDMA string `json:"rdma"`
	// PhysicalFunction is the address of the physical function if the device is a virtual function,
	// otherwise "".
	PhysicalFunction string `json:"physicalFunction"`
}

// Link is a direct connection between two devices, other than PCIe.
type Link struct {
	// A and B are the PCI addresses of the devices; A is the lower address.
	A string `json:"a"`
	B string `json:"b"`
	// Kind is "nvlink" or "xgmi". Count is the number of links between A and B.
	Kind  string `json:"kind"`
	Count int    `json:"count"`
}

// NewDocument returns the JSON form of a machine.
func NewDocument(m *topology.Machine) *Document {
	d := &Document{
		CPUs:      m.Online.String(),
		Packages:  make([]Package, len(m.Packages)),
		Cores:     make([]Core, len(m.Cores)),
		L3:        make([]L3, len(m.L3s)),
		NUMANodes: make([]NUMANode, len(m.NUMANodes)),
		Devices:   make([]Device, len(m.Devices)),
		Links:     make([]Link, len(m.Links)),
	}
	for i, p := range m.Packages {
		d.Packages[i] = Package{int(p.ID), p.CPUs.String()}
	}
	for i, c := range m.Cores {
		d.Cores[i] = Core{int(c.Package), int(c.ID), c.CPUs.String()}
	}
	for i, l := range m.L3s {
		d.L3[i] = L3{int(l.ID), l.CPUs.String()}
	}
	for i := range m.NUMANodes {
		d.NUMANodes[i] = newNode(m, &m.NUMANodes[i])
	}
	for i := range m.Devices {
		d.Devices[i] = newDevice(&m.Devices[i])
	}
	for i, l := range m.Links {
		d.Links[i] = Link{A: l.A, B: l.B, Kind: l.Kind.String(), Count: int(l.Count)}
	}
	return d
}

func newNode(m *topology.Machine, n *topology.NUMANode) NUMANode {
	out := NUMANode{
		ID: int(n.ID), CPUs: n.CPUs.String(), MemoryBytes: n.MemoryBytes,
		HugePages: map[string]uint64{}, Distances: map[string]uint32{},
	}
	for _, h := range n.HugePages {
		out.HugePages[topology.FormatBytes(h.PageBytes)] = h.Count
	}
	for i, distance := range n.Distances {
		out.Distances[strconv.Itoa(int(m.NUMANodes[i].ID))] = distance
	}
	return out
}

func newDevice(d *topology.Device) Device {
	out := Device{
		Address: d.Address, Class: d.Class, Vendor: d.Vendor, Device: d.Product,
		PCIRoot: d.Root, PCISwitch: d.Switch, Name: d.Name,
		Kind: d.Kind().String(), RDMA: d.RDMA, PhysicalFunction: d.Physical,
	}
	if d.HasNUMA {
		node := int(d.NUMA)
		out.NUMANode = &node
	}
	return out
}
