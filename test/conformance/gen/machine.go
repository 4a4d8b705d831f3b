package gen

import (
	"slices"

	"github.com/berth-dev/berth/test/replay/cases"
	"github.com/berth-dev/berth/topology"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// plan is the shape of a machine before CPUs get their numbers.
type plan struct {
	nodes, sockets, smt int
	// cores is the number of cores per node.
	cores []int
	// perL3 is the number of cores that share an L3; 0 means one L3 per node, -1 none, -2 one per
	// socket, over its nodes.
	perL3 int
}

func (d dice) machine() cases.Machine {
	p := d.plan()
	m := cases.Machine{}
	ids := d.nodeIDs(p.nodes)
	pages := d.pageSizes()
	even := d.chance(50)
	memory := d.memory()
	for i := range p.nodes {
		if !even {
			memory = d.memory()
		}
		n := cases.Node{ID: ids[i], Memory: memory}
		n.HugePages = d.hugePages(pages, memory)
		m.Nodes = append(m.Nodes, n)
	}
	d.distances(m.Nodes)
	d.placeCores(&m, p)
	d.oddities(&m)
	return m
}

func (d dice) plan() plan {
	p := plan{nodes: d.weighted(0, 160, 300, 100, 200, 50, 60, 40, 90, 6, 6), smt: pick(d, 1, 1, 2, 2, 2, 2, 2, 2, 4)}
	switch {
	case d.chance(8): // more sockets than nodes
		p.sockets = p.nodes * pick(d, 2, 2, 3)
	case d.chance(50):
		p.sockets = 1
	default:
		p.sockets = pick(d, 2, 2, p.nodes, d.between(1, p.nodes))
	}
	p.sockets = min(p.sockets, max(p.nodes*3, 1))
	limit := max(2, 40/(p.nodes*p.smt))
	base := d.between(1, min(limit, pick(d, 3, 4, 6, 8, 12)))
	uneven := d.chance(25)
	for range p.nodes {
		c := base
		if uneven {
			c = d.between(1, limit)
		}
		if d.chance(1.5) {
			c = 0 // memory only
		}
		p.cores = append(p.cores, c)
	}
	if slices.Max(p.cores) == 0 {
		p.cores[0] = 2
	}
	p.perL3 = pick(d, -1, 0, 0, -2, 1, 2, 2, 3, 4)
	return p
}

func (d dice) nodeIDs(n int) []topology.NUMAID {
	var ids []topology.NUMAID
	next := 0
	gaps := d.chance(10)
	for range n {
		if gaps && d.chance(40) {
			next += d.between(1, pick(d, 1, 2, 4, 8))
		}
		ids = append(ids, topology.NUMAID(next))
		next++
	}
	return ids
}

func (d dice) memory() uint64 {
	switch {
	case d.chance(2):
		return 0
	case d.chance(50):
		return uint64(d.between(2, 64)) * gib
	}
	return uint64(d.between(2*gib, 64*gib)) &^ 4095
}

func (d dice) pageSizes() []uint64 {
	return [][]uint64{nil, {2048}, {1 << 20}, {2048, 1 << 20}, {1 << 20, 2048}, {64, 524288}}[d.weighted(45, 28, 12, 8, 6, 1)]
}

// hugePages returns pools of huge pages, each with up to a third of the memory. Sometimes a pool
// exceeds the memory, so that the kubelet's arithmetic overflows.
func (d dice) hugePages(sizes []uint64, memory uint64) []cases.HugePages {
	var out []cases.HugePages
	for _, kb := range sizes {
		if d.chance(2) {
			continue
		}
		most := memory / (kb << 10) / 3
		if d.chance(1) {
			most = memory/(kb<<10)*2 + 1
		}
		h := cases.HugePages{SizeKB: kb, Count: uint64(d.between(0, int(most)))}
		if d.chance(10) {
			h.Count = 0
		}
		out = append(out, h)
	}
	return out
}

func (d dice) distances(nodes []cases.Node) {
	if d.chance(3) {
		return
	}
	same := d.chance(35)
	table := make([][]uint64, len(nodes))
	for i := range nodes {
		table[i] = make([]uint64, len(nodes))
		table[i][i] = 10
		for j := range i {
			v := uint64(20)
			if !same {
				v = pick[uint64](d, 11, 12, 16, 21, 31, 32)
			}
			table[i][j], table[j][i] = v, v
			if !same && d.chance(3) {
				table[j][i]++
			}
		}
	}
	for i := range nodes {
		if !d.chance(0.3) {
			nodes[i].Distances = table[i]
		}
	}
}

// placeCores numbers the CPUs in one of the ways of real firmware, and assigns sockets and caches.
func (d dice) placeCores(m *cases.Machine, p plan) {
	total := 0
	for _, c := range p.cores {
		total += c
	}
	number := d.numbering(total, p.smt)
	k := 0
	inNode := map[int]int{}
	interleaved := d.chance(20) // cores are numbered round robin over the nodes
	for len(inNode) <= p.nodes && k < total {
		for i := range p.nodes {
			for inNode[i] < p.cores[i] {
				m.Nodes[i].Cores = append(m.Nodes[i].Cores, d.core(p, place{node: i, core: k, inNode: inNode[i]}, number))
				k++
				if inNode[i]++; interleaved {
					break
				}
			}
		}
	}
}

// place is the position of a core: the index of its node, and the core's index on the machine and
// on the node.
type place struct{ node, core, inNode int }

func (d dice) core(p plan, at place, number func(core, thread int) topology.CPUID) cases.Core {
	i, k, j := at.node, at.core, at.inNode
	c := cases.Core{ID: k, Socket: i * p.sockets / p.nodes}
	if p.sockets > p.nodes {
		per := p.sockets / p.nodes
		c.Socket = i*per + j*per/p.cores[i]
	}
	for t := range p.smt {
		c.Threads = append(c.Threads, number(k, t))
	}
	if d.chance(25) {
		d.Shuffle(len(c.Threads), func(a, b int) { c.Threads[a], c.Threads[b] = c.Threads[b], c.Threads[a] })
	}
	switch {
	case p.perL3 == -2:
		c.L3 = new(c.Socket)
	case p.perL3 == 0:
		c.L3 = new(i)
	case p.perL3 > 0:
		c.L3 = new(i*64 + j/p.perL3)
	}
	return c
}

func (d dice) numbering(cores, smt int) func(core, thread int) topology.CPUID {
	base := 0
	if d.chance(5) {
		base = d.between(1, 40)
	} else if d.chance(3) {
		base = d.between(41, 900) // so that CPU sets have many words
	}
	switch d.weighted(35, 35, 20, 10) {
	case 0: // siblings next to each other
		return func(core, thread int) topology.CPUID { return topology.CPUID(base + core*smt + thread) }
	case 1: // siblings half the machine apart
		return func(core, thread int) topology.CPUID { return topology.CPUID(base + thread*cores + core) }
	case 2:
		order := d.Perm(cores * smt)
		return func(core, thread int) topology.CPUID { return topology.CPUID(base + order[core*smt+thread]) }
	}
	order := d.Perm(cores)
	return func(core, thread int) topology.CPUID { return topology.CPUID(base + order[core] + thread*cores) }
}

// oddities are difficult properties of real machines: offline CPUs, miscounted cores and sockets.
func (d dice) oddities(m *cases.Machine) {
	if d.chance(12) {
		for range d.between(1, 3) {
			d.offline(m)
		}
	}
	if d.chance(3) {
		d.hybrid(m)
	}
	if d.chance(2) {
		m.NumSockets = d.between(1, 4)
	}
	if d.chance(1) {
		m.NumCores = max(1, m.Threads()+d.between(-3, 3))
	}
}

// hybrid gives some cores only one thread, as in processors with efficient cores.
func (d dice) hybrid(m *cases.Machine) {
	for i := range m.Nodes {
		for j := range m.Nodes[i].Cores {
			if c := &m.Nodes[i].Cores[j]; d.chance(50) {
				c.Threads = c.Threads[:1]
			}
		}
	}
}

// offline switches one CPU off, but not the machine's last one.
func (d dice) offline(m *cases.Machine) {
	n := &m.Nodes[d.IntN(len(m.Nodes))]
	if len(n.Cores) == 0 || m.Threads() < 3 {
		return
	}
	j := d.IntN(len(n.Cores))
	c := &n.Cores[j]
	if len(c.Threads) > 1 {
		t := d.IntN(len(c.Threads))
		c.Threads = slices.Delete(c.Threads, t, t+1)
		return
	}
	n.Cores = slices.Delete(n.Cores, j, j+1)
}
