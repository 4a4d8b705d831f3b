// Package demand computes the demand for a node: of all devices that pods use in the cluster, the
// share that belongs to pods that the node could run if it were empty. It counts only pods that
// have a node. So a restarted scheduler computes the same demand, and pending requests of tenants
// have no influence.
package demand

import (
	"cmp"
	"maps"
	"slices"
)

// Level is the demand for a node. It is 0 if no pod with devices could run there, and MostDemand if
// all could.
type Level uint8

const (
	// Bits is the number of bits of a Level.
	Bits = 5
	// MostDemand is the highest Level.
	MostDemand Level = 1<<Bits - 1
)

// maxWishes is the maximum number of wishes from which a Level is computed: the wishes whose pods
// have the most devices.
const maxWishes = 32

// Tally counts the devices of pods by wish. A wish is the kind of a pod's request: every node
// treats two pods with the same wish alike. K identifies a wish. The zero value is ready to use.
type Tally[K cmp.Ordered] struct {
	have map[K]int64
	// all is the number of devices that pods have. The field then is the value of all at the last
	// call of Wishes. The field since is the number of devices added and removed after that call.
	all, then, since int64
}

// Add adds the number of devices, which may be negative.
func (t *Tally[K]) Add(wish K, devices int64) {
	if t.have == nil {
		t.have = map[K]int64{}
	}
	t.all, t.since = t.all+devices, t.since+max(devices, -devices)
	if t.have[wish] += devices; t.have[wish] <= 0 {
		delete(t.have, wish)
	}
}

// Due reports whether, since the last call of Wishes, pods got or released at least as many devices
// as were in use at that call. If levels followed each pod, the order of nodes would change all the
// time, and many nodes would stay half full.
func (t *Tally[K]) Due() bool { return t.since > 0 && t.since >= t.then }

// Wishes returns the wishes with the most devices, at most maxWishes. Due counts from this call.
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

// Wishes are wishes with their numbers of devices, the most devices first.
type Wishes[K cmp.Ordered] struct {
	of      []K
	devices []int64
	all     int64
}

// All yields the wishes. The wish with the most devices comes first.
func (w *Wishes[K]) All(yield func(K) bool) { slices.Values(w.of)(yield) }

// Level returns the demand for a node. The function takes reports whether the empty node would
// admit pods with a wish.
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
