package machineview

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/topology"
)

// count returns a number with its noun, such as "1 core" or "2 cores".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// size prints a rounded number of bytes, such as "125.4 GiB".
func size(bytes uint64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	value, unit := float64(bytes), 0
	for value >= 1024 && unit < len(units)-1 {
		value /= 1024
		unit++
	}
	text := strconv.FormatFloat(value, 'f', 1, 64)
	return strings.TrimSuffix(text, ".0") + " " + units[unit]
}

// CPUList prints a list of CPUs in the kernel's format. A long list has strides ("0-110:1/2") if
// they make it shorter.
func CPUList(set *topology.CPUSet) string {
	plain := set.String()
	if len(plain) <= 16 {
		return plain
	}
	var parts []string
	ids := slices.Collect(set.All())
	for i := 0; i < len(ids); {
		n, step := 1, 1
		if i+1 < len(ids) {
			step = int(ids[i+1] - ids[i])
		}
		for i+n < len(ids) && int(ids[i+n]-ids[i+n-1]) == step {
			n++
		}
		switch {
		case n == 1 || n == 2 && step > 1:
			n = 1
			parts = append(parts, strconv.Itoa(int(ids[i])))
		case step == 1:
			parts = append(parts, fmt.Sprintf("%d-%d", ids[i], ids[i+n-1]))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d:1/%d", ids[i], ids[i+n-1], step))
		}
		i += n
	}
	if text := strings.Join(parts, ","); len(text) < len(plain) {
		return text
	}
	return plain
}

// hugePages prints pools of huge pages, such as "128 x 2Mi". It omits empty pools.
func hugePages(pools []topology.HugePages) string {
	var parts []string
	for _, h := range pools {
		if h.Count > 0 {
			parts = append(parts, fmt.Sprintf("%d x %s", h.Count, topology.FormatBytes(h.PageBytes)))
		}
	}
	return strings.Join(parts, ", ")
}

func summary(m *topology.Machine) string {
	var parts []string
	add := func(n int, noun string) {
		if n > 0 {
			parts = append(parts, count(n, noun))
		}
	}
	add(len(m.Packages), "package")
	add(len(m.NUMANodes), "NUMA node")
	add(len(m.L3s), "L3 cache")
	add(len(m.Cores), "core")
	add(m.Online.Len(), "CPU")
	total := uint64(0)
	for i := range m.NUMANodes {
		total += m.NUMANodes[i].MemoryBytes
	}
	if total > 0 {
		parts = append(parts, size(total))
	}
	text := strings.Join(parts, ", ")
	if !m.Offline.IsEmpty() {
		text += ", offline CPUs " + CPUList(&m.Offline)
	}
	return text
}

// className names the PCI classes (pci.ids) that matter for placing pods.
func className(class string) string {
	names := []struct{ prefix, name string }{
		{"0108", "NVMe"}, {"01", "storage"}, {"0207", "InfiniBand"}, {"0200", "Ethernet"}, {"0280", "network"}, {"02", "network"},
		{"0302", "GPU"}, {"0300", "display"}, {"03", "display"}, {"0b40", "co-processor"}, {"12", "accelerator"},
		{"0604", "PCI bridge"}, {"06", "bridge"},
	}
	for _, n := range names {
		if strings.HasPrefix(class, n.prefix) {
			return n.name
		}
	}
	return "class " + class
}

// notable reports whether the device is of a class that pods can ask for: storage, network,
// graphics, accelerators.
func notable(d *topology.Device) bool {
	return slices.ContainsFunc([]string{"01", "02", "03", "0b40", "12"}, func(prefix string) bool { return strings.HasPrefix(d.Class, prefix) })
}

// notables returns the notable devices, and the number of other devices.
func notables(m *topology.Machine) (devices []*topology.Device, others int) {
	for i := range m.Devices {
		if notable(&m.Devices[i]) {
			devices = append(devices, &m.Devices[i])
		} else {
			others++
		}
	}
	return devices, others
}

// pciIDs returns the vendor and the product of a device, such as "10de:2330". It returns "" if
// neither is reported, as for devices that come from Koordinator's Device objects.
func pciIDs(d *topology.Device) string {
	if d.Vendor == "" && d.Product == "" {
		return ""
	}
	return d.Vendor + ":" + d.Product
}

// names returns the operating system's names of a device, such as "ib0, mlx5_0".
func names(d *topology.Device) string {
	if d.RDMA == "" || d.RDMA == d.Name {
		return d.Name
	}
	return strings.TrimPrefix(d.Name+", "+d.RDMA, ", ")
}
