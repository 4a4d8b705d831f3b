package gen

import (
	"fmt"

	"github.com/berth-dev/berth/internal/cases"
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
	nodes := m.Nodes
	if d.chance(30) {
		nodes = some(d, nodes, d.between(1, len(nodes)))
	}
	for i := range d.between(1, pick(d, 3, 4, 8, 8, 12)) {
		dev := cases.Device{ID: fmt.Sprintf("d%02d", i), Unhealthy: d.chance(6)}
		dev.NUMA = d.deviceNodes(style, i, nodes)
		p.Devices = append(p.Devices, dev)
	}
}

func (d dice) deviceNodes(style, i int, nodes []cases.Node) []topology.NUMAID {
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
	return []topology.NUMAID{topology.NUMAID(pick(d, d.between(0, 12), 63))} // perhaps a node that the machine does not have
}

func (d dice) nodeSet(nodes []cases.Node) []topology.NUMAID {
	var out []topology.NUMAID
	for _, n := range some(d, nodes, d.between(1, min(3, len(nodes)))) {
		out = append(out, n.ID)
	}
	return out
}

// update is what a plugin says later: devices fall ill, recover, vanish or appear.
func (d dice) update(p *cases.Pool, m *cases.Machine) *cases.Pool {
	out := &cases.Pool{Resource: p.Resource, Preferred: p.Preferred, Devices: []cases.Device{}}
	for _, dev := range p.Devices {
		if d.chance(8) {
			continue
		}
		if d.chance(25) {
			dev.Unhealthy = !dev.Unhealthy
		}
		out.Devices = append(out.Devices, dev)
	}
	if d.chance(25) {
		d.fill(out, m)
	}
	return out
}
