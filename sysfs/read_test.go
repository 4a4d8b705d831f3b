package sysfs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/berth-dev/berth/sysfs"
	"github.com/berth-dev/berth/test/sysfstest"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

func TestReadFindsWhatTreeShows(t *testing.T) {
	for name, text := range shapes.All() {
		m := shapes.Machine(text)
		got, err := sysfs.Read(sysfstest.Tree(m))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !got.Equal(m) {
			t.Errorf("%s:\n got %s\nwant %s", name, got, m)
		}
	}
}

func TestReadLiveMachine(t *testing.T) {
	if _, err := os.Stat("/sys/devices/system/cpu"); err != nil {
		t.Skip("no /sys here")
	}
	m, err := sysfs.Read(os.DirFS("/"))
	if err != nil {
		t.Fatal(err)
	}
	if m.Online.IsEmpty() {
		t.Error("no CPU is online")
	}
}

// files is a machine of two NUMA nodes with two cores of two threads, as an old kernel shows it:
// masks instead of lists, no ids of caches, no file online, core_siblings and thread_siblings.
func files() fstest.MapFS {
	f := fstest.MapFS{}
	for cpu := range 8 {
		dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d/", cpu)
		put(f, dir+"topology/core_id", fmt.Sprint(cpu/2%2))
		put(f, dir+"topology/physical_package_id", fmt.Sprint(cpu/4))
		put(f, dir+"topology/core_siblings", []string{"0000000f", "000000f0"}[cpu/4])
		put(f, dir+"topology/thread_siblings", fmt.Sprintf("%08x", 3<<(cpu/2*2)))
		put(f, dir+"cache/index2/level", "3")
		put(f, dir+"cache/index2/type", "Unified")
		put(f, dir+"cache/index2/shared_cpu_map", []string{"0f", "f0"}[cpu/4])
	}
	for node := range 2 {
		dir := fmt.Sprintf("sys/devices/system/node/node%d/", node)
		put(f, dir+"cpumap", []string{"00000000,0000000f", "00000000,000000f0"}[node])
		put(f, dir+"meminfo", fmt.Sprintf("\nNode %d MemTotal:      1048576 kB\nNode %d MemFree: 1 kB\n", node, node))
		put(f, dir+"distance", []string{"10 20", "20 10"}[node])
	}
	return f
}

func put(f fstest.MapFS, name, text string) {
	f[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o444}
}

func link(f fstest.MapFS, name, target string) {
	f[name] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink}
}

const old = "package:2 numa:1 l3:1 core:2 pu:2 number:packed l3id:cpu mem:1Gi dist:10,20"

// traps are peculiarities of real captures. Each changes the machine of files.
var traps = []struct {
	name   string
	change func(f fstest.MapFS)
	want   string
}{
	{"masks without lists, no file online", func(fstest.MapFS) {}, old},
	{"lists beside masks", func(f fstest.MapFS) {
		put(f, "sys/devices/system/node/node0/cpulist", "0-3\n")
		put(f, "sys/devices/system/cpu/cpu0/topology/core_siblings_list", "0-3\n\x00")
	}, old},
	{"a list that lacks its own CPU, beside a mask that does not", func(f fstest.MapFS) {
		put(f, "sys/devices/system/cpu/cpu4/cache/index2/shared_cpu_list", "0-3\n")
	}, old},
	{"CPUs offline one by one", func(f fstest.MapFS) {
		put(f, "sys/devices/system/cpu/cpu0/online", "") // was unreadable during the capture
		put(f, "sys/devices/system/cpu/cpu1/online", "0\n")
		put(f, "sys/devices/system/cpu/cpu2/online", "1\n")
	}, strings.Replace(old, "l3id", "offline:1 l3id", 1)},
	{"the file online, offline CPUs without topology, possible ones that are not present", func(f fstest.MapFS) {
		put(f, "sys/devices/system/cpu/online", "0-5\n")
		put(f, "sys/devices/system/cpu/present", "0-7\n")
		put(f, "sys/devices/system/cpu/possible", "0-127\n")
		for name := range f {
			if strings.Contains(name, "/cpu6/") || strings.Contains(name, "/cpu7/") {
				delete(f, name)
			}
		}
	}, strings.Replace(old, "l3id", "offline:6-7 l3id", 1)},
	{"a node's list names CPUs that are not there", func(f fstest.MapFS) {
		put(f, "sys/devices/system/node/node1/cpulist", "4-87\n")
	}, old},
	{"sparse node ids", func(f fstest.MapFS) {
		for _, file := range []string{"cpumap", "meminfo", "distance"} {
			f["sys/devices/system/node/node250/"+file] = f["sys/devices/system/node/node1/"+file]
			delete(f, "sys/devices/system/node/node1/"+file)
		}
	}, strings.Replace(old, "mem", "numaid:0,250 mem", 1)},
	{"a node without CPUs, and one without meminfo", func(f fstest.MapFS) {
		put(f, "sys/devices/system/node/node4/cpumap", "00000000\n")
		put(f, "sys/devices/system/node/node4/cpulist", "\n")
		for i, row := range []string{"10 20 40", "20 10 40"} {
			put(f, fmt.Sprintf("sys/devices/system/node/node%d/distance", i), row)
		}
		put(f, "sys/devices/system/node/node4/distance", "40 40 10")
	}, "package:2 numa:1 l3:1 core:2 pu:2 number:packed l3id:cpu memonly:4 mem:1Gi*2,0 dist:10,20,40/20,10,40/40*2,10"},
	{"nodes that share CPUs are a firmware bug: the first stays, distances go", func(f fstest.MapFS) {
		put(f, "sys/devices/system/node/node1/cpumap", "ff")
	}, "package:2 l3:1 core:2 pu:2 number:packed l3id:cpu numa:0=0-3 mem:1Gi"},
	{"a row lists a node whose folder was lost", func(f fstest.MapFS) {
		put(f, "sys/devices/system/node/online", "0-1,5\n")
		put(f, "sys/devices/system/node/node0/distance", "10 20 30")
		put(f, "sys/devices/system/node/node1/distance", "20 10 30")
	}, old},
	{"no distance table", func(f fstest.MapFS) {
		put(f, "sys/devices/system/node/node0/distance", "0 0\n")
		delete(f, "sys/devices/system/node/node1/distance")
	}, strings.TrimSuffix(old, " dist:10,20")},
	{"no NUMA", func(f fstest.MapFS) {
		for name := range f {
			if strings.Contains(name, "/node/") {
				delete(f, name)
			}
		}
	}, "package:2 l3:1 core:2 pu:2 number:packed l3id:cpu"},
	{"huge pages on one node", func(f fstest.MapFS) {
		put(f, "sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", "128\n")
		put(f, "sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages", "0\n")
		put(f, "sys/devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages", "1\n")
	}, strings.Replace(old, "dist", "huge:2Mi=128,0;1Gi=-,1 dist", 1)},
	{"threads with different core ids are cores of their own", func(f fstest.MapFS) {
		for cpu := range 8 {
			put(f, fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/core_id", cpu), fmt.Sprint(cpu%4))
		}
	}, "package:2 numa:1 l3:1 core:4 pu:1 l3id:cpu mem:1Gi dist:10,20"},
	{"no sets of siblings: packages and cores by id", func(f fstest.MapFS) {
		for name := range f {
			if strings.HasSuffix(name, "_siblings") {
				delete(f, name)
			}
		}
	}, "package:2 numa:1 l3:1 core:4 pu:1 coreid:0,0,1,1 l3id:cpu mem:1Gi dist:10,20"},
	{"packages without ids", func(f fstest.MapFS) {
		for cpu := range 8 {
			put(f, fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/physical_package_id", cpu), "-1\n")
		}
	}, strings.Replace(old, "l3id", "packageid:none l3id", 1)},
	{"packages that share an id", func(f fstest.MapFS) {
		for cpu := range 8 {
			put(f, fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/physical_package_id", cpu), "7\n")
		}
	}, old},
	{"a cache that lists nobody is its core's", func(f fstest.MapFS) {
		for cpu := range 8 {
			put(f, fmt.Sprintf("sys/devices/system/cpu/cpu%d/cache/index2/shared_cpu_map", cpu), "00000000\n")
		}
	}, "package:2 numa:1 l3:2 core:1 pu:2 number:packed l3id:cpu mem:1Gi dist:10,20"},
	{"an instruction cache of level 3 is none", func(f fstest.MapFS) {
		for cpu := range 8 {
			put(f, fmt.Sprintf("sys/devices/system/cpu/cpu%d/cache/index2/type", cpu), "Instruction\n")
		}
	}, "package:2 numa:1 core:2 pu:2 number:packed mem:1Gi dist:10,20"},
}

func TestReadTraps(t *testing.T) {
	for _, trap := range traps {
		t.Run(trap.name, func(t *testing.T) {
			f := files()
			trap.change(f)
			got, err := sysfs.Read(f)
			if err != nil {
				t.Fatal(err)
			}
			want, err := topology.Parse(trap.want)
			if err != nil {
				t.Fatal(err)
			}
			if !got.Equal(want) {
				t.Errorf("\n got %s\nwant %s", got, want)
			}
		})
	}
}

const pci = "sys/devices/pci0000:3a/"

// devices adds a root port, a switch with two downstream ports, a network card, a disk and a
// graphics card.
func devices(f fstest.MapFS) {
	for _, d := range []struct{ place, class, node string }{
		{"0000:3a:00.0", "0x060400", "0"},
		{"0000:3a:00.0/0000:3b:00.0", "0x060400", "0"},
		{"0000:3a:00.0/0000:3b:00.0/0000:3c:04.0", "0x060400", "0"},
		{"0000:3a:00.0/0000:3b:00.0/0000:3c:08.0", "0x060400", "0"},
		{"0000:3a:00.0/0000:3b:00.0/0000:3c:04.0/0000:3d:00.0", "0x020000", "0"},
		{"0000:3a:00.0/0000:3b:00.0/0000:3c:08.0/0000:3e:00.0", "0x030200", "1"},
		{"0000:3a:01.0", "0x060400", "-1"},
		{"0000:3a:01.0/0000:3f:00.0", "0x010802", "-1"},
		{"0000:3a:05.5/pci10000:00/10000:00:02.0", "0x060400", "7"},
	} {
		dir := pci + d.place
		address := d.place[strings.LastIndex(d.place, "/")+1:]
		put(f, dir+"/class", d.class+"\n")
		put(f, dir+"/vendor", "0x15b3\n")
		put(f, dir+"/device", "0x1013\n")
		put(f, dir+"/numa_node", d.node+"\n")
		link(f, "sys/bus/pci/devices/"+address, "../../../devices/pci0000:3a/"+d.place)
	}
	card := pci + "0000:3a:00.0/0000:3b:00.0/0000:3c:04.0/0000:3d:00.0"
	link(f, card+"/driver", "../../../../../../bus/pci/drivers/mlx5_core")
	link(f, "sys/class/net/ib0", "../../"+strings.TrimPrefix(card, "sys/")+"/net/ib0")
	link(f, "sys/class/net/lo", "../../devices/virtual/net/lo")
	link(f, "sys/class/infiniband/mlx5_0", "../../"+strings.TrimPrefix(card, "sys/")+"/infiniband/mlx5_0")
	disk := "../../devices/pci0000:3a/0000:3a:01.0/0000:3f:00.0/nvme/nvme0/nvme0n1"
	link(f, "sys/class/block/nvme0n1", disk)
	link(f, "sys/class/block/nvme0n1p1", disk+"/nvme0n1p1")
	put(f, pci+"0000:3a:00.0/0000:3b:00.0/0000:3c:08.0/0000:3e:00.0/drm/card1/dev", "226:1")
	put(f, pci+"0000:3a:00.0/0000:3b:00.0/0000:3c:08.0/0000:3e:00.0/drm/renderD128/dev", "226:128")
	put(f, pci+"0000:3a:01.0/virtio3/net/eth7/address", "00")
	put(f, pci+"0000:3a:00.0/0000:3b:00.0/0000:3c:08.0/0000:3e:00.0/uevent", "DRIVER=nvidia\nPCI_ID=10DE:2330\n")
}

const wantDevices = " dev:3a:00.0,060400,15b3:1013,numa=0,root=3a dev:3a:01.0,060400,15b3:1013,root=3a,name=eth7" +
	" dev:3b:00.0,060400,15b3:1013,numa=0,root=3a dev:3c:04.0|3c:08.0,060400,15b3:1013,numa=0,root=3a,switch=3b:00.0" +
	" dev:3d:00.0,020000,15b3:1013,numa=0,root=3a,switch=3b:00.0,driver=mlx5_core,name=ib0,rdma=mlx5_0" +
	" dev:3e:00.0,030200,15b3:1013,numa=1,root=3a,switch=3b:00.0,driver=nvidia,name=card1" +
	" dev:3f:00.0,010802,15b3:1013,root=3a,name=nvme0n1 dev:10000:00:02.0,060400,15b3:1013,root=3a"

func TestReadDevices(t *testing.T) {
	f := files()
	devices(f)
	put(f, pci+"0000:3a:01.0/0000:3f:00.0/nvme/nvme0/nvme0n1/dev", "259:0")
	for _, lost := range []string{"", "sys/class/block", "sys/bus/", "sys/class/net/ib0"} {
		for name := range f {
			if lost != "" && strings.HasPrefix(name, lost) {
				delete(f, name)
			}
		}
		want := old + wantDevices
		switch lost {
		case "sys/bus/": // the walk below /sys/devices skips what is no PCI device
			want = strings.TrimSuffix(want, " dev:10000:00:02.0,060400,15b3:1013,root=3a")
			delete(f, pci+"0000:3a:05.5/pci10000:00/10000:00:02.0/class")
		case "sys/class/net/ib0":
			want = strings.TrimSuffix(strings.Replace(want, "ib0", "mlx5_0", 1), " dev:10000:00:02.0,060400,15b3:1013,root=3a")
		}
		m, err := sysfs.Read(f)
		if err != nil {
			t.Fatal(err)
		}
		if lost == "" {
			if got := m.String(); got != want {
				t.Errorf("\n got %s\nwant %s", got, want)
			}
			continue
		}
		for _, item := range strings.Split(want, " dev:")[1:] {
			if !strings.Contains(m.String(), item) {
				t.Errorf("without %s: no %q in\n%s", lost, item, m)
			}
		}
	}
}

// TestReadVirtualFunctions: a function with a link physfn is a virtual function.
func TestReadVirtualFunctions(t *testing.T) {
	f := files()
	for _, address := range []string{"0000:3b:00.0", "0000:3b:00.1"} {
		put(f, pci+address+"/class", "0x020000")
	}
	link(f, pci+"0000:3b:00.1/physfn", "../0000:3b:00.0")
	m, err := sysfs.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	if want := " dev:3b:00.0,020000,:,root=3a dev:3b:00.1,020000,:,root=3a,pf=3b:00.0"; !strings.HasSuffix(m.String(), want) {
		t.Errorf("got %s\nwant ...%s", m, want)
	}
	for _, target := range []string{"../0000:3b:00.1", "../../..", "eth0"} {
		link(f, pci+"0000:3b:00.1/physfn", target)
		var typed *sysfs.Error
		if _, err := sysfs.Read(f); !errors.As(err, &typed) || typed.Field != "physfn" {
			t.Errorf("physfn -> %s: got %v", target, err)
		}
	}
	link(f, pci+"0000:3b:00.1/physfn", "../0000:3b:00.5")
	if m, err = sysfs.Read(f); err != nil || m.Devices[1].Physical != "" {
		t.Errorf("a physical function that the capture lacks: %s, %v", m, err)
	}
	delete(f, pci+"0000:3b:00.1/physfn")
	link(f, pci+"0000:3b:00.0/virtfn0", "../0000:3b:00.1")
	if m, err = sysfs.Read(f); err != nil || m.Devices[1].Physical != "0000:3b:00.0" || m.Devices[0].Physical != "" {
		t.Errorf("physfn is not there yet, and virtfn0 is: %s, %v", m, err)
	}
	put(f, pci+"0000:00:01.0/0000:3b:00.0/class", "0x020000")
	if _, err := sysfs.Read(f); err == nil || !strings.Contains(err.Error(), "want each PCI address once") {
		t.Errorf("two devices of one address: got %v", err)
	}
}

func TestReadNVLinks(t *testing.T) {
	f := sysfstest.Tree(shapes.Machine(shapes.GPUMesh))
	good := string(f[sysfs.MatrixFile].Data)
	for _, c := range []struct{ text, want string }{
		{strings.Replace(good, "NV2", "NV1", 1), "run/berth/nvidia-smi-topo-m.txt: links: nvidia-smi topo -m: row GPU0, column GPU3"},
		{"GPU0\nGPU0 X\n", "want 8, the number of NVIDIA GPUs of the machine"},
	} {
		put(f, sysfs.MatrixFile, c.text)
		if _, err := sysfs.Read(f); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want ...%s...", err, c.want)
		}
	}
}

// TestReadXGMI: links that the driver of AMD's GPUs reports.
func TestReadXGMI(t *testing.T) {
	const kfd = "sys/devices/virtual/kfd/kfd/topology/nodes/"
	f := files()
	put(f, kfd+"0/properties", "cpu_cores_count 8\nsimd_count 0\nlocation_id 0\n")
	for i, bus := range []int{0x3b, 0x3c, 0x3d} {
		put(f, fmt.Sprintf("%s0000:%02x:00.0/class", pci, bus), "0x120000")
		put(f, fmt.Sprintf("%s0000:%02x:00.0/vendor", pci, bus), "0x1002")
		put(f, fmt.Sprintf("%s%d/properties", kfd, i+1), fmt.Sprintf("simd_count 304\nlocation_id %d\ndomain 0\n", bus<<8))
		put(f, fmt.Sprintf("%s%d/io_links/0/properties", kfd, i+1), "type 2\nnode_to 0\n")
		put(f, fmt.Sprintf("%s%d/io_links/1/properties", kfd, i+1), fmt.Sprintf("type 11\nnode_to %d\n", []int{2, 1, 2}[i]))
	}
	put(f, kfd+"2/io_links/2/properties", "type 11\nnode_to 3\n")
	m, err := sysfs.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	if want := " link:xgmi=1,3b:00.0+3c:00.0|3c:00.0+3d:00.0"; !strings.HasSuffix(m.String(), want) {
		t.Errorf("got %s\nwant ...%s", m, want)
	}
	for _, c := range []struct{ file, text, want string }{
		{"3/io_links/1/properties", "type 11\nnode_to 1\n", "want a node that has a link back to node"},
		{"1/properties", "simd_count many\n", `simd_count: "many": want a decimal number below 2^32`},
		{"1/properties", "simd_count 4294967296\n", "want a decimal number below 2^32"},
	} {
		old := f[kfd+c.file]
		put(f, kfd+c.file, c.text)
		if _, err := sysfs.Read(f); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want ...%s...", c.file, err, c.want)
		}
		f[kfd+c.file] = old
	}
}

func TestReadRefuses(t *testing.T) {
	const cpu0, node0 = "sys/devices/system/cpu/cpu0/", "sys/devices/system/node/node0/"
	for _, c := range []struct{ file, text, want string }{
		{"sys/devices/system/cpu/online", "0-", `sys/devices/system/cpu/online: online: CPU list "0-"`},
		{"sys/devices/system/cpu/online", "4000000000", "CPU id 4000000000 is too large"},
		{"sys/devices/system/cpu/online", "\n", "want at least one CPU"},
		{"sys/devices/system/cpu/present", "all", `"all" is not a CPU id`},
		{"sys/devices/system/cpu/cpu1024/online", "1", `cpu1024: cpu id: "1024": want a number from 0 to 1023`},
		{"sys/devices/system/cpu/cpu99999999999999999999/online", "1", "want a number from 0 to 1023"},
		{cpu0 + "online", "yes", cpu0 + `online: online: "yes": want 0 or 1`},
		{cpu0 + "topology/core_id", "", cpu0 + `topology/core_id: core_id: "": want a decimal number`},
		{cpu0 + "topology/core_id", "-2", `"-2": want a decimal number from -1`},
		{cpu0 + "topology/physical_package_id", "4294967296", "want a decimal number from -1 to 2147483647"},
		{cpu0 + "topology/thread_siblings", "0xyz", "want a mask"},
		{cpu0 + "topology/thread_siblings", "00000002", `core_cpus or thread_siblings: "1": want a set with CPU 0 in it`},
		{cpu0 + "topology/core_siblings", "1," + strings.Repeat("00000000,", 32) + "0", "want a mask of at most 1024 CPUs"},
		{cpu0 + "cache/index2/level", "three", "cache/index2/level: level"},
		{cpu0 + "cache/index2/id", "-1", "cache/index2/id: id"},
		{cpu0 + "topology/core_siblings", strings.Repeat("0", 70000), "want a sysfs attribute"},
		{"sys/devices/system/node/node4294967296/cpumap", "0", `node4294967296: node id: "4294967296": want a number from 0 to 65535`},
		{"sys/devices/system/node/node007/cpumap", "0", "want a number from 0 to 65535"},
		{node0 + "meminfo", "Node 0 MemTotal: -4 kB", node0 + `meminfo: MemTotal: "-4": want a number of kB`},
		{node0 + "meminfo", "Node 0 MemTotal: 99999999999999999999 kB", "want a number of kB below 2^54"},
		{node0 + "meminfo", "Node 0 MemTotal: 4 MB", `"4 MB": want a number of kB`},
		{node0 + "meminfo", "Node 0 Mem", `want a line "Node N MemTotal: SIZE kB"`},
		{node0 + "distance", "10", node0 + `distance: distance: "1 values": want 2`},
		{node0 + "distance", "10 -20", `"-20": want numbers of at least 1`},
		{node0 + "distance", "10 0", `"0": want numbers of at least 1`},
		{node0 + "hugepages/hugepages-2048kB/nr_hugepages", "-1", "nr_hugepages: nr_hugepages"},
		{node0 + "hugepages/hugepages-2048kB/nr_hugepages", "9223372036854775807", "want a decimal number from 0 to"},
		{node0 + "hugepages/hugepages-3kB/nr_hugepages", "1", `page size: "3kB": want a power of two in kB`},
		{node0 + "hugepages/hugepages-2MB/nr_hugepages", "1", `page size: "2MB": want a power of two in kB`},
		{"sys/bus/pci/devices/eth0/class", "0x020000", `address: "eth0": want a PCI address`},
		{"sys/bus/pci/devices/0000:00:00.0/class", "0x02", "want 0x and 6 hexadecimal digits"},
		{"sys/bus/pci/devices/0000:00:00.0/vendor", "Intel", "want 0x and 4 hexadecimal digits"},
		{"sys/bus/pci/devices/0000:00:00.0/numa_node", "4000000000", "want a decimal number from -1 to 65535"},
		{"sys/bus/pci/devices/0000:00:00.0/numa_node", "-2", "want a decimal number from -1 to 65535"},
	} {
		f := files()
		put(f, c.file, c.text)
		m, err := sysfs.Read(f)
		var typed *sysfs.Error
		if m != nil || !errors.As(err, &typed) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s = %.40q: %v, want ...%s...", c.file, c.text, err, c.want)
		}
	}
	if _, err := sysfs.Read(fstest.MapFS{}); err == nil || !strings.Contains(err.Error(), "want at least one CPU") {
		t.Errorf("nothing at all: %v", err)
	}
}

// TestReadDoesNotWaitForAPipe reads a folder in which a file is replaced by a pipe.
func TestReadDoesNotWaitForAPipe(t *testing.T) {
	f := files()
	f["sys/devices/system/cpu/online"] = &fstest.MapFile{Mode: fs.ModeNamedPipe | 0o444}
	if _, err := sysfs.Read(f); err == nil || !strings.Contains(err.Error(), "want a regular file") {
		t.Errorf("got %v", err)
	}
}

// TestReadStaysInsideAFolder follows no link out of a capture.
func TestReadStaysInsideAFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, files()); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/proc/version", filepath.Join(dir, "sys/devices/system/cpu/online")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if _, err := sysfs.Read(root.FS()); err == nil || !strings.Contains(err.Error(), "sys/devices/system/cpu/online: file:") {
		t.Errorf("got %v", err)
	}
}

// FuzzReadAttribute changes one file of a machine that has all files.
func FuzzReadAttribute(f *testing.F) {
	tree := files()
	devices(tree)
	put(tree, "sys/devices/system/cpu/online", "0-7")
	put(tree, "sys/devices/system/cpu/present", "0-7")
	put(tree, "sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", "1")
	for name, file := range tree {
		f.Add(name, string(file.Data))
	}
	f.Add("sys/devices/system/node/node4294967296/cpumap", "f")
	f.Fuzz(func(t *testing.T, name, text string) {
		if !fs.ValidPath(name) || len(name) > 200 {
			return
		}
		changed := fstest.MapFS{}
		for name, file := range tree {
			changed[name] = file
		}
		mode := fs.FileMode(0o444)
		if old := tree[name]; old != nil {
			mode = old.Mode
		}
		changed[name] = &fstest.MapFile{Data: []byte(text), Mode: mode}
		m, err := sysfs.Read(changed)
		if (m == nil) == (err == nil) {
			t.Fatalf("machine %v and error %v", m, err)
		}
		if err != nil {
			return
		}
		if back, err := topology.Parse(m.String()); err != nil || !back.Equal(m) {
			t.Fatalf("machine string %s does not come back: %v", m, err)
		}
	})
}

// FuzzReadTree reads the /sys of any machine that a machine string can describe.
func FuzzReadTree(f *testing.F) {
	for _, text := range shapes.All() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := topology.Parse(text)
		if err != nil {
			return
		}
		if got, err := sysfs.Read(sysfstest.Tree(m)); err == nil && got.Online != m.Online {
			t.Fatalf("CPUs %s of %s", got.Online, text)
		}
	})
}

// TestReadOnline returns the same as Read, and follows changes of the machine.
func TestReadOnline(t *testing.T) {
	files := fstest.MapFS{}
	for i := range 4 {
		files[fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/core_id", i)] = &fstest.MapFile{Data: []byte("0")}
	}
	for _, c := range []struct{ online, want string }{{"0-3\n", "0-3"}, {"0-2\n", "0-2"}, {"two\n", ""}, {"", ""}} {
		files["sys/devices/system/cpu/online"] = &fstest.MapFile{Data: []byte(c.online)}
		got, err := sysfs.ReadOnline(files)
		if wrong := (*sysfs.Error)(nil); c.want == "" && !errors.As(err, &wrong) || c.want != "" && (err != nil || got.String() != c.want) {
			t.Errorf("online %q: %q, %v", c.online, got, err)
		}
	}
}
