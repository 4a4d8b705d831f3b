package machineview

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/berth-dev/berth/topology"
)

// Tree prints a machine as a tree, as lstopo does.
func Tree(w io.Writer, m *topology.Machine) error {
	root := nest(m)
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s)\n", root.title, root.detail)
	root.print(&b, "", m)
	b.WriteString(Links(m))
	_, err := io.WriteString(w, b.String())
	return err
}

func (b *box) lines(m *topology.Machine) []line {
	var out []line
	for _, child := range b.children {
		text := child.title
		if child.detail != "" {
			text += " (" + child.detail + ")"
		}
		if child.kind == boxNode && child.cpus.IsEmpty() {
			text += " without CPUs"
		}
		out = append(out, line{text, child})
	}
	for i := 0; i < len(b.cores); {
		n := sameKind(b.cores[i:])
		out = append(out, line{text: coreLine(b.cores[i : i+n])})
		i += n
	}
	return append(append(out, deviceLines(m, b.devices)...), b.more...)
}

// deviceLines returns the lines for some devices of a machine, by root complex and switch.
func deviceLines(m *topology.Machine, devices []*topology.Device) []line {
	var part topology.Machine
	for i := range m.Devices {
		if d := &m.Devices[i]; d.Kind() == topology.Bridge || slices.Contains(devices, d) {
			part.Devices = append(part.Devices, *d)
		}
	}
	var out []line
	for _, root := range part.PCITree() {
		out = append(out, portLines(root, "PCI ")...)
	}
	return out
}

// portLines returns the line of a root complex or a switch, with the lines of the devices below it.
// If the platform reports no root complex, it returns only the lines of the devices.
func portLines(p *topology.PCIPort, kind string) []line {
	at := &box{}
	for _, f := range p.Functions {
		at.more = append(at.more, functionLine(f))
	}
	for _, below := range p.Ports {
		at.more = append(at.more, portLines(below, "PCI switch ")...)
	}
	if p.Name == "" {
		return at.more
	}
	if root, ok := strings.CutPrefix(p.Name, "pci"); ok {
		return []line{{"PCI root " + printable(root), at}}
	}
	return []line{{kind + printable(p.Name), at}}
}

func functionLine(f topology.PCIFunction) line {
	l := line{text: f.Address + " " + deviceLabel(f.Device)}
	if ids := pciIDs(f.Device); ids != "" {
		l.text += " (" + ids + ")"
	}
	if n := len(f.Virtual); n > 0 {
		l.text += fmt.Sprintf(", %s %s to %s", count(n, "virtual function"), f.Virtual[0].Address, f.Virtual[n-1].Address)
	}
	return l
}

// Links returns the links between devices as a matrix; "" if there are no links.
func Links(m *topology.Machine) string {
	var addresses []string
	cells := map[[2]string]string{}
	for _, l := range m.Links {
		cells[[2]string{l.A, l.B}] = fmt.Sprintf("%s%d", map[topology.LinkKind]string{topology.NVLink: "NV", topology.XGMI: "XGMI"}[l.Kind], l.Count)
		cells[[2]string{l.B, l.A}] = cells[[2]string{l.A, l.B}]
		addresses = append(addresses, l.A, l.B)
	}
	if len(m.Links) == 0 {
		return ""
	}
	slices.Sort(addresses)
	addresses = slices.Compact(addresses)
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprint(t, "\nLINKS")
	for i := range addresses {
		fmt.Fprintf(t, "\t%d", i)
	}
	for i, row := range addresses {
		fmt.Fprintf(t, "\n%d %s", i, row)
		for _, column := range addresses {
			fmt.Fprint(t, "\t"+cmp.Or(cells[[2]string{row, column}], "-"))
		}
	}
	fmt.Fprintln(t)
	_ = t.Flush() // a strings.Builder does not fail
	return b.String()
}

// sameKind returns the number of cores at the start of the list that coreLine prints in one line:
// all have equally many threads, and either all or none have a core id.
func sameKind(cores []topology.Core) int {
	n := 1
	for n < len(cores) && cores[n].CPUs.Len() == cores[0].CPUs.Len() && (cores[n].ID < 0) == (cores[0].ID < 0) {
		n++
	}
	return n
}

func coreLine(cores []topology.Core) string {
	var all topology.CPUSet
	for i := range cores {
		all = all.Or(&cores[i].CPUs)
	}
	if cores[0].ID < 0 {
		return fmt.Sprintf("%s: %s", count(len(cores), "CPU"), CPUList(&all))
	}
	text := count(len(cores), "core")
	if threads := cores[0].CPUs.Len(); threads > 1 {
		text += fmt.Sprintf(" of %d threads", threads)
	}
	return text + ": CPUs " + CPUList(&all)
}

func (b *box) print(w *strings.Builder, indent string, m *topology.Machine) {
	lines := b.lines(m)
	for i, l := range lines {
		branch, below := "├─ ", "│  "
		if i == len(lines)-1 {
			branch, below = "└─ ", "   "
		}
		w.WriteString(indent + branch + l.text + "\n")
		if l.box != nil {
			l.box.print(w, indent+below, m)
		}
	}
}
