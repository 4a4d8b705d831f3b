package lscpu

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/topology"
)

const (
	parsable = "# The following is the parsable format, which can be fed to other\n# programs. Each different item in every column has an unique ID\n# starting usually from zero.\n# "
	// interleaved is an output of -p for two packages with two NUMA nodes each, numbered
	// alternately.
	interleaved = parsable + "CPU,Core,Socket,Node,,L1d,L1i,L2,L3\n0,0,0,0,,0,0,0,0\n1,1,1,1,,1,1,1,1\n2,2,0,2,,2,2,2,0\n3,3,1,3,,3,3,3,1\n4,0,0,0,,0,0,0,0\n5,1,1,1,,1,1,1,1\n6,2,0,2,,2,2,2,0\n7,3,1,3,,3,3,3,1\n"
	extended    = "CPU NODE SOCKET CORE L1d:L1i:L2:L3 ONLINE    MAXMHZ\n  0    0      0    0 0:0:0:0          yes 3800.0000\n  1    0      0    0 0:0:0:0          yes 3800.0000\n  2    1      1    1 1:1:1:1          yes 3800.0000\n  3    -      -    - -                 no         -\n"
)

func TestRows(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"-p, numbered in turns": {interleaved, "package:2 l3:1 numa:2 core:1 pu:2 number:interleaved numaid:0,2,1,3"},
		"-e, one offline":       {extended, "cpu:0-2 package:0=0-1;1=2 numa:0=0-1;1=2 l3:0=0-1;1=2 core:0/0=0+1;1/1=2 offline:3"},
		"-e with no NUMA nodes": {"CPU NODE SOCKET CORE ONLINE\n0 - 0 0 yes\n1 - 0 1 yes\n", "package:1 numa:1 core:2 pu:1"},
		"-a -p, of a mainframe": {"# CPU,Core,Socket,Node\n0,,0,\n1,0,0,\n2,1,1,\n3,,,\n", "cpu:1-2 package:0=1;1=2 numa:0=1-2 core:0/0=1;1/1=2 offline:0,3"},
		"-Je, one offline":      {`{"cpus": [{"cpu": 0, "socket": 0, "core": 0, "online": true}, {"cpu": 1, "socket": 0, "core": -, "online": false},{"cpu": 2, "socket": -, "core": -` + "\n" + `, "online": false}]}`, "package:1 numa:1 core:1 pu:1 offline:1-2"},
		"-J, memory only":       {`{"lscpu": [{"field":"CPU(s):","data":"2"},{"field":"On-line CPU(s) list:","data":"0,1"},{"field":"Thread(s) per core:","data":"1"},{"field":"Core(s) per socket:","data":"2"},{"field":"Socket(s):","data":"1"},{"field":"NUMA node(s):","data":"2"},{"field":"NUMA node0 CPU(s):","data":"0,1"},{"field":"NUMA node1 CPU(s):","data":null}]}`, "package:1 numa:1 core:2 pu:1 memonly:1"},
		"-a -p, one offline":    {parsable + "CPU,Core,Socket,Node,,L1d,L1i,L2,L3\n0,0,0,0,,0,0,0,0\n1,0,0,0,,0,0,0,0\n2,,,,,,,,\n", "package:1 numa:1 l3:1 core:1 pu:2 offline:2"},
		"-p=CPU,Core,Socket":    {"# CPU,Core,Socket\n0,0,0\n1,1,0\n", "package:1 numa:1 core:2 pu:1"},
		"-e with physical ids":  {"CPU NODE SOCKET CORE\n0 0 0 0\n1 0 0 4\n2 1 1 0\n3 1 1 4\n", "package:2 numa:1 core:2 pu:1"},
		"-Je": {`{"cpus": [{"cpu": 0, "node": 0, "socket": 0, "core": 0, "l1d:l1i:l2:l3": "0:0:0:0", "online": true}, {"cpu": "1", "node": "0", "socket": "0", "core": "0", "l1d:l1i:l2:l3": "0:0:0:0", "online": "yes"},
			{"cpu": 2, "node": null, "socket": null, "core": null, "l1d:l1i:l2:l3": "-", "online": false}]}`, "package:1 numa:1 l3:1 core:1 pu:2 offline:2"},
		"byte order mark": {"\ufeff" + extended, "cpu:0-2 package:0=0-1;1=2 numa:0=0-1;1=2 l3:0=0-1;1=2 core:0/0=0+1;1/1=2 offline:3"},
		"CRLF":            {strings.ReplaceAll(extended, "\n", "\r\n"), "cpu:0-2 package:0=0-1;1=2 numa:0=0-1;1=2 l3:0=0-1;1=2 core:0/0=0+1;1/1=2 offline:3"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := Read([]byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			want, err := topology.Parse(c.want)
			if err != nil {
				t.Fatal(c.want, err)
			}
			if got := shape(m); got != shape(want) {
				t.Errorf("%s\ngot  %s\nwant %s", m, got, shape(want))
			}
		})
	}
	m, err := Read([]byte(interleaved))
	if err != nil || m.Packages[0].CPUs.String() != "0,2,4,6" {
		t.Errorf("%v: package 0 has %v, want 0,2,4,6", err, m)
	}
}

// TestRowsRefused: an error names the form, the line, the column, the value and what is wanted.
func TestRowsRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a short row":           {"CPU NODE SOCKET CORE\n0 0 0\n", `in the output of lscpu -e: line 2: "0 0 0": want 4 values, one for each column of the header`},
		"a word":                {"# CPU,Core,Socket,Node\n0,x,0,0\n", `in the output of lscpu -p: line 2: CORE: "x": want a number`},
		"twice":                 {"# CPU,Core,Socket\n0,0,0\n0,0,0\n", `line 3: CPU: "0": want each CPU once`},
		"too high":              {"# CPU,Core,Socket\n99999999,0,0\n", `line 2: CPU: "99999999"`},
		"no cores":              {"# CPU,Node\n0,0\n", "line 2: CORE: want a number: lscpu -p=CPU,Core,Socket,Node,L3"},
		"two kinds of cores":    {"# CPU,Core,Socket,Node,,L1d,L1i,L2,L3\n0,0,0,0,,0,0,0,0\n1,1,0,0,,1,1,1,0\n2,0,0,0,,2,2,2,0\n", `in the output of lscpu -p: line 4: CORE: "0": want ids that are unique in the socket, but CPUs 0 and 2 of this core have different values of L2: try lscpu -p with -y, or without it, or give a capture`},
		"equal ids on two dies": {"CPU NODE SOCKET CORE\n0 0 0 0\n1 1 0 0\n", "CPUs 0 and 1 of this core have different values of NODE"},
		"-y without packages":   {"CPU NODE SOCKET CORE\n0 0 - 0\n", "line 2: SOCKET: want a number: lscpu -p=CPU,Core,Socket,Node,L3 (without -y)"},
		"no rows":               {"CPU NODE\n", "in the output of lscpu -e: want a row for each CPU"},
		"half the nodes":        {"# CPU,Core,Socket,Node\n0,0,0,0\n1,1,0,\n", `NODE: "0": want a NUMA node for each CPU that is online: 0-1`},
		"online in words":       {"CPU CORE SOCKET ONLINE\n0 0 0 ja\n", `line 2: ONLINE: "ja": want yes or no`},
		"broken JSON":           {`{"cpus": [{"cpu": 0},]}`, "in the output of lscpu -Je: line 1"},
		"numactl, bare":         {"available: 3 nodes (0-2)\nnode 0 cpus: 0 1\nnode 0 size: 4095 MB\nnode 1 cpus:\nnode 1 size: 4096 MB\nnode 2 cpus:\nnode 2 size: 0 MB\nnode distances:\nnode   0   1   2 \n  0:  10  20  20 \n  1:  20  10  20 \n  2:  20  20  10 \n", "to the machine string: memonly:1,2 mem:4095Mi,4096Mi,0Mi dist:10,20,20/20,10,20/20,20,10"},
		"numactl":               {"available: 2 nodes (0-1)\nnode 0 cpus: 0 1\nnode 0 size: 4095 MB\nnode 0 free: 6 MB\nnode 1 cpus: 2 3\nnode 1 size: 4096 MB\nnode distances:\nnode   0   1 \n  0:  10  20 \n  1:  20  10 \n", "this is the output of numactl -H, which does not show which CPUs share a core, a package or a cache: want the output of lscpu -p; add numactl's memory (rounded, without huge pages) and distances to the machine string: mem:4095Mi,4096Mi dist:10,20/20,10"},
		"half of numactl":       {"node 0 cpus: 0 1\nnode 0 size: 5 MB\n", "want the output of lscpu -p"},
		"nvidia-smi":            {"\t\x1b[4mGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\nGPU0\t X \tNV4\tNV4\tSYS\t0-7\t0\t\tN/A\nGPU1\tNV4\t X \tNV4\tSYS\t0-7\t0\tN/A\nGPU2\tNV4\tNV4\t X \tSYS\t8-15\t1\tN/A\nNIC0\tSYS\tSYS\tSYS\t X \n", "this is the output of nvidia-smi topo -m, which does not list the cores: want the output of lscpu -p; add the GPUs with --device nvidia.com/gpu=0:2,1:1"},
		"GPUs near several":     {"\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t0-71\t0,2-17\t2\n", "add the GPUs with --device, like nvidia.com/gpu=0:4,1:4"},
		"GPUs near none":        {"\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t0-7\tN/A\tN/A\n", "add the GPUs with --device nvidia.com/gpu=-:1"},
		"caches":                {"NAME ONE-SIZE ALL-SIZE WAYS TYPE LEVEL\nL1d 32K 1M 8 Data 1\n", "this is the output of lscpu -C, which Berth does not read: want the output of lscpu -p"},
		"nvidia's spaces":       {"   GPU0  GPU1  CPU Affinity\nGPU0   X   NV4   0-7\n", "like nvidia.com/gpu=0:4,1:4"},
		"a configuration":       {"apiVersion: x\nkind: KubeletConfiguration\n", "this is a KubeletConfiguration, not a machine"},
	} {
		if _, err := Read([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v\nwant %s", name, err, c.want)
		}
	}
}

// TestInterleaved: if the NUMA nodes of sockets are numbered alternately, lscpu's text is refused,
// because it does not show their sockets. The output of -p is read.
func TestInterleaved(t *testing.T) {
	head := func(threads, cores, sockets string) string {
		return "Architecture: x86_64\nCPU(s): 16\nOn-line CPU(s) list: 0-15\nThread(s) per core: " + threads + "\nCore(s) per socket: " + cores + "\nSocket(s): " + sockets + "\n"
	}
	nodes := func(of ...string) (out string) {
		for i, cpus := range of {
			out += "NUMA node" + string(rune('0'+i)) + " CPU(s): " + cpus + "\n"
		}
		return out
	}
	turns, halves := nodes("0,4,8,12", "1,5,9,13", "2,6,10,14", "3,7,11,15"), nodes("0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15")
	for name, c := range map[string]struct {
		text   string
		refuse bool
	}{
		"in turns":                         {head("2", "4", "2") + turns, true},
		"in turns, with one thread":        {head("1", "8", "2") + turns, true},
		"in turns, a socket's own":         {head("2", "2", "4") + turns, false},
		"in turns, of one socket":          {head("1", "16", "1") + turns, false},
		"one after another":                {head("2", "4", "2") + halves, false},
		"one after another, ids in turns":  {head("2", "4", "2") + nodes("0-1,8-9", "4-5,12-13", "2-3,10-11", "6-7,14-15"), true},
		"one after another, no threads":    {head("1", "8", "2") + nodes("0-3", "4-7", "8-11", "12-15"), false},
		"in turns, with memory-only nodes": {head("2", "4", "2") + turns + "NUMA node4 CPU(s):\n", true},
	} {
		_, err := Read([]byte(c.text))
		if refused := err != nil && strings.Contains(err.Error(), "which NUMA nodes a socket has if, as here, the CPU ids do not follow"); refused != c.refuse || !refused && err != nil {
			t.Errorf("%s: %v, want a refusal: %v", name, err, c.refuse)
		}
	}
}
