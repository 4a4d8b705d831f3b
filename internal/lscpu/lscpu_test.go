package lscpu

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/pasted"
	"github.com/berth-dev/berth/topology"
)

// xeon is an output as on a terminal. %s stands for more fields.
const xeon = `Architecture:             x86_64
  CPU op-mode(s):         32-bit, 64-bit
CPU(s):                   80
  On-line CPU(s) list:    0-79
Vendor ID:                GenuineIntel
  Model name:             Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz
    Thread(s) per core:   2
    Core(s) per socket:   20
    Socket(s):            2
Caches (sum of all):      
  L1d:                    1.3 MiB (40 instances)
  L3:                     55 MiB (2 instances)
NUMA:                     
  NUMA node(s):           2
  NUMA node0 CPU(s):      0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,32,34,36,38,40,42,44,46,48,50,52,54,56,58,60,62,64,66,68,70,72,74,76,78
  NUMA node1 CPU(s):      1-79:2
`

// flat is an output as in a pipe.
func flat(lines ...string) string { return strings.Join(lines, "\n") + "\n" }

func TestRead(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"terminal", xeon, "package:2 numa:1 l3:1 core:20 pu:2 number:interleaved"},
		{"EPYC in NPS4", flat("Architecture: x86_64", "CPU(s): 96", "On-line CPU(s) list: 0-95", "Thread(s) per core: 2", "Core(s) per socket: 24", "Socket(s): 2", "L3 cache: 128 MiB (16 instances)", "NUMA node(s): 8",
			"NUMA node0 CPU(s): 0-5,48-53", "NUMA node1 CPU(s): 6-11,54-59", "NUMA node2 CPU(s): 12-17,60-65", "NUMA node3 CPU(s): 18-23,66-71",
			"NUMA node4 CPU(s): 24-29,72-77", "NUMA node5 CPU(s): 30-35,78-83", "NUMA node6 CPU(s): 36-41,84-89", "NUMA node7 CPU(s): 42-47,90-95"),
			"package:2 numa:4 l3:2 core:3 pu:2"},
		{"sub-NUMA clustering", flat("CPU(s): 16", "On-line CPU(s) list: 0-15", "Thread(s) per core: 1", "Core(s) per socket: 8", "Socket(s): 2", "L3 cache: 64 MiB (2 instances)",
			"NUMA node0 CPU(s): 0-3", "NUMA node1 CPU(s): 4-7", "NUMA node2 CPU(s): 8-11", "NUMA node3 CPU(s): 12-15"), "package:2 l3:1 numa:2 core:4 pu:1"},
		{"POWER", flat("Architecture: ppc64le", "CPU(s): 16", "On-line CPU(s) list: 0-15", "Thread(s) per core: 4", "Core(s) per socket: 2", "Socket(s): 2", "NUMA node0 CPU(s): 0-7", "NUMA node8 CPU(s): 8-15", "NUMA node250 CPU(s):"),
			"package:2 numa:1 core:2 pu:4 number:packed numaid:0,8 memonly:250"},
		{"Arm without sockets", flat("Architecture: aarch64", "CPU(s): 4", "On-line CPU(s) list: 0-3", "Thread(s) per core: 1", "Core(s) per cluster: 4", "Socket(s): -", "Cluster(s): 1"), "package:1 numa:1 core:4 pu:1"},
		{"a socket for each CPU", flat("CPU(s): 4", "On-line CPU(s) list: 0-3", "Thread(s) per core: 1", "Core(s) per socket: 1", "Socket(s): 4", "NUMA node0 CPU(s): 0-3"), "numa:1 package:4 core:1 pu:1"},
		{"a socket for each CPU of two NUMA nodes", flat("CPU(s): 4", "On-line CPU(s) list: 0-3", "Thread(s) per core: 1", "Core(s) per socket: 1", "Socket(s): 4", "NUMA node0 CPU(s): 0,1", "NUMA node1 CPU(s): 2,3"), "numa:2 package:2 core:1 pu:1"},
		{"no count of caches", flat("CPU(s): 4", "On-line CPU(s) list: 0-3", "Thread(s) per core: 2", "Core(s) per socket: 2", "Socket(s): 1", "L3 cache: 3072K", "Architecture: aarch64"), "package:1 numa:1 core:2 pu:2 number:packed"},
		{"CPUs off", flat("CPU(s): 6", "On-line CPU(s) list: 0-3", "Off-line CPU(s) list: 4,5", "Thread(s) per core: 1", "Core(s) per socket: 4", "Socket(s): 1"), "package:1 numa:1 core:4 pu:1 offline:4-5"},
		{"JSON", `{"lscpu": [{"field":"Architecture:","data":"x86_64","children":[{"field":"CPU op-mode(s):","data":"64-bit"}]},
			{"field":"CPU(s):","data":"4","children":[{"field":"On-line CPU(s) list:","data":"0-3"}]}, {"field":"Caches (sum of all):","data":null,"children":[{"field":"L3:","data":"3 MiB (1 instance)"}]},
			{"field":"Thread(s) per core:","data":"1"},{"field":"Core(s) per socket:","data":"4"},{"field":"Socket(s):","data":"1"}]}`, "package:1 numa:1 l3:1 core:4 pu:1"},
		{"one core", flat("Architecture: x86_64", "CPU(s): 2", "On-line CPU(s) list: 0-1", "Thread(s) per core: 2", "Core(s) per socket: 1", "Socket(s): 1"), "package:1 numa:1 core:1 pu:2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := Read([]byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			want, err := topology.Parse(c.want)
			if err != nil {
				t.Fatal(err)
			}
			if !sameShape(m, want) {
				t.Errorf("%s\nwant %s", m, want)
			}
			if !pasted.What([]byte(c.text)).IsMachine() {
				t.Error("is not known as an output of lscpu")
			}
		})
	}
}

// sameShape compares the data that lscpu prints, which has no core ids and no distances.
func sameShape(a, b *topology.Machine) bool { return shape(a) == shape(b) }

func shape(m *topology.Machine) string {
	var b strings.Builder
	say := func(set *topology.CPUSet) { b.WriteString(set.String() + " ") }
	for i := range m.Packages {
		say(&m.Packages[i].CPUs)
	}
	b.WriteString("| ")
	for i := range m.NUMANodes {
		say(&m.NUMANodes[i].CPUs)
	}
	b.WriteString("| ")
	for i := range m.L3s {
		say(&m.L3s[i].CPUs)
	}
	b.WriteString("| ")
	for i := range m.Cores {
		say(&m.Cores[i].CPUs)
	}
	b.WriteString("| ")
	say(&m.Offline)
	return b.String()
}

// TestRefused: an error has the line, the field, the value, and what is wanted.
func TestRefused(t *testing.T) {
	change := func(old, new string) string { return strings.Replace(xeon, old, new, 1) }
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "Thread(s) per core is missing: want the complete output of LC_ALL=C lscpu"},
		{"a machine string", "package two", `line 1: "package two": want FIELD: VALUE`},
		{"-p without comments", "\n0,0,0,0,,0,0,0,0\n1,1,0,0,,1,1,1,0\n", `line 2: "0,0,0,0,,0,0,0,0": want before it the line that names the columns, as lscpu -p`},
		{"-e without a header", "  0    0      0    0 0:0:0:0          yes\n", "want before it the line that names the columns"},
		{"-e as a comment", "# CPU NODE SOCKET CORE L1d:L1i:L2:L3 ONLINE\n#   0    0      0    0 0:0:0:0          yes\n", `want the output of lscpu -e without # before its lines`},
		{"German", flat("Architektur: x86_64", "Prozessoren: 4"), "Thread(s) per core is missing"},
		{"Chinese", "架构：   x86_64\nCPU:   8\n", `line 1: "架构：   x86_64": want FIELD: VALUE, as LC_ALL=C lscpu prints`},
		{"hexadecimal", change("On-line CPU(s) list: ", "On-line CPU(s) mask: "), "On-line CPU(s) list is missing: want the output of LC_ALL=C lscpu, without -x"},
		{"no number", change("2\n    Core", "two\n    Core"), `line 7: Thread(s) per core: "two": want a number from 1 to 1024`},
		{"too many", change("80\n", "4096\n"), `line 3: CPU(s): "4096": want a number from 1 to 1024`},
		{"CPUs that do not add up", change("80\n", "81\n"), "line 3: CPU(s)"},
		{"counts that do not add up", change("20\n", "21\n"), `line 4: On-line CPU(s) list: "0-79": want 84 CPUs (sockets: 2; cores of a socket: 21; threads of a core: 2); if cores differ or CPUs are offline: the output of lscpu -p, or a capture`},
		{"no list", change("1-79:2", "1-79:x"), `line 16: NUMA node1 CPU(s): "1-79:x": want CPUs like 0-15,32-47`},
		{"twice", change("1-79:2", "0-79:2"), "NUMA node1 CPU(s)"},
		{"lost", change("1-79:2", "3-79:2"), "line 4: On-line CPU(s) list"},
		{"nodes lost", change("node(s):           2", "node(s):           3"), "line 14: NUMA node(s)"},
		{"caches", change("(2 instances)\nNUMA", "(3 instances)\nNUMA"), "line 12: L3 cache"},
		{"kinds of cores", flat("CPU(s): 4", "On-line CPU(s) list: 0-3", "Thread(s) per core: 1", "Core(s) per socket: 2", "Socket(s): 1", "Core(s) per socket: 3"), "line 6: Core(s) per socket"},
		{"one node", flat("CPU(s): 8", "On-line CPU(s) list: 0-7", "Thread(s) per core: 1", "Core(s) per socket: 4", "Socket(s): 2", "NUMA node0 CPU(s): 0-7"), `line 5: Socket(s): "2": want 1, because there is only one NUMA node; if there are more sockets: the output of lscpu -p, or a capture`},
		{"threads numbered in an unknown way", flat("Architecture: x86_64", "CPU(s): 16", "On-line CPU(s) list: 0-15", "Thread(s) per core: 2", "Core(s) per socket: 8", "Socket(s): 1", "NUMA node0 CPU(s): 0-15"),
			`line 4: Thread(s) per core: "2": want the output of lscpu -p, or a capture (berth topology --help), because lscpu without options does not show which CPUs share a core if there is one NUMA node: 0 and 1, or 0 and 8`},
		{"a node across sockets", flat("CPU(s): 12", "On-line CPU(s) list: 0-11", "Thread(s) per core: 1", "Core(s) per socket: 4", "Socket(s): 3", "NUMA node0 CPU(s): 0-7", "NUMA node1 CPU(s): 8-11"), "line 6: NUMA node0 CPU(s)"},
		{"threads apart", flat("CPU(s): 8", "On-line CPU(s) list: 0-7", "Thread(s) per core: 2", "Core(s) per socket: 2", "Socket(s): 2", "NUMA node0 CPU(s): 0,3,5,6", "NUMA node1 CPU(s): 1,2,4,7"), "line 3: Thread(s) per core"},
		{"books", flat("CPU(s): 3", "On-line CPU(s) list: 0-2", "Thread(s) per core: 1", "Core(s) per socket: 1", "Socket(s) per book: 1", "Book(s): 3"), "line 5: Socket(s) per book"},
		{"no JSON", `{"lscpu": [{"field": 3}]}`, "line 1, lscpu.field: want the output of lscpu -J"},
		{"cut JSON", "{\n\"lscpu\": [", "line 2: want the output of lscpu -J"},
		{"in JSON", `{"lscpu":[{"field":"CPU(s):","data":"4","children":[{"field":"Thread(s) per core:","data":"-"}]}]}`, `lscpu[0].children[0]: Thread(s) per core: "-": want a number`},
		{"too long", strings.Repeat("a: b\n", 1<<18), "at most 1048576"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := Read([]byte(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, %v: want an error with %q", m, err, c.want)
			}
		})
	}
}

// FuzzRead looks for outputs that cause a panic, or an impossible machine, or a machine whose
// string is read differently.
func FuzzRead(f *testing.F) {
	for _, text := range []string{xeon, interleaved, extended, "# CPU,Core,Socket\n0,0,0\n", "available: 1 nodes (0)\nnode 0 cpus: 0\nnode 0 size: 5 MB\n  0:  10\n"} {
		f.Add([]byte(text))
	}
	f.Add([]byte(`{"lscpu":[{"field":"CPU(s):","data":"4","children":[{"field":"On-line CPU(s) list:","data":"0-3"}]},{"field":"Thread(s) per core:","data":"2"},{"field":"Core(s) per socket:","data":"2"},{"field":"Socket(s):","data":"1"}]}`))
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := Read(text)
		if err != nil {
			if wrong := (*Error)(nil); errors.As(err, &wrong) && wrong.Want == "" {
				t.Errorf("%v: does not say what would be right", err)
			}
			return
		}
		if err := m.Check(); err != nil {
			t.Fatal(err)
		}
		again, err := topology.Parse(m.String())
		if err != nil || !again.Equal(m) {
			t.Errorf("%s: read again %v, %v", m, again, err)
		}
		on := 0
		for i := range m.Cores {
			on += m.Cores[i].CPUs.Len()
		}
		if on != m.Online.Len() {
			t.Errorf("%s: %d CPUs in cores, %d online", m, on, m.Online.Len())
		}
	})
}
