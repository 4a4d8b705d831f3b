package joint

import "github.com/berth-dev/berth/placement/hint"

// pick takes CPUs group by group. A group is a NUMA node, or a level-3 cache on one NUMA node if
// byL3 is set. pick takes from the smallest group that has all missing CPUs. If there is none, it
// takes from the largest group. So pick uses the fewest groups.
type pick struct {
	q    *query
	a    *asked
	mask hint.Mask
	byL3 bool
	each bool // every NUMA node of the mask must provide some CPUs
}

func (p *pick) begin() {
	clear(p.q.t.done)
	clear(p.q.t.open)
	if p.each {
		p.deal()
		return
	}
	for w := p.mask; w != 0; w &= w - 1 {
		v := w.Lowest()
		p.q.t.open[v] = int32(p.q.cap(p.a, v))
	}
}

// deal sets scratch.open, the number of CPUs that each NUMA node of the mask provides: equal parts,
// in whole cores if the parts are large enough. deal starts with the NUMA nodes that have the
// fewest available CPUs, so that the others can provide the missing CPUs.
func (p *pick) deal() {
	left, room, whole := p.q.w.CPUs, p.a.sum(p.mask), max(p.q.m.Cores.threads, 1)
	if p.a.like == Spread {
		whole = 1
	}
	for rest := p.mask; rest != 0; {
		v := rest.Lowest()
		for w := rest; w != 0; w &= w - 1 {
			if p.a.units[w.Lowest()] < p.a.units[v] {
				v = w.Lowest()
			}
		}
		n := left / rest.Len()
		if n >= whole {
			n -= n % whole
		}
		units := int(p.a.units[v])
		room -= units
		n = min(max(n, left-room), units)
		p.q.t.open[v] = int32(n)
		left -= n
		rest &^= 1 << v
	}
}

// next returns the group to take from, and the number of CPUs that the group can provide.
func (p *pick) next(left int) (group, gain int) {
	m, t := p.q.m, p.q.t
	fit := false
	for w := p.mask; w != 0; w &= w - 1 {
		v := w.Lowest()
		from, to := v, v+1
		if p.byL3 {
			from, to = int(m.Cores.nodes[v].groups.from), int(m.Cores.nodes[v].groups.to)
		}
		for g := from; g < to; g++ {
			if t.done[g] {
				continue
			}
			n := min(p.q.of(p.a, p.stat(g)), int(t.open[v]))
			switch {
			case n >= left && (!fit || n < gain):
				group, gain, fit = g, n, true
			case !fit && n > gain:
				group, gain = g, n
			}
		}
	}
	return group, gain
}

func (p *pick) stat(g int) *stat {
	if p.byL3 {
		return &p.q.b.groups[g]
	}
	return &p.q.b.nodes[g]
}

// close records that the pick has taken n CPUs of a group and takes no more from it.
func (p *pick) close(g, n int) {
	p.q.t.done[g] = true
	p.q.t.open[p.nodeOf(g)] -= int32(n)
}

func (p *pick) nodeOf(g int) int { return int(p.q.m.Cores.cores[p.span(g).from].node) }

func (p *pick) span(g int) span {
	if p.byL3 {
		return p.q.m.Cores.groups[g]
	}
	return p.q.m.Cores.nodes[g].cores
}

// deals reports whether each NUMA node of a mask must provide some of the CPUs.
func (q *query) deals(mask hint.Mask) bool { return q.w.Nodes > 0 || q.near != nil && mask.Len() > 1 }

// seat returns the NUMA nodes of the mask that provide the CPUs, or 0 if they cannot. With
// Want.CPUsWithin, it returns the smallest allowed subset of the mask that can provide all CPUs,
// with at least one CPU from each NUMA node. Otherwise, or if the number of NUMA nodes is exact, it
// returns the whole mask. When the steps run out, seat checks only the whole mask.
func (q *query) seat(a *asked, mask hint.Mask) hint.Mask {
	switch {
	case q.near != nil && !q.near.Has(mask):
		return 0 // if a mask is not allowed, no subset of it is allowed
	case q.near == nil || q.w.CPUs == 0 || q.w.Nodes > 0:
		return seated(mask, q.covers(a, mask))
	}
	for k := 1; k <= mask.Len(); k++ {
		sets := q.m.space.OfSize(k)
		if q.steps.Charge(len(sets) / 8); q.steps.Left() == 0 {
			q.steps.CutOff()
			return seated(mask, q.gives(a, mask))
		}
		for _, set := range sets {
			if set&^mask == 0 && q.near.Has(set) && q.gives(a, set) {
				return set
			}
		}
	}
	return 0
}

// gives reports whether the NUMA nodes of the set can provide the CPUs, with at least one CPU from
// each.
func (q *query) gives(a *asked, set hint.Mask) bool {
	return a.sum(set) >= q.w.CPUs && q.bears(a, set) && (!a.l3 || q.fewCaches(a, set, q.deals(set))) && q.covers(a, set)
}

func seated(mask hint.Mask, ok bool) hint.Mask {
	if !ok {
		return 0
	}
	return mask
}

// covers reports whether the request pays for all CPUs of the NUMA nodes that takeCPUs would use on
// the mask. Only requests with Want.Pays and ExclusiveNUMA must pay. If takeCPUs would use a NUMA
// node with more CPUs than the request pays for, covers returns false, even if a smaller NUMA node
// of the mask has enough CPUs.
func (q *query) covers(a *asked, mask hint.Mask) bool {
	if !q.pays || a.excl != ExclusiveNUMA || q.w.CPUs == 0 {
		return true
	}
	kept := uint64(0)
	if q.deals(mask) {
		for w := mask; w != 0; w &= w - 1 {
			kept += q.m.Cores.nodeTime(w.Lowest())
		}
		return kept <= q.askedTime()
	}
	p, taken := pick{q: q, a: a, mask: mask, byL3: a.byL3}, hint.Mask(0)
	p.begin()
	for left := q.w.CPUs; left > 0; {
		g, gain := p.next(left)
		if v := p.nodeOf(g); !taken.Has(v) {
			taken |= 1 << v
			kept += q.m.Cores.nodeTime(v)
		}
		n := min(left, gain)
		p.close(g, n)
		left -= n
	}
	return kept <= q.askedTime()
}

// caches returns how many level-3 caches of the mask's NUMA nodes are needed for the CPUs. If all
// these caches together have too few CPUs, caches returns more than the number of caches of the
// machine. If each is set, every NUMA node must provide some CPUs.
func (q *query) caches(a *asked, mask hint.Mask, each bool) int {
	p := pick{q: q, a: a, mask: mask, byL3: true, each: each}
	p.begin()
	n := 0
	for left := q.w.CPUs; left > 0; n++ {
		g, gain := p.next(left)
		if gain == 0 {
			return len(q.m.Cores.groups) + 1
		}
		left -= min(left, gain)
		p.close(g, gain)
	}
	return n
}
