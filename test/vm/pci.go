package vm

import (
	"fmt"
	"strings"
)

// Machines with PCI devices have below a switch of each NUMA node two compute devices (QEMU's edu),
// a network card and an NVMe disk. The guest's kernel has a driver only for the disk.
//
//	pxb-pcie (a root complex of the NUMA node) - root port - switch - edu, edu, e1000e, nvme

// QEMU's PCI ids of these devices.
const (
	eduVendor, eduProduct = "1234", "11e8"
	cardVendor            = "8086"
	diskVendor            = "1b36"
)

// busesPerNode is how many PCI buses the devices of a NUMA node may take.
const busesPerNode = 24

// pciArgs describes the devices to QEMU.
func (s Shape) pciArgs() (args []string) {
	device := func(format string, values ...any) { args = append(args, "-device", fmt.Sprintf(format, values...)) }
	for n := range s.NUMANodes() {
		device("pxb-pcie,id=root%d,bus=pcie.0,numa_node=%d,bus_nr=%d", n, n, (n+1)*busesPerNode)
		device("pcie-root-port,id=port%d,bus=root%d,chassis=%d,slot=1", n, n, 10*(n+1))
		device("x3130-upstream,id=switch%d,bus=port%d", n, n)
		for k, what := range []string{"edu", "edu", "e1000e,romfile=", fmt.Sprintf("nvme,serial=disk%d,drive=disk%d", n, n)} {
			device("xio3130-downstream,id=down%d.%d,bus=switch%d,chassis=%d,slot=%d", n, k, n, 10*(n+1)+k+1, k)
			device("%s,bus=down%d.%d", what, n, k)
		}
		args = append(args, "-blockdev", fmt.Sprintf("driver=null-co,node-name=disk%d,size=%d,read-zeroes=on", n, 16<<20))
	}
	return args
}

// onFirstRoot puts devices without a bus on the first root complex, because QEMU could choose a
// root complex of a NUMA node, which accepts only bridges.
func onFirstRoot(args []string) (out []string) {
	disks := 0
	for _, a := range args {
		switch {
		case strings.HasPrefix(a, "virtio-net-pci,"):
			out = append(out, a+",bus=pcie.0")
			continue
		case !strings.Contains(a, ",if=virtio,"):
			out = append(out, a)
			continue
		}
		id := fmt.Sprint("hd", disks)
		disks++
		out = append(out, strings.Replace(a, ",if=virtio,", ",if=none,id="+id+",", 1), "-device", "virtio-blk-pci,bus=pcie.0,drive="+id)
	}
	return out
}
