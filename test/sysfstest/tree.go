// Package sysfstest creates the /sys of a machine for tests.
package sysfstest

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"testing/fstest"

	"github.com/berth-dev/berth/topology"
)

const (
	cpuDir  = "sys/devices/system/cpu"
	nodeDir = "sys/devices/system/node"
	// matrixFile is sysfs.MatrixFile.
	matrixFile = "run/berth/nvidia-smi-topo-m.txt"
)

// Tree returns files from which sysfs.Read reads m again, as a kernel of version 6 would show them.
// Each device is directly below its root complex. A device behind a switch is below the upstream
// port and a downstream port of the switch. Both ports must be among the devices, with class 0604
// and the same root. Every CPU of m.Offline has a folder. Links are NVLinks between NVIDIA's GPUs.
func Tree(m *topology.Machine) fstest.MapFS {
	t := tree{fstest.MapFS{}, m}
	t.put(cpuDir+"/online", m.Online.String())
	present := m.Online.Or(&m.Offline)
	t.put(cpuDir+"/present", present.String())
	for id := range m.Offline.All() {
		t.put(t.cpu(id)+"/online", "0")
	}
	for id := range m.Online.All() {
		t.putCPU(id)
	}
	for i := range m.NUMANodes {
		t.putNode(i)
	}
	for i := range m.Devices {
		t.putDevice(&m.Devices[i])
	}
	if len(m.Links) > 0 {
		t.put(matrixFile, Matrix(m))
	}
	return t.files
}

type tree struct {
	files fstest.MapFS
	m     *topology.Machine
}

// Matrix prints the GPUs of NVIDIA of a machine and their NVLinks as "nvidia-smi topo -m" does.
func Matrix(m *topology.Machine) string {
	var gpus []string
	for i := range m.Devices {
		if m.Devices[i].Vendor == "10de" && m.Devices[i].Kind() == topology.GPU {
			gpus = append(gpus, m.Devices[i].Address)
		}
	}
	cell := func(a, b string) string {
		for _, l := range m.Links {
			if l.Kind == topology.NVLink && (l.A == a && l.B == b || l.A == b && l.B == a) {
				return fmt.Sprintf("NV%d", l.Count)
			}
		}
		if a == b {
			return " X "
		}
		return "SYS"
	}
	var b strings.Builder
	for i := range gpus {
		fmt.Fprintf(&b, "\tGPU%d", i)
	}
	b.WriteString("\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n")
	for i := range gpus {
		fmt.Fprintf(&b, "GPU%d", i)
		for j := range gpus {
			b.WriteString("\t" + cell(gpus[i], gpus[j]))
		}
		b.WriteString("\t0-7\t0\t\tN/A\n")
	}
	return b.String()
}

func (t *tree) put(name, text string) {
	t.files[name] = &fstest.MapFile{Data: []byte(text + "\n"), Mode: 0o444}
}

func (t *tree) link(name, target string) {
	t.files[name] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
}

func (t *tree) cpu(id topology.CPUID) string { return fmt.Sprintf("%s/cpu%d", cpuDir, id) }

// putSet writes a set as a mask and as a list.
func (t *tree) putSet(dir, mask, list string, set *topology.CPUSet) {
	t.put(dir+"/"+mask, Mask(set))
	t.put(dir+"/"+list, set.String())
}

// Mask prints a set as the kernel does: groups of 32 bits in hexadecimal, the highest first.
func Mask(set *topology.CPUSet) string {
	var groups []string
	for i := topology.MaxCPUs/32 - 1; i >= 0; i-- {
		groups = append(groups, fmt.Sprintf("%08x", uint32(set.Words()[i/2]>>(i%2*32))))
	}
	return strings.Join(groups, ",")
}

func (t *tree) putCPU(id topology.CPUID) {
	dir := t.cpu(id)
	t.put(dir+"/online", "1")
	for i := range t.m.Packages {
		if p := &t.m.Packages[i]; p.CPUs.Has(id) {
			pkg := int(p.ID)
			if t.m.UnnumberedPackages {
				pkg = -1
			}
			t.put(dir+"/topology/physical_package_id", strconv.Itoa(pkg))
			t.putSet(dir+"/topology", "package_cpus", "package_cpus_list", &p.CPUs)
		}
	}
	for i := range t.m.Dies {
		if d := &t.m.Dies[i]; d.CPUs.Has(id) {
			t.put(dir+"/topology/die_id", strconv.Itoa(int(d.ID)))
			t.putSet(dir+"/topology", "die_cpus", "die_cpus_list", &d.CPUs)
		}
	}
	for i := range t.m.Cores {
		if c := &t.m.Cores[i]; c.CPUs.Has(id) {
			t.put(dir+"/topology/core_id", strconv.Itoa(int(c.ID)))
			t.putSet(dir+"/topology", "core_cpus", "core_cpus_list", &c.CPUs)
		}
	}
	for i := range t.m.L3s {
		if l := &t.m.L3s[i]; l.CPUs.Has(id) {
			t.putCache(dir+"/cache/index3", l)
		}
	}
}

func (t *tree) putCache(dir string, l *topology.L3) {
	t.put(dir+"/level", "3")
	t.put(dir+"/type", "Unified")
	t.put(dir+"/size", "32768K")
	if !t.m.UnnumberedCaches {
		t.put(dir+"/id", strconv.Itoa(int(l.ID)))
	}
	t.putSet(dir, "shared_cpu_map", "shared_cpu_list", &l.CPUs)
}

func (t *tree) putNode(i int) {
	n := &t.m.NUMANodes[i]
	dir := fmt.Sprintf("%s/node%d", nodeDir, n.ID)
	t.putSet(dir, "cpumap", "cpulist", &n.CPUs)
	t.put(dir+"/meminfo", fmt.Sprintf("Node %d MemTotal:       %d kB\nNode %d MemFree:        0 kB", n.ID, n.MemoryBytes>>10, n.ID))
	for _, h := range n.HugePages {
		t.put(fmt.Sprintf("%s/hugepages/hugepages-%dkB/nr_hugepages", dir, h.PageBytes>>10), strconv.FormatUint(h.Count, 10))
	}
	if len(n.Distances) > 0 {
		t.put(dir+"/distance", strings.Trim(fmt.Sprint(n.Distances), "[]"))
	}
	for id := range n.CPUs.All() {
		t.link(fmt.Sprintf("%s/cpu%d", dir, id), fmt.Sprintf("../../cpu/cpu%d", id))
	}
}

// place returns the folder of a device.
func (t *tree) place(d *topology.Device) string {
	parts := []string{"sys/devices", d.Root}
	if d.Switch != "" && !strings.HasPrefix(d.Class, "0604") {
		parts = append(parts, "0000:00:01.0", d.Switch, "0000:fe:00.0")
	}
	return path.Join(append(parts, d.Address)...)
}

func (t *tree) putDevice(d *topology.Device) {
	dir := t.place(d)
	t.link("sys/bus/pci/devices/"+d.Address, "../../../"+strings.TrimPrefix(dir, "sys/"))
	for _, id := range []struct{ file, value string }{{"class", d.Class}, {"vendor", d.Vendor}, {"device", d.Product}} {
		if id.value != "" {
			t.put(dir+"/"+id.file, "0x"+id.value)
		}
	}
	node := -1
	if d.HasNUMA {
		node = int(d.NUMA)
	}
	t.put(dir+"/numa_node", strconv.Itoa(node))
	if d.Driver != "" {
		t.link(dir+"/driver", "../../../bus/pci/drivers/"+d.Driver)
	}
	if d.Name != "" {
		t.put(dir+"/net/"+d.Name+"/address", "00:00:00:00:00:00")
	}
	if d.RDMA != "" {
		t.put(dir+"/infiniband/"+d.RDMA+"/node_type", "1: CA")
	}
	if d.Physical != "" {
		t.link(dir+"/physfn", "../"+d.Physical)
	}
	if d.Switch != "" {
		for _, port := range []string{path.Dir(dir), path.Dir(path.Dir(dir))} {
			t.put(port+"/class", "0x060400")
		}
	}
}
