package offer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/pkg/cdi"
	cdispec "tags.cncf.io/container-device-interface/specs-go"

	"github.com/berth-dev/berth/internal/atomicfile"
)

// Host has the file systems and folders in which a machine describes its devices. If Root is nil,
// every device counts as present and has no device nodes.
type Host struct {
	// Root contains sys/. It is nil if the machine is given as a machine string.
	Root fs.FS
	// Proc is /proc, which describes NVIDIA's GPUs and the swap devices; nil if it cannot be read.
	Proc fs.FS
	// SpecDirs are the folders of CDI specifications; a later one overrides an earlier one. The
	// agent writes its own specification into the last folder.
	SpecDirs []string
}

// Finding is the result of a check of a device.
type Finding struct {
	// Sick explains why no pod may get the device, or is "".
	Sick string
	// CDI is the device's name in a CDI specification, KIND=NAME. The container runtime injects the
	// device by this name.
	CDI string
	// Nodes are the paths of its device nodes below /dev, if the agent's own specification has the
	// device.
	Nodes []string
}

// look checks all devices of the pools, and returns the findings by address.
func (h *Host) look(pools []Pool) map[string]Finding {
	out := map[string]Finding{}
	var known map[string][]string // CDI devices of vendors, with their nodes
	busy := h.busy()
	for i := range pools {
		p := &pools[i]
		if p.cdi != nil && known == nil {
			known = h.described()
		}
		for j := range p.Devices {
			d := &p.Devices[j]
			s := h.lookAt(d, p.cdi, busy)
			if s.Sick == "" && p.cdi != nil {
				s.Sick = h.misnamed(d, p.cdi, s.CDI, known)
			}
			out[d.Address] = s
		}
	}
	return out
}

// misnamed returns an explanation if the vendors' specifications have no device with this name, or
// another device under this name. Otherwise it returns "".
func (h *Host) misnamed(d *Device, cdi *CDI, name string, known map[string][]string) string {
	nodes, found := known[name]
	if !found {
		return "no CDI specification in " + strings.Join(h.SpecDirs, " or ") + " has " + name
	}
	if cdi.Names != byIndex || h.Root == nil {
		return "" // an address or a UUID cannot be the name of another device
	}
	own := h.ownNodes(d.Address)
	for _, n := range nodes {
		if ownNode.MatchString(n) && !slices.Contains(own, n) {
			has := "no such device node"
			if len(own) > 0 {
				has = "/dev/" + strings.Join(own, ", /dev/")
			}
			return fmt.Sprintf("%s has /dev/%s, but on the host this device has %s: the CDI specification seems to number the devices in another order; use a specification with addresses or UUIDs as names, and set cdi.names to address or uuid",
				name, n, has)
		}
	}
	return ""
}

// ownNode matches device nodes that belong to only one device.
var ownNode = regexp.MustCompile(`^(nvidia[0-9]+|dri/(card|renderD)[0-9]+|accel/accel[0-9]+)$`)

// ownNodes returns the device nodes of a PCI function that match ownNode, as the host lists them.
func (h *Host) ownNodes(address string) (nodes []string) {
	for _, class := range []string{"drm", "accel"} {
		dir := pciDir + address + "/" + class
		for _, name := range h.children(dir) {
			if n := h.node(dir + "/" + name); ownNode.MatchString(n) {
				nodes = append(nodes, n)
			}
		}
	}
	if minor := h.nvidia(address, "Device Minor"); minor != "" {
		nodes = append(nodes, "nvidia"+minor)
	}
	return nodes
}

const pciDir = "sys/bus/pci/devices/"

func (h *Host) lookAt(d *Device, cdi *CDI, busy map[string]bool) Finding {
	s := Finding{CDI: Kind + "=" + d.Address}
	if h.Root != nil {
		if _, err := fs.Stat(h.Root, pciDir+d.Address); err != nil {
			return Finding{CDI: s.CDI, Sick: "it is gone from the machine"}
		}
	}
	if cdi != nil {
		name, err := h.nameOf(d, cdi.Names)
		if err != nil {
			return Finding{Sick: err.Error()}
		}
		return Finding{CDI: cdi.Kind + "=" + name}
	}
	if h.Root == nil {
		return s
	}
	s.Nodes, s.Sick = h.nodes(d, busy)
	return s
}

func (h *Host) nameOf(d *Device, names string) (string, error) {
	switch names {
	case byIndex:
		return fmt.Sprint(d.index), nil
	case byUUID:
		return h.uuid(d.Address)
	}
	return d.Address, nil
}

func (h *Host) uuid(address string) (string, error) {
	if uuid := h.nvidia(address, "GPU UUID"); uuid != "" {
		return uuid, nil
	}
	return "", fmt.Errorf("no UUID of the GPU in /proc/%s: is NVIDIA's driver loaded?", nvidiaFile(address))
}

// nvidiaFile returns the file below /proc in which NVIDIA's driver describes a GPU.
func nvidiaFile(address string) string { return "driver/nvidia/gpus/" + address + "/information" }

// nvidia returns the value of a key in the text by which NVIDIA's driver describes a GPU; "" if
// there is none.
func (h *Host) nvidia(address, key string) string {
	if h.Proc == nil {
		return ""
	}
	text, err := fs.ReadFile(h.Proc, nvidiaFile(address))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if k, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// nodeDirs are the folders of a PCI function in sysfs whose entries may have device nodes.
var nodeDirs = []string{"drm", "infiniband_verbs", "infiniband_mad", "accel", "misc"}

// shared has, for a folder in nodeDirs, the sysfs path of a further device that users of the
// folder's devices need. Not every machine has it.
var shared = map[string]string{"infiniband_verbs": "sys/class/misc/rdma_cm"}

// nodes returns the device nodes of a PCI function. `sick` is the reason why no pod may get the
// function, or "".
func (h *Host) nodes(d *Device, busy map[string]bool) (nodes []string, sick string) {
	dir := pciDir + d.Address
	for _, class := range nodeDirs {
		found := h.children(dir + "/" + class)
		for _, name := range found {
			nodes = append(nodes, h.node(dir+"/"+class+"/"+name))
		}
		if len(found) > 0 && shared[class] != "" {
			nodes = append(nodes, h.node(shared[class]))
		}
	}
	disks, sick := h.disks(dir, busy)
	nodes = append(nodes, disks...)
	target, _ := fs.ReadLink(h.Root, dir+"/driver") // a function without a driver has no link
	switch path.Base(target) {
	case "nvme":
		if len(disks) == 0 {
			sick = "its controller shows no disk of its own"
		}
	case "vfio-pci":
		group, why := h.group(d)
		sick = cmp.Or(sick, why)
		nodes = append(nodes, "vfio/"+group, "vfio/vfio")
	}
	nodes = slices.DeleteFunc(nodes, func(n string) bool { return n == "" })
	slices.Sort(nodes)
	return slices.Compact(nodes), sick
}

// node returns the path below /dev of the device that sysfs describes in dir, or "" if it has no
// device node.
func (h *Host) node(dir string) string {
	text, err := fs.ReadFile(h.Root, dir+"/uevent")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "DEVNAME=")
		if name = strings.TrimPrefix(name, "/dev/"); ok && fs.ValidPath(name) && name != "." {
			return name
		}
	}
	return ""
}

// disks returns the device nodes of the disks of an NVMe controller. It omits the controller's own
// device node, which is for administration and stays with the host.
func (h *Host) disks(dir string, busy map[string]bool) (nodes []string, sick string) {
	for _, controller := range h.children(dir + "/nvme") {
		for _, disk := range h.children(dir + "/nvme/" + controller) {
			at := dir + "/nvme/" + controller + "/" + disk
			if !strings.HasPrefix(disk, controller) || h.node(at) == "" {
				continue
			}
			nodes = append(nodes, h.node(at))
			for _, part := range append([]string{""}, h.children(at)...) {
				if part != "" && !strings.HasPrefix(part, disk) {
					continue
				}
				if name := path.Base(path.Join(at, part)); busy[name] || len(h.children(path.Join(at, part, "holders"))) > 0 {
					sick = "the host uses " + name
				}
			}
		}
	}
	return nodes, sick
}

// filesystems are the folders in which mounted file systems list their block devices. Some file
// systems, such as FAT, have no such folder, so busy does not find their disks.
var filesystems = []string{"sys/fs/ext4", "sys/fs/xfs", "sys/fs/f2fs", "sys/fs/btrfs/*/devices"}

// busy returns the disks and partitions that are used for swap, or that a mounted file system lists
// in one of the folders filesystems.
func (h *Host) busy() map[string]bool {
	out := map[string]bool{}
	if h.Root != nil {
		for _, pattern := range filesystems {
			names, _ := fs.Glob(h.Root, pattern+"/*") // the patterns are well-formed
			for _, n := range names {
				out[path.Base(n)] = true
			}
		}
	}
	if h.Proc != nil {
		text, err := fs.ReadFile(h.Proc, "swaps")
		for line := range strings.Lines(string(text)) {
			if name, _, ok := strings.Cut(line, " "); err == nil && ok {
				out[path.Base(name)] = true
			}
		}
	}
	return out
}

// group returns the IOMMU group of a function, or the reason why no pod may get the function. A
// container with the group's device node can use all devices of the group.
func (h *Host) group(d *Device) (id, sick string) {
	target, err := fs.ReadLink(h.Root, pciDir+d.Address+"/iommu_group")
	if err != nil {
		return "", "it has no IOMMU group, which vfio-pci needs"
	}
	for _, other := range h.children(pciDir + d.Address + "/iommu_group/devices") {
		class, err := fs.ReadFile(h.Root, pciDir+other+"/class")
		if bridge := err == nil && strings.HasPrefix(string(class), "0x0604"); other != d.Address && !bridge {
			sick = "it is in one IOMMU group with " + other + ", which would be given away with it"
		}
	}
	return path.Base(target), sick
}

func (h *Host) children(dir string) []string {
	entries, err := fs.ReadDir(h.Root, dir)
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Kind is the kind of the CDI specification that the agent writes. Its devices are named by their
// addresses.
const Kind = "berth.dev/pci"

// specFile is the name of the specification's file, in CDI's form VENDOR-CLASS.
var specFile = strings.Replace(Kind, "/", "-", 1) + ".json"

// specVersion is the oldest version of CDI with all fields that writeSpec uses.
const specVersion = "0.5.0"

// writeSpec writes the specification of the devices that no vendor describes. Each device sets an
// environment variable, because CDI requires an edit for each device, and a device may have no
// device nodes.
func (h *Host) writeSpec(pools []Pool, findings map[string]Finding) error {
	out := cdispec.Spec{Version: specVersion, Kind: Kind}
	for i := range pools {
		if pools[i].cdi != nil {
			continue
		}
		for _, d := range pools[i].Devices {
			s := cdispec.Device{Name: d.Address}
			s.ContainerEdits.Env = []string{"BERTH_DEVICE_" + strings.NewReplacer(":", "_", ".", "_").Replace(strings.ToUpper(d.Address)) + "=" + pools[i].Resource}
			for _, n := range findings[d.Address].Nodes {
				s.ContainerEdits.DeviceNodes = append(s.ContainerEdits.DeviceNodes, &cdispec.DeviceNode{Path: "/dev/" + n, Permissions: "rw"})
			}
			out.Devices = append(out.Devices, s)
		}
	}
	if len(out.Devices) == 0 {
		return nil
	}
	slices.SortFunc(out.Devices, func(a, b cdispec.Device) int { return cmp.Compare(a.Name, b.Name) })
	text, err := json.MarshalIndent(&out, "", "  ")
	if err != nil {
		return err
	}
	if len(h.SpecDirs) == 0 {
		return errors.New("no folder for CDI specifications is given")
	}
	dir := h.SpecDirs[len(h.SpecDirs)-1]
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return replace(filepath.Join(dir, specFile), append(text, '\n'))
}

// replace atomically replaces the content of a file, unless the file already has the text.
func replace(name string, text []byte) error {
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, text) {
		return nil
	}
	return atomicfile.WriteText(name, 0o644, text) // readers ignore the temporary file, because they use only names that end in .json or .yaml
}

// described returns the devices of all vendors' specifications. The keys are KIND=NAME, and the
// values are the paths of the device's nodes below /dev. Like a runtime, it ignores invalid
// specifications, and devices about which two specifications contradict each other.
func (h *Host) described() map[string][]string {
	out := map[string][]string{}
	vendors, err := cdi.NewCache(cdi.WithSpecDirs(h.SpecDirs...), cdi.WithAutoRefresh(false))
	if err != nil {
		return out // only an invalid option makes NewCache fail
	}
	for _, name := range vendors.ListDevices() {
		out[name] = []string{}
		for _, n := range vendors.GetDevice(name).ContainerEdits.DeviceNodes {
			at := path.Clean(cmp.Or(n.HostPath, n.Path)) // a driver may be installed below another root
			if i := strings.LastIndex(at, "/dev/"); i >= 0 {
				out[name] = append(out[name], at[i+len("/dev/"):])
			}
		}
	}
	return out
}
