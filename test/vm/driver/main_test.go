package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDevices: bridges and other vendors' devices are not offered. A disk has its block devices,
// and no attribute for its NUMA node.
func TestDevices(t *testing.T) {
	sys, cdi := t.TempDir(), filepath.Join(t.TempDir(), "cdi")
	add := func(address, vendor, class, numa string, disks ...string) {
		dir := filepath.Join(sys, address)
		for _, d := range append([]string{"."}, disks...) {
			if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for name, text := range map[string]string{"vendor": vendor, "class": class, "numa_node": numa} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	add("0000:1c:00.0", "0x1b36", "0x010802", "1", "nvme/nvme0/nvme0n1")
	add("0000:1a:00.0", "0x1234", "0x00ff00", "0")
	add("0000:18:00.0", "0x1b36", "0x060400", "0")
	add("0000:19:00.0", "0x8086", "0x020000", "0")
	all, err := devices(sys, []string{"1234", "1b36"})
	if err != nil || len(all) != 2 || all[0].numa != 0 || all[1].name() != "pci-0000-1c-00-0" || len(all[1].disks) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	if first, disk := all[0].offered(), all[1].offered(); len(first.Attributes) != 3 || len(disk.Attributes) != 2 {
		t.Errorf("%+v %+v", first, disk)
	}
	if err := writeCDI(cdi, "vm.test", all); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(cdi, "vm.test.json"))
	for _, want := range []string{`"kind":"vm.test/device"`, `"path":"/dev/nvme0n1"`, "CLAIMED_pci_0000_1a_00_0=0000:1a:00.0"} {
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s, %v: want %s", text, err, want)
		}
	}
	if _, err := devices(sys, []string{"beef"}); err == nil || !strings.Contains(err.Error(), "-vendors beef") {
		t.Errorf("no device: %v", err)
	}
}
