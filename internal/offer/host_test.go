package offer

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// tree returns a file system. A name that ends in @ is a link.
func tree(files map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, text := range files {
		if link, ok := strings.CutSuffix(name, "@"); ok {
			out[link] = &fstest.MapFile{Data: []byte(text), Mode: fs.ModeSymlink | 0o777}
		} else {
			out[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
		}
	}
	return out
}

const pci = "sys/bus/pci/devices/"

func lookAt(t *testing.T, doc string, h Host) map[string]Finding {
	t.Helper()
	pools, err := mustRead(t, doc).Resolve(testMachine(t))
	if err != nil {
		t.Fatal(err)
	}
	return h.look(pools)
}

// TestNodes: sysfs shows the device nodes of a function. Devices that the host uses are not
// offered.
func TestNodes(t *testing.T) {
	const doc = `resources: [{resource: a.b/gpu, class: gpu}, {resource: a.b/disk, class: nvme}, {resource: a.b/nic, class: rdma}]`
	gpu, nic, disk, other := pci+"0000:3b:00.0/", pci+"0000:3c:00.0/", pci+"0000:5e:00.0/", pci+"0000:5f:00.0/"
	files := map[string]string{
		gpu + "drm/card0/uevent":                   "MAJOR=226\nDEVNAME=dri/card0\n",
		gpu + "drm/renderD128/uevent":              "DEVNAME=dri/renderD128\n",
		gpu + "drm/card0-DP-1/uevent":              "x\n",
		nic + "infiniband_verbs/uverbs0/uevent":    "DEVNAME=infiniband/uverbs0\n",
		nic + "infiniband_mad/umad0/uevent":        "DEVNAME=infiniband/umad0\n",
		"sys/class/misc/rdma_cm/uevent":            "DEVNAME=infiniband/rdma_cm\n",
		disk + "nvme/nvme0/uevent":                 "DEVNAME=nvme0\n",
		disk + "nvme/nvme0/nvme0n1/uevent":         "DEVNAME=nvme0n1\n",
		disk + "nvme/nvme0/hwmon1/uevent":          "",
		other + "nvme/nvme1/nvme1n1/uevent":        "DEVNAME=nvme1n1\n",
		other + "nvme/nvme1/nvme1n1/nvme1n1p1/dev": "259:2\n",
		"sys/fs/ext4/nvme1n1p1/lifetime":           "1",
		"sys/fs/ext4/features/x":                   "",
	}
	got := lookAt(t, doc, Host{Root: tree(files)})
	for address, want := range map[string]Finding{
		"0000:3b:00.0": {CDI: "berth.dev/pci=0000:3b:00.0", Nodes: []string{"dri/card0", "dri/renderD128"}},
		"0000:bb:00.0": {CDI: "berth.dev/pci=0000:bb:00.0", Sick: "it is gone from the machine"},
		"0000:3c:00.0": {CDI: "berth.dev/pci=0000:3c:00.0", Nodes: []string{"infiniband/rdma_cm", "infiniband/umad0", "infiniband/uverbs0"}},
		"0000:5e:00.0": {CDI: "berth.dev/pci=0000:5e:00.0", Nodes: []string{"nvme0n1"}},
		"0000:5f:00.0": {CDI: "berth.dev/pci=0000:5f:00.0", Nodes: []string{"nvme1n1"}, Sick: "the host uses nvme1n1p1"},
	} {
		if g := got[address]; g.CDI != want.CDI || g.Sick != want.Sick || !slices.Equal(g.Nodes, want.Nodes) {
			t.Errorf("%s: %+v, want %+v", address, g, want)
		}
	}
	delete(files, "sys/fs/ext4/nvme1n1p1/lifetime")
	if g := lookAt(t, doc, Host{Root: tree(files)})["0000:5f:00.0"]; g.Sick != "" {
		t.Errorf("a disk that nobody uses: %s", g.Sick)
	}
	for name, more := range map[string]string{other + "nvme/nvme1/nvme1n1/holders/dm-0/dev": "", "swaps": "Filename Type\n/dev/nvme1n1 partition 1 0 -2\n"} {
		with := map[string]string{name: more}
		for n, text := range files {
			with[n] = text
		}
		fsys := tree(with)
		if g := lookAt(t, doc, Host{Root: fsys, Proc: fsys})["0000:5f:00.0"]; g.Sick != "the host uses nvme1n1" {
			t.Errorf("%s: %q", name, g.Sick)
		}
	}
}

// TestVFIO: a function is offered with the node of its group, unless this would give away other
// functions.
func TestVFIO(t *testing.T) {
	const doc = `resources: [{resource: a.b/gpu, class: gpu}]`
	files := map[string]string{
		pci + "0000:3b:00.0/driver@":                        "../../../bus/pci/drivers/vfio-pci",
		pci + "0000:3b:00.0/iommu_group@":                   "../../../../kernel/iommu_groups/12",
		pci + "0000:3b:00.0/class":                          "0x030200\n",
		"sys/kernel/iommu_groups/12/devices/0000:3b:00.0/x": "",
		"sys/kernel/iommu_groups/12/devices/0000:3a:00.0/x": "",
		pci + "0000:3a:00.0/class":                          "0x060400\n",
		pci + "0000:bb:00.0/driver@":                        "../../../bus/pci/drivers/vfio-pci",
		pci + "0000:bb:00.0/class":                          "0x030200\n",
	}
	files[pci+"0000:3b:00.0/iommu_group@"] = "../../../../kernel/iommu_groups/12"
	got := lookAt(t, doc, Host{Root: tree(files)})
	if g := got["0000:3b:00.0"]; g.Sick != "" || !slices.Equal(g.Nodes, []string{"vfio/12", "vfio/vfio"}) {
		t.Errorf("%+v", g)
	}
	if g := got["0000:bb:00.0"]; !strings.Contains(g.Sick, "no IOMMU group") {
		t.Errorf("%+v", g)
	}
	files["sys/kernel/iommu_groups/12/devices/0000:3b:00.1/x"], files[pci+"0000:3b:00.1/class"] = "", "0x040300\n"
	if g := lookAt(t, doc, Host{Root: tree(files)})["0000:3b:00.0"]; !strings.Contains(g.Sick, "in one IOMMU group with 0000:3b:00.1") {
		t.Errorf("%+v", g)
	}
}

// TestVendorsSpecification: a device has its name from the vendor's specification, and is unhealthy
// if there is no name.
func TestVendorsSpecification(t *testing.T) {
	const nvidia = `resources: [{resource: nvidia.com/gpu, class: gpu, cdi: {kind: nvidia.com/gpu, names: `
	static, dynamic := t.TempDir(), t.TempDir()
	write := func(dir, name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(static, "nvidia.yaml", "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ncontainerEdits: {hooks: []}\ndevices: [{name: \"0\", containerEdits: {env: [A=b]}}, {name: all, containerEdits: {env: [A=b]}}, {name: GPU-b, containerEdits: {env: [A=b]}}]\n")
	write(static, "untrue.yaml", "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices: [{name: \"1\"}]\n") // a device without edits does not count
	write(static, "broken.json", "{")
	write(static, "notes.txt", "kind: nvidia.com/gpu\ndevices: [{name: \"1\"}]")
	h := Host{SpecDirs: []string{static, dynamic}, Root: tree(map[string]string{pci + "0000:3b:00.0/class": "", pci + "0000:bb:00.0/class": ""}),
		Proc: tree(map[string]string{"driver/nvidia/gpus/0000:bb:00.0/information": "Model: \t\t H100\nGPU UUID: \t GPU-b\n"})}
	got := lookAt(t, nvidia+"index}}]", h)
	if g := got["0000:3b:00.0"]; g.CDI != "nvidia.com/gpu=0" || g.Sick != "" {
		t.Errorf("%+v", g)
	}
	if g := got["0000:bb:00.0"]; g.CDI != "nvidia.com/gpu=1" || g.Sick != "no CDI specification in "+static+" or "+dynamic+" has nvidia.com/gpu=1" {
		t.Errorf("%+v", g)
	}
	got = lookAt(t, nvidia+"uuid}}]", h)
	if g := got["0000:bb:00.0"]; g.CDI != "nvidia.com/gpu=GPU-b" || g.Sick != "" {
		t.Errorf("%+v", g)
	}
	if g := got["0000:3b:00.0"]; !strings.Contains(g.Sick, "no UUID of the GPU in /proc/driver/nvidia/gpus/0000:3b:00.0/information") {
		t.Errorf("%+v", g)
	}
}

// TestASpecificationThatCountsOtherwise: the entry with a device's index must have the device's own
// nodes. Otherwise the device is not offered.
func TestASpecificationThatCountsOtherwise(t *testing.T) {
	const first, second = "0000:3b:00.0", "0000:bb:00.0"
	all := map[string]string{
		pci + first + "/class": "", pci + first + "/drm/card1/uevent": "DEVNAME=dri/card1\n",
		pci + second + "/class": "", pci + second + "/drm/card2/uevent": "DEVNAME=dri/card2\n", pci + second + "/drm/renderD129/uevent": "DEVNAME=dri/renderD129\n",
	}
	minors := tree(map[string]string{"driver/nvidia/gpus/" + first + "/information": "Device Minor: \t 1\n", "driver/nvidia/gpus/" + second + "/information": "Device Minor: \t 0\n"})
	for name, c := range map[string]struct {
		zero, one string // the device nodes of 0 and 1
		sick      map[string]string
	}{
		"as sysfs counts":              {"/dev/nvidia1", "/dev/nvidia0", nil},
		"and with others":              {"/dev/nvidia1, /dev/dri/card1, /dev/nvidiactl", "/dev/dri/renderD129, /dev/dri/card2", nil},
		"nothing that can be compared": {"/dev/x", "/dev/nvidiactl", nil},
		"one GPU was lost": {"/dev/nvidia0", "/dev/null", map[string]string{
			first: "nvidia.com/gpu=0 has /dev/nvidia0, but on the host this device has /dev/dri/card1, /dev/nvidia1: the CDI specification seems"}},
		"a driver below another root": {"/dev/nvidia1, hostPath: /run/nvidia/driver/dev/nvidia0", "/dev/nvidia0, hostPath: /run/nvidia/driver/dev/nvidia0", map[string]string{
			first: "nvidia.com/gpu=0 has /dev/nvidia0"}},
		"the other way round": {"/dev/dri/card2", "/dev/dri/card1", map[string]string{
			first: "nvidia.com/gpu=0 has /dev/dri/card2", second: "nvidia.com/gpu=1 has /dev/dri/card1"}},
	} {
		dir, list := t.TempDir(), func(nodes string) string { return "[{path: " + strings.ReplaceAll(nodes, ", /", "}, {path: /") + "}]" }
		text := fmt.Sprintf("cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices: [{name: \"0\", containerEdits: {deviceNodes: %s}}, {name: \"1\", containerEdits: {deviceNodes: %s}}]\n",
			list(c.zero), list(c.one))
		if err := os.WriteFile(filepath.Join(dir, "nvidia.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got := lookAt(t, `resources: [{resource: nvidia.com/gpu, class: gpu, cdi: {kind: nvidia.com/gpu, names: index}}]`, Host{Root: tree(all), Proc: minors, SpecDirs: []string{dir}})
		for _, address := range []string{first, second} {
			if sick, want := got[address].Sick, c.sick[address]; (sick == "") != (want == "") || !strings.HasPrefix(sick, want) {
				t.Errorf("%s: %s: %q, want %q", name, address, sick, want)
			}
		}
	}
}

// TestOwnSpecification: the agent writes a specification for devices without a vendor's. A device
// that it cannot describe is not offered.
func TestOwnSpecification(t *testing.T) {
	const doc = `resources: [{resource: a.b/disk, class: nvme}]`
	pools, err := mustRead(t, doc).Resolve(testMachine(t))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := tree(map[string]string{pci + "0000:5e:00.0/nvme/nvme0/nvme0n1/uevent": "DEVNAME=nvme0n1\n", pci + "0000:5f:00.0/class": ""})
	o := New(pools, Host{Root: files, SpecDirs: []string{dir}}, t.Logf)
	text, err := os.ReadFile(filepath.Join(dir, "berth.dev-pci.json"))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{
  "cdiVersion": "0.5.0",
  "kind": "berth.dev/pci",
  "devices": [
    {
      "name": "0000:5e:00.0",
      "containerEdits": {
        "env": [
          "BERTH_DEVICE_0000_5E_00_0=a.b/disk"
        ],
        "deviceNodes": [
          {
            "path": "/dev/nvme0n1",
            "permissions": "rw"
          }
        ]
      }
    },
    {
      "name": "0000:5f:00.0",
      "containerEdits": {
        "env": [
          "BERTH_DEVICE_0000_5F_00_0=a.b/disk"
        ]
      }
    }
  ],
  "containerEdits": {}
}
`
	if string(text) != want {
		t.Errorf("wrote %s", text)
	}
	changes := 0
	o.Changed = func() { changes++ }
	o.Look()
	delete(files, pci+"0000:5f:00.0/class")
	o.Look()
	if s := findingsOf(o)["0000:5f:00.0"]; s.Sick != "it is gone from the machine" || changes != 1 {
		t.Errorf("%+v after %d changes", s, changes)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%d files are left (%v)", len(entries), err)
	}
	o = New(pools, Host{Root: files, SpecDirs: []string{filepath.Join(dir, specFile, "none")}}, t.Logf)
	if s := findingsOf(o)["0000:5e:00.0"]; !strings.Contains(s.Sick, "its CDI specification cannot be written") {
		t.Errorf("%+v", s)
	}
}

func findingsOf(o *Offers) map[string]Finding {
	_, findings := o.Found()
	return findings
}
