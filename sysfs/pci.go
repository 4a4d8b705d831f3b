package sysfs

import (
	"cmp"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/berth-dev/berth/topology"
)

// readDevices reads the PCI devices of /sys/bus/pci/devices. If a capture lacks that folder, it
// reads the devices below /sys/devices/pci*.
func (r *reader) readDevices() error {
	places, err := r.places()
	if err != nil {
		return err
	}
	names, err := r.classNames()
	if err != nil {
		return err
	}
	if len(places) > topology.MaxDevices {
		return &Error{Path: pciDir, Field: "devices", Value: fmt.Sprint(len(places)), Want: fmt.Sprintf("at most %d", topology.MaxDevices)}
	}
	r.addresses, r.parents = places, r.virtualFunctions(places)
	for address, place := range places {
		d, err := r.device(address, place)
		if err != nil {
			return err
		}
		if d.Name, d.RDMA = names[""][address], names[rdmaClass][address]; d.Name == "" {
			if d.Name, err = r.childName(place, classes); err != nil {
				return err
			}
		}
		if d.RDMA == "" {
			if d.RDMA, err = r.childName(place, []string{rdmaClass}); err != nil {
				return err
			}
		}
		r.m.Devices = append(r.m.Devices, d)
	}
	slices.SortFunc(r.m.Devices, func(a, b topology.Device) int { return topology.CompareAddresses(a.Address, b.Address) })
	return nil
}

// places returns the folder of every PCI device, by the device's address.
func (r *reader) places() (map[string]string, error) {
	list, err := r.entries(pciDir)
	if err != nil {
		return nil, err
	}
	places := map[string]string{}
	for _, e := range list {
		if !topology.IsPCIAddress(e.Name()) {
			return nil, &Error{Path: path.Join(pciDir, e.Name()), Field: "address", Value: e.Name(), Want: `a PCI address such as "0000:3b:00.0"`}
		}
		places[e.Name()] = r.resolve(path.Join(pciDir, e.Name()))
	}
	if len(places) > 0 {
		return places, nil
	}
	return places, r.walk("sys/devices", 0, places)
}

// maxDepth is the maximum number of PCI bridges above a device.
const maxDepth = 32

// walk collects the devices below the roots pciDDDD:BB.
func (r *reader) walk(dir string, depth int, places map[string]string) error {
	list, err := r.entries(dir)
	if err != nil || depth > maxDepth {
		return err
	}
	for _, e := range list {
		name, inside := e.Name(), path.Join(dir, e.Name())
		if topology.IsPCIAddress(name) && depth > 0 {
			if twice := places[name]; twice != "" {
				return &Error{Path: inside, Field: "address", Value: name, Want: "each PCI address once; it is also at " + twice}
			}
			places[name] = inside
		}
		if isRoot(name) || topology.IsPCIAddress(name) && depth > 0 {
			if err := r.walk(inside, depth+1, places); err != nil {
				return err
			}
		}
		if len(places) > topology.MaxDevices {
			return nil // readDevices returns the error
		}
	}
	return nil
}

// resolve returns the target of a link in /sys/bus or /sys/class, or the path itself if it is not a
// link.
func (r *reader) resolve(name string) string {
	target, err := fs.ReadLink(r.fsys, name)
	if err != nil {
		return name
	}
	if path.IsAbs(target) {
		return strings.TrimPrefix(path.Clean(target), "/")
	}
	return path.Join(path.Dir(name), target)
}

// isRoot reports whether name is a root complex, pciDOMAIN:BUS.
func isRoot(name string) bool {
	domain, bus, ok := strings.Cut(strings.TrimPrefix(name, "pci"), ":")
	return ok && strings.HasPrefix(name, "pci") && len(domain) >= 4 && isHex(domain) && len(bus) == 2 && isHex(bus)
}

func isHex(s string) bool { return s != "" && strings.Trim(s, "0123456789abcdef") == "" }

func (r *reader) device(address, dir string) (d topology.Device, err error) {
	d.Address = address
	for _, id := range []struct {
		file   string
		digits int
		field  *string
	}{{"class", 6, &d.Class}, {"vendor", 4, &d.Vendor}, {"device", 4, &d.Product}} {
		if *id.field, err = r.hexID(path.Join(dir, id.file), id.digits); err != nil {
			return d, err
		}
	}
	if err := r.deviceNode(&d, path.Join(dir, "numa_node")); err != nil {
		return d, err
	}
	d.Root, d.Switch = r.lineage(dir)
	if d.Physical, err = r.physical(address, dir+"/physfn"); err != nil {
		return d, err
	}
	d.Driver, err = r.driver(dir)
	return d, err
}

// physical returns the address of a virtual function's physical function, which is the target of
// the link physfn. It returns "" for other devices, and if the capture lacks the target. If the
// link cannot be read, physical uses the virtfn links of the physical functions: functions come and
// go while sysfs is read, and a virtual function must never count as a physical one.
func (r *reader) physical(address, name string) (string, error) {
	target, err := fs.ReadLink(r.fsys, name)
	if err != nil {
		return r.parents[address], nil
	}
	pf := path.Base(target)
	if !topology.IsPCIAddress(pf) || pf == address {
		return "", &Error{Path: name, Field: "physfn", Value: target, Want: "a link to the physical function, ../0000:3b:00.0"}
	}
	if _, there := r.addresses[pf]; !there {
		return "", nil
	}
	return pf, nil
}

func (r *reader) virtualFunctions(places map[string]string) map[string]string {
	parents := map[string]string{}
	for address, place := range places {
		for n := range topology.MaxDevices {
			target, err := fs.ReadLink(r.fsys, path.Join(place, fmt.Sprint("virtfn", n)))
			if err != nil {
				break
			}
			if vf := path.Base(target); vf != address {
				parents[vf] = address
			}
		}
	}
	return parents
}

// hexID reads an id without its prefix: for "0x8086" it returns "8086". For a missing file it
// returns "".
func (r *reader) hexID(name string, digits int) (string, error) {
	text, ok, err := r.text(name)
	if err != nil || !ok {
		return "", err
	}
	id := strings.ToLower(strings.TrimPrefix(text, "0x"))
	if len(id) != digits || !isHex(id) {
		return "", &Error{Path: name, Field: path.Base(name), Value: text, Want: fmt.Sprintf("0x and %d hexadecimal digits", digits)}
	}
	return id, nil
}

// deviceNode reads numa_node. -1 means unknown, and so does a node that the machine does not have.
func (r *reader) deviceNode(d *topology.Device, name string) error {
	n, ok, err := r.integer(name, -1, math.MaxUint16)
	if err != nil {
		return err
	}
	if ok && n >= 0 && r.m.NUMANode(topology.NUMAID(n)) != nil {
		d.NUMA, d.HasNUMA = topology.NUMAID(n), true
	}
	return nil
}

// lineage returns the root complex and the nearest switch above the device at a resolved path such
// as sys/devices/pci0000:16/0000:16:02.0/0000:17:00.0/0000:18:08.0/0000:19:00.0. The path has a
// root port, then the upstream and the downstream port of a switch, then the device. A switch is
// named by its upstream port.
func (r *reader) lineage(place string) (root, nearest string) {
	var ports []string // folders from the innermost root down, the device included
	parts := strings.Split(place, "/")
	for i, part := range parts {
		switch {
		case isRoot(part):
			root = cmp.Or(root, part)
			ports = nil // a domain of its own, behind a VMD
		case topology.IsPCIAddress(part):
			ports = append(ports, strings.Join(parts[:i+1], "/"))
		}
	}
	// ports[0] is a root port. After it, upstream and downstream ports alternate.
	for i := (len(ports) - 2) | 1; i >= 1; i -= 2 {
		if i+1 < len(ports) && r.isBridge(ports[i]) && r.isBridge(ports[i+1]) {
			return root, path.Base(ports[i])
		}
	}
	return root, ""
}

// isBridge reports whether the device is a PCI-to-PCI bridge, class 0604.
func (r *reader) isBridge(dir string) bool {
	class, err := r.hexID(dir+"/class", 6)
	return err == nil && strings.HasPrefix(class, "0604")
}

func (r *reader) driver(dir string) (string, error) {
	if target, err := fs.ReadLink(r.fsys, path.Join(dir, "driver")); err == nil {
		return bounded(path.Base(target)), nil
	}
	text, _, err := r.text(path.Join(dir, "uevent"))
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "DRIVER="); ok {
			return bounded(name), err
		}
	}
	return "", err
}

// bounded cuts a name after 128 bytes. Names of the kernel are shorter.
func bounded(name string) string { return name[:min(len(name), 128)] }

const rdmaClass = "infiniband"

// classes are the classes of /sys/class from which a device's Name comes. If a device is in
// several, the first of them counts.
var classes = []string{"net", rdmaClass, "block", "nvme", "drm"}

// classDirs returns the folders that list the devices of a class.
func classDirs(class string) []string {
	if class == "block" {
		return []string{"sys/class/block", "sys/block"}
	}
	return []string{"sys/class/" + class}
}

// classNames returns the names of PCI devices by class and address, from the links in /sys/class
// and /sys/block. Under the key "", each device has its name from the first class that names
// this device.
func (r *reader) classNames() (map[string]map[string]string, error) {
	names := map[string]string{}
	all := map[string]map[string]string{"": names}
	for _, class := range classes {
		found := map[string]string{}
		for _, dir := range classDirs(class) {
			list, err := r.entries(dir)
			if err != nil {
				return nil, err
			}
			for _, e := range list {
				place := r.resolve(dir + "/" + e.Name())
				if address := lastAddress(place); address != "" && r.isWhole(class, place) {
					found[address] = shorter(found[address], bounded(e.Name()))
				}
			}
		}
		for address, name := range found {
			names[address] = cmp.Or(names[address], name)
		}
		all[class] = found
	}
	return all, nil
}

// isWhole reports whether an entry of a class stands for a whole device, and not for a partition of
// a disk, or for a connector or render node of a graphics card.
func (r *reader) isWhole(class, place string) bool {
	switch class {
	case "block":
		parent := path.Base(path.Dir(place))
		return parent == "block" || strings.HasPrefix(parent, "nvme") && path.Base(path.Dir(path.Dir(place))) == "nvme"
	case "drm":
		return isCard(path.Base(place))
	default:
		return true
	}
}

func isCard(name string) bool {
	digits, ok := strings.CutPrefix(name, "card")
	return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
}

// shorter returns the shorter name, or the lower of two names with the same length: eth0 before
// eth0.5 and eth10.
func shorter(a, b string) string {
	if a == "" || len(b) < len(a) || len(b) == len(a) && b < a {
		return b
	}
	return a
}

func lastAddress(place string) string {
	last := ""
	for part := range strings.SplitSeq(place, "/") {
		if topology.IsPCIAddress(part) {
			last = part
		}
	}
	return last
}

// childName finds the name of a device in its own folder, for captures without /sys/class. On a
// virtual machine the name is one level deeper, in virtioN.
func (r *reader) childName(place string, classes []string) (string, error) {
	list, err := r.entries(place)
	if err != nil {
		return "", err
	}
	dirs := []string{place}
	for _, e := range list {
		if strings.HasPrefix(e.Name(), "virtio") {
			dirs = append(dirs, path.Join(place, e.Name()))
		}
	}
	for _, class := range classes {
		for _, dir := range dirs {
			if name, err := r.lowestName(path.Join(dir, class), class); err != nil || name != "" {
				return name, err
			}
		}
	}
	return "", nil
}

// lowestName returns the lowest name in a folder. For an NVMe controller it returns the name of its
// first disk.
func (r *reader) lowestName(dir, class string) (name string, err error) {
	list, err := r.entries(dir)
	for _, e := range list {
		if class != "drm" || isCard(e.Name()) {
			name = shorter(name, bounded(e.Name()))
		}
	}
	if class != "nvme" || err != nil || name == "" {
		return name, err
	}
	disks, err := r.entries(path.Join(dir, name))
	disk := ""
	for _, e := range disks {
		if strings.HasPrefix(e.Name(), name+"n") {
			disk = shorter(disk, bounded(e.Name()))
		}
	}
	return cmp.Or(disk, name), err
}
