package gen

import (
	"fmt"

	"github.com/berth-dev/berth/test/replay/cases"
	"github.com/berth-dev/berth/topology"
)

func (d dice) pools(m *cases.Machine) []cases.Pool {
	var out []cases.Pool
	for i := range d.weighted(34, 36, 22, 8) {
		p := cases.Pool{Resource: fmt.Sprintf("vendor.example/dev%d", i), Preferred: cases.PreferSorted}
		if d.chance(12) {
			p.Preferred = cases.PreferNone
		}
		d.fill(&p, m)
		if d.chance(15) {
			d.likeNVIDIA(&p)
		}
		out = append(out, p)
	}
	return out
}

// fill gives a pool its devices: all in one style or each in its own.
func (d dice) fill(p *cases.Pool, m *cases.Machine) {
	p.Devices = []cases.Device{}
	if d.chance(3) {
		p.Devices = nil
		return
	}
	style := d.weighted(45, 20, 12, 8, 15)
	nodes := named(m)
	if d.chance(30) {
		nodes = some(d, nodes, d.between(1, len(nodes)))
	}
	for i := range d.between(1, pick(d, 3, 4, 8, 8, 12)) {
		dev := cases.Device{ID: fmt.Sprintf("d%02d", i), Unhealthy: d.chance(6)}
		dev.NUMA = d.deviceNodes(style, i, nodes, len(m.Nodes) > 16)
		p.Devices = append(p.Devices, dev)
	}
}

// likeNVIDIA makes GPUs of the devices, whole or in parts, on a few switches and with links. The
// devices are few, because the plugin would need too much time for 12.
func (d dice) likeNVIDIA(p *cases.Pool) {
	p.Preferred, p.Devices = cases.PreferNVIDIA, p.Devices[:min(8, len(p.Devices))]
	n := len(p.Devices)
	parts, unequal := d.chance(20), d.chance(60)
	for i := range n {
		p.Devices[i].ID = fmt.Sprintf("GPU-%02d", i)
		if parts {
			p.Devices[i].ID = fmt.Sprintf("GPU-%02d::%d", i/3, i%3)
		}
	}
	p.Points = make([]uint32, n*n)
	for i := range n {
		for j := range i {
			points := uint32(pick(d, 10, 20, 30, 50))
			if unequal {
				points += uint32(pick(d, 0, 1, 2, 3, 4)*100 + i*j)
			}
			p.Points[i*n+j], p.Points[j*n+i] = points, points
		}
	}
}

func (d dice) deviceNodes(style, i int, nodes []cases.Node, wide bool) []topology.NUMAID {
	switch style {
	case 0:
		return []topology.NUMAID{nodes[i%len(nodes)].ID}
	case 1:
		return []topology.NUMAID{pick(d, nodes...).ID}
	case 2:
		return d.nodeSet(nodes)
	case 3:
		return nil
	}
	switch d.weighted(50, 25, 12, 8, 4) {
	case 0:
		return []topology.NUMAID{pick(d, nodes...).ID}
	case 1:
		return d.nodeSet(nodes)
	case 2:
		return nil
	case 3:
		return []topology.NUMAID{}
	}
	return []topology.NUMAID{d.stray(nodes, wide)}
}

func (d dice) nodeSet(nodes []cases.Node) []topology.NUMAID {
	var out []topology.NUMAID
	for _, n := range some(d, nodes, d.between(1, min(3, len(nodes)))) {
		out = append(out, n.ID)
	}
	return out
}

// update returns a later list of a plugin, in which devices become unhealthy, recover, vanish or
// appear.
func (d dice) update(p *cases.Pool, m *cases.Machine) *cases.Pool {
	out := &cases.Pool{Resource: p.Resource, Preferred: p.Preferred, Devices: []cases.Device{}, Points: p.Points}
	for _, dev := range p.Devices {
		if d.chance(8) && p.Points == nil {
			continue
		}
		if d.chance(25) {
			dev.Unhealthy = !dev.Unhealthy
		}
		out.Devices = append(out.Devices, dev)
	}
	if d.chance(25) && p.Points == nil {
		d.fill(out, m)
	}
	return out
}
