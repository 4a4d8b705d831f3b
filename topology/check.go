package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// MaxNodes and MaxDevices are the maximum numbers of NUMA nodes and devices of a Machine.
const (
	MaxNodes   = 1024
	MaxDevices = 8192
)

// maxTextField is the maximum length in bytes of the names of drivers, devices and roots.
const maxTextField = 256

// Check returns the first invariant that the machine violates, as a *Violation, or nil.
//
//   - At least one CPU is online; no CPU is both online and offline.
//   - Ids are at least 0. Packages, L3s and NUMA nodes are ascending and unique by id, dies by
//     package and id. Cores are ascending by package and lowest CPU.
//   - Packages, dies, L3s and cores have CPUs. Objects of one kind share no CPU, and have only
//     online CPUs.
//   - Dies and cores name an existing package that contains them, or NoPackage if no package has
//     any of their CPUs.
//   - If UnnumberedCaches is true, there are L3s, and their ids are their lowest CPUs. If
//     UnnumberedPackages is true, there are packages, and their ids are 0, 1, 2 ... in the order of
//     their lowest CPUs.
//   - A distance row is empty or has one value of at least 1 for each NUMA node. Page sizes are
//     ascending powers of two, and each pool has less than 2^64 bytes. If the memory of a NUMA node
//     is known, its pools together are not larger than this memory.
//   - Addresses, classes and ids of devices have the kernel's spelling, and the NUMA node of a
//     device exists. Switches form a tree, and all devices below a switch have its root. A virtual
//     function names a physical function.
//   - Links connect devices of the machine, ascending by their addresses, each pair once.
func (m *Machine) Check() error {
	if m.Online.IsEmpty() {
		return &Violation{"machine", "Online", "", "at least one CPU"}
	}
	if both := m.Online.And(&m.Offline); !both.IsEmpty() {
		return &Violation{"machine", "Offline", both.String(), "no CPU that is also online"}
	}
	for _, check := range []func() error{
		m.checkPackages, m.checkDies, m.checkCores, m.checkL3s, m.checkNodes, m.checkDevices, m.checkPCI, m.checkLinks,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// disjoint checks that the objects of one kind share no CPU and have only online CPUs.
type disjoint struct {
	online *CPUSet
	seen   CPUSet
}

func (d *disjoint) add(object string, cpus *CPUSet) error {
	if !cpus.IsSubsetOf(d.online) {
		strange := cpus.AndNot(d.online)
		return &Violation{object, "CPUs", strange.String(), "online CPUs only"}
	}
	if d.seen.Intersects(cpus) {
		twice := cpus.And(&d.seen)
		return &Violation{object, "CPUs", twice.String(), "CPUs that no other object of this kind has"}
	}
	d.seen = d.seen.Or(cpus)
	return nil
}

func (d *disjoint) addFilled(object string, cpus *CPUSet) error {
	if cpus.IsEmpty() {
		return &Violation{object, "CPUs", "", "at least one CPU"}
	}
	return d.add(object, cpus)
}

func (m *Machine) checkPackages() error {
	d := disjoint{online: &m.Online}
	for i, p := range m.Packages {
		name := fmt.Sprintf("package %d", p.ID)
		if p.ID < 0 || i > 0 && p.ID <= m.Packages[i-1].ID {
			return &Violation{name, "ID", fmt.Sprint(p.ID), "ids from 0, ascending and unique"}
		}
		if err := d.addFilled(name, &p.CPUs); err != nil {
			return err
		}
		if m.UnnumberedPackages && (int(p.ID) != i || i > 0 && !lower(&m.Packages[i-1].CPUs, &p.CPUs)) {
			return &Violation{name, "ID", fmt.Sprint(p.ID), "0, 1, 2 ... in the order of lowest CPUs, because UnnumberedPackages is true"}
		}
	}
	if m.UnnumberedPackages && len(m.Packages) == 0 {
		return &Violation{"machine", "UnnumberedPackages", "true", "false on a machine without packages"}
	}
	return nil
}

// lower reports whether the lowest CPU of a is lower than the lowest CPU of b.
func lower(a, b *CPUSet) bool {
	la, _ := a.Lowest()
	lb, _ := b.Lowest()
	return la < lb
}

// inPackage checks that an object is in the package that it names.
func (m *Machine) inPackage(object string, id PackageID, cpus *CPUSet) error {
	for i := range m.Packages {
		p := &m.Packages[i]
		if p.ID == id && cpus.IsSubsetOf(&p.CPUs) {
			return nil
		}
		if p.ID == id || p.CPUs.Intersects(cpus) {
			return &Violation{object, "Package", fmt.Sprint(id), fmt.Sprintf("the package that holds CPUs %s", cpus)}
		}
	}
	if id != NoPackage {
		return &Violation{object, "Package", fmt.Sprint(id), "a package of this machine"}
	}
	return nil
}

func (m *Machine) checkDies() error {
	d := disjoint{online: &m.Online}
	for i, die := range m.Dies {
		name := fmt.Sprintf("die %d of package %d", die.ID, die.Package)
		if die.ID < 0 || i > 0 && compareDies(m.Dies[i-1], die) >= 0 {
			return &Violation{name, "ID", fmt.Sprint(die.ID), "ids from 0, ascending and unique in their package"}
		}
		if err := cmp.Or(d.addFilled(name, &die.CPUs), m.inPackage(name, die.Package, &die.CPUs)); err != nil {
			return err
		}
	}
	return nil
}

func compareDies(a, b Die) int {
	return cmp.Or(cmp.Compare(a.Package, b.Package), cmp.Compare(a.ID, b.ID))
}

func (m *Machine) checkCores() error {
	d := disjoint{online: &m.Online}
	for i, c := range m.Cores {
		name := fmt.Sprintf("core %d of package %d", c.ID, c.Package)
		if c.ID < 0 {
			return &Violation{name, "ID", fmt.Sprint(c.ID), "0 or more"}
		}
		if err := cmp.Or(d.addFilled(name, &c.CPUs), m.inPackage(name, c.Package, &c.CPUs)); err != nil {
			return err
		}
		if i > 0 && compareCores(m.Cores[i-1], c) >= 0 {
			return &Violation{name, "CPUs", c.CPUs.String(), "cores in order of package, then lowest CPU"}
		}
	}
	return nil
}

func compareCores(a, b Core) int {
	la, _ := a.CPUs.Lowest()
	lb, _ := b.CPUs.Lowest()
	return cmp.Or(cmp.Compare(a.Package, b.Package), cmp.Compare(la, lb))
}

func (m *Machine) checkL3s() error {
	d := disjoint{online: &m.Online}
	for i, l := range m.L3s {
		name := fmt.Sprintf("l3 %d", l.ID)
		if l.ID < 0 || i > 0 && l.ID <= m.L3s[i-1].ID {
			return &Violation{name, "ID", fmt.Sprint(l.ID), "ids from 0, ascending and unique"}
		}
		if err := d.addFilled(name, &l.CPUs); err != nil {
			return err
		}
		if lowest, _ := l.CPUs.Lowest(); m.UnnumberedCaches && int(lowest) != int(l.ID) {
			return &Violation{name, "ID", fmt.Sprint(l.ID), fmt.Sprintf("the lowest CPU, %d, because UnnumberedCaches is true", lowest)}
		}
	}
	if m.UnnumberedCaches && len(m.L3s) == 0 {
		return &Violation{"machine", "UnnumberedCaches", "true", "false on a machine without L3s"}
	}
	return nil
}

func (m *Machine) checkNodes() error {
	if len(m.NUMANodes) > MaxNodes {
		return &Violation{"machine", "NUMANodes", fmt.Sprint(len(m.NUMANodes)), fmt.Sprintf("at most %d", MaxNodes)}
	}
	d := disjoint{online: &m.Online}
	for i := range m.NUMANodes {
		n := &m.NUMANodes[i]
		name := fmt.Sprintf("NUMA node %d", n.ID)
		if i > 0 && n.ID <= m.NUMANodes[i-1].ID {
			return &Violation{name, "ID", fmt.Sprint(n.ID), "ids ascending and unique"}
		}
		if err := cmp.Or(d.add(name, &n.CPUs), m.checkDistances(name, n), checkHugePages(name, n)); err != nil {
			return err
		}
	}
	return nil
}

func (m *Machine) checkDistances(name string, n *NUMANode) error {
	if len(n.Distances) != 0 && len(n.Distances) != len(m.NUMANodes) {
		return &Violation{name, "Distances", fmt.Sprint(n.Distances), fmt.Sprintf("no value or %d", len(m.NUMANodes))}
	}
	if slices.Contains(n.Distances, 0) {
		return &Violation{name, "Distances", fmt.Sprint(n.Distances), "distances of at least 1"}
	}
	return nil
}

func checkHugePages(name string, n *NUMANode) error {
	left := n.MemoryBytes
	for i, h := range n.HugePages {
		if h.PageBytes == 0 || h.PageBytes&(h.PageBytes-1) != 0 || i > 0 && h.PageBytes <= n.HugePages[i-1].PageBytes {
			return &Violation{name, "HugePages", fmt.Sprint(h.PageBytes), "powers of two, ascending and unique"}
		}
		if h.Count > ^uint64(0)/h.PageBytes {
			return &Violation{name, "HugePages", fmt.Sprint(h.Count), "a pool of less than 2^64 bytes"}
		}
		size := h.Count * h.PageBytes
		if n.MemoryBytes > 0 && size > left {
			return &Violation{name, "HugePages", fmt.Sprintf("%d pages of %d bytes", h.Count, h.PageBytes),
				fmt.Sprintf("huge pages of all sizes to fit into the NUMA node's memory, %d bytes", n.MemoryBytes)}
		}
		left -= size
	}
	return nil
}

func (m *Machine) checkDevices() error {
	if len(m.Devices) > MaxDevices {
		return &Violation{"machine", "Devices", fmt.Sprint(len(m.Devices)), fmt.Sprintf("at most %d", MaxDevices)}
	}
	for i := range m.Devices {
		d := &m.Devices[i]
		if err := d.check(); err != nil {
			return err
		}
		if i > 0 && compareDevices(*d, m.Devices[i-1]) <= 0 {
			return &Violation{"device " + d.Address, "Address", d.Address, "addresses in ascending order, each once"}
		}
		if d.HasNUMA && m.NUMANode(d.NUMA) == nil || !d.HasNUMA && d.NUMA != 0 {
			return &Violation{"device " + d.Address, "NUMA", fmt.Sprint(d.NUMA), "a NUMA node of this machine, or HasNUMA false and 0"}
		}
	}
	return nil
}

func compareDevices(a, b Device) int { return CompareAddresses(a.Address, b.Address) }

func (d *Device) check() error {
	object := fmt.Sprintf("device %.40s", d.Address)
	switch {
	case !IsPCIAddress(d.Address):
		return &Violation{object, "Address", d.Address, `a PCI address such as "0000:3b:00.0", in lower case`}
	case d.Class != "" && !isHex(d.Class, 6):
		return &Violation{object, "Class", d.Class, "six hexadecimal digits in lower case"}
	case d.Vendor != "" && !isHex(d.Vendor, 4):
		return &Violation{object, "Vendor", d.Vendor, "four hexadecimal digits in lower case"}
	case d.Product != "" && !isHex(d.Product, 4):
		return &Violation{object, "Product", d.Product, "four hexadecimal digits in lower case"}
	case d.Switch != "" && !IsPCIAddress(d.Switch):
		return &Violation{object, "Switch", d.Switch, "a PCI address, or none"}
	case d.Physical != "" && !IsPCIAddress(d.Physical):
		return &Violation{object, "Physical", d.Physical, "a PCI address, or none"}
	}
	for _, text := range []struct{ field, value string }{{"Root", d.Root}, {"Driver", d.Driver}, {"Name", d.Name}, {"RDMA", d.RDMA}} {
		if len(text.value) > maxTextField {
			return &Violation{object, text.field, text.value, fmt.Sprintf("at most %d bytes", maxTextField)}
		}
	}
	return nil
}

// IsPCIAddress reports whether s is a PCI address DOMAIN:BUS:DEVICE.FUNCTION such as
// "0000:3b:00.0", in the kernel's format "%04x:%02x:%02x.%d".
func IsPCIAddress(s string) bool {
	n := len(s) - len(":00:00.0")
	return n >= 4 && n <= 8 && isHex(s[:n], n) && (n == 4 || s[0] != '0') && isPCISlot(s[n+1:]) && s[n] == ':'
}

// isPCISlot reports whether s is BUS:DEVICE.FUNCTION.
func isPCISlot(s string) bool {
	return len(s) == 7 && isHex(s[:2], 2) && s[2] == ':' && isHex(s[3:5], 2) && s[5] == '.' && s[6] >= '0' && s[6] <= '7'
}

func isHex(s string, n int) bool {
	return len(s) == n && strings.Trim(s, "0123456789abcdef") == ""
}
