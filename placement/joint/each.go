package joint

import (
	"math/bits"

	"github.com/berth-dev/berth/placement/hint"
)

// If a request has a number of devices per NUMA node (Want.PerNode), devices are chosen separately
// on each NUMA node, because a choice on one does not affect the others. There is one exception: if
// the links of a kind matter, its devices on all NUMA nodes are chosen together, before the other
// kinds.

// enoughEach reports whether each NUMA node of the mask has PerNode devices of each kind, and
// whether PerNode times the number of NUMA nodes is the requested number.
func (q *deviceQuery) enoughEach(mask hint.Mask) bool {
	for i := range q.w.Devices {
		if q.need[i] != q.w.PerNode*mask.Len() {
			return false
		}
		for w := mask; w != 0; w &= w - 1 {
			if int(q.loose.node[i][w.Lowest()]) < q.w.PerNode {
				return false
			}
		}
	}
	return true
}

// chooseEach is choose for PerNode: it chooses devices separately on each NUMA node of the mask.
// The caller has checked enoughEach.
func (q *deviceQuery) chooseEach(mask hint.Mask) bool {
	if q.linked >= 0 {
		q.chooseLinked(q.reach(mask)&q.loose.places, false, mask)
	} else {
		q.completeEach(mask, &devicePick{ok: true})
	}
	if !q.best.ok && q.steps.Cut() {
		q.grabEach(mask)
	}
	return q.best.ok
}

// onEach reports whether a set of devices has PerNode devices on each NUMA node of the mask.
func (q *deviceQuery) onEach(k *deviceKind, set uint16, mask hint.Mask) bool {
	for w := mask; w != 0; w &= w - 1 {
		n := 0
		for s := set; s != 0; s &= s - 1 {
			n += int(q.on[w.Lowest()] >> q.placeOf(k, bits.TrailingZeros16(s)) & 1)
		}
		if n != q.w.PerNode {
			return false
		}
	}
	return true
}

// completeEach adds devices of the kinds without links to a pick, on each NUMA node of the mask. It
// stores the pick in q.best if the pick is the best so far.
func (q *deviceQuery) completeEach(mask hint.Mask, p *devicePick) {
	if q.worth(p, bits.OnesCount64(p.places), 0) {
		q.ofEach(mask, p, false)
	}
}

// grabEach is grab for PerNode: it chooses places separately on each NUMA node of the mask.
func (q *deviceQuery) grabEach(mask hint.Mask) { q.ofEach(mask, &devicePick{ok: true}, true) }

// ofEach adds devices on each NUMA node of the mask to a pick, with a search or with grab. ofEach
// stores the pick in q.best if every NUMA node has enough devices and the pick is the best so far.
func (q *deviceQuery) ofEach(mask hint.Mask, p *devicePick, grab bool) {
	best, beaten, chosen := q.best, q.rival, p.places
	q.rival.ok, q.needs = false, q.w.PerNode*len(q.w.Devices)
	for i := range q.w.Devices {
		q.need[i] = q.w.PerNode
	}
	all := true
	for w := mask; w != 0 && all; w &= w - 1 {
		q.best = devicePick{}
		if here := q.on[w.Lowest()]; grab {
			q.grab(here&q.loose.places, MaxPlaces)
		} else {
			q.extendBeside(chosen&here, here&q.loose.places)
		}
		p.places |= q.best.places
		p.set |= q.best.set
		p.left += q.best.left
		all = q.best.ok
	}
	q.needs *= mask.Len()
	for i := range q.w.Devices {
		q.need[i] *= mask.Len()
	}
	q.best, q.rival = best, beaten
	if q.linked >= 0 {
		k := &q.m.Devices.kinds[q.w.Devices[q.linked].Kind]
		free := uint16(q.b.devices[k.word])
		p.links, p.fours, p.pairs = k.links.inside[p.set], k.links.fours[free&^p.set], k.links.pairs[free&^p.set]
	}
	if all && q.worth(p, bits.OnesCount64(p.places), p.left) {
		q.best = *p
	}
}

// extendBeside adds places to the chosen places, which already have the devices of the linked kind.
func (q *deviceQuery) extendBeside(chosen, places uint64) {
	one := devicePick{ok: true, places: chosen}
	clear(q.have)
	for w := chosen; w != 0; w &= w - 1 {
		at := bits.TrailingZeros64(w)
		q.count(at, 1)
		one.left += int(q.total[at])
	}
	if q.linked >= 0 {
		q.have[q.linked] = q.need[q.linked] // these devices are already chosen
	}
	q.extend(places&^chosen, MaxPlaces-bits.OnesCount64(chosen), &one)
}
