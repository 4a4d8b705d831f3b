package joint

import (
	"math/bits"
	"slices"
)

// group is devices that belong together, as bits of Book.devices.
type group []uint64

// compileGroups finds the devices that belong together: those of one switch, or of one root complex
// where there is no switch, of whatever kinds; and those of a kind that are linked, by at least as
// many links as some pair of them.
func (m *Model) compileGroups(c *Config) {
	for at := range m.places {
		if p := &m.places[at]; !p.isSwitch && !p.hasRoot {
			continue
		}
		g := m.newGroup()
		for k := range m.devices {
			for i, where := range m.devices[k].at {
				if int(where) == at {
					g.add(&m.devices[k], i)
				}
			}
		}
		m.keepGroup(g)
	}
	for k := range c.Devices {
		var counts []int
		for _, l := range c.Devices[k].Links {
			if !slices.Contains(counts, l.Count) {
				counts = append(counts, l.Count)
			}
		}
		for _, least := range counts {
			m.linkedGroups(&c.Devices[k], &m.devices[k], least)
		}
	}
}

// linkedGroups keeps the groups of devices that are reached from one another by so many links at
// each step.
func (m *Model) linkedGroups(kind *DeviceKind, k *deviceKind, least int) {
	group := make([]int, len(kind.Devices)) // by device, the lowest one of its group
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
		g := m.newGroup()
		for i, of := range group {
			if of == first {
				g.add(k, int(k.index[i]))
			}
		}
		m.keepGroup(g)
	}
}

func (m *Model) newGroup() group { return make(group, len(m.ownDevices)) }

func (g group) add(k *deviceKind, i int) { g[k.word+i/64] |= 1 << (i % 64) }

// keepGroup keeps a group of two devices or more, once.
func (m *Model) keepGroup(g group) {
	if g.size() > 1 && !slices.ContainsFunc(m.groupsOfDevices, func(o group) bool { return slices.Equal(o, g) }) {
		m.groupsOfDevices = append(m.groupsOfDevices, g)
	}
}

// HasGroups says whether some devices belong together: below one switch, at one root complex, or by
// links.
func (m *Model) HasGroups() bool { return len(m.groupsOfDevices) > 0 }

// Breaks counts groups of devices that belong together and are all free in a book: it counts a
// group if these devices, each named once, are a part of it, and not all.
func (m *Model) Breaks(b *Book, devices []DeviceRef) (n int) {
	for _, g := range m.groupsOfDevices {
		if g.isFree(b) && m.isPart(g, devices) {
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

// isPart says whether some devices of the group are among these, and some are not.
func (m *Model) isPart(g group, devices []DeviceRef) bool {
	taken := 0
	for _, d := range devices {
		k := &m.devices[d.Kind]
		i := int(k.index[d.Index])
		taken += int(g[k.word+i/64] >> (i % 64) & 1)
	}
	return taken > 0 && taken < g.size()
}

func (g group) size() (n int) {
	for _, w := range g {
		n += bits.OnesCount64(w)
	}
	return n
}
