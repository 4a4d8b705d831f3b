package joint

import (
	"math/bits"

	"github.com/berth-dev/berth/placement/hint"
)

// Devices that are wanted by their number on each NUMA node (Want.PerNode) are chosen node by node:
// which places of one node are used changes nothing for the others. Of a kind whose links count the
// whole set is chosen first.

// enoughEach says whether each node of the mask has its number of devices of each kind, and whether
// those make up what is wanted.
func (q *query) enoughEach(mask hint.Mask) bool {
	for i := range q.w.Devices {
		if q.dev.need[i] != q.w.PerNode*mask.Len() {
			return false
		}
		for w := mask; w != 0; w &= w - 1 {
			if int(q.dev.loose.node[i][w.Lowest()]) < q.w.PerNode {
				return false
			}
		}
	}
	return true
}

// chooseEach is choose on the nodes of a mask that have enough, each by itself.
func (q *query) chooseEach(mask hint.Mask) bool {
	d := &q.dev
	if d.linked >= 0 {
		q.chooseLinked(q.reach(mask)&d.loose.places, false, mask)
	} else {
		q.completeEach(mask, &devicePick{ok: true})
	}
	if !d.best.ok && q.steps.Cut() {
		q.grabEach(mask)
	}
	return d.best.ok
}

// onEach says whether a set of devices has so many on each node of the mask.
func (q *query) onEach(k *deviceKind, set uint16, mask hint.Mask) bool {
	for w := mask; w != 0; w &= w - 1 {
		n := 0
		for s := set; s != 0; s &= s - 1 {
			n += int(q.dev.on[w.Lowest()] >> q.placeOf(k, bits.TrailingZeros16(s)) & 1)
		}
		if n != q.w.PerNode {
			return false
		}
	}
	return true
}

// completeEach finds places beside the devices of a pick on each node of the mask, and keeps the
// pick if it is better than what is known.
func (q *query) completeEach(mask hint.Mask, p *devicePick) {
	if q.worth(p, bits.OnesCount64(p.places), 0) {
		q.ofEach(mask, p, false)
	}
}

// grabEach is grab on each node of the mask.
func (q *query) grabEach(mask hint.Mask) { q.ofEach(mask, &devicePick{ok: true}, true) }

// ofEach adds to a pick what is found on each node of the mask, by search or grabbed, when the
// devices of one node are looked for. It keeps the pick if every node has them, and it is better
// than what is known.
func (q *query) ofEach(mask hint.Mask, p *devicePick, grab bool) {
	d := &q.dev
	best, beaten, chosen := d.best, d.rival, p.places
	d.rival.ok, d.needs = false, q.w.PerNode*len(q.w.Devices)
	for i := range q.w.Devices {
		d.need[i] = q.w.PerNode
	}
	all := true
	for w := mask; w != 0 && all; w &= w - 1 {
		d.best = devicePick{}
		if here := d.on[w.Lowest()]; grab {
			q.grab(here&d.loose.places, MaxPlaces)
		} else {
			q.extendBeside(chosen&here, here&d.loose.places)
		}
		p.places |= d.best.places
		p.set |= d.best.set
		p.left += d.best.left
		all = d.best.ok
	}
	d.needs *= mask.Len()
	for i := range q.w.Devices {
		d.need[i] *= mask.Len()
	}
	d.best, d.rival = best, beaten
	if d.linked >= 0 {
		k := &q.m.devices[q.w.Devices[d.linked].Kind]
		free := uint16(q.b.devices[k.word])
		p.links, p.fours, p.pairs = k.links.inside[p.set], k.links.fours[free&^p.set], k.links.pairs[free&^p.set]
	}
	if all && q.worth(p, bits.OnesCount64(p.places), p.left) {
		d.best = *p
	}
}

// extendBeside adds places to those at which the devices of the linked kind are chosen.
func (q *query) extendBeside(chosen, places uint64) {
	d := &q.dev
	one := devicePick{ok: true, places: chosen}
	clear(d.have)
	for w := chosen; w != 0; w &= w - 1 {
		at := bits.TrailingZeros64(w)
		q.count(at, 1)
		one.left += int(d.total[at])
	}
	if d.linked >= 0 {
		d.have[d.linked] = d.need[d.linked] // chosen already
	}
	q.extend(places&^chosen, MaxPlaces-bits.OnesCount64(chosen), &one)
}
