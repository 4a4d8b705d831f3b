package topology

import "fmt"

// Machine is the hardware of one server. Check lists its invariants. Slices have no duplicates and
// are in ascending order: packages, L3s and NUMA nodes by id, dies by package and id, cores by
// package and lowest CPU, devices and links by address. A slice may be shared, so copy it before
// you change it.
type Machine struct {
	// Online has the CPUs that the kernel uses. All other CPU sets except Offline are subsets of
	// Online.
	Online CPUSet
	// Offline has the CPUs that are present but switched off.
	Offline CPUSet

	Packages  []Package
	Dies      []Die // empty if the platform does not report dies
	Cores     []Core
	L3s       []L3 // empty if no level-3 cache is reported
	NUMANodes []NUMANode
	Devices   []Device
	// Links are the direct connections between devices, such as NVLink. PCIe does not count. Each
	// pair of devices is listed at most once, in ascending order.
	Links []Link

	// UnnumberedCaches means that the kernel gives caches no ids (cache/indexN/id is absent, as
	// before Linux 4.11 and on many arm64 kernels). The id of an L3 is then its lowest CPU.
	// cAdvisor, and so the kubelet, sees no caches on such a machine.
	UnnumberedCaches bool
	// UnnumberedPackages means that the platform distinguishes packages but gives them no ids
	// (physical_package_id is -1, as on s390 and POWER partitions). Ids are then 0, 1, 2 ... in the
	// order of their lowest CPUs. cAdvisor, and so the kubelet, sees one socket with the id -1.
	UnnumberedPackages bool
}

// Package is a processor package (socket).
type Package struct {
	ID   PackageID
	CPUs CPUSet
}

// Die is a die of a package.
type Die struct {
	Package PackageID
	ID      DieID
	CPUs    CPUSet
}

// Core is a physical core; its CPUs are its hardware threads (SMT siblings).
type Core struct {
	Package PackageID
	ID      CoreID
	CPUs    CPUSet
}

// L3 is a level-3 cache and the CPUs that share it.
type L3 struct {
	ID   L3ID
	CPUs CPUSet
}

// NUMANode is a NUMA node. A node may be without CPUs (memory only) or without memory.
type NUMANode struct {
	ID   NUMAID
	CPUs CPUSet
	// MemoryBytes is MemTotal in the node's meminfo file, in bytes; 0 if it is not known.
	MemoryBytes uint64
	// HugePages has the node's pools of huge pages, in ascending order of page size.
	HugePages []HugePages
	// Distances is the SLIT row: Distances[i] is the distance to Machine.NUMANodes[i], and 10 means
	// local. Distances is empty if the platform reports no distances. Otherwise Distances has one
	// element for each of NUMANodes.
	Distances []uint32
}

// HugePages is a pool of huge pages on a NUMA node.
type HugePages struct {
	// PageBytes is the size of one page, a power of two.
	PageBytes uint64
	// Count is the number of pages, free or not.
	Count uint64
}

// Device is a PCI device.
type Device struct {
	// Address is the PCI address, such as "0000:3b:00.0".
	Address string
	// Class is the PCI class code, six hexadecimal digits ("030200"); "" if it is not reported.
	Class string
	// Vendor and Product are PCI ids, four hexadecimal digits; "" if they are not reported.
	Vendor, Product string
	// NUMA is the NUMA node of the device. HasNUMA is false if the platform reports -1 or nothing.
	// NUMA is then 0, which does not mean NUMA node 0.
	NUMA    NUMAID
	HasNUMA bool
	// Root is the PCI root complex ("pci0000:3a"). Switch is the address of the nearest PCI switch
	// above the device (its upstream port). Each may be "".
	Root, Switch string
	// Physical is the address of the physical function if the device is a virtual function
	// (SR-IOV), and otherwise "".
	Physical string
	// Driver is the bound kernel driver, Name the operating system's name of the device ("eth0"),
	// and RDMA the RDMA subsystem's name ("mlx5_0"). Each may be "".
	Driver, Name, RDMA string
}

// NUMANode returns the node with the given id, or nil.
func (m *Machine) NUMANode(id NUMAID) *NUMANode {
	for i := range m.NUMANodes {
		if m.NUMANodes[i].ID == id {
			return &m.NUMANodes[i]
		}
	}
	return nil
}

// LinkKind is a kind of direct connection between devices.
type LinkKind uint8

// Link is a connection between two devices.
type Link struct {
	// A and B are addresses, A the lower one.
	A, B string
	Kind LinkKind
	// Count is the number of links between A and B: 18 for nvidia-smi's NV18.
	Count uint8
}

// Violation is a violated invariant of Machine.
type Violation struct {
	// Object names the wrong object, such as "core 3 of package 0".
	Object string
	// Field is the field of the object, as in the Go type.
	Field string
	Value string
	// Want is the expected value.
	Want string
}

func (v *Violation) Error() string {
	return fmt.Sprintf("%s: %s %.80q: want %s", v.Object, v.Field, v.Value, v.Want)
}
