package joint

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/berth-dev/berth/placement/hint"
)

// deviceQuery is the device part of a query. Here a place is a value of type place or, if Want.Same
// is SameRoot or OneRoot, all such places of one root complex on one NUMA node. Sets of places are
// bit masks.
type deviceQuery struct {
	asking
	n int // the number of places
	// caps has the number of available devices, by index in Want.Devices, then by place. total has
	// the sum over all kinds, by place.
	caps  [][MaxPlaces]uint16
	total [MaxPlaces]int32
	need  []int
	needs int // the sum of need
	// on has the places of each NUMA node, and adrift the places with an unknown NUMA node.
	on     [hint.MaxNodes]uint64
	adrift uint64
	// linked is the index in Want.Devices of the kind whose links count, or -1.
	linked int
	// whole has the places that have enough devices of every kind for the whole request.
	whole uint64
	// loose is the supply for devices that may be apart, and shared the supply for devices that
	// must be together.
	loose, shared supply

	// ranked means that order and class are filled. order has, for each kind, the places in order,
	// the place with the most available devices first. Places have the same class if they have
	// the same number of available devices of each kind.
	ranked bool
	order  [][MaxPlaces]uint8
	class  [MaxPlaces]uint8

	choosing
}

// choosing is the working memory of one search for devices.
type choosing struct {
	cands [MaxPlaces]uint8
	peak  [][MaxPlaces]uint16 // by kind and position in cands, the maximum of caps from that position on
	least [MaxPlaces]int32    // by position in cands, the minimum of total from that position on
	found int                 // the number of cands
	have  []int
	best  devicePick
	rival rival
}

// supply has the places from which devices may be taken, and the devices of each NUMA node there.
type supply struct {
	places uint64
	// node has the number of devices by kind and NUMA node. adrift has the number at places with an
	// unknown NUMA node, by kind.
	node   [][hint.MaxNodes]int32
	adrift []int32
}

// rival is the best pick on the sets of NUMA nodes that were searched before the current set. If ok
// is not set, there is no such pick. far compares the current set with the rival's set by distance,
// and tie by free devices and CPU time; negative means that the current set is better.
type rival struct {
	devicePick
	far, tie int
}

// devicePick is a possible choice of devices, with its ratings.
type devicePick struct {
	ok     bool
	places uint64 // the places of the devices
	set    uint16 // the chosen devices of the linked kind
	links  uint32
	// fours and pairs are the values of linkTable.fours and linkTable.pairs for the remaining free
	// devices.
	fours, pairs uint32
	// left is the number of free devices of the requested kinds at the places.
	left int
}

// compareLinks compares picks by the links between their devices, then by the links between the
// remaining devices. It returns a negative number if p is better.
func (p *devicePick) compareLinks(o *devicePick) int {
	return cmp.Or(cmp.Compare(o.links, p.links), cmp.Compare(o.fours, p.fours), cmp.Compare(o.pairs, p.pairs))
}

// earlier orders two different sets of equal size. It compares their elements in ascending order,
// and reports whether the first element that differs is lower in a.
func earlier(a, b uint16) bool {
	low := (a ^ b) & -(a ^ b)
	return a&low != 0
}

func newDeviceQuery(n int) deviceQuery {
	newSupply := func() supply {
		return supply{node: make([][hint.MaxNodes]int32, n), adrift: make([]int32, n)}
	}
	return deviceQuery{caps: make([][MaxPlaces]uint16, n), need: make([]int, n), order: make([][MaxPlaces]uint8, n),
		choosing: choosing{have: make([]int, n), peak: make([][MaxPlaces]uint16, n)}, loose: newSupply(), shared: newSupply()}
}

// compileDevices prepares the query. It returns false if a requested kind does not exist.
func (q *deviceQuery) compileDevices() bool {
	m, w := q.m, q.w
	q.linked, q.n, q.ranked, q.needs = -1, len(m.Devices.places), false, 0
	if w.Same.byRoot() {
		q.n = m.Devices.roots
	}
	for i := range w.Devices {
		want := &w.Devices[i]
		if int(want.Kind) >= len(m.Devices.kinds) || i >= len(m.Devices.kinds) {
			return false
		}
		q.need[i] = m.Devices.count(want)
		q.needs += q.need[i]
		if m.Devices.kinds[want.Kind].links != nil && q.linked < 0 {
			q.linked = i
		}
	}
	apart := q.compilePlaces()
	q.loose.places, q.shared.places, q.whole = 0, 0, 0
	for at := range q.n {
		some, each, whole := q.has(at)
		q.loose.places |= bit(at, some)
		q.shared.places |= bit(at, each) &^ apart
		q.whole |= bit(at, whole)
	}
	if w.Same != Anywhere && !w.Same.one() {
		q.sumUp(&q.shared)
	}
	return true
}

func bit(at int, is bool) uint64 {
	if is {
		return 1 << at
	}
	return 0
}

// compilePlaces finds the available devices at each place. It returns the places whose devices do
// not count as being together, because they are below no switch or their root complex is unknown.
func (q *deviceQuery) compilePlaces() (apart uint64) {
	m, w := q.m, q.w
	for i := range w.Devices {
		clear(q.caps[i][:q.n])
		clear(q.loose.node[i][:len(m.Cores.nodes)])
		q.loose.adrift[i] = 0
	}
	clear(q.on[:])
	clear(q.total[:q.n])
	q.adrift = 0
	for at := range m.Devices.places {
		p := &m.Devices.places[at]
		to, together := at, p.isSwitch
		if w.Same.byRoot() {
			to, together = int(p.root), p.hasRoot
		}
		apart |= bit(to, !together)
		if p.node == NoNode {
			q.adrift |= 1 << to
		} else {
			q.on[p.node] |= 1 << to
		}
		for i := range w.Devices {
			n := m.Devices.kinds[w.Devices[i].Kind].room(q.b, at, &w.Devices[i])
			q.caps[i][to] += uint16(n)
			q.total[to] += int32(n)
			if p.node == NoNode {
				q.loose.adrift[i] += int32(n)
			} else {
				q.loose.node[i][p.node] += int32(n)
			}
		}
	}
	return apart
}

// has reports whether a place has a requested device (some), at least one device of each kind
// (each), and enough devices of each kind for the whole request (whole).
func (q *deviceQuery) has(at int) (some, each, whole bool) {
	each, whole = true, true
	for i := range q.w.Devices {
		n := int(q.caps[i][at])
		some, each, whole = some || n > 0, each && n > 0, whole && n >= q.need[i]
	}
	return some, each, whole && each
}

// sumUp sets s.node and s.adrift to the numbers of devices at the places of the supply.
func (q *deviceQuery) sumUp(s *supply) {
	for i := range q.w.Devices {
		sum := func(places uint64) (n int32) {
			for w := places & s.places; w != 0; w &= w - 1 {
				n += int32(q.caps[i][bits.TrailingZeros64(w)])
			}
			return n
		}
		for v := range q.m.Cores.nodes {
			s.node[i][v] = sum(q.on[v])
		}
		s.adrift[i] = sum(q.adrift)
	}
}

func (q *deviceQuery) rankPlaces() {
	if q.ranked {
		return
	}
	q.ranked = true
	var keys [MaxPlaces]uint32
	for i := range q.w.Devices {
		for at := range q.n {
			keys[at] = uint32(^q.caps[i][at])<<8 | uint32(at)
		}
		slices.Sort(keys[:q.n])
		for j, key := range keys[:q.n] {
			q.order[i][j] = uint8(key)
		}
	}
	var firsts [MaxPlaces]uint8
	classes := 0
	for at := range q.n {
		c := 0
		for c < classes && !q.alike(at, int(firsts[c])) {
			c++
		}
		if c == classes {
			firsts[c], classes = uint8(at), classes+1
		}
		q.class[at] = uint8(c)
	}
}

func (q *deviceQuery) alike(a, b int) bool {
	for i := range q.w.Devices {
		if q.caps[i][a] != q.caps[i][b] {
			return false
		}
	}
	return true
}

// supplyOf returns shared if the devices must be together, otherwise loose. If all devices must be
// at one place, it also returns loose, and the caller must check q.whole too.
func (q *deviceQuery) supplyOf(together bool) *supply {
	if together && !q.w.Same.one() {
		return &q.shared
	}
	return &q.loose
}

// reach returns the places from which a request on the set of NUMA nodes may take devices. If the
// width is AnyWidth, the result includes the places with an unknown NUMA node.
func (q *deviceQuery) reach(mask hint.Mask) (places uint64) {
	for w := mask; w != 0; w &= w - 1 {
		places |= q.on[w.Lowest()]
	}
	if q.w.Width == AnyWidth {
		places |= q.adrift
	}
	return places
}

// enough reports whether the NUMA nodes of the mask have enough devices of each kind. It checks
// each kind separately.
func (q *deviceQuery) enough(mask hint.Mask, together bool) bool {
	s := q.supplyOf(together)
	for i := range q.w.Devices {
		n := int32(0)
		if q.w.Width == AnyWidth {
			n = s.adrift[i]
		}
		for w := mask; w != 0; w &= w - 1 {
			n += s.node[i][w.Lowest()]
		}
		if int(n) < q.need[i] {
			return false
		}
	}
	return true
}

// deviceRoom returns the rank of a mask by free devices; the smallest rank is best. The rank is the
// number of free devices of the requested kinds on the NUMA nodes of the mask. With LeastAllocated,
// the rank is this number with a minus sign.
func (q *deviceQuery) deviceRoom(mask hint.Mask) (n int) {
	for i := range q.w.Devices {
		for w := mask; w != 0; w &= w - 1 {
			n += int(q.loose.node[i][w.Lowest()])
		}
	}
	if q.m.strategy == LeastAllocated {
		return -n
	}
	return n
}

// holds reports whether the NUMA nodes of the mask have the devices, and have them together if
// together is set. For devices that may be apart, holds checks only what enough checks. If the
// devices must share places but may use several, each of these places must provide at least one
// device of each kind. So the number of places is at most the smallest of the requested numbers,
// and this many places always have enough devices of the kind with this number. With two kinds,
// holds therefore only checks the places with the most devices of the other kind. With three kinds
// or more, it searches.
func (q *deviceQuery) holds(mask hint.Mask, together bool) bool {
	switch {
	case !q.enough(mask, together):
		return false
	case !together:
		return true
	case q.w.Same.one():
		return q.reach(mask)&q.shared.places&q.whole != 0
	case len(q.w.Devices) > 2:
		q.rival.ok = false
		return q.choose(mask, true)
	}
	clear(q.have)
	most := q.mostPlaces(true)
	return q.fewest(q.reach(mask)&q.shared.places, most) <= most
}

// mostPlaces returns the maximum number of places from which the request may take devices.
func (q *deviceQuery) mostPlaces(together bool) int {
	most := MaxPlaces
	switch {
	case together && q.w.Same.one():
		return 1
	case together:
		for i := range q.w.Devices {
			most = min(most, q.need[i])
		}
	}
	return most
}

// fewest returns how many of the given places are needed at least for the missing devices. If all
// of them together have too few devices, the result is larger than most.
func (q *deviceQuery) fewest(places uint64, most int) (n int) {
	switch {
	case !q.lacks():
		return 0
	case places&q.whole != 0:
		return 1
	}
	q.rankPlaces()
	for i := range q.w.Devices {
		k := 0
		left := q.need[i] - q.have[i]
		for _, at := range q.order[i][:q.n] {
			if left <= 0 {
				break
			}
			if places>>at&1 == 1 {
				left -= int(q.caps[i][at])
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

// lacks reports whether the places chosen so far have too few devices of some kind.
func (q *deviceQuery) lacks() bool {
	for i := range q.w.Devices {
		if q.have[i] < q.need[i] {
			return true
		}
	}
	return false
}

// worth reports whether a pick could be the best so far. p has the links of the pick, places is its
// number of places, and left is the smallest number of free devices that these places could have.
func (q *deviceQuery) worth(p *devicePick, places, left int) bool {
	r, b := &q.rival, &q.best
	if r.ok && cmp.Or(p.compareLinks(&r.devicePick), places-bits.OnesCount64(r.places), r.far, left-r.left, r.tie) >= 0 {
		return false
	}
	if !b.ok {
		return true
	}
	order := cmp.Or(p.compareLinks(b), places-bits.OnesCount64(b.places), left-b.left)
	return order < 0 || order == 0 && p.set != b.set && earlier(p.set, b.set)
}

// choose finds the best devices on the NUMA nodes of the mask, and stores the pick in q.best. It
// finds only picks that are better than q.rival. If the steps run out before choose has found a
// pick, it calls grab, which does not search.
func (q *deviceQuery) choose(mask hint.Mask, together bool) bool {
	q.steps.Charge(chooseSteps)
	q.best = devicePick{}
	if q.w.PerNode > 0 {
		return q.chooseEach(mask)
	}
	clear(q.have)
	places, most := q.reach(mask)&q.loose.places, q.mostPlaces(together)
	if together {
		places &= q.shared.places
	}
	if together && q.w.Same.one() {
		places &= q.whole
	}
	if q.fewest(places, most) > most {
		return false
	}
	if q.linked >= 0 {
		q.chooseLinked(places, together, mask)
	} else {
		q.extend(places, most, &devicePick{ok: true})
	}
	if !q.best.ok && q.steps.Cut() {
		q.grab(places, most)
	}
	return q.best.ok
}

// chooseLinked tries sets of devices of the linked kind, the sets with the most links first. For
// each set that could be the best, it finds places for the devices of the other kinds.
func (q *deviceQuery) chooseLinked(places uint64, together bool, mask hint.Mask) {
	want := &q.w.Devices[q.linked]
	k := &q.m.Devices.kinds[want.Kind]
	if q.need[q.linked] > len(k.ids) {
		return
	}
	all, here := uint16(q.b.devices[k.word]), uint16(0)
	for i := range k.ids {
		here |= uint16(all>>i&1&uint16(places>>q.placeOf(k, i))) << i
	}
	for _, set := range k.links.sets[q.need[q.linked]] {
		p := devicePick{ok: true, set: set, links: k.links.inside[set]}
		if q.best.ok && p.links < q.best.links || q.rival.ok && p.links < q.rival.links || !q.steps.spend() {
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

// placeOf returns the place of device i as the query counts places.
func (q *deviceQuery) placeOf(k *deviceKind, i int) int {
	at := int(k.at[i])
	if q.w.Same.byRoot() {
		return int(q.m.Devices.places[at].root)
	}
	return at
}

// keepsFunctions returns false if w allows only one device of each physical function, and the set
// has two devices of one function.
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

// complement adds devices of the other kinds to a pick. If devices must be together, complement
// uses only the pick's places. If not, it adds as few places as possible.
func (q *deviceQuery) complement(places uint64, together bool, p *devicePick) {
	used := bits.OnesCount64(p.places)
	if most := q.mostPlaces(together); used > most || !q.worth(p, used, 0) {
		return
	}
	clear(q.have)
	p.left = 0
	for w := p.places; w != 0; w &= w - 1 {
		at := bits.TrailingZeros64(w)
		q.count(at, 1)
		p.left += int(q.total[at])
	}
	q.have[q.linked] = q.need[q.linked] // the pick has these devices
	if together {
		q.complete(p.places, p.left, p)
		return
	}
	q.extend(places&^p.places, MaxPlaces-used, p)
}

// count adds the devices of a place to q.have if sign is 1, and removes them if sign is -1.
func (q *deviceQuery) count(at, sign int) {
	for i := range q.w.Devices {
		q.have[i] += sign * int(q.caps[i][at])
	}
}

// extend finds the fewest places that have all missing devices, and adds them to the pick. It adds
// no more places than most.
func (q *deviceQuery) extend(places uint64, most int, p *devicePick) {
	low, used := q.fewest(places, most), bits.OnesCount64(p.places)
	if low > most || !q.worth(p, used+low, max(p.left, q.needs)) {
		return
	}
	q.fillCandidates(places)
	if low > 1 {
		q.rankPlaces()
	}
	for size := low; size <= min(most, q.found) && q.worth(p, used+size, 0); size++ {
		if q.add(branch{chosen: p.places, size: size, left: p.left}, p) || !q.steps.spend() {
			return
		}
	}
}

func (q *deviceQuery) fillCandidates(places uint64) {
	q.found = 0
	for w := places; w != 0; w &= w - 1 {
		q.cands[q.found] = uint8(bits.TrailingZeros64(w))
		q.found++
	}
	least := int32(1<<31 - 1)
	for c := q.found - 1; c >= 0; c-- {
		least = min(least, q.total[q.cands[c]])
		q.least[c] = least
		for i := range q.w.Devices {
			q.peak[i][c] = q.caps[i][q.cands[c]]
			if c+1 < q.found {
				q.peak[i][c] = max(q.peak[i][c], q.peak[i][c+1])
			}
		}
	}
}

// branch is a node of the search tree. left is the number of free devices at the chosen places.
// size is the number of further places that the search adds, from cands[from:]. passed has the
// classes of the earlier candidates that this branch does not contain. The search skips later
// candidates of these classes, because they give equal choices.
type branch struct {
	chosen     uint64
	from, size int
	left       int
	passed     uint64
}

// add tries the candidates of a branch in order, and reports whether one leads to a complete
// choice.
func (q *deviceQuery) add(b branch, p *devicePick) (found bool) {
	if b.size == 0 {
		return q.complete(b.chosen, b.left, p)
	}
	used := bits.OnesCount64(b.chosen) + b.size
	for c := b.from; c+b.size <= q.found; c++ {
		if !q.promising(c, b.size) || !q.worth(p, used, b.left+b.size*int(q.least[c])) || !q.steps.spend() {
			break
		}
		at := int(q.cands[c])
		class := bit(int(q.class[at]), q.ranked)
		if b.passed&class != 0 {
			continue
		}
		q.count(at, 1)
		found = q.add(branch{b.chosen | 1<<at, c + 1, b.size - 1, b.left + int(q.total[at]), b.passed}, p) || found
		q.count(at, -1)
		b.passed |= class
	}
	return found
}

// promising reports whether a choice of size places from cands[c:] could have enough devices.
func (q *deviceQuery) promising(c, size int) bool {
	for i := range q.w.Devices {
		if q.have[i]+size*int(q.peak[i][c]) < q.need[i] {
			return false
		}
	}
	return true
}

// complete stores a choice of places in q.best if it is better than q.best and q.rival. It returns
// false if the choice lacks devices.
func (q *deviceQuery) complete(chosen uint64, left int, p *devicePick) bool {
	if q.lacks() {
		return false
	}
	if q.worth(p, bits.OnesCount64(chosen), left) {
		q.best = *p
		q.best.places, q.best.left = chosen, left
	}
	return true
}

// grab chooses places without a search. It adds the places with the most devices of one kind until
// there are enough, and continues with the next kind. grab does this once for each kind, beginning
// with that kind, and keeps the best choice. If holds returns true, grab finds places, except with
// three or more kinds that must be together.
func (q *deviceQuery) grab(places uint64, most int) {
	q.rankPlaces()
	for first := range q.w.Devices {
		clear(q.have)
		chosen, left := uint64(0), 0
		for n := range q.w.Devices {
			i := (first + n) % len(q.w.Devices)
			for _, at := range q.order[i][:q.n] {
				if q.have[i] >= q.need[i] {
					break
				}
				if fresh := places &^ chosen; fresh>>at&1 == 1 {
					chosen, left = chosen|1<<at, left+int(q.total[at])
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

// link chooses the devices of the linked kind at the places that grab chose: first one device at
// each place, then the devices with the lowest positions.
func (q *deviceQuery) link(places uint64, p *devicePick) bool {
	if q.linked < 0 {
		return true
	}
	want := &q.w.Devices[q.linked]
	k := &q.m.Devices.kinds[want.Kind]
	all := uint16(q.b.devices[k.word])
	for _, spread := range [...]bool{true, false} {
		for i, met := 0, uint64(0); i < len(k.ids) && bits.OnesCount16(p.set) < q.need[q.linked]; i++ {
			at, with := q.placeOf(k, i), p.set|1<<i
			if all>>i&1 == 0 || with == p.set || places>>at&1 == 0 || spread && met>>at&1 == 1 || !k.keepsFunctions(with, want) {
				continue
			}
			p.set, met = with, met|1<<at
		}
	}
	p.links, p.fours, p.pairs = k.links.inside[p.set], k.links.fours[all&^p.set], k.links.pairs[all&^p.set]
	return bits.OnesCount16(p.set) == q.need[q.linked]
}
