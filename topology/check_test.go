package topology

import (
	"errors"
	"strings"
	"testing"
)

// sound returns a valid machine with objects of every kind that Check checks.
func sound(t *testing.T) *Machine {
	t.Helper()
	m, err := Parse("package:2 die:1 numa:1 l3:1 core:2 pu:2 mem:4Gi huge:2Mi=1;1Gi=2 dist:10,20 offline:9" +
		" dev:00:01.0|00:02.0,020000,8086:1593,numa=1,root=00,switch=00:03.0,driver=ice,name=a|b")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestCheckFindsEveryViolation(t *testing.T) {
	if err := sound(t).Check(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		spoil func(m *Machine)
		want  Violation // Want is not compared
	}{
		{"no CPU", func(m *Machine) { *m = Machine{} }, Violation{Object: "machine", Field: "Online"}},
		{"on and off", func(m *Machine) { m.Offline.Add(0) }, Violation{Object: "machine", Field: "Offline", Value: "0"}},
		{"package order", func(m *Machine) { m.Packages[0], m.Packages[1] = m.Packages[1], m.Packages[0] }, Violation{Object: "package 0", Field: "ID", Value: "0"}},
		{"package twice", func(m *Machine) { m.Packages[1].ID = 0 }, Violation{Object: "package 0", Field: "ID", Value: "0"}},
		{"package -1", func(m *Machine) { m.Packages[0].ID = NoPackage }, Violation{Object: "package -1", Field: "ID", Value: "-1"}},
		{"empty package", func(m *Machine) { m.Packages[0].CPUs = CPUSet{} }, Violation{Object: "package 0", Field: "CPUs"}},
		{"offline in package", func(m *Machine) { m.Packages[0].CPUs.Add(9) }, Violation{Object: "package 0", Field: "CPUs", Value: "9"}},
		{"packages overlap", func(m *Machine) { m.Packages[1].CPUs.Add(0) }, Violation{Object: "package 1", Field: "CPUs", Value: "0"}},
		{"unnumbered", func(m *Machine) { m.Packages[1].ID = 5; m.UnnumberedPackages = true }, Violation{Object: "package 5", Field: "ID", Value: "5"}},
		{"die abroad", func(m *Machine) { m.Dies[0].Package = 1 }, Violation{Object: "die 0 of package 1", Field: "Package", Value: "1"}},
		{"die order", func(m *Machine) { m.Dies[0], m.Dies[1] = m.Dies[1], m.Dies[0] }, Violation{Object: "die 0 of package 0", Field: "ID", Value: "0"}},
		{"die of no package", func(m *Machine) { m.Packages = nil }, Violation{Object: "die 0 of package 0", Field: "Package", Value: "0"}},
		{"core in no package", func(m *Machine) { m.Cores[0].Package = NoPackage }, Violation{Object: "core 0 of package -1", Field: "Package", Value: "-1"}},
		{"core -1", func(m *Machine) { m.Cores[0].ID = -1 }, Violation{Object: "core -1 of package 0", Field: "ID", Value: "-1"}},
		{"core order", func(m *Machine) { m.Cores[0], m.Cores[1] = m.Cores[1], m.Cores[0] }, Violation{Object: "core 0 of package 0", Field: "CPUs", Value: "0,4"}},
		{"core reaches over", func(m *Machine) { m.Cores[0].CPUs.Add(2) }, Violation{Object: "core 0 of package 0", Field: "Package", Value: "0"}},
		{"L3 order", func(m *Machine) { m.L3s[1].ID = 0 }, Violation{Object: "l3 0", Field: "ID", Value: "0"}},
		{"L3 unnumbered", func(m *Machine) { m.UnnumberedCaches = true }, Violation{Object: "l3 1", Field: "ID", Value: "1"}},
		{"no L3 unnumbered", func(m *Machine) { m.UnnumberedCaches = true; m.L3s = nil }, Violation{Object: "machine", Field: "UnnumberedCaches", Value: "true"}},
		{"nodes twice", func(m *Machine) { m.NUMANodes[1].ID = 0 }, Violation{Object: "NUMA node 0", Field: "ID", Value: "0"}},
		{"nodes overlap", func(m *Machine) { m.NUMANodes[1].CPUs.Add(1) }, Violation{Object: "NUMA node 1", Field: "CPUs", Value: "1"}},
		{"too many nodes", func(m *Machine) { m.NUMANodes = make([]NUMANode, MaxNodes+1) }, Violation{Object: "machine", Field: "NUMANodes", Value: "1025"}},
		{"short row", func(m *Machine) { m.NUMANodes[0].Distances = []uint32{10} }, Violation{Object: "NUMA node 0", Field: "Distances", Value: "[10]"}},
		{"distance 0", func(m *Machine) { m.NUMANodes[0].Distances = []uint32{10, 0} }, Violation{Object: "NUMA node 0", Field: "Distances", Value: "[10 0]"}},
		{"page size", func(m *Machine) { m.NUMANodes[0].HugePages[0].PageBytes = 3 }, Violation{Object: "NUMA node 0", Field: "HugePages", Value: "3"}},
		{"page order", func(m *Machine) { m.NUMANodes[0].HugePages[0].PageBytes = 1 << 30 }, Violation{Object: "NUMA node 0", Field: "HugePages", Value: "1073741824"}},
		{"pools above memory", func(m *Machine) { m.NUMANodes[0].HugePages[1].Count = 4 },
			Violation{Object: "NUMA node 0", Field: "HugePages", Value: "4 pages of 1073741824 bytes"}},
		{"pool", func(m *Machine) { m.NUMANodes[0].HugePages[0].Count = 1 << 43 }, Violation{Object: "NUMA node 0", Field: "HugePages", Value: "8796093022208"}},
		{"device order", func(m *Machine) { m.Devices[1].Address = m.Devices[0].Address }, Violation{Object: "device 0000:00:01.0", Field: "Address", Value: "0000:00:01.0"}},
		{"device address", func(m *Machine) { m.Devices[0].Address = "0000:00:01.8" }, Violation{Object: "device 0000:00:01.8", Field: "Address", Value: "0000:00:01.8"}},
		{"long domain", func(m *Machine) { m.Devices[1].Address = "00001:00:01.0" }, Violation{Object: "device 00001:00:01.0", Field: "Address", Value: "00001:00:01.0"}},
		{"device class", func(m *Machine) { m.Devices[0].Class = "0x0200" }, Violation{Object: "device 0000:00:01.0", Field: "Class", Value: "0x0200"}},
		{"device vendor", func(m *Machine) { m.Devices[0].Vendor = "8086h" }, Violation{Object: "device 0000:00:01.0", Field: "Vendor", Value: "8086h"}},
		{"device product", func(m *Machine) { m.Devices[0].Product = "ABCD" }, Violation{Object: "device 0000:00:01.0", Field: "Product", Value: "ABCD"}},
		{"device switch", func(m *Machine) { m.Devices[0].Switch = "up" }, Violation{Object: "device 0000:00:01.0", Field: "Switch", Value: "up"}},
		{"device node", func(m *Machine) { m.Devices[0].NUMA = 7 }, Violation{Object: "device 0000:00:01.0", Field: "NUMA", Value: "7"}},
		{"device without node", func(m *Machine) { m.Devices[0].HasNUMA = false }, Violation{Object: "device 0000:00:01.0", Field: "NUMA", Value: "1"}},
		{"device name", func(m *Machine) { m.Devices[0].Name = strings.Repeat("n", 257) }, Violation{Object: "device 0000:00:01.0", Field: "Name", Value: strings.Repeat("n", 257)}},
		{"too many devices", func(m *Machine) { m.Devices = make([]Device, MaxDevices+1) }, Violation{Object: "machine", Field: "Devices", Value: "8193"}},
	} {
		m := sound(t)
		c.spoil(m)
		var got *Violation
		if err := m.Check(); !errors.As(err, &got) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got.Want == "" || got.Object != c.want.Object || got.Field != c.want.Field || got.Value != c.want.Value {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
