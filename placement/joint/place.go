package joint

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/topology"
)

// Want is what a container, or a pod as a whole, asks for.
type Want struct {
	CPUs    int          // pinned
	Amounts []Amount     // each kind once
	Devices []DeviceWant // each kind once
	// Same says where devices lie together, and SameHow whether that may be given up. It is given
	// up after all else that is preferred, but never for a wider set of NUMA nodes.
	Same    Same
	SameHow Strength // set if Same is
	Width   Width
	// Nodes asks for exactly so many NUMA nodes, each of which gives some of the CPUs; where no
	// CPUs are wanted, of the first amount, and where there is none, devices by PerNode. 0 leaves
	// it to the width. With a number the width only says whether devices count whose NUMA node
	// nobody knows.
	Nodes int
	// PerNode asks for exactly so many devices of each kind on each NUMA node; 0 leaves it open. It
	// comes with Nodes, and not with Same.
	PerNode int
	Rules   Rules
	// Pays says that CPUs which stay idle for an exclusive one have to be asked for as well: no
	// more are kept from others than CPUs and amounts of CPU time are wanted.
	Pays bool
	// Within are the only sets of NUMA nodes that may be chosen, and WithinEmpty the ones that
	// might be if nothing were handed out: where resources are that the model does not know. Nil
	// means all.
	Within, WithinEmpty hint.Set
}

// Amount is an amount of one kind.
type Amount struct {
	Kind Kind
	N    uint64
}

// Grant is what a Try gave.
type Grant struct {
	CPUs topology.CPUSet
	// Nodes is the set of NUMA nodes that was chosen.
	Nodes   hint.Mask
	Amounts []NodeAmount // by kind as in Want.Amounts, then by node
	// Exclusive is the level that is kept: that of the rules, or Shareable if it was given up.
	Exclusive Exclusive
	Devices   []DeviceRef // by kind as in Want.Devices
	// Together says that devices lie as Want.Same asks.
	Together bool
	// Cut says that a search for devices ended because it ran out of steps: others might lie
	// better.
	Cut bool
}

// Outcome is the answer of Place.
type Outcome uint8

// The outcomes.
const (
	Placed Outcome = iota
	// OddCPUs: full cores are insisted on, and the CPUs are no whole number of cores.
	OddCPUs
	// UnequalCores: the rules need cores that all have as many threads.
	UnequalCores
	// NoCPUs: the machine has too few free CPUs, on whatever NUMA nodes.
	NoCPUs
	// NoCores: it has enough free CPUs, but not as the rules want them.
	NoCores
	// NoAmount: it has too little left of some amount.
	NoAmount
	// NoDevices: it has too few free devices of a kind, on whatever NUMA nodes.
	NoDevices
	// NotTogether: it has enough free devices, but not where they lie together.
	NotTogether
	// TooWide: it has room, but only on more NUMA nodes than the width allows.
	TooWide
	// NotOffered: no set of NUMA nodes may be chosen.
	NotOffered
	// OutOfReach: it has room, but not on sets of NUMA nodes that may be chosen.
	OutOfReach
	// Withholds: CPUs would be kept from others that are not asked for.
	Withholds
	// NotExactly: it has no room on exactly so many NUMA nodes.
	NotExactly
)

// Try is a copy of a Book on which things are placed one after another. It is not safe for
// concurrent use, and is reused.
type Try struct {
	m    *Model
	Book Book
	got  []uint8 // threads taken by the last Place, by core
	open []int32 // by node: CPUs that may still be taken by the current pick
	done []bool  // by group: taken from
	// Budget is what Place takes its steps from. Where it is nil, each Place has Steps steps.
	Budget *Budget
	own    Budget
	// asks, empty and probe are room for queries: of the book, of an empty machine, and of what
	// either needs to know of one.
	asks, empty, probe query
}

// NewTry returns a Try for books of the model.
func (m *Model) NewTry() *Try {
	t := &Try{m: m, got: make([]uint8, len(m.cores)), open: make([]int32, len(m.nodes)), done: make([]bool, max(len(m.groups), len(m.nodes)))}
	t.asks.dev, t.empty.dev, t.probe.dev = m.newDeviceQuery(), m.newDeviceQuery(), m.newDeviceQuery()
	t.Book.CopyFrom(m.empty)
	return t
}

// Begin copies a book.
func (t *Try) Begin(b *Book) { t.Book.CopyFrom(b) }

// Place finds the best place for w, takes it, and fills g. If there is none it says why, and takes
// nothing.
func (t *Try) Place(w *Want, g *Grant) Outcome {
	g.CPUs, g.Nodes, g.Amounts, g.Exclusive = topology.CPUSet{}, 0, g.Amounts[:0], Shareable
	g.Devices, g.Together, g.Cut = g.Devices[:0], false, false
	q := &t.asks
	q.steps = t.steps()
	q.steps.Charge(placeSteps + nodeSteps*len(t.m.nodes))
	out := t.answer(q, w, g)
	g.Cut = q.steps.Cut()
	return out
}

// steps is what a question takes its steps from.
func (t *Try) steps() *Budget {
	if t.Budget != nil {
		return t.Budget
	}
	t.own.Refill()
	return &t.own
}

// answer is Place with the steps of q.
func (t *Try) answer(q *query, w *Want, g *Grant) Outcome {
	if refused := q.compile(t, w, &t.Book); refused != Placed {
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
		if q.within == nil {
			return wide
		}
		if q.within = nil; q.find(w.Width) {
			return OutOfReach
		}
		return wide
	}
	t.take(q, g)
	return Placed
}

// asking is what is asked, and of what.
type asking struct {
	m     *Model
	b     *Book
	w     *Want
	steps *Budget
}

// query is a Want asked of a book.
type query struct {
	asking
	t *Try

	levels int // of terms that some set of nodes could meet, in front of terms
	terms  [2 * maxLevels]asked

	pays   bool      // as in Want
	within hint.Set  // the sets that may be chosen; nil for all
	best   hint.Mask // the answer
	by     *asked
	dev    deviceQuery
}

// asked is one level of terms.
type asked struct {
	terms
	same     bool // devices lie together
	eligible hint.Mask
	most     int                  // level-3 caches, where that is insisted on
	units    [hint.MaxNodes]int32 // CPUs that can be pinned, by node
	floor    int                  // no fewer nodes can do; 0: not known yet
}

// compile prepares a question to a book, level by level. The outcome says why no level can be met,
// on whatever NUMA nodes.
func (q *query) compile(t *Try, w *Want, b *Book) Outcome {
	q.m, q.t, q.b, q.w, q.levels, q.within, q.pays = t.m, t, b, w, 0, w.Within, w.Pays
	q.dev.asking = q.asking
	if b == t.m.empty {
		q.within = w.WithinEmpty
	}
	if q.within != nil && q.within.IsEmpty() {
		return NotOffered
	}
	if len(w.Devices) > 0 && !q.dev.compileDevices() {
		return NoDevices
	}
	why := NoCPUs
	if w.Same != Anywhere && len(w.Devices) > 0 {
		why = q.compileTerms(true)
	}
	if w.Same == Anywhere || len(w.Devices) == 0 || w.SameHow == Preferred {
		why = q.compileTerms(false)
	}
	if q.levels > 0 {
		return Placed
	}
	return why
}

// compileTerms prepares the levels of the terms about CPUs, with devices together or not.
func (q *query) compileTerms(same bool) Outcome {
	why := NoCPUs
	var last terms
	for level := range maxLevels {
		next := q.w.Rules.at(level)
		if q.w.CPUs == 0 {
			next = terms{}
		}
		if level > 0 && next == last {
			continue
		}
		last = next
		a := &q.terms[q.levels]
		a.terms, a.same, a.floor = next, same, 0
		if why = q.admit(a); why == Placed {
			q.levels++
		}
	}
	return why
}

// admit says whether all eligible NUMA nodes together meet the terms.
func (q *query) admit(a *asked) Outcome {
	m := q.m
	a.eligible = m.space.All()
	if a.bind != BindAny || a.excl == ExclusiveCore {
		if m.threads == 0 {
			return UnequalCores
		}
		if a.bind == FullCores && q.w.CPUs%m.threads != 0 {
			return OddCPUs
		}
	}
	if q.pays && (a.excl == ExclusiveCore && q.cost(a) > 1000*uint64(q.w.CPUs) || a.excl == ExclusiveNUMA && q.leastNode() > q.askedTime()) {
		return Withholds
	}
	if a.excl == ExclusiveNUMA {
		for v := range m.nodes {
			if q.b.used[v] > 0 {
				a.eligible &^= 1 << v
			}
		}
	}
	if a.l3 && q.w.Nodes == 0 {
		e := &q.t.probe
		e.m, e.t, e.b, e.w = m, q.t, m.empty, q.w
		a.most = e.caches(a, m.space.All())
	}
	for v := range m.nodes {
		a.units[v] = int32(min(q.of(a, &q.b.nodes[v]), q.cap(a, v)))
	}
	if len(q.w.Devices) > 0 && !q.dev.enough(m.space.All(), false) {
		return NoDevices
	}
	switch {
	case !q.fits(a, a.eligible):
		return q.reason(a)
	case len(q.w.Devices) > 0 && q.w.PerNode == 0 && !q.dev.holds(a.eligible, a.same):
		return NotTogether
	}
	return Placed
}

// reason says why the terms cannot be met.
func (q *query) reason(a *asked) Outcome {
	free := 0
	for v := range q.m.nodes {
		free += q.m.FreeOn(q.b, v)
	}
	switch {
	case free < q.w.CPUs:
		return NoCPUs
	case a.sum(q.m.space.All()) < q.w.CPUs || a.eligible != q.m.space.All() || a.l3:
		return NoCores
	}
	return NoAmount
}

// find sets best and by to the answer, if the width allows one. When steps run out it no longer
// asks which preferences could be kept, and where the width does not matter not for the fewest
// nodes.
func (q *query) find(width Width) bool {
	if q.w.Nodes > 0 {
		return q.findExactly(q.w.Nodes)
	}
	limit := q.m.space.Len()
	for k := 1; k <= limit; k++ {
		first := 0
		if last := q.levels - 1; q.steps.Left() == 0 && q.reaches(&q.terms[last], k) {
			q.steps.CutOff()
			if first = last; width == AnyWidth && q.shrink(&q.terms[last]) {
				return true
			}
		}
		for level := first; level < q.levels; level++ {
			if a := &q.terms[level]; q.scan(a, k) {
				q.by = a
				return true
			}
		}
		switch {
		case width == One:
			return false
		case width == Fewest && k == 1:
			limit = q.narrowest()
		}
	}
	return false
}

// findExactly is find where the number of nodes is wanted.
func (q *query) findExactly(k int) bool {
	first := 0
	if q.steps.Left() == 0 {
		q.steps.CutOff()
		first = q.levels - 1
	}
	for level := first; level < q.levels; level++ {
		if a := &q.terms[level]; q.scan(a, k) {
			q.by = a
			return true
		}
	}
	return false
}

// shrink takes all eligible nodes, less the ones that they can miss and still meet the terms. It is
// false where they may not be chosen.
func (q *query) shrink(a *asked) bool {
	serves := func(mask hint.Mask) bool {
		return mask != 0 && q.serves(a, mask) && (len(q.w.Devices) == 0 || q.dev.holds(mask, a.same))
	}
	mask := a.eligible
	if !serves(mask) {
		return false
	}
	for v := range q.m.nodes {
		if less := mask &^ (1 << v); serves(less) {
			mask = less
		}
	}
	q.best, q.by = mask, a
	q.dev.rival.ok = false
	return len(q.w.Devices) == 0 || q.dev.choose(mask, a.same)
}

// narrowest returns the least number of NUMA nodes that an empty machine needs, 0 if it has no
// room either.
func (q *query) narrowest() int {
	e := &q.t.empty
	e.steps = q.steps
	if e.compile(q.t, q.w, q.m.empty) != Placed {
		return 0
	}
	e.pays = q.pays
	for k := 1; k <= q.m.space.Len(); k++ {
		if e.serveAny(&e.terms[e.levels-1], k) {
			return k
		}
	}
	return 0
}

// reaches says whether k nodes could be enough, if the roomiest are taken.
func (q *query) reaches(a *asked, k int) bool {
	if k > 1 && a.floor == 0 {
		a.floor = q.floor(a)
	}
	return k >= a.floor
}

// serves says whether the set of nodes meets the terms, whatever devices are wanted.
func (q *query) serves(a *asked, mask hint.Mask) bool {
	return mask&^a.eligible == 0 && q.offers(mask) && (q.w.Nodes == 0 || q.bears(a, mask)) && q.fits(a, mask) && q.covers(a, mask)
}

// bears says whether each node of the mask has some of what all of them are to give. Cores that are
// kept from others are no more than the CPUs need.
func (q *query) bears(a *asked, mask hint.Mask) bool {
	parts, least := 0, func(v int) bool { return a.units[v] > 0 }
	switch {
	case q.w.CPUs > 0 && (a.bind == FullCores || a.excl == ExclusiveCore && a.bind != Spread):
		parts = (q.w.CPUs + q.m.threads - 1) / q.m.threads
	case q.w.CPUs > 0:
		parts = q.w.CPUs
	case len(q.w.Amounts) == 0:
		return q.w.PerNode > 0 // each gives devices
	default:
		want := q.w.Amounts[0]
		unit := q.m.kinds[want.Kind].Unit
		parts = int(min(q.m.Whole(want)/unit, hint.MaxNodes))
		least = func(v int) bool { return q.m.room(q.b, want.Kind, v) >= unit }
	}
	for w := mask; w != 0; w &= w - 1 {
		if !least(w.Lowest()) {
			return false
		}
	}
	return parts >= mask.Len()
}

// serveAny says whether some set of k nodes meets the terms.
func (q *query) serveAny(a *asked, k int) bool {
	if !q.reaches(a, k) {
		return false
	}
	for _, mask := range q.m.space.OfSize(k) {
		if q.serves(a, mask) && (len(q.w.Devices) == 0 || q.dev.holds(mask, a.same)) {
			return true
		}
	}
	return false
}

// scan looks for the best set of k nodes that meets the terms.
func (q *query) scan(a *asked, k int) bool {
	if !q.reaches(a, k) {
		return false
	}
	masks := q.m.space.OfSize(k)
	q.steps.Charge(len(masks))
	if len(q.w.Devices) > 0 {
		return q.scanDevices(a, masks)
	}
	found := false
	var best [2]uint64
	for _, mask := range masks {
		if !q.serves(a, mask) {
			continue
		}
		rank := q.rank(mask)
		if !found || rank[0] < best[0] || rank[0] == best[0] && rank[1] < best[1] {
			q.best, best, found = mask, rank, true
		}
	}
	return found
}

// scanDevices is scan where devices are wanted: how well they lie comes before distances, and what
// is left of them, there and on the NUMA nodes, before what is left of CPUs. When steps run out,
// the first set of nodes that does ends it.
func (q *query) scanDevices(a *asked, masks []hint.Mask) (found bool) {
	var best [2]uint64
	var bestRoom int
	var pick devicePick
	for _, mask := range masks {
		if found && q.steps.Left() == 0 {
			q.steps.CutOff()
			break
		}
		if !q.serves(a, mask) || !q.dev.enough(mask, a.same) || q.w.PerNode > 0 && !q.dev.enoughEach(mask) {
			continue
		}
		rank, room := q.rank(mask), q.dev.deviceRoom(mask)
		q.dev.rival = rival{pick, cmp.Compare(rank[0], best[0]), cmp.Or(cmp.Compare(room, bestRoom), cmp.Compare(rank[1], best[1]))}
		if q.dev.choose(mask, a.same) {
			q.best, best, bestRoom, pick, found = mask, rank, room, q.dev.best, true
		}
	}
	q.dev.best = pick
	return found
}

// askedTime is the CPU time that is wanted in all, in thousandths.
func (q *query) askedTime() uint64 {
	n := 1000 * uint64(q.w.CPUs)
	for _, want := range q.w.Amounts {
		if want.Kind == CPU {
			n += want.N
		}
	}
	return n
}

// nodeTime is the CPU time of all CPUs of a node that can be pinned, in thousandths.
func (m *Model) nodeTime(v int) (n uint64) {
	for i := m.nodes[v].cores.from; i < m.nodes[v].cores.to; i++ {
		n += 1000 * uint64(ones(m.cores[i].own))
	}
	return n
}

// leastNode is nodeTime of the smallest node that has any.
func (q *query) leastNode() (least uint64) {
	for v := range q.m.nodes {
		if n := q.m.nodeTime(v); n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// covers says whether no more NUMA nodes would be kept from others than are asked for, if the CPUs
// were taken on the nodes of the mask as takeCPUs does. That may take a larger node where a smaller
// one of the mask would do: it says no then.
func (q *query) covers(a *asked, mask hint.Mask) bool {
	if !q.pays || a.excl != ExclusiveNUMA || q.w.CPUs == 0 {
		return true
	}
	kept := uint64(0)
	if q.w.Nodes > 0 {
		for w := mask; w != 0; w &= w - 1 {
			kept += q.m.nodeTime(w.Lowest())
		}
		return kept <= q.askedTime()
	}
	p, taken := pick{q: q, a: a, mask: mask, byL3: a.byL3}, hint.Mask(0)
	p.begin()
	for left := q.w.CPUs; left > 0; {
		g, gain := p.next(left)
		if v := p.nodeOf(g); !taken.Has(v) {
			taken |= 1 << v
			kept += q.m.nodeTime(v)
		}
		n := min(left, gain)
		p.close(g, n)
		left -= n
	}
	return kept <= q.askedTime()
}

// offers says whether the set of nodes may be chosen.
func (q *query) offers(mask hint.Mask) bool { return q.within == nil || q.within.Has(mask) }

// floor is how many nodes are needed if the roomiest are taken: for each resource on its own, and
// for all together.
func (q *query) floor(a *asked) int {
	f := floor{nodes: len(q.m.nodes), least: 1}
	f.add(uint64(q.w.CPUs), func(v int) uint64 { return uint64(a.units[v]) })
	for _, want := range q.w.Amounts {
		f.add(q.m.Whole(want), func(v int) uint64 { return q.m.room(q.b, want.Kind, v) })
	}
	for i := range q.w.Devices {
		s, need := q.dev.supplyOf(a.same), q.dev.need[i]
		if q.w.Width == AnyWidth {
			need = max(need-int(s.adrift[i]), 0)
		}
		f.add(uint64(need), func(v int) uint64 { return uint64(s.node[i][v]) })
	}
	if f.nodes < manyNodes {
		return f.least
	}
	return max(f.least, atLeast(f.parts[:f.nodes], f.whole))
}

// floor adds up resources. parts are each node's part of what is needed, rounded up, in wholeParts
// for each resource.
type floor struct {
	nodes, least int
	parts        [hint.MaxNodes]uint64
	whole        uint64
}

const wholeParts = 1 << 16

// manyNodes is the number of NUMA nodes that makes parts worth their price: fewer have few sets.
const manyNodes = 9

// add enters a resource.
func (f *floor) add(need uint64, room func(v int) uint64) {
	if need == 0 {
		return
	}
	var rooms [hint.MaxNodes]uint64
	f.whole += wholeParts
	for v := range f.nodes {
		if rooms[v] = min(room(v), need); f.nodes < manyNodes {
			continue
		}
		hi, lo := bits.Mul64(rooms[v], wholeParts)
		part, rest := bits.Div64(hi, lo, need)
		if f.parts[v] += part; rest > 0 {
			f.parts[v]++
		}
	}
	f.least = max(f.least, atLeast(rooms[:f.nodes], need))
}

// atLeast is how many of the largest numbers add up to need. It sorts them.
func atLeast(room []uint64, need uint64) int {
	slices.Sort(room)
	n := 0
	for i := len(room) - 1; i >= 0 && need > 0; i-- {
		need -= min(need, room[i])
		n++
	}
	return max(n, 1)
}

// rank orders sets of nodes that are as wide: by distance, then by what is left.
func (q *query) rank(mask hint.Mask) [2]uint64 {
	var r [2]uint64
	if q.m.distance != nil {
		r[0] = q.m.distance[mask]
	}
	for w := mask; w != 0; w &= w - 1 {
		r[1] += q.m.room(q.b, CPU, w.Lowest())
	}
	if q.m.strategy == LeastAllocated {
		r[1] = ^r[1]
	}
	return r
}

// fits says whether the nodes of the mask have room on these terms.
func (q *query) fits(a *asked, mask hint.Mask) bool {
	if q.w.CPUs > 0 && (a.sum(mask) < q.w.CPUs || a.l3 && !q.fewCaches(a, mask)) {
		return false
	}
	for _, want := range q.w.Amounts {
		need := q.m.Whole(want)
		if want.Kind == CPU {
			need += q.cost(a)
		}
		for w := mask; w != 0 && need > 0; w &= w - 1 {
			need -= min(need, q.m.room(q.b, want.Kind, w.Lowest()))
		}
		if need > 0 {
			return false
		}
	}
	return true
}

// fewCaches says whether the nodes of the mask have the CPUs in as few level-3 caches as are
// insisted on: where the number of nodes is wanted, as few as the same CPUs of each node would need
// if nothing were handed out.
func (q *query) fewCaches(a *asked, mask hint.Mask) bool {
	switch q.w.Nodes {
	case 0:
		return q.caches(a, mask) <= a.most
	case mask.Len():
		e := &q.t.probe
		e.m, e.t, e.b, e.w = q.m, q.t, q.m.empty, q.w
		return q.caches(a, mask) <= e.caches(a, mask)
	}
	return true // all nodes that could be among them
}

// Whole rounds an amount up to whole units.
func (m *Model) Whole(a Amount) uint64 {
	unit := m.kinds[a.Kind].Unit
	return (a.N + unit - 1) / unit * unit
}

// cost is what the pinned CPUs take of kind CPU, idle threads included.
func (q *query) cost(a *asked) uint64 {
	n, t := q.w.CPUs, q.m.threads
	switch {
	case a.excl != ExclusiveCore:
	case a.bind == Spread:
		n *= t
	default:
		n = (n + t - 1) / t * t
	}
	return 1000 * uint64(n)
}

// spreads says whether one thread of each core is liked, and not insisted on: CPUs are then taken
// all over the nodes. Who pays for whole nodes gets them full instead.
func (q *query) spreads(a *asked) bool {
	return a.like == Spread && a.bind != Spread && a.excl != ExclusiveCore && !a.l3 && !(q.pays && a.excl == ExclusiveNUMA)
}

// sum is how many CPUs can be pinned on the nodes of the mask.
func (a *asked) sum(mask hint.Mask) int {
	n := int32(0)
	for w := mask; w != 0; w &= w - 1 {
		n += a.units[w.Lowest()]
	}
	return int(n)
}

// of is how many CPUs of some cores the terms allow to take.
func (q *query) of(a *asked, s *stat) int {
	switch {
	case a.bind == Spread && a.excl == ExclusiveCore:
		return int(s.whole)
	case a.bind == Spread:
		return int(s.some)
	case a.bind == FullCores || a.excl == ExclusiveCore:
		return int(s.whole) * q.m.threads
	}
	return int(s.free)
}

// cap is how many CPUs may be pinned on a node before its shares have too few.
func (q *query) cap(a *asked, v int) int {
	cpus := int(q.m.room(q.b, CPU, v) / 1000)
	switch {
	case a.bind == Spread && a.excl == ExclusiveCore:
		return cpus / q.m.threads
	case a.bind == FullCores || a.excl == ExclusiveCore:
		return cpus - cpus%q.m.threads
	}
	return cpus
}

// caches is the least number of level-3 caches of the mask's nodes that have the CPUs, or more than
// there are.
func (q *query) caches(a *asked, mask hint.Mask) int {
	p := pick{q: q, a: a, mask: mask, byL3: true}
	p.begin()
	n := 0
	for left := q.w.CPUs; left > 0; n++ {
		g, gain := p.next(left)
		if gain == 0 {
			return len(q.m.groups) + 1
		}
		left -= min(left, gain)
		p.close(g, gain)
	}
	return n
}

// pick takes CPUs group by group: from the smallest group that has what is left, else from the
// largest. That takes as few groups as can be.
type pick struct {
	q    *query
	a    *asked
	mask hint.Mask
	byL3 bool
}

func (p *pick) begin() {
	clear(p.q.t.done)
	if p.q.w.Nodes > 0 {
		p.deal()
		return
	}
	for w := p.mask; w != 0; w &= w - 1 {
		v := w.Lowest()
		p.q.t.open[v] = int32(p.q.cap(p.a, v))
	}
}

// deal makes every node of the mask give some of the CPUs: evenly, in whole cores where there are
// enough of them. Nodes with the least room come first, so that what they lack is left to others.
func (p *pick) deal() {
	left, room, whole := p.q.w.CPUs, p.a.sum(p.mask), max(p.q.m.threads, 1)
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

// next returns the group to take from, and how many CPUs it has at most.
func (p *pick) next(left int) (group, gain int) {
	m, t := p.q.m, p.q.t
	fit := false
	for w := p.mask; w != 0; w &= w - 1 {
		v := w.Lowest()
		from, to := v, v+1
		if p.byL3 {
			from, to = int(m.nodes[v].groups.from), int(m.nodes[v].groups.to)
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

// close takes n CPUs of a group off what may be taken.
func (p *pick) close(g, n int) {
	p.q.t.done[g] = true
	p.q.t.open[p.nodeOf(g)] -= int32(n)
}

// nodeOf is the NUMA node of a group.
func (p *pick) nodeOf(g int) int { return int(p.q.m.cores[p.span(g).from].node) }

func (p *pick) span(g int) span {
	if p.byL3 {
		return p.q.m.groups[g]
	}
	return p.q.m.nodes[g].cores
}

// take carries the answer out.
func (t *Try) take(q *query, g *Grant) {
	g.Nodes, g.Exclusive = q.best, q.by.excl
	if q.w.CPUs > 0 {
		clear(t.got)
		t.takeCPUs(q)
		g.CPUs = t.m.cpusOf(t.got)
		e := g.Exclusive
		if e == ExclusiveNUMA {
			e = Shareable // what stays idle is the pod's own: its shares may use it
		}
		t.m.shutCores(&t.Book, t.got, e)
	}
	for _, a := range q.w.Amounts {
		t.split(a, g)
	}
	if g.Exclusive == ExclusiveNUMA {
		t.m.shutCores(&t.Book, t.got, ExclusiveNUMA)
	}
	g.Together = q.by.same
	t.takeDevices(q, g)
}

// takeCPUs fills got with the CPUs that the answer stands for.
func (t *Try) takeCPUs(q *query) {
	p := pick{q: q, a: q.by, mask: q.best, byL3: q.by.byL3}
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

// takeWhole takes free cores, of the last one as many threads as are left to take.
func (t *Try) takeWhole(s span, n int) {
	for i := s.from; i < s.to && n > 0; i++ {
		if free := t.Book.free[i]; free == t.m.cores[i].full && t.got[i] == 0 {
			t.got[i] = lowestOf(free, n)
			n -= ones(t.got[i])
		}
	}
}

// takeSpread takes one thread of each core, emptier cores first.
func (t *Try) takeSpread(a *asked, s span, n int) {
	for idle := maxThreads; idle > 0; idle-- {
		for i := s.from; i < s.to && n > 0; i++ {
			free := t.Book.free[i]
			if ones(free) == idle && (a.excl != ExclusiveCore || free == t.m.cores[i].full) {
				t.got[i] = lowestOf(free, 1)
				n--
			}
		}
	}
}

// spread takes one more thread of every core of the answer's nodes, emptier cores first, until the
// CPUs are complete. It is what is left of a wish for one thread a core when there are too few.
func (t *Try) spread(q *query, round int) {
	left := q.w.CPUs
	for _, w := range t.got {
		left -= ones(w)
	}
	for idle := maxThreads; idle > 0; idle-- {
		for i := range t.got {
			k, free := &t.m.cores[i], t.Book.free[i]
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

// takePacked takes whole cores while it can, then cores that are begun already, the fittest first,
// then what there is.
func (t *Try) takePacked(s span, n int) {
	for i := s.from; i < s.to && n > 0; i++ {
		if free := t.Book.free[i]; free == t.m.cores[i].full && ones(free) <= n {
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

// lowestOf returns the lowest n bits of w, or all.
func lowestOf(w uint8, n int) uint8 {
	var out uint8
	for ; w != 0 && n > 0; n-- {
		out |= w & -w
		w &= w - 1
	}
	return out
}

// split gives an amount evenly to the nodes of the grant: those with the least room first, so that
// what they lack is left to the others.
func (t *Try) split(a Amount, g *Grant) {
	unit := t.m.kinds[a.Kind].Unit
	need := t.m.Whole(a)
	first := len(g.Amounts)
	for rest := g.Nodes; rest != 0; {
		v := t.tightest(a.Kind, rest)
		share := need / uint64(rest.Len())
		n := min(share-share%unit, t.m.room(&t.Book, a.Kind, v))
		if rest &^= 1 << v; rest == 0 {
			n = need
		}
		need -= n
		t.Book.used[int(a.Kind)*len(t.m.nodes)+v] += n
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

// tightest returns the node with the least room, the lowest of equals.
func (t *Try) tightest(k Kind, mask hint.Mask) int {
	best, least := 0, uint64(1<<64-1)
	for w := uint16(mask); w != 0; w &= w - 1 {
		if v := bits.TrailingZeros16(w); t.m.room(&t.Book, k, v) < least {
			best, least = v, t.m.room(&t.Book, k, v)
		}
	}
	return best
}
