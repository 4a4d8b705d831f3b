package machineview

import (
	"cmp"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Sizes in the drawing, in pixels.
const (
	margin    = 24 // around the picture
	pad       = 10 // inside a box
	gap       = 8  // between boxes
	headLine  = 18 // height of a box's title
	pillWide  = 25 // a CPU
	pillHigh  = 17
	coreInset = 3
	chipHigh  = 20 // a device
	charWide  = 6.9
)

// Desired ratios of width to height.
const (
	boxes   = 1.7 // boxes and cores
	shelves = 3.5 // groups of devices
	stripes = 8.0 // NUMA nodes without CPUs
)

// raggedBy is the weight that the function grid gives to empty places in the last row, compared
// with a wrong ratio of width to height.
const raggedBy = 5.0

// shape is an object with a size that draws itself at a position.
type shape struct {
	w, h float64
	draw func(b *strings.Builder, x, y float64)
	// widened returns the same shape with another width. It is nil if the width of the shape is
	// fixed.
	widened func(w float64) shape
}

// alike widens all shapes to the width of the widest one, except shapes with a fixed width.
func alike(shapes []shape) []shape {
	wide := 0.0
	for _, s := range shapes {
		wide = max(wide, s.w)
	}
	out := slices.Clone(shapes)
	for i, s := range out {
		if s.widened != nil && s.w < wide {
			out[i] = s.widened(wide)
		}
	}
	return out
}

// SVG draws a machine from packages to CPUs, with memory, devices and distances.
func SVG(w io.Writer, m *topology.Machine) error {
	_, err := io.WriteString(w, new(painter).page(m))
	return err
}

// BerthsSVG draws a machine with its pods in their berths.
func BerthsSVG(w io.Writer, m *topology.Machine, b *Berths) error {
	_, err := io.WriteString(w, (&painter{occupied: newOccupancy(b)}).page(m))
	return err
}

// BerthsInline returns the drawing of BerthsSVG without style sheet, title and legend, for a page
// that has its own style sheet and legend.
func BerthsInline(m *topology.Machine, b *Berths) (svg string, legend []Legend) {
	p := &painter{occupied: newOccupancy(b)}
	picture := column([]shape{p.root(m), below(m)}, 16)
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" class="machine berths" width="%.0f" height="%.0f" viewBox="-1 -1 %.0f %.0f" role="img" aria-label="%s">`,
		picture.w+2, picture.h+2, picture.w+2, picture.h+2, escape(summary(m)))
	out.WriteString(textures)
	picture.draw(&out, 0, 0)
	out.WriteString("</svg>\n")
	for _, one := range p.occupied.berths {
		legend = append(legend, Legend{Tag: one.tag, Class: one.class, UID: one.uid, Name: one.name, Words: one.words(), CPUs: CPUList(&one.cpus), Held: one.held})
	}
	return out.String(), legend
}

// Legend is an entry of the legend: the pod that a letter of the drawing stands for.
type Legend struct {
	Tag string `json:"tag"`
	// Class is the class of the pod's colour in Style.
	Class string `json:"class"`
	UID   string `json:"uid"`
	Name  string `json:"name"`
	// Words describes the pod's resources. CPUs are the pod's exclusive CPUs, or "" if it has none.
	Words string `json:"words"`
	CPUs  string `json:"cpus,omitempty"`
	// Held means that a Reservation holds the resources, not a pod.
	Held bool `json:"held,omitempty"`
}

// page returns the complete drawing of m.
func (p *painter) page(m *topology.Machine) string {
	body := p.root(m)
	picture := column([]shape{p.title(m), body, p.legend(body.w), below(m)}, 16)
	var b strings.Builder
	width, height := picture.w+2*margin, picture.h+2*margin
	class, defs := "machine", ""
	if p.occupied != nil {
		class, defs = "machine berths", textures
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" class="%s" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`,
		class, width, height, width, height, escape(summary(m)))
	fmt.Fprintf(&b, "<style>%s</style>\n", Style)
	b.WriteString(defs)
	fmt.Fprintf(&b, `<rect class="page" width="%.0f" height="%.0f"/>`+"\n", width, height)
	picture.draw(&b, margin, margin)
	b.WriteString("</svg>\n")
	return b.String()
}

func escape(text string) string { return html.EscapeString(printable(text)) }

func text(class, words string) shape {
	wide := charWide
	switch class {
	case "big":
		wide = 12
	case "h":
		wide = 7.9
	case "sub":
		wide = 7.3
	}
	return shape{w: float64(len([]rune(words))) * wide, h: headLine, draw: func(b *strings.Builder, x, y float64) {
		fmt.Fprintf(b, `<text class="%s" x="%.1f" y="%.1f">%s</text>`+"\n", class, x, y+13, escape(words))
	}}
}

func (p *painter) title(m *topology.Machine) shape {
	head, facts := headline(m), ""
	if p.occupied != nil {
		head, facts = cmp.Or(p.occupied.Title, head), p.occupied.Facts
	}
	big := text("big", head)
	return column([]shape{{w: big.w, h: 24, draw: func(b *strings.Builder, x, y float64) { big.draw(b, x, y+5) }}, text("sub", summary(m)), text("sub", facts)}, 2)
}

// headline returns the title of a drawing for which the caller sets none, such as "64 CPUs and 8
// accelerators on 2 NUMA nodes".
func headline(m *topology.Machine) string {
	text := count(m.Online.Len(), "CPU")
	gpus := 0
	for i := range m.Devices {
		if kind := className(m.Devices[i].Class); kind == "GPU" || kind == "accelerator" || kind == "co-processor" {
			gpus++
		}
	}
	if gpus > 0 {
		text += " and " + count(gpus, "accelerator")
	}
	if n := len(m.NUMANodes); n > 0 {
		text += " on " + count(n, "NUMA node")
	}
	return text
}

// column stacks shapes. It leaves out shapes without a size.
func column(shapes []shape, space float64) shape {
	var kept []shape
	total := shape{}
	for _, s := range shapes {
		if s.w == 0 || s.h == 0 {
			continue
		}
		if len(kept) > 0 {
			total.h += space
		}
		kept = append(kept, s)
		total.w, total.h = max(total.w, s.w), total.h+s.h
	}
	total.draw = func(b *strings.Builder, x, y float64) {
		for _, s := range kept {
			s.draw(b, x, y)
			y += s.h + space
		}
	}
	return total
}

// table is a grid of shapes. Each column is as wide as its widest shape, and each row as high as
// its highest shape.
type table struct {
	shapes  []shape
	columns int
	space   float64
}

// measure returns the widths of the columns, the heights of the rows, and their sums.
func (t *table) measure() (widths, heights []float64, w, h float64) {
	widths = make([]float64, t.columns)
	heights = make([]float64, (len(t.shapes)+t.columns-1)/t.columns)
	for i, s := range t.shapes {
		column, row := i%t.columns, i/t.columns
		widths[column], heights[row] = max(widths[column], s.w), max(heights[row], s.h)
	}
	for _, width := range widths {
		w += width + t.space
	}
	for _, height := range heights {
		h += height + t.space
	}
	return widths, heights, w - t.space, h - t.space
}

func (t *table) draw(b *strings.Builder, x, y float64) {
	widths, heights, _, _ := t.measure()
	left := x
	for i, s := range t.shapes {
		s.draw(b, x, y)
		x += widths[i%t.columns] + t.space
		if i%t.columns == t.columns-1 {
			x, y = left, y+heights[i/t.columns]+t.space
		}
	}
}

// grid arranges shapes in rows with equal numbers of shapes, except the last row. It chooses the
// number of columns so that the ratio of width to height is close to aspect, and the last row is
// nearly full.
func grid(shapes []shape, space, aspect float64) shape {
	if len(shapes) == 0 {
		return shape{}
	}
	shapes = alike(shapes)
	best, bestScore := shape{}, math.Inf(1)
	for n := 1; n <= len(shapes); n++ {
		t := &table{shapes, n, space}
		_, heights, w, h := t.measure()
		ragged := float64(n*len(heights)-len(shapes)) / float64(len(shapes))
		if score := math.Abs(math.Log(w/h/aspect)) + raggedBy*ragged; score < bestScore {
			best, bestScore = shape{w: w, h: h, draw: t.draw}, score
		}
	}
	return best
}

// framed draws a frame with a title around a shape.
func framed(class, head, detail string, inner shape) shape {
	name, more := text("h", head), text("d", detail)
	return frame(class, detail, name, inner, max(inner.w, name.w+more.w+gap)+2*pad)
}

func frame(class, detail string, name, inner shape, w float64) shape {
	h := float64(headLine) + 2*pad - 4
	if inner.h > 0 {
		h += inner.h + 4
	}
	draw := func(b *strings.Builder, x, y float64) {
		fmt.Fprintf(b, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="6"/>`+"\n", class, x, y, w, h)
		name.draw(b, x+pad, y+pad-3)
		if detail != "" {
			fmt.Fprintf(b, `<text class="d" text-anchor="end" x="%.1f" y="%.1f">%s</text>`+"\n", x+w-pad, y+pad+10, escape(detail))
		}
		if inner.h > 0 {
			inner.draw(b, x+pad, y+pad+headLine)
		}
	}
	return shape{w, h, draw, func(w float64) shape { return frame(class, detail, name, inner, w) }}
}

// root draws the outermost boxes and, below them, devices without a NUMA node.
func (p *painter) root(m *topology.Machine) shape {
	p.machine = m
	b := nest(m)
	var memory, processors []shape
	for _, child := range b.children {
		if child.cpus.IsEmpty() {
			memory = append(memory, p.box(child))
		} else {
			processors = append(processors, p.box(child))
		}
	}
	if len(b.cores) > 0 {
		processors = append(processors, p.cores(b.cores))
	}
	parts := []shape{grid(processors, 14, boxes), grid(memory, gap, stripes)}
	if len(b.devices) > 0 {
		parts = append(parts, framed("package", "Devices without a NUMA node", "", p.devices(b.devices)))
	}
	return column(append(parts, p.nowhere()), 14)
}

func (p *painter) box(b *box) shape {
	var inner []shape
	for _, child := range b.children {
		inner = append(inner, p.box(child))
	}
	class := [...]string{"package", "package", "die", "node", "l3"}[b.kind]
	detail := ""
	if b.kind == boxNode {
		detail = p.detail(b)
	}
	if b.kind == boxNode && b.cpus.IsEmpty() {
		class = "memory"
	}
	body := column([]shape{grid(inner, gap, boxes), p.cores(b.cores), p.devices(b.devices)}, gap)
	return framed(class, b.title, detail, column([]shape{body, p.holdings(b.node, body.w)}, gap))
}

// detail returns the text next to a NUMA node's name: its memory and free CPUs.
func (p *painter) detail(b *box) string {
	text := b.detail
	if p.occupied != nil && b.node != nil {
		text = p.occupied.free(b.node)
	}
	if b.cpus.IsEmpty() {
		return strings.TrimSuffix("no CPUs, "+text, ", ")
	}
	return text
}

func (p *painter) cores(list []topology.Core) shape {
	var cells []shape
	for i := range list {
		cells = append(cells, p.core(&list[i]))
	}
	return grid(cells, 4, boxes)
}

func (p *painter) core(c *topology.Core) shape {
	threads := c.CPUs.Len()
	columns := threads
	if threads > 2 {
		columns = (threads + 1) / 2
	}
	rows := (threads + columns - 1) / columns
	pill := p.pill() + 2
	w := float64(columns)*pill - 2 + 2*coreInset
	h := float64(rows)*(pillHigh+2) - 2 + 2*coreInset
	return shape{w: w, h: h, draw: func(b *strings.Builder, x, y float64) {
		fmt.Fprintf(b, `<g><title>%s</title><rect class="core" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="3"/>`, coreTitle(c), x, y, w, h)
		i := 0
		for id := range c.CPUs.All() {
			p.cpu(b, id, x+coreInset+float64(i%columns)*pill, y+coreInset+float64(i/columns)*(pillHigh+2))
			i++
		}
		b.WriteString("</g>\n")
	}}
}

func coreTitle(c *topology.Core) string {
	if c.ID < 0 {
		return "CPU " + c.CPUs.String()
	}
	return fmt.Sprintf("core %d, CPUs %s", c.ID, c.CPUs)
}

// devices draws devices as boxes, without virtual functions. Consecutive devices of the same root
// complex and switch share a dashed frame.
func (p *painter) devices(list []*topology.Device) shape {
	list = slices.DeleteFunc(slices.Clone(list), func(d *topology.Device) bool { return d.Physical != "" })
	var groups []shape
	for i := 0; i < len(list); {
		n := 1
		for i+n < len(list) && list[i+n].Switch == list[i].Switch && list[i+n].Root == list[i].Root {
			n++
		}
		groups = append(groups, p.behind(list[i:i+n]))
		i += n
	}
	return grid(groups, gap, shelves)
}

// behind draws devices of one root complex and switch.
func (p *painter) behind(list []*topology.Device) shape {
	var chips []shape
	wide := 0.0
	for _, d := range list {
		wide = max(wide, p.chipWidth(d))
	}
	for _, d := range list {
		chips = append(chips, p.chip(d, wide))
	}
	where := list[0].Root
	if list[0].Switch != "" {
		where = "switch " + list[0].Switch
	}
	label := text("d", where)
	inner := column([]shape{label, column(chips, 3)}, 0)
	w, h := inner.w+12, inner.h+9
	return shape{w: w, h: h, draw: func(b *strings.Builder, x, y float64) {
		fmt.Fprintf(b, `<rect class="switch" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="4"/>`+"\n", x, y, w, h)
		inner.draw(b, x+6, y+3)
	}}
}

// chipWords returns the text on a device's box: its kind and names, and its PCI address without the
// domain 0000.
func chipWords(d *topology.Device) (words, address string) {
	return deviceLabel(d), strings.TrimPrefix(d.Address, "0000:")
}

func (p *painter) chipWidth(d *topology.Device) float64 {
	words, address := chipWords(d)
	n := len([]rune(words)) + len(address) + 1
	if one := p.tenant(d); one != nil {
		n += len(one.tag) + 1
	}
	return float64(n)*charWide + 14
}

func (p *painter) chip(d *topology.Device, w float64) shape {
	class := chipClass(d)
	words, address := chipWords(d)
	one := p.tenant(d)
	tag := ""
	if one != nil {
		class, tag = "device own "+one.class, `<tspan class="tag">`+one.tag+`</tspan> `
	}
	return shape{w: w, h: chipHigh, draw: func(b *strings.Builder, x, y float64) {
		one.open(b)
		fmt.Fprintf(b, `<title>%s %s %s</title><rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%d" rx="4"/>`,
			d.Address, pciIDs(d), escape(d.Driver), class, x, y, w, chipHigh)
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f">%s%s <tspan class="d">%s</tspan></text></g>`+"\n", x+7, y+14, tag, escape(words), escape(address))
	}}
}

// tenant returns the berth of the pod that has a PCI device, or nil if that pod is unknown. If the
// device's plugin uses the PCI address as the id, the pod is known. With other ids, the pod is
// known only if one pod has all devices of this kind on the NUMA node.
func (p *painter) tenant(d *topology.Device) *berth {
	if p.occupied == nil {
		return nil
	}
	if one := p.occupied.pci[d.Address]; one != nil || !d.HasNUMA {
		return one
	}
	like := 0
	for i := range p.machine.Devices {
		if o := &p.machine.Devices[i]; o.HasNUMA && o.NUMA == d.NUMA && o.Physical == "" && chipClass(o) == chipClass(d) {
			like++
		}
	}
	for i := range p.occupied.Snapshot.Devices {
		pool := &p.occupied.Snapshot.Devices[i]
		if devices := offered(pool, d.NUMA, false); servedBy(pool.Resource, chipClass(d)) && len(devices) == like {
			return p.holderOfAll(pool.Resource, devices)
		}
	}
	return nil
}

// holderOfAll returns the berth of the pod that has all of the devices, or nil if no single pod has
// them all.
func (p *painter) holderOfAll(resource string, devices []*placement.Device) *berth {
	one := p.occupied.device[[2]string{resource, devices[0].ID}]
	for _, d := range devices {
		if p.occupied.device[[2]string{resource, d.ID}] != one {
			return nil
		}
	}
	return one
}

// servedBy guesses from the name of a resource whether devices drawn with the class belong to it:
// "nvidia.com/gpu" belongs to the class "gpu".
func servedBy(resource, class string) bool {
	words := map[string][]string{"gpu": {"gpu"}, "net": {"hca", "nic", "rdma", "sriov"}}
	_, name, _ := strings.Cut(resource, "/")
	return slices.ContainsFunc(words[class], func(word string) bool { return strings.Contains(name, word) || strings.HasPrefix(resource, word) })
}

func chipClass(d *topology.Device) string {
	switch {
	case strings.HasPrefix(d.Class, "03"), strings.HasPrefix(d.Class, "12"), strings.HasPrefix(d.Class, "0b40"):
		return "gpu"
	case strings.HasPrefix(d.Class, "02"):
		return "net"
	case strings.HasPrefix(d.Class, "01"):
		return "disk"
	}
	return "device"
}

// maxMatrix is the maximum number of NUMA nodes for which below draws distances.
const maxMatrix = 16

// The function below draws the distances between NUMA nodes. It draws nothing if there is only one
// NUMA node, if there are more than maxMatrix, or if the machine has no distances.
func below(m *topology.Machine) shape {
	nodes := m.NUMANodes
	if len(nodes) < 2 || len(nodes) > maxMatrix || len(nodes[0].Distances) == 0 {
		return shape{}
	}
	return column([]shape{text("h", "Distances between NUMA nodes"), matrix(nodes)}, 6)
}

// matrix draws distances as a table. The larger a distance, the more opaque its colour.
func matrix(nodes []topology.NUMANode) shape {
	const cellWide, cellHigh = 36, 22
	low, high := uint32(math.MaxUint32), uint32(0)
	for i := range nodes {
		for _, d := range nodes[i].Distances {
			low, high = min(low, d), max(high, d)
		}
	}
	n := float64(len(nodes) + 1)
	return shape{w: n * cellWide, h: n * cellHigh, draw: func(b *strings.Builder, x, y float64) {
		for i := range nodes {
			along := float64(i+1) + 0.5
			id := strconv.Itoa(int(nodes[i].ID))
			fmt.Fprintf(b, `<text class="num d" x="%.1f" y="%.1f">%s</text><text class="num d" x="%.1f" y="%.1f">%s</text>`+"\n",
				x+along*cellWide, y+15, id, x+cellWide/2, y+along*cellHigh+4, id)
			for j, d := range nodes[i].Distances {
				cx, cy := x+float64(j+1)*cellWide, y+float64(i+1)*cellHigh
				fmt.Fprintf(b, `<rect class="far" fill-opacity="%.2f" x="%.1f" y="%.1f" width="%d" height="%d" rx="3"/>`,
					0.06+0.6*float64(d-low)/float64(max(1, high-low)), cx+1, cy+1, cellWide-2, cellHigh-2)
				fmt.Fprintf(b, `<text class="num" x="%.1f" y="%.1f">%d</text>`+"\n", cx+cellWide/2, cy+15, d)
			}
		}
	}}
}
