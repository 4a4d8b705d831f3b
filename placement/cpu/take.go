package cpu

import (
	"math/bits"
	"slices"
	"sync"

	"github.com/berth-dev/berth/placement/release"
	"github.com/berth-dev/berth/topology"
)

// element encodes a group, with its number of free CPUs in the upper half and its index in the
// lower half. So the numeric order of elements is the kubelet's order of groups: by free CPUs, then
// by id.
type element uint32

func (e element) index() int { return int(e & 0xffff) }
func (e element) free() int  { return int(e >> 16) }

func elementOf(free, index int) element { return element(free<<16 | index) }

// packer is the kubelet's cpuAccumulator. As in the kubelet, packer claims all CPUs of a group even
// if some are not free. If it claims a CPU twice, it counts the CPU twice.
type packer struct {
	t      *Topology
	free   words
	result words
	need   int

	outer, inner, buf [topology.MaxCPUs]element
}

// scratch is working memory for taking CPUs. Clearing a scratch on each call would cost too much
// time, so calls reuse scratches without clearing them.
type scratch struct {
	packer
	dist distributor

	pool, aligned, picked words // working memory of Allocate
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// Take picks n CPUs from avail as the kubelet's takeByTopology does and stores them in out. On
// error, Take does not change out. If the topology is not Regular, out may have more or fewer than
// n CPUs, and CPUs outside avail.
func (t *Topology) Take(avail *topology.CPUSet, n int, out *topology.CPUSet) error {
	s := scratches.Get().(*scratch)
	err := s.take(t, avail.Words(), n)
	if err == nil {
		t.store(&s.result, out)
	}
	scratches.Put(s)
	return err
}

func (t *Topology) store(from *words, out *topology.CPUSet) {
	*out = topology.CPUSet{}
	copy(out.Words()[:t.words], from[:t.words])
}

// Reserve returns the CPUs that the kubelet reserves for the system if its configuration names only
// a number of CPUs (ceil(kubeReserved + systemReserved)). If the error is ErrReserve, the kubelet
// does not start. If it is ErrWouldHang or ErrTooComplex, the kubelet never finishes starting.
func (t *Topology) Reserve(n int) (topology.CPUSet, error) {
	var out topology.CPUSet
	switch err := t.Take(&t.all, n, &out); {
	case err == ErrWouldHang || err == ErrTooComplex:
		return topology.CPUSet{}, err
	case err != nil || out.Len() != n:
		return topology.CPUSet{}, ErrReserve
	}
	return out, nil
}

// take puts n CPUs of avail into s.result. avail must not point into s.packer.
func (s *scratch) take(t *Topology, avail *words, n int) error {
	if t.opts.DistributeAcrossNUMA {
		return s.distribute(t, avail, n)
	}
	return s.pack(t, avail, n, t.opts.PreferAlignByUncore)
}

// begin prepares p to take n CPUs from avail. It reports whether any CPUs must be taken.
func (p *packer) begin(t *Topology, avail *words, n int) (more bool, err error) {
	p.t, p.need = t, n
	all, total := t.all.Words(), 0
	for i := range t.words {
		p.result[i] = 0
		p.free[i] = avail[i] & all[i]
		total += bits.OnesCount64(p.free[i])
	}
	switch {
	case n < 1:
		return false, nil
	case n > total:
		return false, ErrNotEnough
	}
	return true, nil
}

// pack reproduces the kubelet's takeByTopologyNUMAPacked.
func (p *packer) pack(t *Topology, avail *words, n int, uncore bool) error {
	if more, err := p.begin(t, avail, n); !more {
		return err
	}
	if p.takeOuter(); p.need < 1 {
		return nil
	}
	if p.takeInner(); p.need < 1 {
		return nil
	}
	if uncore {
		if p.takeUncores(); p.need < 1 {
			return nil
		}
	}
	if !t.opts.DistributeAcrossCores {
		if p.takeCores(); p.need < 1 {
			return nil
		}
		p.takePacked()
	} else {
		p.takeSpread()
	}
	if p.need >= 1 {
		return ErrFailed
	}
	return nil
}

// claim takes all CPUs of a group. The CPUs stay in p.free until settle, because the kubelet
// computes each list of groups before it takes CPUs.
func (p *packer) claim(g *group) {
	add(g.pieces, &p.result)
	p.need -= g.size
}

// settle removes the claimed CPUs from the free CPUs.
func (p *packer) settle() {
	for i := range p.t.words {
		p.free[i] &^= p.result[i]
	}
}

// outerOrder lists the outer groups with a free CPU.
func (p *packer) outerOrder() []element {
	order := p.outer[:0]
	for i := range p.t.outer.groups {
		if n := count(p.t.outer.groups[i].pieces, &p.free); n > 0 {
			order = append(order, elementOf(n, i))
		}
	}
	slices.Sort(order)
	return order
}

// innerOrder lists, for each outer group, the inner groups that have a free CPU in the outer group.
// An inner group that spans outer groups is listed under each.
func (p *packer) innerOrder() []element {
	order := p.inner[:0]
	for _, o := range p.outerOrder() {
		order = p.children(order, p.t.inners[o.index()], p.t.inner.groups)
	}
	return order
}

// children appends, in the kubelet's order, the linked groups that have a free CPU in their parent.
// For the order, children counts all free CPUs of a group, inside and outside of the parent.
func (p *packer) children(order []element, ls []link, groups []group) []element {
	start := len(order)
	for i := range ls {
		l := &ls[i]
		if l.part != nil && !overlaps(l.part, &p.free) {
			continue
		}
		if n := count(groups[l.child].pieces, &p.free); n > 0 {
			order = append(order, elementOf(n, int(l.child)))
		}
	}
	slices.Sort(order[start:])
	return order
}

// numaOrder implements sortAvailableNUMANodes.
func (p *packer) numaOrder() []element {
	if p.t.numaFirst {
		return p.outerOrder()
	}
	return p.innerOrder()
}

// socketOrder implements sortAvailableSockets.
func (p *packer) socketOrder() []element {
	if p.t.numaFirst {
		return p.innerOrder()
	}
	return p.outerOrder()
}

func (p *packer) takeOuter() {
	if p.need >= p.t.outer.smallest {
		p.takeWhole(p.outerOrder(), &p.t.outer)
	}
}

func (p *packer) takeInner() {
	if p.need >= p.t.inner.smallest {
		p.takeWhole(p.innerOrder(), &p.t.inner)
	}
}

// takeWhole claims each group of the list that is completely free and has no more CPUs than are
// still needed.
func (p *packer) takeWhole(order []element, k *kind) {
	for _, e := range order {
		g := &k.groups[e.index()]
		if e.free() == k.whole(g) && p.need >= g.size {
			p.claim(g)
		}
	}
	p.settle()
}

// takeCores claims completely free cores. Such cores have equal numbers of free CPUs, so within an
// inner group they are in order of id.
func (p *packer) takeCores() {
	t, cores := p.t, &p.t.cores
	if p.need < cores.smallest {
		return
	}
	for _, e := range p.innerOrder() {
		ls := t.coresOf[e.index()]
		for i := range ls {
			g := &cores.groups[ls[i].child]
			if count(g.pieces, &p.free) != cores.average || p.need < g.size {
				continue
			}
			if ls[i].part != nil && !overlaps(ls[i].part, &p.free) {
				continue
			}
			if p.claim(g); p.need < cores.smallest {
				p.settle()
				return
			}
		}
	}
	p.settle()
}

// takePacked takes single CPUs, core by core, until there are enough.
func (p *packer) takePacked() {
	for _, e := range p.innerOrder() {
		for _, c := range p.children(p.buf[:0], p.t.coresOf[e.index()], p.t.cores.groups) {
			for _, part := range p.t.cores.groups[c.index()].pieces {
				if p.takeLowest(part); p.need < 1 {
					return
				}
			}
		}
	}
}

// takeSpread takes single CPUs, socket by socket, until there are enough.
func (p *packer) takeSpread() {
	for _, e := range p.socketOrder() {
		for _, part := range p.t.sockets.groups[e.index()].pieces {
			if p.takeLowest(part); p.need < 1 {
				return
			}
		}
	}
}

// takeLowest takes the lowest free CPUs of a piece, no more than p.need.
func (p *packer) takeLowest(part piece) {
	for m := p.free[part.word&15] & part.mask; m != 0 && p.need > 0; m &= m - 1 {
		p.result[part.word&15] |= m & -m
		p.need--
	}
}

// takeUncores implements takeUncoreCache. The kubelet searches for whole caches once for each cache
// of the list. takeUncores searches only once, because later searches find nothing new: the number
// of needed CPUs only shrinks.
func (p *packer) takeUncores() {
	t := p.t
	// The kubelet makes the list before it claims any CPU.
	order := p.uncoreOrder()
	if p.need >= max(t.uncores.average, t.uncores.smallest) {
		p.takeWhole(order, &t.uncores)
	}
	for _, e := range order {
		if p.need < 1 {
			return
		}
		p.takePartOfUncore(t.uncoreCores[e.index()])
	}
}

// uncoreOrder lists, for each NUMA node, the uncore caches that have a free CPU there.
func (p *packer) uncoreOrder() []element {
	order := p.buf[:0]
	for _, n := range p.numaOrder() {
		order = p.children(order, p.t.uncoresOf[n.index()], p.t.uncores.groups)
	}
	return order
}

// takePartOfUncore implements takePartialUncore: it takes the free CPUs of the cache's lowest cores
// if their number is exactly the needed number. ls are the cores of the cache.
func (p *packer) takePartOfUncore(ls []link) {
	t := p.t
	want := p.need / t.cores.average
	if t.opts.Version >= release.V134 {
		want = ceilDiv(p.need, t.cores.average)
	}
	var picked words
	found := p.freeOfLowest(ls, want, &picked)
	if t.opts.Version >= release.V134 && p.need%2 != 0 && t.cores.average > 1 && found > p.need {
		dropHighest(&picked)
		found--
	}
	if found != p.need {
		return
	}
	for i := range t.words {
		p.result[i] |= picked[i]
	}
	p.need = 0
}

// freeOfLowest sets picked to the free CPUs of the lowest cores that have a free CPU in the cache,
// from no more cores than want. found is the number of these CPUs.
func (p *packer) freeOfLowest(ls []link, want int, picked *words) (found int) {
	for i := 0; i < len(ls) && want > 0; i++ {
		if ls[i].part != nil && !overlaps(ls[i].part, &p.free) {
			continue
		}
		g := &p.t.cores.groups[ls[i].child]
		n := count(g.pieces, &p.free)
		if n == 0 {
			continue
		}
		want--
		found += n
		for _, part := range g.pieces {
			picked[part.word&15] |= part.mask & p.free[part.word&15]
		}
	}
	return found
}

func dropHighest(w *words) {
	for i := len(w) - 1; i >= 0; i-- {
		if w[i] != 0 {
			w[i] &^= 1 << (63 - bits.LeadingZeros64(w[i]))
			return
		}
	}
}
