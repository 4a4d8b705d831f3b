package machineview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/topology"
)

type kind uint8

const (
	boxMachine kind = iota
	boxPackage
	boxDie
	boxNode
	boxL3
)

// line is one entry below a box.
type line struct {
	text string
	box  *box // nil for a leaf
}

// box is the machine, or a package, die, NUMA node or L3 cache of it, with the objects inside. For
// a PCI root complex or switch, it has only the lines of the field more.
type box struct {
	kind     kind
	title    string
	detail   string // memory, huge pages
	cpus     topology.CPUSet
	children []*box
	cores    []topology.Core // that no child contains
	devices  []*topology.Device
	more     []line             // complete lines, printed below all others
	node     *topology.NUMANode // nil if the box is not a NUMA node
}

// nest arranges the objects of a machine by containment. A NUMA node may contain several packages,
// and an L3 cache may contain several NUMA nodes. Objects that only overlap are placed side by
// side.
func nest(m *topology.Machine) *box {
	root := &box{kind: boxMachine, title: "Machine", detail: summary(m), cpus: m.Online}
	boxes := containers(m)
	slices.SortStableFunc(boxes, func(a, b *box) int { return cmp.Compare(b.cpus.Len(), a.cpus.Len()) })
	for _, b := range boxes {
		root.place(b)
	}
	for _, c := range m.Cores {
		at := root.holder(&c.CPUs)
		at.cores = append(at.cores, c)
	}
	root.addLoose(m)
	devices, _ := notables(m)
	for _, d := range devices {
		at := root
		if i := slices.IndexFunc(boxes, func(b *box) bool { return d.HasNUMA && b.node != nil && b.node.ID == d.NUMA }); i >= 0 {
			at = boxes[i]
		}
		at.devices = append(at.devices, d)
	}
	return root
}

// containers lists packages, dies, NUMA nodes and L3s, in this order. nest keeps the order of
// objects with equal CPUs, so a package contains the NUMA node with the same CPUs. containers
// leaves out a die that contains its whole package.
func containers(m *topology.Machine) []*box {
	var out []*box
	for _, p := range m.Packages {
		out = append(out, &box{kind: boxPackage, title: fmt.Sprintf("Package %d", p.ID), cpus: p.CPUs})
	}
	for _, d := range m.Dies {
		whole := slices.ContainsFunc(m.Packages, func(p topology.Package) bool { return p.CPUs == d.CPUs })
		if !whole {
			out = append(out, &box{kind: boxDie, title: fmt.Sprintf("Die %d", d.ID), cpus: d.CPUs})
		}
	}
	for i := range m.NUMANodes {
		n := &m.NUMANodes[i]
		detail := size(n.MemoryBytes)
		if pools := hugePages(n.HugePages); pools != "" {
			detail += ", " + pools
		}
		out = append(out, &box{kind: boxNode, title: fmt.Sprintf("NUMA node %d", n.ID), detail: detail, cpus: n.CPUs, node: n})
	}
	for _, l := range m.L3s {
		out = append(out, &box{kind: boxL3, title: fmt.Sprintf("L3 %d", l.ID), cpus: l.CPUs})
	}
	return out
}

// place puts the box inner into the innermost box that contains it. A NUMA node without CPUs stays
// at the top level.
func (b *box) place(inner *box) {
	for _, child := range b.children {
		if !inner.cpus.IsEmpty() && inner.cpus.IsSubsetOf(&child.cpus) {
			child.place(inner)
			return
		}
	}
	b.children = append(b.children, inner)
	slices.SortStableFunc(b.children, compareBoxes)
}

// compareBoxes orders boxes by their lowest CPU. NUMA nodes without CPUs come last.
func compareBoxes(a, b *box) int {
	la, oka := a.cpus.Lowest()
	lb, okb := b.cpus.Lowest()
	if oka != okb {
		if oka {
			return -1
		}
		return 1
	}
	return cmp.Compare(la, lb)
}

// holder returns the innermost box that contains a set of CPUs.
func (b *box) holder(set *topology.CPUSet) *box {
	for _, child := range b.children {
		if set.IsSubsetOf(&child.cpus) {
			return child.holder(set)
		}
	}
	return b
}

// addLoose adds the CPUs that belong to no core as cores without a number.
func (b *box) addLoose(m *topology.Machine) {
	loose := m.Online
	for i := range m.Cores {
		loose = loose.AndNot(&m.Cores[i].CPUs)
	}
	for id := range loose.All() {
		set := topology.NewCPUSet(id)
		at := b.holder(&set)
		at.cores = append(at.cores, topology.Core{Package: topology.NoPackage, ID: -1, CPUs: set})
	}
}

// deviceLabel returns the kind and the names of a device, such as "Ethernet eth0, mlx5_0".
func deviceLabel(d *topology.Device) string {
	return printable(strings.Join(strings.Fields(className(d.Class)+" "+names(d)), " "))
}
