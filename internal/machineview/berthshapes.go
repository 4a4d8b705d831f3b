package machineview

import (
	"fmt"
	"strings"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Sizes of the pods' resources, in pixels.
const (
	tagWide    = 14 // a CPU's letters for its pod
	letterWide = 7  // each further letter
	barHigh    = 15
	barWide    = 240 // the minimum
	slotWide   = 27  // a device
	slotHigh   = 19
	legendGap  = 10
)

// painter draws a machine, with berths or without.
type painter struct {
	occupied *occupancy        // nil if the painter draws no berths
	machine  *topology.Machine // the machine that is drawn
}

// pill returns the width of a CPU in the drawing.
func (p *painter) pill() float64 {
	if p.occupied == nil {
		return pillWide
	}
	return pillWide + tagWide + float64(p.occupied.letters()-1)*letterWide
}

// cpu draws a CPU: its number, and the pod that has it.
func (p *painter) cpu(b *strings.Builder, id topology.CPUID, x, y float64) {
	if p.occupied == nil {
		fmt.Fprintf(b, `<rect class="cpu" x="%.1f" y="%.1f" width="%d" height="%d" rx="2"/><text class="pu" x="%.1f" y="%.1f">%d</text>`,
			x, y, pillWide, pillHigh, x+pillWide/2, y+12.5, id)
		return
	}
	class, title, w := "cpu free", fmt.Sprintf("CPU %d: free", id), p.pill()
	one := p.occupied.cpu[id]
	switch {
	case one != nil:
		class, title = "cpu own "+one.class, fmt.Sprintf("CPU %d: %s, container %s", id, one.name, one.containers[id])
		if one.held {
			title = fmt.Sprintf("CPU %d: held by %s", id, one.name)
		}
	case p.occupied.Reserved.Has(id):
		class, title = "cpu kept", fmt.Sprintf("CPU %d: kept for the system", id)
	case p.occupied.idle(id):
		class, title = "cpu kept", fmt.Sprintf("CPU %d: kept idle by a pod with exclusive cores or NUMA nodes", id)
	case !p.occupied.Pinning:
		title = fmt.Sprintf("CPU %d: shared", id)
	}
	one.open(b)
	fmt.Fprintf(b, `<title>%s</title>`, escape(title))
	block(b, class, x, y, w, pillHigh)
	if one != nil {
		fmt.Fprintf(b, `<text class="tag" x="%.1f" y="%.1f">%s</text>`, x+4, y+12.5, one.tag)
	}
	fmt.Fprintf(b, `<text class="id" x="%.1f" y="%.1f">%d</text></g>`, x+w-4, y+12.5, id)
}

// open begins a group of shapes that belong to the pod of the berth. If the berth is nil, the
// shapes belong to no pod.
func (b *berth) open(w *strings.Builder) {
	if b == nil {
		w.WriteString("<g>")
		return
	}
	fmt.Fprintf(w, `<g data-pod="%s">`, b.tag)
}

// block draws a coloured rectangle, and the texture of the class over the colour.
func block(b *strings.Builder, class string, x, y, w, h float64) {
	fmt.Fprintf(b, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="2"/>`, class, x, y, w, h)
	if _, texture, ok := strings.Cut(class, " t"); ok {
		fmt.Fprintf(b, `<rect fill="url(#t%s)" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="2"/>`, texture, x, y, w, h)
	}
}

// holdings draws the memory of a NUMA node as bars, and the devices of device plugins as slots. It
// draws nothing if the painter draws no berths.
func (p *painter) holdings(node *topology.NUMANode, wide float64) shape {
	if p.occupied == nil || node == nil {
		return shape{}
	}
	var out []shape
	for _, m := range p.occupied.amounts(node.ID) {
		out = append(out, p.bar(node.ID, m, max(wide, barWide)))
	}
	for i := range p.occupied.Snapshot.Devices {
		pool := &p.occupied.Snapshot.Devices[i]
		out = append(out, p.slots(pool, offered(pool, node.ID, false)))
	}
	return column(out, 5)
}

// bar draws one kind of memory of a NUMA node. For a block on several NUMA nodes, it draws an equal
// part on each, because the kubelet does not report the real parts.
func (p *painter) bar(id topology.NUMAID, m placement.MemoryAmounts, w float64) shape {
	head := column([]shape{text("d", fmt.Sprintf("%s: %s of %s free", m.Resource, size(m.Free), size(m.Allocatable)))}, 0)
	return shape{w: max(w, head.w), h: headLine + barHigh, draw: func(b *strings.Builder, x, y float64) {
		head.draw(b, x, y)
		y += headLine
		block(b, "cpu free", x, y, w, barHigh)
		left := x
		for _, one := range p.occupied.berths {
			for _, have := range one.memory {
				if have.Resource != m.Resource || !have.NUMA.Has(id) {
					continue
				}
				part := float64(have.Bytes) / float64(have.NUMA.Len()) / float64(m.Allocatable) * w
				part = min(part, x+w-left)
				one.open(b)
				fmt.Fprintf(b, `<title>%s: %s on %s</title>`, escape(one.name), size(have.Bytes), have.NUMA)
				block(b, "cpu own "+one.class, left, y, max(part-1, 0.5), barHigh)
				if part > float64(len(one.tag))*9+5 {
					fmt.Fprintf(b, `<text class="tag" x="%.1f" y="%.1f">%s</text>`, left+4, y+11.5, one.tag)
				}
				b.WriteString("</g>\n")
				left += part
			}
		}
	}}
}

// slots draws devices of a device plugin, in rows of eight.
func (p *painter) slots(pool *placement.DevicePool, devices []*placement.Device) shape {
	if len(devices) == 0 {
		return shape{}
	}
	var cells []shape
	free := 0
	for _, d := range devices {
		one := p.occupied.device[[2]string{pool.Resource, d.ID}]
		if one == nil && !d.Unhealthy {
			free++
		}
		cells = append(cells, slot(d, one))
	}
	rows := &table{cells, min(8, len(cells)), 3}
	_, _, w, h := rows.measure()
	head := text("d", fmt.Sprintf("%s: %d of %d free", pool.Resource, free, len(devices)))
	return column([]shape{head, {w: w, h: h, draw: rows.draw}}, 0)
}

func slot(d *placement.Device, one *berth) shape {
	return shape{w: slotWide, h: slotHigh, draw: func(b *strings.Builder, x, y float64) {
		class, title, tag := "cpu free", "device "+d.ID+": free", ""
		switch {
		case one != nil:
			class, title, tag = "cpu own "+one.class, "device "+d.ID+": "+one.name, one.tag
		case d.Unhealthy:
			class, title, tag = "cpu kept", "device "+d.ID+": unhealthy", "!"
		}
		one.open(b)
		fmt.Fprintf(b, `<title>%s</title>`, escape(title))
		block(b, class, x, y, slotWide, slotHigh)
		fmt.Fprintf(b, `<text class="tag mid" x="%.1f" y="%.1f">%s</text></g>`+"\n", x+slotWide/2, y+13.5, tag)
	}}
}

// nowhere draws those devices of device plugins that have no NUMA node.
func (p *painter) nowhere() shape {
	if p.occupied == nil {
		return shape{}
	}
	var out []shape
	for i := range p.occupied.Snapshot.Devices {
		pool := &p.occupied.Snapshot.Devices[i]
		out = append(out, p.slots(pool, offered(pool, 0, true)))
	}
	if all := column(out, 5); all.h > 0 {
		return framed("package", "Plugin devices without a NUMA node", "", all)
	}
	return shape{}
}

// legend draws the letters with their pods, and the meaning of the other colours.
func (p *painter) legend(wide float64) shape {
	o := p.occupied
	if o == nil {
		return shape{}
	}
	var pods []shape
	for _, one := range o.berths {
		pods = append(pods, entry(one))
	}
	var cells []shape
	if o.Pinning {
		cells = append(cells, key("cpu free", "free"), key("cpu kept", "kept for the system"))
	} else {
		cells = append(cells, key("cpu free", "shared: this node's CPU manager assigns no exclusive CPUs"))
	}
	if o.Free != nil {
		cells[len(cells)-1] = key("cpu kept", "kept for the system, or idle for an exclusive pod")
	}
	if o.sharing > 0 {
		cells = append(cells, text("d", count(o.sharing, "more pod")+" without a berth"))
	}
	states := &table{cells, len(cells), 22}
	_, _, w, h := states.measure()
	words := count(len(o.berths)-o.held, "pod") + " with a berth"
	if o.held > 0 {
		words += ", and " + count(o.held, "place") + " held for pods to come (dashed)"
	}
	head := text("h", words)
	return column([]shape{head, inColumns(pods, wide), {w: w, h: h, draw: states.draw}}, 8)
}

// inColumns arranges shapes in as many columns as fit into a width, at most four.
func inColumns(shapes []shape, wide float64) shape {
	if len(shapes) == 0 {
		return shape{}
	}
	for n := min(len(shapes), 4); n > 1; n-- {
		t := &table{shapes, n, legendGap}
		if _, _, w, h := t.measure(); w <= wide {
			return shape{w: w, h: h, draw: t.draw}
		}
	}
	return column(shapes, legendGap)
}

// maxName is the maximum length of a name in the legend, in characters.
const maxName = 72

func entry(one *berth) shape {
	name, words := text("h", shorten(one.name)), text("d", shorten(one.words()))
	return shape{w: slotWide + 8 + max(name.w, words.w), h: 2 * headLine, draw: func(b *strings.Builder, x, y float64) {
		one.open(b)
		b.WriteString("<g>")
		block(b, "cpu own "+one.class, x, y+2, slotWide, slotHigh)
		fmt.Fprintf(b, `<text class="tag mid" x="%.1f" y="%.1f">%s</text></g>`, x+slotWide/2, y+15.5, one.tag)
		name.draw(b, x+slotWide+8, y)
		words.draw(b, x+slotWide+8, y+headLine-2)
		b.WriteString("</g>\n")
	}}
}

func shorten(text string) string {
	if runes := []rune(text); len(runes) > maxName {
		return string(runes[:maxName-1]) + "…"
	}
	return text
}

// key draws a colour and its meaning, for a colour that belongs to no pod.
func key(class, words string) shape {
	label := text("d", words)
	return shape{w: slotWide + 8 + label.w, h: headLine, draw: func(b *strings.Builder, x, y float64) {
		block(b, class, x, y+1, slotWide, slotHigh-3)
		label.draw(b, x+slotWide+8, y)
	}}
}
