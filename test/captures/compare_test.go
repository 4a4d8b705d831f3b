package captures

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/capture"
	"github.com/berth-dev/berth/sysfs"
	"github.com/berth-dev/berth/topology"
)

// repository is the root of the repository.
const repository = "../.."

func shared() string {
	if dir := os.Getenv("BERTH_SHARED"); dir != "" {
		return dir
	}
	return filepath.Join(repository, "../shared")
}

// glob returns the files of all patterns, or skips the test.
func glob(t *testing.T, patterns ...string) []string {
	t.Helper()
	var files []string
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		t.Skipf("no captures: set BERTH_SHARED, or unpack Debian's source packages hwloc and util-linux in .cache/debian (looked at %s)", patterns)
	}
	return files
}

// machine reads a capture and checks that parsing its machine string gives the same machine.
func machine(t *testing.T, archive string) *topology.Machine {
	t.Helper()
	c, err := capture.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	m, err := sysfs.Read(c.FS)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := topology.Parse(m.String()); err != nil || !back.Equal(m) {
		t.Fatalf("machine string does not come back: %v\n%s", err, m)
	}
	return m
}

// ours describes a machine of package topology in the form seen.
func ours(m *topology.Machine) *seen {
	s := newSeen()
	s.cpus = m.Online
	for _, p := range m.Packages {
		id := fmt.Sprint(p.ID)
		if m.UnnumberedPackages {
			id = "-"
		}
		s.add("package", "%s: %s", id, p.CPUs)
	}
	for _, c := range m.Cores {
		s.add("core", "%d: %s", c.ID, c.CPUs)
	}
	for _, l := range m.L3s {
		s.add("l3", "%s", l.CPUs)
	}
	for i := range m.NUMANodes {
		n := &m.NUMANodes[i]
		s.add("numa", "%d: %s", n.ID, n.CPUs)
		s.add("memory", "%d: %dB", n.ID, n.MemoryBytes)
	}
	s.distances(m)
	for i := range m.Devices {
		d := &m.Devices[i]
		s.add("pci", "%s %s:%s %.4s", d.Address, d.Vendor, d.Product, d.Class)
		s.add("names", "%s %s", d.Address, d.Name)
	}
	return s
}

func (s *seen) distances(m *topology.Machine) {
	var ids, values []string
	for i := range m.NUMANodes {
		ids = append(ids, fmt.Sprint(m.NUMANodes[i].ID))
		for _, d := range m.NUMANodes[i].Distances {
			values = append(values, fmt.Sprint(d))
		}
	}
	if len(values) > 0 && len(ids) > 1 {
		s.add("distances", "%s = %s", strings.Join(ids, " "), strings.Join(values, " "))
	}
}

// difference compares one aspect and describes the difference, or returns "".
func difference(aspect string, ours, theirs *seen) string {
	a, b := slices.Sorted(slices.Values(ours.lines[aspect])), slices.Sorted(slices.Values(theirs.lines[aspect]))
	switch aspect {
	case "pci": // upstream lists only some devices
		return subset(a, b)
	case "names":
		return oneOfTheirs(a, b)
	case "numa":
		if len(a) == 0 && len(b) == 1 && b[0] == "0: "+ours.cpus.String() {
			return "" // the kernel knows no NUMA; hwloc then makes one node of the whole machine
		}
		a, b = withoutHomes(a, b)
	case "core":
		a, b = withoutUnknownIDs(a, b)
	case "memory":
		return roundedMemory(a, b)
	case "distances":
		if len(b) == 0 {
			return "" // upstream prints none for a single node or when it merged groups
		}
		a, b = pairs(a), pairs(b)
	}
	if slices.Equal(a, b) {
		return ""
	}
	return fmt.Sprintf("only we:  %s\n only they: %s", brief(without(a, b)), brief(without(b, a)))
}

// subset checks that every line of theirs is among ours.
func subset(ours, theirs []string) string {
	if missing := without(theirs, ours); len(missing) > 0 {
		return "only they: " + brief(missing)
	}
	return ""
}

// pairs splits a matrix into entries, because hwloc has its own order of the nodes.
func pairs(matrix []string) (out []string) {
	for _, line := range matrix {
		ids, values, _ := strings.Cut(line, " = ")
		nodes, distances := strings.Fields(ids), strings.Fields(values)
		for i, d := range distances {
			out = append(out, fmt.Sprintf("%s-%s=%s", nodes[i/len(nodes)], nodes[i%len(nodes)], d))
		}
	}
	slices.Sort(out)
	return out
}

// oneOfTheirs checks that the name of each device is one of upstream's names for it, if there are
// any.
func oneOfTheirs(ours, theirs []string) string {
	known := map[string][]string{}
	for _, line := range theirs {
		address, name, _ := strings.Cut(line, " ")
		known[address] = append(known[address], name)
	}
	for _, line := range ours {
		address, name, _ := strings.Cut(line, " ")
		if len(known[address]) > 0 && !slices.Contains(known[address], name) {
			return fmt.Sprintf("%s is %q, they say %q", address, name, known[address])
		}
	}
	return ""
}

// withoutHomes removes the CPUs that hwloc lists for memory-only nodes: hwloc puts their memory
// next to the nearest CPUs.
func withoutHomes(ours, theirs []string) (a, b []string) {
	homeless := map[string]bool{}
	for _, line := range ours {
		if id, cpus, _ := strings.Cut(line, ": "); cpus == "" {
			homeless[id] = true
		}
	}
	for _, line := range theirs {
		if id, _, _ := strings.Cut(line, ": "); homeless[id] {
			line = id + ": "
		}
		b = append(b, line)
	}
	slices.Sort(b)
	return ours, b
}

// withoutUnknownIDs removes our ids of cores for which upstream has none.
func withoutUnknownIDs(ours, theirs []string) (a, b []string) {
	for _, line := range ours {
		_, cpus, _ := strings.Cut(line, ": ")
		if slices.Contains(theirs, "-: "+cpus) {
			line = "-: " + cpus
		}
		a = append(a, line)
	}
	slices.Sort(a)
	return a, theirs
}

func without(a, b []string) (out []string) {
	for _, line := range a {
		if !slices.Contains(b, line) {
			out = append(out, line)
		}
	}
	return out
}

func brief(lines []string) string {
	if len(lines) > 12 {
		lines = append(lines[:12:12], fmt.Sprintf("... %d more", len(lines)-12))
	}
	return strings.Join(lines, " | ")
}

// roundedMemory compares amounts as lstopo rounds them: to whole KB, KiB, MiB or GiB.
func roundedMemory(ours, theirs []string) string {
	amounts := map[string]string{}
	for _, line := range ours {
		id, amount, _ := strings.Cut(line, ": ")
		amounts[id] = amount
	}
	for _, line := range theirs {
		id, want, _ := strings.Cut(line, ": ")
		if len(ours) == 0 {
			return "" // no NUMA nodes, see difference
		}
		if got, ok := amounts[id]; !ok || !sameAmount(got, want) {
			return fmt.Sprintf("node %s: %s, they say %s", id, got, want)
		}
	}
	return ""
}

func sameAmount(exact, rounded string) bool {
	var a, b uint64
	var unit string
	if _, err := fmt.Sscanf(exact, "%dB", &a); err != nil {
		return false
	}
	if rounded == "" {
		return a == 0
	}
	if _, err := fmt.Sscanf(rounded, "%d%s", &b, &unit); err != nil {
		return false
	}
	shift := map[string]uint{"B": 0, "KB": 10, "KiB": 10, "MB": 20, "MiB": 20, "GB": 30, "GiB": 30}[unit]
	low, high := b<<shift, (b+1)<<shift
	half := uint64(1) << shift >> 1
	return a >= low-min(low, half) && a < high
}

// outlook has the aspects to compare, and the known differences with their reasons. A known
// difference that does not occur is an error too.
type outlook struct {
	aspects []string
	known   map[string]string
}

// compare compares a machine with another program's output.
func compare(t *testing.T, m *topology.Machine, theirs *seen, look outlook) {
	t.Helper()
	known := look.known
	us := ours(m)
	if diff := us.cpus.String(); (diff != theirs.cpus.String()) != (known["cpus"] != "") {
		t.Errorf("CPUs %s, they say %s (known difference: %q)", us.cpus, theirs.cpus, known["cpus"])
	}
	for _, aspect := range look.aspects {
		diff := difference(aspect, us, theirs)
		switch {
		case diff != "" && known[aspect] == "":
			t.Errorf("%s differ:\n %s", aspect, diff)
		case diff == "" && known[aspect] != "":
			t.Errorf("%s are listed as different, but equal: %s", aspect, known[aspect])
		}
	}
}
