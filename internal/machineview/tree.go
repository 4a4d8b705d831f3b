package machineview

import (
	"fmt"
	"io"
	"strings"

	"github.com/berth-dev/berth/topology"
)

// Tree prints a machine as lstopo would: what contains what.
func Tree(w io.Writer, m *topology.Machine) error {
	root := nest(m)
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s)\n", root.title, root.detail)
	root.print(&b, "")
	_, err := io.WriteString(w, b.String())
	return err
}

// line is one entry below a box.
type line struct {
	text string
	box  *box // nil for a leaf
}

func (b *box) lines() []line {
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
	for _, d := range b.devices {
		out = append(out, line{text: deviceLine(d)})
	}
	return out
}

// sameKind counts the cores at the start that have equally many threads.
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

func deviceLine(d *topology.Device) string {
	text := fmt.Sprintf("PCI %s %s (%s:%s)", d.Address, deviceLabel(d), d.Vendor, d.Product)
	if d.Root != "" {
		text += " at " + printable(d.Root)
	}
	if d.Switch != "" {
		text += ", switch " + d.Switch
	}
	return text
}

func (b *box) print(w *strings.Builder, indent string) {
	lines := b.lines()
	for i, l := range lines {
		branch, below := "├─ ", "│  "
		if i == len(lines)-1 {
			branch, below = "└─ ", "   "
		}
		w.WriteString(indent + branch + l.text + "\n")
		if l.box != nil {
			l.box.print(w, indent+below)
		}
	}
}
