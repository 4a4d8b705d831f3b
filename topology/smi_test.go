package topology_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// dgx1 is the matrix of a server whose eight GPUs form a hybrid cube mesh.
const dgx1 = "\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tGPU4\tGPU5\tGPU6\tGPU7\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n" +
	"GPU0\t X \tNV1\tNV1\tNV2\tNV2\tSYS\tSYS\tSYS\tPIX\t0-19,40-59\t0\t\tN/A\n" +
	"GPU1\tNV1\t X \tNV2\tNV1\tSYS\tNV2\tSYS\tSYS\tPIX\t0-19,40-59\t0\t\tN/A\n" +
	"GPU2\tNV1\tNV2\t X \tNV2\tSYS\tSYS\tNV1\tSYS\tPHB\t0-19,40-59\t0\t\tN/A\n" +
	"GPU3\tNV2\tNV1\tNV2\t X \tSYS\tSYS\tSYS\tNV1\tPHB\t0-19,40-59\t0\t\tN/A\n" +
	"GPU4\tNV2\tSYS\tSYS\tSYS\t X \tNV1\tNV1\tNV2\tSYS\t20-39,60-79\t1\t\tN/A\n" +
	"GPU5\tSYS\tNV2\tSYS\tSYS\tNV1\t X \tNV2\tNV1\tSYS\t20-39,60-79\t1\t\tN/A\n" +
	"GPU6\tSYS\tSYS\tNV1\tSYS\tNV1\tNV2\t X \tNV2\tSYS\t20-39,60-79\t1\t\tN/A\n" +
	"GPU7\tSYS\tSYS\tSYS\tNV1\tNV2\tNV1\tNV2\t X \tSYS\t20-39,60-79\t1\t\tN/A\n" +
	"NIC0\tPIX\tPIX\tPHB\tPHB\tSYS\tSYS\tSYS\tSYS\t X \t\t\t\t\n" +
	"\nLegend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n\nNIC Legend:\n\n  NIC0: mlx5_0\n"

func TestSMI(t *testing.T) {
	s, err := topology.ParseSMI(dgx1)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Names) != 9 || s.NICs["NIC0"] != "mlx5_0" || s.Cells[0][3] != "NV2" {
		t.Errorf("got %+v", s)
	}
	m := shapes.Machine(shapes.GPUServer)
	links, err := s.Links(m)
	if err != nil {
		t.Fatal(err)
	}
	m, err = m.SetDevices(m.Devices, links)
	if err != nil {
		t.Fatal(err)
	}
	want := "link:nvlink=1,18:00.0+19:00.0|18:00.0+3a:00.0|19:00.0+3b:00.0|3a:00.0+ba:00.0|3b:00.0+bb:00.0|9a:00.0+9b:00.0|9a:00.0+ba:00.0|9b:00.0+bb:00.0 " +
		"link:nvlink=2,18:00.0+3b:00.0|18:00.0+9a:00.0|19:00.0+3a:00.0|19:00.0+9b:00.0|3a:00.0+3b:00.0|9a:00.0+bb:00.0|9b:00.0+ba:00.0|ba:00.0+bb:00.0"
	if text := m.DeviceString(); !strings.HasSuffix(text, want) {
		t.Errorf("got %s\nwant %s", text, want)
	}
}

// TestSMIOfOneGPU: the header of a machine with one GPU and no NIC has one device before the
// affinities.
func TestSMIOfOneGPU(t *testing.T) {
	s, err := topology.ParseSMI("\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t0-31\t0\t\tN/A\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Names) != 1 || s.Names[0] != "GPU0" || s.Cells[0][0] != "X" {
		t.Errorf("got %+v", s)
	}
}

func TestSMIRefuses(t *testing.T) {
	replaced := func(old, with string) string { return strings.Replace(dgx1, old, with, 1) }
	for _, c := range []struct{ text, want string }{
		{"", "want a line that names the devices"},
		{"nvidia-smi: command not found", "want a line that names the devices"},
		{replaced("\tNV2\tNV2\tSYS", "\tNV2\tNV1\tSYS"), `row GPU0, column GPU4: "NV1": want "NV2", as in row GPU4, column GPU0`},
		{replaced(" X ", "SYS"), "row GPU0, column GPU0"},
		{replaced("\tNV1\tNV1", "\tNV1\t X "), "row GPU0, column GPU2"},
		{replaced("NV1", "NV256"), "want X, NV and a number from 1 to 255"},
		{replaced("NV1", "NV0"), "want X, NV and a number"},
		{replaced("NV1", "???"), "want X, NV and a number"},
		{replaced("GPU1\tGPU2", "GPU1\tGPU1"), "want each device once"},
		{replaced("GPU1\tNV1", "GPU2\tNV1"), "want the rows in the order of the columns"},
		{dgx1[:strings.Index(dgx1, "GPU7\tSYS")], "row GPU7"},
		{replaced("NIC0: mlx5_0", "NIC0: mlx5_0\n  NIC0: mlx5_1"), "want each NIC of the matrix once"},
		{replaced("NIC0: mlx5_0", "NIC9: mlx5_0"), "want each NIC of the matrix once"},
		{"GPU0 GPU1\nGPU0 X\n", "want 2 connections, one for each column"},
		{strings.Repeat("x", 300<<10), "want at most 262144 bytes"},
	} {
		_, err := topology.ParseSMI(c.text)
		var typed *topology.SMIError
		if !errors.As(err, &typed) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want ...%s...", err, c.want)
		}
	}
	many := "GPU0"
	for i := range 128 {
		many += fmt.Sprintf(" GPU%d", i+1)
	}
	if _, err := topology.ParseSMI(many); err == nil || !strings.Contains(err.Error(), "at most 128 devices") {
		t.Errorf("129 GPUs: got %v", err)
	}
	for _, c := range []struct{ text, want string }{
		{"GPU0 GPU1\nGPU0 X SYS\nGPU1 SYS X\n", `"2 GPUs": want 8, the number of NVIDIA GPUs of the machine`},
		{"GPU1\nGPU1 X\n", "want GPUs that count from 0"},
	} {
		s, err := topology.ParseSMI(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Links(shapes.Machine(shapes.GPUServer)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want ...%s...", c.text, err, c.want)
		}
	}
}

// FuzzParseSMI: every parsed matrix is square and symmetric, and gives valid links or an error.
func FuzzParseSMI(f *testing.F) {
	f.Add(dgx1)
	f.Add("GPU0 mlx5_0 CPU Affinity\nGPU0 X PIX 0-3\nmlx5_0 PIX X\n")
	m := shapes.Machine(shapes.GPUServer)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := topology.ParseSMI(text)
		if err != nil {
			return
		}
		for i := range s.Cells {
			for j := range s.Cells[i] {
				if len(s.Cells[i]) != len(s.Names) || s.Cells[i][j] != s.Cells[j][i] {
					t.Fatalf("%q: row %d, column %d", text, i, j)
				}
			}
		}
		links, err := s.Links(m)
		if err != nil {
			return
		}
		if _, err := m.SetDevices(m.Devices, links); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
	})
}

func TestPCITree(t *testing.T) {
	m := shapes.Machine("pu:4 dev:3a:00.0,060400,8086:2030,root=3a dev:3b:00.0,060400,10b5:9765,root=3a dev:3d:00.0,060400,10b5:9765,root=3a,switch=3b:00.0 " +
		"dev:3f:00.0,030200,10de:2330,root=3a,switch=3d:00.0 dev:40:00.0,020700,15b3:1021,root=3a,switch=3b:00.0,rdma=mlx5_0 " +
		"dev:40:00.1|40:00.2,020700,15b3:101e,root=3a,switch=3b:00.0,pf=40:00.0 dev:80:00.0,010802,144d:a80a")
	var b strings.Builder
	var print func(p *topology.PCIPort, indent string)
	print = func(p *topology.PCIPort, indent string) {
		fmt.Fprintf(&b, "%s%q\n", indent, p.Name)
		for _, f := range p.Functions {
			fmt.Fprintf(&b, "%s  %s %s +%d\n", indent, f.Address, f.Kind(), len(f.Virtual))
		}
		for _, below := range p.Ports {
			print(below, indent+"  ")
		}
	}
	for _, root := range m.PCITree() {
		print(root, "")
	}
	want := `"pci0000:3a"
  "0000:3b:00.0"
    0000:40:00.0 RDMA NIC +2
    "0000:3d:00.0"
      0000:3f:00.0 GPU +0
""
  0000:80:00.0 NVMe +0
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

func TestWithDevices(t *testing.T) {
	m := shapes.Machine(shapes.GPUServer)
	bare := *m
	bare.Devices = nil
	back, err := bare.WithDevices(m.DeviceString())
	if err != nil || !back.Equal(m) {
		t.Errorf("got %s, %v", back, err)
	}
	for _, c := range []struct{ text, want string }{
		{"mem:1Gi", `devices: "mem": want only items of dev and link`},
		{"numa:2", `want only items of dev and link`},
		{"dev:00:00.0,030200,10de:2330,numa=7", "want a NUMA node of this machine"},
		{"dev", "want items of the form KEY:VALUE"},
	} {
		if _, err := bare.WithDevices(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want ...%s...", c.text, err, c.want)
		}
	}
}
