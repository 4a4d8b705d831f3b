package captures

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	lscpumachine "github.com/berth-dev/berth/internal/lscpu"
	"github.com/berth-dev/berth/topology"
)

// lscpu has the output of util-linux' lscpu: facts by name, and the table of "lscpu -p" in logical
// numbers.
type lscpu struct {
	facts map[string]string
	table [][]string
	heads []string
}

func readLscpu(t *testing.T, text string) *lscpu {
	t.Helper()
	l := &lscpu{facts: map[string]string{}}
	head, rest, _ := strings.Cut(text, "# The following is the parsable format")
	for line := range strings.Lines(head) {
		name, value, _ := strings.Cut(line, ":")
		if _, twice := l.facts[name]; !twice {
			l.facts[name] = strings.TrimSpace(value)
		}
	}
	table, _, _ := strings.Cut(rest, "\n\n")
	_, table, _ = strings.Cut(table, "\n# CPU,")
	rows, err := csv.NewReader(strings.NewReader("CPU," + table)).ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("table of lscpu: %d rows, %v", len(rows), err)
	}
	l.heads, l.table = rows[0], rows[1:]
	return l
}

// groups returns the sets of CPUs that share a value of a column, in order of their lowest CPU.
// CPUs without a value are omitted.
func (l *lscpu) groups(column string) (sets []string) {
	at := slices.Index(l.heads, column)
	if at < 0 {
		return nil
	}
	byValue := map[string]*topology.CPUSet{}
	for _, row := range l.table {
		cpu, err := strconv.Atoi(row[0])
		if err != nil || row[at] == "" || row[at] == "-" {
			continue
		}
		if byValue[row[at]] == nil {
			byValue[row[at]] = &topology.CPUSet{}
		}
		byValue[row[at]].Add(topology.CPUID(cpu))
	}
	for _, set := range byValue {
		sets = append(sets, set.String())
	}
	return sets
}

var stride = regexp.MustCompile(`:(\d+)`)

func (l *lscpu) seen(t *testing.T) *seen {
	t.Helper()
	s := newSeen()
	var err error
	if s.cpus, err = topology.ParseCPUList(l.facts["On-line CPU(s) list"]); err != nil {
		t.Fatal(err)
	}
	for aspect, column := range map[string]string{"package": "Socket", "core": "Core", "l3": "L3", "numa": "Node"} {
		for _, set := range l.groups(column) {
			s.add(aspect, "%s", set)
		}
	}
	for name, list := range l.facts {
		id, isNode := strings.CutPrefix(name, "NUMA node")
		if id, ok := strings.CutSuffix(id, " CPU(s)"); ok && isNode {
			cpus, err := topology.ParseCPUList(stride.ReplaceAllString(list, ":1/$1")) // lscpu writes 0-62:2
			if err != nil {
				t.Fatal(err)
			}
			cpus = cpus.And(&s.cpus)
			s.add("nodes", "%s: %s", id, cpus)
		}
	}
	return s
}

const perKind = "lscpu numbers cores and sockets anew for each kind of core, so its numbers do not tell them apart"

// hiddenByLscpu lists intended differences of lscpu's output.
var hiddenByLscpu = map[string]map[string]string{
	"arm-A510-A710-A715-X3": {"core": perKind, "package": perKind},
	"vmware_fpe":            {"core": "lscpu takes the two halves of an AMD compute unit for threads of a core; their core ids differ, and hwloc and cAdvisor count them apart"},
}

func TestLscpuAgrees(t *testing.T) {
	expected := filepath.Join(repository, ".cache/debian/util-linux-*/tests/expected/lscpu/lscpu-*")
	for _, file := range glob(t, expected, filepath.Join(shared(), "realdata/sysfs/lscpu/expected/lscpu-*")) {
		name := strings.TrimPrefix(filepath.Base(file), "lscpu-")
		dir := filepath.Dir(file)
		archives, err := filepath.Glob(filepath.Join(dir, "../../ts/lscpu/dumps", name+".tar.gz"))
		if more, _ := filepath.Glob(filepath.Join(dir, "../dumps", name+".tar.gz")); err == nil {
			archives = append(archives, more...)
		}
		if len(archives) == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			m, printed := machine(t, archives[0]), readLscpu(t, string(text))
			if printed.table[0][0] == "" {
				t.Skip("this release of lscpu could not read the machine: its table has no CPU numbers")
			}
			compareSets(t, ours(m), printed.seen(t), hiddenByLscpu[name])
		})
	}
}

// TestLscpuMakesTheMachine: package lscpu makes the captured machine from lscpu's output, or
// returns an error. It never makes another machine.
func TestLscpuMakesTheMachine(t *testing.T) {
	refused := map[string]string{
		"ppc64-POWER7": "Socket(s)", "sparc64": "Socket(s)", "ppc64-POWER7-64cpu": "NUMA node0 CPU(s)", "rv64-linux": "Thread(s) per core is missing",
		"s390-kvm": "Socket(s) per book", "s390-lpar": "Socket(s) per book", "s390-lpar-drawer": "Socket(s) per book", "s390-nested-virt": "Socket(s) per book", "s390-zvm": "Socket(s) per book",
		"x86_64-64cpu": "NUMA node0 CPU(s)", // one NUMA node spans two sockets
	}
	made := 0
	for _, file := range glob(t, filepath.Join(repository, ".cache/debian/util-linux-*/tests/expected/lscpu/lscpu-*")) {
		name := strings.TrimPrefix(filepath.Base(file), "lscpu-")
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			head, _, _ := strings.Cut(string(text), "# The following is the parsable format")
			m, err := lscpumachine.Read([]byte(head))
			if want := refused[name]; want != "" {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, %v: want an error about %s", m, err, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			made++
			archive := filepath.Join(filepath.Dir(file), "../../ts/lscpu/dumps", name+".tar.gz")
			if _, err := os.Stat(archive); err != nil {
				t.Skip("no capture of it")
			}
			got, want := cpusOf(m), cpusOf(machine(t, archive))
			for level := range want {
				if got[level] != want[level] && (level != "L3s" || len(m.L3s) > 0) && hiddenByLscpu[name][level] == "" {
					t.Errorf("%s: %s, and the capture has %s", level, got[level], want[level])
				}
			}
		})
	}
	if made < 4 {
		t.Errorf("%d machines made: want 4 at the least", made)
	}
}

// cpusOf returns the CPUs of all objects of each level, lowest first.
func cpusOf(m *topology.Machine) map[string]string {
	levels := map[string][]string{}
	add := func(level string, cpus *topology.CPUSet) { levels[level] = append(levels[level], cpus.String()) }
	for i := range m.Packages {
		add("package", &m.Packages[i].CPUs)
	}
	for i := range m.NUMANodes {
		add("numa", &m.NUMANodes[i].CPUs)
	}
	for i := range m.L3s {
		add("L3s", &m.L3s[i].CPUs)
	}
	for i := range m.Cores {
		add("core", &m.Cores[i].CPUs)
	}
	out := map[string]string{}
	for level, sets := range levels {
		slices.Sort(sets)
		out[level] = strings.Join(sets, " | ")
	}
	return out
}

// compareSets compares sets without ids, because lscpu has its own logical numbers.
func compareSets(t *testing.T, us, theirs *seen, known map[string]string) {
	t.Helper()
	if us.cpus != theirs.cpus {
		t.Errorf("CPUs %s, they say %s", us.cpus, theirs.cpus)
	}
	us.lines["nodes"] = slices.Clone(us.lines["numa"])
	for _, aspect := range []string{"package", "core", "l3", "numa", "nodes"} {
		a, b := slices.Clone(us.lines[aspect]), slices.Clone(theirs.lines[aspect])
		for i := range a {
			if _, set, ok := strings.Cut(a[i], ": "); ok && aspect != "nodes" {
				a[i] = set
			}
		}
		a = slices.DeleteFunc(a, func(set string) bool { return set == "" })
		slices.Sort(a)
		slices.Sort(b)
		if same := slices.Equal(a, b); same == (known[aspect] != "") {
			t.Errorf("%s (known difference: %q):\n only we:  %s\n only they: %s", aspect, known[aspect], brief(without(a, b)), brief(without(b, a)))
		}
	}
}
