package joint

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/berth-dev/berth/placement/hint"
)

// Steps is the budget of a question. A step is a place, a set of linked devices or a set of NUMA
// nodes that the search looks at, and takes some 10 ns. A question that runs out of steps gets the
// best place found so far, or one that is found without a search.
const Steps = 1 << 15

// placeSteps and nodeSteps are what a question costs whatever it asks: once, and for each NUMA node
// of the machine. chooseSteps is what it costs to look for devices on a set of NUMA nodes.
const (
	placeSteps  = 16
	nodeSteps   = 4
	chooseSteps = 8
)

// Budget is what is left of the steps that one question, or several together, may take. It counts
// steps and not time, so that the same question always gets the same answer.
type Budget struct {
	left int
	cut  bool
}

// Refill allows Steps steps.
func (b *Budget) Refill() { *b = Budget{left: Steps} }

// Left is how many steps are left.
func (b *Budget) Left() int { return b.left }

// Cut says whether a search ended because it ran out of steps, so that a better answer may exist.
func (b *Budget) Cut() bool { return b.cut }

// CutOff says that a search ended because it ran out of steps.
func (b *Budget) CutOff() { b.cut = true }

// Charge takes steps that nobody can spare.
func (b *Budget) Charge(n int) { b.left = max(b.left-n, 0) }

// spend takes a step, and says whether there was one.
func (b *Budget) spend() bool {
	if b.left == 0 {
		b.cut = true
		return false
	}
	b.left--
	return true
}

// count is how many devices are wanted.
func (m *Model) count(w *DeviceWant) int {
	if !w.All {
		return w.N
	}
	return max(m.Functions(w.Kind), 1) // none is not all
}

// byRoot says whether the places that count are root complexes rather than switches.
func (s Same) byRoot() bool { return s == SameRoot || s == OneRoot }

// one says whether all devices lie at one place.
func (s Same) one() bool { return s == OneRoot || s == OneSwitch }

// deviceQuery is the part of a query that is about devices. Places are those of the model, or its
// root complexes; sets of places are bits.
type deviceQuery struct {
	n int // places
	// caps holds how much of each wanted kind can be taken, by its position in the Want, then by
	// place; total is the sum over the kinds.
	caps  [][MaxPlaces]uint16
	total [MaxPlaces]int32
	need  []int
	needs int // of all kinds
	// on are the places of each NUMA node, adrift those whose NUMA node nobody knows.
	on     [hint.MaxNodes]uint64
	adrift uint64
	// linked is the position in the Want of the kind whose links count, or -1.
	linked int
	// whole are the places that have all that is wanted.
	whole uint64
	// loose and shared are what devices are taken from if they lie apart, and if together.
	loose, shared supply

	// ranked says that order and class are filled: order holds the places by kind, those with the
	// most first; class tells places apart that differ in what they have.
	ranked bool
	order  [][MaxPlaces]uint8
	class  [MaxPlaces]uint8

	// of one search
	cands [MaxPlaces]uint8
	peak  [][MaxPlaces]uint16 // by kind and position in cands: the most of that place and later ones
	least [MaxPlaces]int32    // by position in cands: the least total of that place and later ones
	found int                 // cands
	have  []int
	best  devicePick
	rival rival
}

// supply is the places that devices may be taken from, and what each NUMA node has there.
type supply struct {
	places uint64
	// node is what there is by kind and NUMA node, adrift at places that belong to none.
	node   [][hint.MaxNodes]int32
	adrift []int32
}

// rival is the best pick of the sets of NUMA nodes before the one at hand, if ok. far and tie
// compare the set at hand with the rival's: by distance, and by what decides last.
type rival struct {
	devicePick
	far, tie int
}

// devicePick is a choice of devices, and how good it is.
type devicePick struct {
	ok     bool
	places uint64 // the ones that are used
	set    uint16 // of the linked kind
	links  uint32
	// fours and pairs are what is left of links for others.
	fours, pairs uint32
	// left is how many free devices of the wanted kinds there are at the places.
	left int
}

// compareLinks orders picks by links: more inside, then better ones among what is left. Negative
// means that p is better.
func (p *devicePick) compareLinks(o *devicePick) int {
	return cmp.Or(cmp.Compare(o.links, p.links), cmp.Compare(o.fours, p.fours), cmp.Compare(o.pairs, p.pairs))
}

// earlier says whether set a comes before b, both being as large: it has the lowest element that
// only one of them has.
func earlier(a, b uint16) bool {
	low := (a ^ b) & -(a ^ b)
	return a&low != 0
}

func (m *Model) newDeviceQuery() deviceQuery {
	n := len(m.devices)
	newSupply := func() supply {
		return supply{node: make([][hint.MaxNodes]int32, n), adrift: make([]int32, n)}
	}
	return deviceQuery{caps: make([][MaxPlaces]uint16, n), need: make([]int, n), have: make([]int, n), order: make([][MaxPlaces]uint8, n),
		peak: make([][MaxPlaces]uint16, n), loose: newSupply(), shared: newSupply()}
}

// compileDevices prepares what is asked. It is false where a kind is asked that does not exist.
func (q *query) compileDevices() bool {
	d, m, w := &q.dev, q.m, q.w
	d.linked, d.n, d.ranked, d.needs = -1, len(m.places), false, 0
	if w.Same.byRoot() {
		d.n = m.roots
	}
	for i := range w.Devices {
		want := &w.Devices[i]
		if int(want.Kind) >= len(m.devices) || i >= len(m.devices) {
			return false
		}
		d.need[i] = m.count(want)
		d.needs += d.need[i]
		if m.devices[want.Kind].links != nil && d.linked < 0 {
			d.linked = i
		}
	}
	apart := q.compilePlaces()
	d.loose.places, d.shared.places, d.whole = 0, 0, 0
	for at := range d.n {
		some, each, whole := q.has(at)
		d.loose.places |= bit(at, some)
		d.shared.places |= bit(at, each) &^ apart
		d.whole |= bit(at, whole)
	}
	if w.Same != Anywhere && !w.Same.one() {
		q.sumUp(&d.shared)
	}
	return true
}

func bit(at int, is bool) uint64 {
	if is {
		return 1 << at
	}
	return 0
}

// compilePlaces finds what can be taken where. It returns the places at which nothing lies
// together: no switch, or a root complex that nobody knows.
func (q *query) compilePlaces() (apart uint64) {
	d, m, w := &q.dev, q.m, q.w
	for i := range w.Devices {
		clear(d.caps[i][:d.n])
		clear(d.loose.node[i][:len(m.nodes)])
		d.loose.adrift[i] = 0
	}
	clear(d.on[:])
	clear(d.total[:d.n])
	d.adrift = 0
	for at := range m.places {
		p := &m.places[at]
		to, together := at, p.isSwitch
		if w.Same.byRoot() {
			to, together = int(p.root), p.hasRoot
		}
		apart |= bit(to, !together)
		if p.node == NoNode {
			d.adrift |= 1 << to
		} else {
			d.on[p.node] |= 1 << to
		}
		for i := range w.Devices {
			n := m.devices[w.Devices[i].Kind].room(q.b, at, &w.Devices[i])
			d.caps[i][to] += uint16(n)
			d.total[to] += int32(n)
			if p.node == NoNode {
				d.loose.adrift[i] += int32(n)
			} else {
				d.loose.node[i][p.node] += int32(n)
			}
		}
	}
	return apart
}

// has says whether a place has something that is wanted, something of each kind, and all of it.
func (q *query) has(at int) (some, each, whole bool) {
	each, whole = true, true
	for i := range q.w.Devices {
		n := int(q.dev.caps[i][at])
		some, each, whole = some || n > 0, each && n > 0, whole && n >= q.dev.need[i]
	}
	return some, each, whole && each
}

// sumUp fills what each NUMA node has at the places of a supply.
func (q *query) sumUp(s *supply) {
	d := &q.dev
	for i := range q.w.Devices {
		sum := func(places uint64) (n int32) {
			for w := places & s.places; w != 0; w &= w - 1 {
				n += int32(d.caps[i][bits.TrailingZeros64(w)])
			}
			return n
		}
		for v := range q.m.nodes {
			s.node[i][v] = sum(d.on[v])
		}
		s.adrift[i] = sum(d.adrift)
	}
}

// rankPlaces fills order and class.
func (q *query) rankPlaces() {
	d := &q.dev
	if d.ranked {
		return
	}
	d.ranked = true
	var keys [MaxPlaces]uint32
	for i := range q.w.Devices {
		for at := range d.n {
			keys[at] = uint32(^d.caps[i][at])<<8 | uint32(at)
		}
		slices.Sort(keys[:d.n])
		for j, key := range keys[:d.n] {
			d.order[i][j] = uint8(key)
		}
	}
	var firsts [MaxPlaces]uint8
	classes := 0
	for at := range d.n {
		c := 0
		for c < classes && !q.alike(at, int(firsts[c])) {
			c++
		}
		if c == classes {
			firsts[c], classes = uint8(at), classes+1
		}
		d.class[at] = uint8(c)
	}
}

// alike says whether two places have as many of each kind.
func (q *query) alike(a, b int) bool {
	for i := range q.w.Devices {
		if q.dev.caps[i][a] != q.dev.caps[i][b] {
			return false
		}
	}
	return true
}

// supplyOf is what NUMA nodes must have enough of. What lies at one place is found by its place.
func (q *query) supplyOf(together bool) *supply {
	if together && !q.w.Same.one() {
		return &q.dev.shared
	}
	return &q.dev.loose
}

// reach are the places that count for a set of NUMA nodes. One whose node nobody knows counts where
// the width does not matter.
func (q *query) reach(mask hint.Mask) (places uint64) {
	for w := mask; w != 0; w &= w - 1 {
		places |= q.dev.on[w.Lowest()]
	}
	if q.w.Width == AnyWidth {
		places |= q.dev.adrift
	}
	return places
}

// enough says whether the nodes of the mask have enough devices of each kind, each on its own.
func (q *query) enough(mask hint.Mask, together bool) bool {
	s := q.supplyOf(together)
	for i := range q.w.Devices {
		n := int32(0)
		if q.w.Width == AnyWidth {
			n = s.adrift[i]
		}
		for w := mask; w != 0; w &= w - 1 {
			n += s.node[i][w.Lowest()]
		}
		if int(n) < q.dev.need[i] {
			return false
		}
	}
	return true
}

// deviceRoom is how many devices of the wanted kinds can be taken on the nodes of the mask, less
// being better: MostAllocated keeps other NUMA nodes whole.
func (q *query) deviceRoom(mask hint.Mask) (n int) {
	for i := range q.w.Devices {
		for w := mask; w != 0; w &= w - 1 {
			n += int(q.dev.loose.node[i][w.Lowest()])
		}
	}
	if q.m.strategy == LeastAllocated {
		return -n
	}
	return n
}

// holds says whether the nodes of the mask have the devices, together if asked. Devices that may
// lie anywhere need only be enough. Of devices that lie together at several places each place has
// one of each kind, so that as many places as are wanted of the rarer kind have enough of that:
// with two kinds, it remains to look at the places with the most of the other. With three, it takes
// a search.
func (q *query) holds(mask hint.Mask, together bool) bool {
	switch {
	case !q.enough(mask, together):
		return false
	case !together:
		return true
	case q.w.Same.one():
		return q.reach(mask)&q.dev.shared.places&q.dev.whole != 0
	case len(q.w.Devices) > 2:
		q.dev.rival.ok = false
		return q.choose(mask, true)
	}
	clear(q.dev.have)
	most := q.mostPlaces(true)
	return q.fewest(q.reach(mask)&q.dev.shared.places, most) <= most
}

// mostPlaces is how many places may be used.
func (q *query) mostPlaces(together bool) int {
	most := MaxPlaces
	switch {
	case together && q.w.Same.one():
		return 1
	case together:
		for i := range q.w.Devices {
			most = min(most, q.dev.need[i])
		}
	}
	return most
}

// fewest is how many more of the places some kind needs at least, beside what the search has
// already. It is more than most if they are not enough.
func (q *query) fewest(places uint64, most int) (n int) {
	d := &q.dev
	switch {
	case !q.lacks():
		return 0
	case places&d.whole != 0:
		return 1
	}
	q.rankPlaces()
	for i := range q.w.Devices {
		k := 0
		left := d.need[i] - d.have[i]
		for _, at := range d.order[i][:d.n] {
			if left <= 0 {
				break
			}
			if places>>at&1 == 1 {
				left -= int(d.caps[i][at])
				k++
			}
		}
		if left > 0 {
			return most + 1
		}
		n = max(n, k)
	}
	return n
}

// lacks says whether the search has too few of some kind as yet.
func (q *query) lacks() bool {
	for i := range q.w.Devices {
		if q.dev.have[i] < q.dev.need[i] {
			return true
		}
	}
	return false
}

// worth says whether a pick with the links of p, at so many places with at least so many devices,
// would be better than what is known.
func (q *query) worth(p *devicePick, places, left int) bool {
	r, b := &q.dev.rival, &q.dev.best
	if r.ok && cmp.Or(p.compareLinks(&r.devicePick), places-bits.OnesCount64(r.places), r.far, left-r.left, r.tie) >= 0 {
		return false
	}
	if !b.ok {
		return true
	}
	order := cmp.Or(p.compareLinks(b), places-bits.OnesCount64(b.places), left-b.left)
	return order < 0 || order == 0 && p.set != b.set && earlier(p.set, b.set)
}

// choose finds the best devices on the nodes of the mask, together or not, if they are better than
// the rival. The pick is kept in dev.best. When steps run out before anything is found, it takes
// places without a search.
func (q *query) choose(mask hint.Mask, together bool) bool {
	d := &q.dev
	q.steps.Charge(chooseSteps)
	d.best = devicePick{}
	if q.w.PerNode > 0 {
		return q.chooseEach(mask)
	}
	clear(d.have)
	places, most := q.reach(mask)&d.loose.places, q.mostPlaces(together)
	if together {
		places &= d.shared.places
	}
	if together && q.w.Same.one() {
		places &= d.whole
	}
	if q.fewest(places, most) > most {
		return false
	}
	if d.linked >= 0 {
		q.chooseLinked(places, together, mask)
	} else {
		q.extend(places, most, &devicePick{ok: true})
	}
	if !d.best.ok && q.steps.Cut() {
		q.grab(places, most)
	}
	return d.best.ok
}

// chooseLinked tries sets of devices of the kind whose links count, those with the most links
// first, and finds the others a place for each set that could be the best.
func (q *query) chooseLinked(places uint64, together bool, mask hint.Mask) {
	d := &q.dev
	want := &q.w.Devices[d.linked]
	k := &q.m.devices[want.Kind]
	if d.need[d.linked] > len(k.ids) {
		return
	}
	all, here := uint16(q.b.devices[k.word]), uint16(0)
	for i := range k.ids {
		here |= uint16(all>>i&1&uint16(places>>q.placeOf(k, i))) << i
	}
	for _, set := range k.links.sets[d.need[d.linked]] {
		p := devicePick{ok: true, set: set, links: k.links.inside[set]}
		if d.best.ok && p.links < d.best.links || d.rival.ok && p.links < d.rival.links || !q.steps.spend() {
			return
		}
		if set&^here != 0 || !k.keepsFunctions(set, want) || q.w.PerNode > 0 && !q.onEach(k, set, mask) {
			continue
		}
		p.fours, p.pairs = k.links.fours[all&^set], k.links.pairs[all&^set]
		for w := set; w != 0; w &= w - 1 {
			p.places |= 1 << q.placeOf(k, bits.TrailingZeros16(w))
		}
		if q.w.PerNode > 0 {
			q.completeEach(mask, &p)
			continue
		}
		q.complement(places, together, &p)
	}
}

// placeOf is where a device lies, as places count for the query.
func (q *query) placeOf(k *deviceKind, i int) int {
	at := int(k.at[i])
	if q.w.Same.byRoot() {
		return int(q.m.places[at].root)
	}
	return at
}

// keepsFunctions says whether a set has no two devices of one function, where that is asked.
func (k *deviceKind) keepsFunctions(set uint16, w *DeviceWant) bool {
	if !w.OnePerFunction && !w.All {
		return true
	}
	last := -1
	for ; set != 0; set &= set - 1 {
		f := int(k.funcs[bits.TrailingZeros16(set)])
		if f == last {
			return false
		}
		last = f
	}
	return true
}

// complement finds the other kinds a place beside the devices of a pick: on its places alone, where
// devices lie together, else on as few more as can be.
func (q *query) complement(places uint64, together bool, p *devicePick) {
	d := &q.dev
	used := bits.OnesCount64(p.places)
	if most := q.mostPlaces(together); used > most || !q.worth(p, used, 0) {
		return
	}
	clear(d.have)
	p.left = 0
	for w := p.places; w != 0; w &= w - 1 {
		at := bits.TrailingZeros64(w)
		q.count(at, 1)
		p.left += int(d.total[at])
	}
	d.have[d.linked] = d.need[d.linked] // chosen already
	if together {
		q.complete(p.places, p.left, p)
		return
	}
	q.extend(places&^p.places, MaxPlaces-used, p)
}

// count adds or takes away what a place has.
func (q *query) count(at, sign int) {
	for i := range q.w.Devices {
		q.dev.have[i] += sign * int(q.dev.caps[i][at])
	}
}

// extend adds the fewest of the places, at most so many, that have everything.
func (q *query) extend(places uint64, most int, p *devicePick) {
	low, used := q.fewest(places, most), bits.OnesCount64(p.places)
	if low > most || !q.worth(p, used+low, max(p.left, q.dev.needs)) {
		return
	}
	q.fillCandidates(places)
	if low > 1 {
		q.rankPlaces()
	}
	for size := low; size <= min(most, q.dev.found) && q.worth(p, used+size, 0); size++ {
		if q.add(branch{chosen: p.places, size: size, left: p.left}, p) || !q.steps.spend() {
			return
		}
	}
}

// fillCandidates lists the places, and what the search may hope for from each on.
func (q *query) fillCandidates(places uint64) {
	d := &q.dev
	d.found = 0
	for w := places; w != 0; w &= w - 1 {
		d.cands[d.found] = uint8(bits.TrailingZeros64(w))
		d.found++
	}
	least := int32(1<<31 - 1)
	for c := d.found - 1; c >= 0; c-- {
		least = min(least, d.total[d.cands[c]])
		d.least[c] = least
		for i := range q.w.Devices {
			d.peak[i][c] = d.caps[i][d.cands[c]]
			if c+1 < d.found {
				d.peak[i][c] = max(d.peak[i][c], d.peak[i][c+1])
			}
		}
	}
}

// branch is how far a search has come: it has chosen places with so many devices, and looks for
// size more among the candidates from one on. passed are the classes of places that it left out: a
// later place of such a class would only repeat a choice.
type branch struct {
	chosen     uint64
	from, size int
	left       int
	passed     uint64
}

// add tries the places of a branch, in their order. It says whether any will do.
func (q *query) add(b branch, p *devicePick) (found bool) {
	d := &q.dev
	if b.size == 0 {
		return q.complete(b.chosen, b.left, p)
	}
	used := bits.OnesCount64(b.chosen) + b.size
	for c := b.from; c+b.size <= d.found; c++ {
		if !q.promising(c, b.size) || !q.worth(p, used, b.left+b.size*int(d.least[c])) || !q.steps.spend() {
			break
		}
		at := int(d.cands[c])
		class := bit(int(d.class[at]), d.ranked)
		if b.passed&class != 0 {
			continue
		}
		q.count(at, 1)
		found = q.add(branch{b.chosen | 1<<at, c + 1, b.size - 1, b.left + int(d.total[at]), b.passed}, p) || found
		q.count(at, -1)
		b.passed |= class
	}
	return found
}

// promising says whether size places more, from a candidate on, could be enough.
func (q *query) promising(c, size int) bool {
	d := &q.dev
	for i := range q.w.Devices {
		if d.have[i]+size*int(d.peak[i][c]) < d.need[i] {
			return false
		}
	}
	return true
}

// complete keeps a choice of places that has everything, if it is better than the best one.
func (q *query) complete(chosen uint64, left int, p *devicePick) bool {
	if q.lacks() {
		return false
	}
	if q.worth(p, bits.OnesCount64(chosen), left) {
		q.dev.best = *p
		q.dev.best.places, q.dev.best.left = chosen, left
	}
	return true
}

// grab takes places without a search: those with the most of one kind until there is enough of it,
// then of the next. Each kind is the first once; the fewest places count. It finds places where
// holds says that there are any, with three kinds that lie together perhaps not.
func (q *query) grab(places uint64, most int) {
	d := &q.dev
	q.rankPlaces()
	for first := range q.w.Devices {
		clear(d.have)
		chosen, left := uint64(0), 0
		for n := range q.w.Devices {
			i := (first + n) % len(q.w.Devices)
			for _, at := range d.order[i][:d.n] {
				if d.have[i] >= d.need[i] {
					break
				}
				if fresh := places &^ chosen; fresh>>at&1 == 1 {
					chosen, left = chosen|1<<at, left+int(d.total[at])
					q.count(int(at), 1)
				}
			}
		}
		p := devicePick{ok: true}
		if bits.OnesCount64(chosen) <= most && q.link(chosen, &p) {
			q.complete(chosen, left, &p)
		}
	}
}

// link chooses devices of the linked kind at the places that a pick was grabbed at: one at each
// first, then the lowest.
func (q *query) link(places uint64, p *devicePick) bool {
	d := &q.dev
	if d.linked < 0 {
		return true
	}
	want := &q.w.Devices[d.linked]
	k := &q.m.devices[want.Kind]
	all := uint16(q.b.devices[k.word])
	for _, spread := range [...]bool{true, false} {
		for i, met := 0, uint64(0); i < len(k.ids) && bits.OnesCount16(p.set) < d.need[d.linked]; i++ {
			at, with := q.placeOf(k, i), p.set|1<<i
			if all>>i&1 == 0 || with == p.set || places>>at&1 == 0 || spread && met>>at&1 == 1 || !k.keepsFunctions(with, want) {
				continue
			}
			p.set, met = with, met|1<<at
		}
	}
	p.links, p.fours, p.pairs = k.links.inside[p.set], k.links.fours[all&^p.set], k.links.pairs[all&^p.set]
	return bits.OnesCount16(p.set) == d.need[d.linked]
}
