package joint

import (
	"math/bits"

	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/topology"
)

// Try places requests one after another on a copy of a Book. A Try can be reused, and is not safe
// for concurrent use.
type Try struct {
	m    *Model
	Book Book
	got  []uint8 // threads taken by the last Place, by core
	// Budget has the steps for all calls of Place. If Budget is nil, each call may use Steps steps.
	Budget *Budget
	own    Budget
	asks   query
	scratch
}

// NewTry returns a Try for books of the model.
func (m *Model) NewTry() *Try {
	t := &Try{m: m, got: make([]uint8, len(m.Cores.cores))}
	t.open, t.done = make([]int32, len(m.Cores.nodes)), make([]bool, max(len(m.Cores.groups), len(m.Cores.nodes)))
	for _, q := range [...]*query{&t.asks, &t.empty, &t.probe} {
		q.dev = newDeviceQuery(len(m.Devices.kinds))
	}
	t.Book.CopyFrom(m.empty)
	return t
}

// Begin makes t.Book a copy of b.
func (t *Try) Begin(b *Book) { t.Book.CopyFrom(b) }

// Place finds the best place for w, takes its resources, and fills g. If there is no place, the
// result is the reason, and Place takes nothing.
func (t *Try) Place(w *Want, g *Grant) PlaceResult {
	g.CPUs, g.Nodes, g.Amounts, g.Exclusive = topology.CPUSet{}, 0, g.Amounts[:0], Shareable
	g.Devices, g.Together, g.Cut = g.Devices[:0], false, false
	q := &t.asks
	q.steps = t.steps()
	q.steps.Charge(placeSteps + nodeSteps*len(t.m.Cores.nodes))
	out := t.answer(q, w, g)
	g.Cut = q.steps.Cut()
	return out
}

func (t *Try) steps() *Budget {
	if t.Budget != nil {
		return t.Budget
	}
	t.own.Refill()
	return &t.own
}

// answer implements Place. q.steps must be set.
func (t *Try) answer(q *query, w *Want, g *Grant) PlaceResult {
	if refused := q.compile(t.m, &t.scratch, w, &t.Book); refused != Placed {
		return refused
	}
	if !q.find(w.Width) {
		if q.pays = false; w.Pays && q.find(w.Width) {
			return Withholds
		}
		wide := TooWide
		if w.Nodes > 0 {
			wide = NotExactly
		}
		if q.within == nil && q.near == nil {
			return wide
		}
		if q.within, q.near = nil, nil; q.find(w.Width) {
			return OutOfReach
		}
		return wide
	}
	t.take(q, g)
	return Placed
}

// take records the resources that find chose in t.Book, and fills g.
func (t *Try) take(q *query, g *Grant) {
	g.Nodes, g.Exclusive = q.best, q.by.excl
	if q.w.CPUs > 0 {
		clear(t.got)
		t.takeCPUs(q)
		g.CPUs = t.m.Cores.cpusOf(t.got)
		e := g.Exclusive
		if e == ExclusiveNUMA {
			e = Shareable // the pod's own CPU shares may use the idle CPUs
		}
		t.m.Cores.shutCores(&t.Book, t.got, e)
	}
	for _, a := range q.w.Amounts {
		t.split(a, g)
	}
	if g.Exclusive == ExclusiveNUMA {
		t.m.Cores.shutCores(&t.Book, t.got, ExclusiveNUMA)
	}
	g.Together = q.by.same
	t.takeDevices(q, g)
}

// takeCPUs fills t.got with the threads of the chosen CPUs.
func (t *Try) takeCPUs(q *query) {
	seat := q.seat(q.by, q.best)
	p := pick{q: q, a: q.by, mask: seat, byL3: q.by.byL3, each: q.deals(seat)}
	p.begin()
	if q.spreads(q.by) {
		for round := 0; round < maxThreads; round++ {
			t.spread(q, round)
		}
		return
	}
	for left := q.w.CPUs; left > 0; {
		i, gain := p.next(left)
		n := min(left, gain)
		switch {
		case q.by.bind == Spread:
			t.takeSpread(q.by, p.span(i), n)
		case q.by.excl == ExclusiveCore || q.by.bind == FullCores:
			t.takeWhole(p.span(i), n)
		default:
			t.takePacked(p.span(i), n)
		}
		p.close(i, n)
		left -= n
	}
}

// takeWhole takes n CPUs on completely free cores. Of the last core, it takes only the missing
// threads.
func (t *Try) takeWhole(s span, n int) {
	for i := s.from; i < s.to && n > 0; i++ {
		if free := t.Book.free[i]; free == t.m.Cores.cores[i].full && t.got[i] == 0 {
			t.got[i] = lowestOf(free, n)
			n -= ones(t.got[i])
		}
	}
}

// takeSpread takes one thread of each of n cores, cores with more free threads first.
func (t *Try) takeSpread(a *asked, s span, n int) {
	for idle := maxThreads; idle > 0; idle-- {
		for i := s.from; i < s.to && n > 0; i++ {
			free := t.Book.free[i]
			if ones(free) == idle && (a.excl != ExclusiveCore || free == t.m.Cores.cores[i].full) {
				t.got[i] = lowestOf(free, 1)
				n--
			}
		}
	}
}

// spread takes one more thread of each core of the chosen NUMA nodes, cores with more free threads
// first, until all requested CPUs are taken. takeCPUs calls spread if query.spreads returns true.
func (t *Try) spread(q *query, round int) {
	left := q.w.CPUs
	for _, w := range t.got {
		left -= ones(w)
	}
	for idle := maxThreads; idle > 0; idle-- {
		for i := range t.got {
			k, free := &t.m.Cores.cores[i], t.Book.free[i]
			if left == 0 || !q.best.Has(int(k.node)) || ones(free) != idle || ones(t.got[i]) > round || t.open[k.node] == 0 {
				continue
			}
			if bit := lowestOf(free&^t.got[i], 1); bit != 0 {
				t.got[i] |= bit
				t.open[k.node]--
				left--
			}
		}
	}
}

// takePacked first takes completely free cores whose threads are all needed. If CPUs are still
// missing, takePacked takes all of these from one core: of the cores with enough free threads, the
// one with the fewest. If no core has enough, it takes them from several cores.
func (t *Try) takePacked(s span, n int) {
	for i := s.from; i < s.to && n > 0; i++ {
		if free := t.Book.free[i]; free == t.m.Cores.cores[i].full && ones(free) <= n {
			t.got[i] = free
			n -= ones(free)
		}
	}
	for size := n; n > 0 && size <= maxThreads; size++ {
		for i := s.from; i < s.to && n > 0; i++ {
			if free := t.Book.free[i] &^ t.got[i]; ones(free) == size {
				t.got[i] |= lowestOf(free, n)
				n = 0
			}
		}
	}
	for i := s.from; i < s.to && n > 0; i++ {
		bits := lowestOf(t.Book.free[i]&^t.got[i], n)
		t.got[i] |= bits
		n -= ones(bits)
	}
}

// lowestOf returns the lowest n set bits of w, or w if it has fewer.
func lowestOf(w uint8, n int) uint8 {
	var out uint8
	for ; w != 0 && n > 0; n-- {
		out |= w & -w
		w &= w - 1
	}
	return out
}

// split divides an amount evenly among the NUMA nodes of the grant, and records the parts. It
// starts with the NUMA nodes that have the least room, so that the others can provide what is then
// missing.
func (t *Try) split(a Amount, g *Grant) {
	unit := t.m.Amounts.kinds[a.Kind].Unit
	need := t.m.Amounts.Whole(a)
	first := len(g.Amounts)
	for rest := g.Nodes; rest != 0; {
		v := t.tightest(a.Kind, rest)
		share := need / uint64(rest.Len())
		n := min(share-share%unit, t.m.Amounts.Room(&t.Book, a.Kind, v))
		if rest &^= 1 << v; rest == 0 {
			n = need
		}
		need -= n
		t.Book.used[int(a.Kind)*len(t.m.Cores.nodes)+v] += n
		if n > 0 {
			g.Amounts = append(g.Amounts, NodeAmount{Kind: a.Kind, Node: uint8(v), N: n})
		}
	}
	for i := first + 1; i < len(g.Amounts); i++ {
		for j := i; j > first && g.Amounts[j].Node < g.Amounts[j-1].Node; j-- {
			g.Amounts[j], g.Amounts[j-1] = g.Amounts[j-1], g.Amounts[j]
		}
	}
}

// tightest returns the NUMA node with the least room; of several such NUMA nodes, it returns the
// lowest.
func (t *Try) tightest(k KindIndex, mask hint.Mask) int {
	best, least := 0, uint64(1<<64-1)
	for w := uint16(mask); w != 0; w &= w - 1 {
		if v := bits.TrailingZeros16(w); t.m.Amounts.Room(&t.Book, k, v) < least {
			best, least = v, t.m.Amounts.Room(&t.Book, k, v)
		}
	}
	return best
}

// BeginFull makes t.Book a book in which all resources are assigned. The caller frees some of them
// with Give.
func (t *Try) BeginFull() {
	clear(t.Book.free)
	clear(t.Book.nodes)
	clear(t.Book.groups)
	clear(t.Book.devices)
	clear(t.Book.sick)
	copy(t.Book.taken, t.m.Devices.own)
	copy(t.Book.used, t.m.Amounts.capacity)
}

// takeDevices takes the devices of the pick that the search found best.
func (t *Try) takeDevices(q *query, g *Grant) {
	for i := range q.w.Devices {
		if i == q.dev.linked {
			want := &q.w.Devices[i]
			for set := q.dev.best.set; set != 0; set &= set - 1 {
				t.takeDevice(want.Kind, bits.TrailingZeros16(set), g)
			}
			continue
		}
		if q.w.PerNode == 0 {
			t.takeFrom(q, i, q.dev.best.places, g)
			continue
		}
		for w := g.Nodes; w != 0; w &= w - 1 {
			t.takeFrom(q, i, q.dev.best.places&q.dev.on[w.Lowest()], g)
		}
	}
}

// takeFrom takes the requested devices of a kind at the given places. With PerNode, the caller
// passes the places of one NUMA node at a time. If devices must be together, takeFrom first takes
// one device at each place. It takes the other devices at the places with the fewest available
// devices first.
func (t *Try) takeFrom(q *query, i int, places uint64, g *Grant) {
	d := &q.dev
	k := &t.m.Devices.kinds[q.w.Devices[i].Kind]
	left := d.need[i]
	if q.w.PerNode > 0 {
		left = q.w.PerNode
	}
	if q.by.same {
		for w := places; w != 0 && left > 0; w &= w - 1 {
			left -= t.takeAt(q, i, k, bits.TrailingZeros64(w), 1, g)
		}
	}
	for rest := places; rest != 0 && left > 0; {
		least := bits.TrailingZeros64(rest)
		for w := rest; w != 0; w &= w - 1 {
			if at := bits.TrailingZeros64(w); d.caps[i][at] < d.caps[i][least] {
				least = at
			}
		}
		rest &^= 1 << least
		left -= t.takeAt(q, i, k, least, left, g)
	}
}

// takeAt takes at most n devices of a kind at a place, and returns how many it took.
func (t *Try) takeAt(q *query, w int, k *deviceKind, at, n int, g *Grant) (got int) {
	for p := range t.m.Devices.places {
		if to := int(t.m.Devices.places[p].root); p == at && !q.w.Same.byRoot() || to == at && q.w.Same.byRoot() {
			got += t.takeSpan(&q.w.Devices[w], k, k.spans[p], n-got, g)
		}
	}
	return got
}

// takeSpan takes at most n devices of a span, and returns how many it took.
func (t *Try) takeSpan(want *DeviceWant, k *deviceKind, s span, n int, g *Grant) (got int) {
	last := -1
	for i := int(s.from); i < int(s.to) && got < n; i++ {
		if (want.OnePerFunction || want.All) && (int(k.funcs[i]) == last || t.hasFunction(want.Kind, k.funcs[i], g)) {
			continue
		}
		if k.free(&t.Book, i) {
			last = int(k.funcs[i])
			t.takeDevice(want.Kind, i, g)
			got++
		}
	}
	return got
}

// hasFunction reports whether the grant already has a device of the physical function.
func (t *Try) hasFunction(kind uint8, function uint16, g *Grant) bool {
	k := &t.m.Devices.kinds[kind]
	for _, d := range g.Devices {
		if d.Kind == kind && k.funcs[k.index[d.Index]] == function {
			return true
		}
	}
	return false
}

func (t *Try) takeDevice(kind uint8, i int, g *Grant) {
	d := DeviceRef{kind, t.m.Devices.kinds[kind].given[i]}
	t.m.Devices.Take(&t.Book, d)
	g.Devices = append(g.Devices, d)
}
