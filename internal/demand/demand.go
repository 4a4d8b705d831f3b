// Package demand says which nodes are in demand: how much of the devices that pods have they could
// also have on a node like that. It learns from the pods that have a node, so a scheduler that
// begins again knows the same, and what a tenant merely asks for decides nothing.
package demand

import (
	"cmp"
	"maps"
	"slices"
)

// Level is how much demand there is for a node: 0 where no pod that has devices could be there, up
// to MostDemand where all could.
type Level uint8

const (
	// Bits is how many bits a Level has.
	Bits = 5
	// MostDemand is the highest Level.
	MostDemand Level = 1<<Bits - 1
)

// maxWishes is how many wishes count: those of the pods that have most devices.
const maxWishes = 32

// Tally counts the devices that pods have by how they ask for them. K stands for a wish, the
// same for pods that any node treats alike. The zero Tally has counted nothing.
type Tally[K cmp.Ordered] struct {
	have map[K]int64
	// all is how many devices pods have, then how many they had when somebody asked last, since
	// how many have come and gone since then.
	all, then, since int64
}

// Add counts so many devices more; fewer, where it is negative.
func (t *Tally[K]) Add(wish K, devices int64) {
	if t.have == nil {
		t.have = map[K]int64{}
	}
	t.all, t.since = t.all+devices, t.since+max(devices, -devices)
	if t.have[wish] += devices; t.have[wish] <= 0 {
		delete(t.have, wish)
	}
}

// Due reports whether as many devices have come and gone as there were when Wishes was called last:
// levels that follow each pod would change the order of nodes all the time, and nodes that are
// filled by one order after another are all left half full.
func (t *Tally[K]) Due() bool { return t.since > 0 && t.since >= t.then }

// Wishes returns what is asked for most.
func (t *Tally[K]) Wishes() Wishes[K] {
	t.then, t.since = t.all, 0
	w := Wishes[K]{of: slices.Collect(maps.Keys(t.have))}
	slices.SortFunc(w.of, func(a, b K) int { return cmp.Or(cmp.Compare(t.have[b], t.have[a]), cmp.Compare(a, b)) })
	w.of = w.of[:min(len(w.of), maxWishes)]
	for _, wish := range w.of {
		w.devices = append(w.devices, t.have[wish])
		w.all += t.have[wish]
	}
	return w
}

// Wishes are the wishes that count, with how many devices pods have by each.
type Wishes[K cmp.Ordered] struct {
	of      []K
	devices []int64
	all     int64
}

// All yields the wishes, the most devices first.
func (w *Wishes[K]) All(yield func(K) bool) { slices.Values(w.of)(yield) }

// Level returns how much demand there is for a node. takes says whether it would take pods with a
// wish if it were empty.
func (w *Wishes[K]) Level(takes func(K) bool) Level {
	if w.all == 0 {
		return 0
	}
	could := int64(0)
	for i, wish := range w.of {
		if takes(wish) {
			could += w.devices[i]
		}
	}
	level := Level(could * int64(MostDemand) / w.all)
	if could > 0 {
		level = max(level, 1)
	}
	return level
}
