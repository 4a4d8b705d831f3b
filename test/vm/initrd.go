package vm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// modules are the kernel modules that the guest needs before it has a root file system, in the
// order of their dependencies; ext4, cgroups and tmpfs are built into the kernel.
var modules = []string{
	"drivers/virtio/virtio.ko", "drivers/virtio/virtio_ring.ko", "drivers/virtio/virtio_pci_modern_dev.ko",
	"drivers/virtio/virtio_pci_legacy_dev.ko", "drivers/virtio/virtio_pci.ko", "drivers/block/virtio_blk.ko",
	"net/core/failover.ko", "drivers/net/net_failover.ko", "drivers/net/virtio_net.ko", "drivers/net/veth.ko", "fs/overlayfs/overlay.ko",
}

// initrdInit loads the modules (virtio and virtio_ring need each other, so loading is tried twice)
// and continues on the disk.
const initrdInit = `#!/bin/busybox sh
export PATH=/bin
[ -n "$probe" ] && echo "` + probeAnswer + `" && busybox poweroff -f
busybox mkdir -p /proc /sys /dev /root
busybox mount -t devtmpfs dev /dev
for round in 1 2; do for m in $(busybox cat /modules/order); do busybox insmod /modules/$m 2>/dev/null; done; done
n=0
until [ -b /dev/vda ]; do n=$((n+1)); [ $n -gt 1000 ] && echo "no /dev/vda" && busybox poweroff -f; busybox usleep 10000; done
busybox mount -t ext4 /dev/vda /root && exec busybox switch_root /root /sbin/init
echo "initrd: cannot start the root file system"; busybox poweroff -f
`

// initrd writes the initial ram disk: busybox, the modules, a script.
func (b *builder) initrd(context.Context) error {
	version, err := b.kernelVersion()
	if err != nil {
		return err
	}
	out := filepath.Join(b.cache, "initrd")
	return b.stamped("initrd", version+initrdInit+strings.Join(modules, " "), []string{out}, func() error {
		var c cpio
		busybox, err := os.ReadFile(b.busybox())
		if err != nil {
			return err
		}
		c.dir("bin")
		c.file("bin/busybox", 0o755, busybox)
		c.file("init", 0o755, []byte(initrdInit))
		c.dir("modules")
		var order bytes.Buffer
		for _, m := range modules {
			data, err := os.ReadFile(filepath.Join(b.deb("kernel"), "lib", "modules", version, "kernel", m))
			if err != nil {
				return err
			}
			c.file("modules/"+filepath.Base(m), 0o644, data)
			fmt.Fprintln(&order, filepath.Base(m))
		}
		c.file("modules/order", 0o644, order.Bytes())
		// The old file is not overwritten, because running machines have it mapped and read it when
		// they reboot.
		if err := os.WriteFile(out+".new", c.close(), 0o644); err != nil {
			return err
		}
		return os.Rename(out+".new", out)
	})
}

// cpio writes the "newc" format that the kernel unpacks
// (Documentation/driver-api/early-userspace/buffer-format.rst).
type cpio struct {
	buf bytes.Buffer
	ino int
}

func (c *cpio) dir(name string)                            { c.entry(name, 0o040755, nil) }
func (c *cpio) file(name string, mode uint32, data []byte) { c.entry(name, 0o100000|mode, data) }

func (c *cpio) entry(name string, mode uint32, data []byte) {
	c.ino++
	fmt.Fprintf(&c.buf, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X",
		c.ino, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name)+1, 0)
	c.buf.WriteString(name + "\x00")
	c.pad()
	c.buf.Write(data)
	c.pad()
}

func (c *cpio) pad() {
	for c.buf.Len()%4 != 0 {
		c.buf.WriteByte(0)
	}
}

func (c *cpio) close() []byte {
	c.entry("TRAILER!!!", 0, nil)
	return c.buf.Bytes()
}
