package machineview

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/berth-dev/berth/topology"
)

// Table prints a machine as tables of NUMA nodes and devices. If the kernel reports no NUMA nodes,
// it prints the packages.
func Table(w io.Writer, m *topology.Machine) error {
	fmt.Fprintln(w, summary(m))
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	if len(m.NUMANodes) > 0 {
		nodeTable(t, m)
	} else {
		packageTable(t, m)
	}
	deviceTable(t, m)
	return t.Flush()
}

func nodeTable(t io.Writer, m *topology.Machine) {
	fmt.Fprintln(t, "\nNODE\tPACKAGE\tCPUS\tCORES\tL3\tMEMORY\tHUGE PAGES\tDISTANCES")
	for i := range m.NUMANodes {
		n := &m.NUMANodes[i]
		fmt.Fprintf(t, "%d\t%s\t%s\t%d\t%d\t%s\t%s\t%s\n", n.ID, dash(packagesOf(m, &n.CPUs)), dash(CPUList(&n.CPUs)),
			coresIn(m, &n.CPUs), l3sIn(m, &n.CPUs), size(n.MemoryBytes), dash(hugePages(n.HugePages)), dash(strings.Trim(fmt.Sprint(n.Distances), "[]")))
	}
}

func packageTable(t io.Writer, m *topology.Machine) {
	fmt.Fprintln(t, "\nThe kernel reports no NUMA nodes.\n\nPACKAGE\tCPUS\tCORES\tL3")
	for i := range m.Packages {
		p := &m.Packages[i]
		fmt.Fprintf(t, "%d\t%s\t%d\t%d\n", p.ID, CPUList(&p.CPUs), coresIn(m, &p.CPUs), l3sIn(m, &p.CPUs))
	}
}

func deviceTable(t io.Writer, m *topology.Machine) {
	devices, others := notables(m)
	if len(devices) > 0 {
		fmt.Fprintln(t, "\nDEVICE\tKIND\tID\tNODE\tROOT\tSWITCH\tDRIVER\tNAME")
	}
	virtual := 0
	for _, d := range devices {
		if d.Physical != "" {
			virtual++
			continue
		}
		node := "-"
		if d.HasNUMA {
			node = strconv.Itoa(int(d.NUMA))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", d.Address, className(d.Class), dash(pciIDs(d)), node,
			dash(d.Root), dash(d.Switch), dash(d.Driver), dash(names(d)))
	}
	if virtual > 0 {
		fmt.Fprintf(t, "\n%s not shown (-o tree counts them, -o json has them)\n", count(virtual, "virtual function"))
	}
	if others > 0 {
		fmt.Fprintf(t, "\n%s not shown: bridges and parts of the chipset (-o json has them)\n", count(others, "more device"))
	}
}

func dash(text string) string { return cmp.Or(printable(text), "-") }

// printable replaces each character that could move the cursor or reverse the direction of text
// with a question mark. Such characters may come from a capture.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' {
			return '?'
		}
		return r
	}, text)
}

func packagesOf(m *topology.Machine, set *topology.CPUSet) string {
	var ids []string
	for i := range m.Packages {
		if m.Packages[i].CPUs.Intersects(set) {
			ids = append(ids, strconv.Itoa(int(m.Packages[i].ID)))
		}
	}
	return strings.Join(ids, ",")
}

func coresIn(m *topology.Machine, set *topology.CPUSet) (n int) {
	for i := range m.Cores {
		if m.Cores[i].CPUs.Intersects(set) {
			n++
		}
	}
	return n
}

func l3sIn(m *topology.Machine, set *topology.CPUSet) (n int) {
	for i := range m.L3s {
		if m.L3s[i].CPUs.Intersects(set) {
			n++
		}
	}
	return n
}
