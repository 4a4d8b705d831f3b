package joint

import (
	"math/bits"
	"slices"
)

// compileGroups finds the devices that belong together. These are devices of any kind at one
// switch, or at one root complex without a switch. Devices of one kind also belong together if
// links connect them. For each number n of links that some pair has, compileGroups forms groups of
// devices that are connected by n or more links.
func (t *DeviceTable) compileGroups(kinds []DeviceKind) {
	for at := range t.places {
		if p := &t.places[at]; !p.isSwitch && !p.hasRoot {
			continue
		}
		g := t.newGroup()
		for k := range t.kinds {
			for i, where := range t.kinds[k].at {
				if int(where) == at {
					g.add(&t.kinds[k], i)
				}
			}
		}
		t.keepGroup(g)
	}
	for k := range kinds {
		for _, least := range linkCounts(kinds[k].Links) {
			t.linkedGroups(&kinds[k], &t.kinds[k], least)
		}
	}
}

func linkCounts(links []DeviceLink) (counts []int) {
	for _, l := range links {
		if !slices.Contains(counts, l.Count) {
			counts = append(counts, l.Count)
		}
	}
	return counts
}

// linkedGroups adds the groups of devices that pairs with least or more links connect.
func (t *DeviceTable) linkedGroups(kind *DeviceKind, k *deviceKind, least int) {
	group := make([]int, len(kind.Devices)) // by device, the lowest device of its group
	for i := range group {
		group[i] = i
	}
	for changed := true; changed; {
		changed = false
		for _, l := range kind.Links {
			if a, b := group[l.A], group[l.B]; l.Count >= least && a != b {
				group[l.A], group[l.B], changed = min(a, b), min(a, b), true
			}
		}
	}
	for first := range group {
		g := t.newGroup()
		for i, of := range group {
			if of == first {
				g.add(k, int(k.index[i]))
			}
		}
		t.keepGroup(g)
	}
}

func (t *DeviceTable) newGroup() group { return make(group, len(t.own)) }

func (g group) add(k *deviceKind, i int) { g[k.word+i/64] |= 1 << (i % 64) }

// keepGroup adds a group of two or more devices, unless the same group was added before.
func (t *DeviceTable) keepGroup(g group) {
	if g.size() > 1 && !slices.ContainsFunc(t.groups, func(o group) bool { return slices.Equal(o, g) }) {
		t.groups = append(t.groups, g)
	}
}

// HasGroups reports whether some devices belong together: below one switch, at one root complex, or
// by links.
func (t *DeviceTable) HasGroups() bool { return len(t.groups) > 0 }

// Breaks returns how many completely free groups would be split if the devices were taken. A group
// is split if devices contains some of its members but not all. devices must not contain a device
// twice.
func (t *DeviceTable) Breaks(b *Book, devices []DeviceRef) (n int) {
	for _, g := range t.groups {
		if g.isFree(b) && t.isPart(g, devices) {
			n++
		}
	}
	return n
}

func (g group) isFree(b *Book) bool {
	for i, w := range g {
		if b.devices[i]&w != w {
			return false
		}
	}
	return true
}

// isPart reports whether devices contains some devices of the group, but not all.
func (t *DeviceTable) isPart(g group, devices []DeviceRef) bool {
	taken := 0
	for _, d := range devices {
		if at, bit := t.bitOf(d); g[at]&bit != 0 {
			taken++
		}
	}
	return taken > 0 && taken < g.size()
}

func (g group) size() (n int) {
	for _, w := range g {
		n += bits.OnesCount64(w)
	}
	return n
}
