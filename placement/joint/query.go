package joint

import (
	"cmp"

	"github.com/berth-dev/berth/placement/hint"
)

// scratch is working memory that the queries of a Try share.
type scratch struct {
	open []int32 // by NUMA node, the number of CPUs that the current pick may still take
	done []bool  // by group: the current pick takes no more CPUs from the group
	// empty and probe are queries on the empty machine. narrowest uses empty. fewCaches and admit
	// use probe.
	empty, probe query
}

// query is the search for a place for one Want in one Book.
type query struct {
	asking
	t *scratch

	levels int // terms[:levels] are the terms that some set of NUMA nodes could meet
	terms  [2 * maxLevels]asked

	pays   bool      // Want.Pays, or false while answer looks for the reason of a refusal
	within hint.Set  // the allowed sets of NUMA nodes; nil allows all
	near   hint.Set  // the allowed sets of NUMA nodes for the CPUs; nil allows all
	best   hint.Mask // the chosen set of NUMA nodes
	by     *asked
	dev    deviceQuery
}

// asked has the terms at one level (Rules.at), and values that are computed once for these terms.
type asked struct {
	terms
	same     bool // the devices must be together, as Want.Same requests
	eligible hint.Mask
	most     int                  // the maximum number of level-3 caches, if terms.l3 is set
	units    [hint.MaxNodes]int32 // the number of CPUs that can be pinned, by NUMA node
	floor    int                  // a lower bound for the number of NUMA nodes; 0: not known yet
}

// compile prepares the search for w in book b, for each level of the terms. It returns Placed, or
// the reason why no set of NUMA nodes can meet the terms of any level.
func (q *query) compile(m *Model, t *scratch, w *Want, b *Book) PlaceResult {
	q.m, q.t, q.b, q.w, q.levels, q.within, q.near, q.pays = m, t, b, w, 0, w.Within, w.CPUsWithin, w.Pays
	q.dev.asking = q.asking
	if b == m.empty {
		q.within, q.near = w.WithinEmpty, w.CPUsWithinEmpty
	}
	if q.within != nil && q.within.IsEmpty() || q.near != nil && q.near.IsEmpty() {
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

// compileTerms prepares the terms about CPUs at each level. same means that the devices must be
// together, as Want.Same requests.
func (q *query) compileTerms(same bool) PlaceResult {
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

// admit returns Placed if all eligible NUMA nodes together meet the terms. If they do not, it
// returns the reason.
func (q *query) admit(a *asked) PlaceResult {
	m := q.m
	a.eligible = m.space.All()
	if a.bind != BindAny || a.excl == ExclusiveCore {
		if m.Cores.threads == 0 {
			return UnequalCores
		}
		if a.bind == FullCores && q.w.CPUs%m.Cores.threads != 0 {
			return OddCPUs
		}
	}
	if q.pays && (a.excl == ExclusiveCore && q.cost(a) > 1000*uint64(q.w.CPUs) || a.excl == ExclusiveNUMA && q.leastNode() > q.askedTime()) {
		return Withholds
	}
	if a.excl == ExclusiveNUMA {
		for v := range m.Cores.nodes {
			if q.b.used[v] > 0 {
				a.eligible &^= 1 << v
			}
		}
	}
	if a.l3 && q.w.Nodes == 0 {
		e := &q.t.probe
		e.m, e.t, e.b, e.w = m, q.t, m.empty, q.w
		a.most = e.caches(a, m.space.All(), false)
	}
	for v := range m.Cores.nodes {
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

func (q *query) reason(a *asked) PlaceResult {
	free := 0
	for v := range q.m.Cores.nodes {
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

// find sets best and by to the chosen NUMA nodes and terms. It returns false if no set of NUMA
// nodes within the width meets the terms of any level. When the steps run out, find drops all
// preferences. If the width is AnyWidth, it may then also use more NUMA nodes than necessary.
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

// findExactly is find for sets of exactly k NUMA nodes.
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

// shrink starts with all eligible NUMA nodes, and removes each NUMA node that the terms do not
// need. It returns false if the set of all eligible NUMA nodes does not meet the terms, or is not
// allowed.
func (q *query) shrink(a *asked) bool {
	serves := func(mask hint.Mask) bool {
		return mask != 0 && q.serves(a, mask) && (len(q.w.Devices) == 0 || q.dev.holds(mask, a.same))
	}
	mask := a.eligible
	if !serves(mask) {
		return false
	}
	for v := range q.m.Cores.nodes {
		if less := mask &^ (1 << v); serves(less) {
			mask = less
		}
	}
	q.best, q.by = mask, a
	q.dev.rival.ok = false
	return len(q.w.Devices) == 0 || q.dev.choose(mask, a.same)
}

// narrowest returns the smallest number of NUMA nodes that have room for the request on an empty
// machine. It returns 0 if the empty machine has no room.
func (q *query) narrowest() int {
	e := &q.t.empty
	e.steps = q.steps
	if e.compile(q.m, q.t, q.w, q.m.empty) != Placed {
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

// reaches returns false if it is certain that every set of k NUMA nodes has too little room. It
// checks only the lower bound floor.
func (q *query) reaches(a *asked, k int) bool {
	if k > 1 && a.floor == 0 {
		a.floor = q.floor(a)
	}
	return k >= a.floor
}

// serves reports whether the set of NUMA nodes is allowed and meets the terms. It does not check
// devices.
func (q *query) serves(a *asked, mask hint.Mask) bool {
	return mask&^a.eligible == 0 && q.offers(mask) && (q.w.Nodes == 0 || q.bears(a, mask)) && q.fits(a, mask) && q.seat(a, mask) != 0
}

// bears reports whether each NUMA node of the mask can provide a part of the CPUs or, without CPUs,
// of the first amount. It returns false if the mask has more NUMA nodes than the request can have
// parts.
func (q *query) bears(a *asked, mask hint.Mask) bool {
	parts, least := 0, func(v int) bool { return a.units[v] > 0 }
	switch {
	case q.w.CPUs > 0 && (a.bind == FullCores || a.excl == ExclusiveCore && a.bind != Spread):
		parts = (q.w.CPUs + q.m.Cores.threads - 1) / q.m.Cores.threads
	case q.w.CPUs > 0:
		parts = q.w.CPUs
	case len(q.w.Amounts) == 0:
		return q.w.PerNode > 0 // PerNode devices come from each NUMA node of the mask
	default:
		want := q.w.Amounts[0]
		unit := q.m.Amounts.kinds[want.Kind].Unit
		parts = int(min(q.m.Amounts.Whole(want)/unit, hint.MaxNodes))
		least = func(v int) bool { return q.m.Amounts.Room(q.b, want.Kind, v) >= unit }
	}
	for w := mask; w != 0; w &= w - 1 {
		if !least(w.Lowest()) {
			return false
		}
	}
	return parts >= mask.Len()
}

// serveAny reports whether some set of k NUMA nodes meets the terms and has the devices.
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

// scan sets best to the best set of k NUMA nodes that meets the terms, and reports whether there is
// one.
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

// scanDevices is scan for requests with devices. It compares sets by the links and the places of
// the devices, then by distances, then by the remaining devices, then by the free CPU time. When
// the steps run out, scanDevices stops at the first set that has room.
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

// askedTime is the total requested CPU time, in thousandths of a CPU.
func (q *query) askedTime() uint64 {
	n := 1000 * uint64(q.w.CPUs)
	for _, want := range q.w.Amounts {
		if want.Kind == CPU {
			n += want.N
		}
	}
	return n
}

// leastNode returns the smallest nodeTime of the NUMA nodes with CPUs.
func (q *query) leastNode() (least uint64) {
	for v := range q.m.Cores.nodes {
		if n := q.m.Cores.nodeTime(v); n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

func (q *query) offers(mask hint.Mask) bool { return q.within == nil || q.within.Has(mask) }

// floor returns a lower bound for the number of NUMA nodes. For each resource, it counts how many
// NUMA nodes are needed if the NUMA nodes with the most room are taken first. On machines with at
// least manyNodes NUMA nodes, it also does this for all resources together.
func (q *query) floor(a *asked) int {
	f := floor{nodes: len(q.m.Cores.nodes), least: 1}
	f.add(uint64(q.w.CPUs), func(v int) uint64 { return uint64(a.units[v]) })
	for _, want := range q.w.Amounts {
		f.add(q.m.Amounts.Whole(want), func(v int) uint64 { return q.m.Amounts.Room(q.b, want.Kind, v) })
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

// rank rates a set of NUMA nodes among sets of equal size: by distance, then by free CPU time. A
// lower rank is better.
func (q *query) rank(mask hint.Mask) [2]uint64 {
	var r [2]uint64
	if q.m.distance != nil {
		r[0] = q.m.distance[mask]
	}
	for w := mask; w != 0; w &= w - 1 {
		r[1] += q.m.Amounts.Room(q.b, CPU, w.Lowest())
	}
	if q.m.strategy == LeastAllocated {
		r[1] = ^r[1]
	}
	return r
}

// fits reports whether the NUMA nodes of the mask have enough CPUs, caches and amounts for these
// terms.
func (q *query) fits(a *asked, mask hint.Mask) bool {
	if q.w.CPUs > 0 && (a.sum(mask) < q.w.CPUs || a.l3 && !q.fewCaches(a, mask, q.w.Nodes > 0)) {
		return false
	}
	for _, want := range q.w.Amounts {
		need := q.m.Amounts.Whole(want)
		if want.Kind == CPU {
			need += q.cost(a)
		}
		for w := mask; w != 0 && need > 0; w &= w - 1 {
			need -= min(need, q.m.Amounts.Room(q.b, want.Kind, w.Lowest()))
		}
		if need > 0 {
			return false
		}
	}
	return true
}

// fewCaches reports whether the CPUs need at most as many level-3 caches on the NUMA nodes of the
// mask as the rules allow. If the request has an exact number of NUMA nodes, the limit is the
// number of caches that the CPUs would need on the same NUMA nodes of an empty machine. If each is
// set, every NUMA node must provide some CPUs.
func (q *query) fewCaches(a *asked, mask hint.Mask, each bool) bool {
	switch q.w.Nodes {
	case 0:
		return q.caches(a, mask, each) <= a.most
	case mask.Len():
		e := &q.t.probe
		e.m, e.t, e.b, e.w = q.m, q.t, q.m.empty, q.w
		return q.caches(a, mask, each) <= e.caches(a, mask, each)
	}
	return true // admit passes all eligible NUMA nodes, whose number need not be the requested one
}

// cost returns the CPU time of the pinned CPUs and of the threads that stay idle because of
// ExclusiveCore, in thousandths of a CPU.
func (q *query) cost(a *asked) uint64 {
	n, t := q.w.CPUs, q.m.Cores.threads
	switch {
	case a.excl != ExclusiveCore:
	case a.bind == Spread:
		n *= t
	default:
		n = (n + t - 1) / t * t
	}
	return 1000 * uint64(n)
}

// spreads reports whether takeCPUs takes the CPUs from all cores of the chosen NUMA nodes, because
// one thread per core is preferred but not required. It returns false for a pod that must pay for
// its exclusive NUMA nodes, because covers assumes that CPUs are taken group by group.
func (q *query) spreads(a *asked) bool {
	return a.like == Spread && a.bind != Spread && a.excl != ExclusiveCore && !a.l3 && !(q.pays && a.excl == ExclusiveNUMA)
}

// sum returns how many CPUs can be pinned on the NUMA nodes of the mask.
func (a *asked) sum(mask hint.Mask) int {
	n := int32(0)
	for w := mask; w != 0; w &= w - 1 {
		n += a.units[w.Lowest()]
	}
	return int(n)
}

// of returns the number of CPUs that can be taken under the terms from the cores that s sums up.
func (q *query) of(a *asked, s *stat) int {
	switch {
	case a.bind == Spread && a.excl == ExclusiveCore:
		return int(s.whole)
	case a.bind == Spread:
		return int(s.some)
	case a.bind == FullCores || a.excl == ExclusiveCore:
		return int(s.whole) * q.m.Cores.threads
	}
	return int(s.free)
}

// cap returns the number of CPUs for which the free CPU time of a NUMA node suffices under the
// terms.
func (q *query) cap(a *asked, v int) int {
	cpus := int(q.m.Amounts.Room(q.b, CPU, v) / 1000)
	switch {
	case a.bind == Spread && a.excl == ExclusiveCore:
		return cpus / q.m.Cores.threads
	case a.bind == FullCores || a.excl == ExclusiveCore:
		return cpus - cpus%q.m.Cores.threads
	}
	return cpus
}
