package joint

import (
	"math/bits"

	"github.com/berth-dev/berth/placement/hint"
)

// FreeOn returns how many more CPUs can be pinned on the NUMA node at a position.
func (m *Model) FreeOn(b *Book, node int) int {
	return int(min(uint64(b.nodes[node].free), m.Amounts.Room(b, CPU, node)/1000))
}

// Score returns Strategy.Score of the machine, as if the NUMA nodes of the mask were also in use. A
// NUMA node is in use if a pod has CPUs or CPU time there. NUMA nodes without CPUs do not count.
// With FillNodes an empty machine scores 0, so that the scheduler uses it last.
func (m *Model) Score(b *Book, with hint.Mask) int {
	used, total, before := 0, 0, false
	for v := range m.Cores.nodes {
		if s := m.Cores.nodes[v].cores; s.from == s.to {
			continue
		}
		if total++; with.Has(v) || b.used[v] > 0 {
			used++
		}
		before = before || b.used[v] > 0
	}
	if m.strategy == FillNodes && !before {
		return 0
	}
	return m.strategy.Score(used, total)
}

// Take records the resources of a pod. It ignores resources that the machine does not have.
func (m *Model) Take(b *Book, h *Held) { m.enter(b, h, true) }

// Give frees the resources that Take recorded.
func (m *Model) Give(b *Book, h *Held) { m.enter(b, h, false) }

func (m *Model) enter(b *Book, h *Held, take bool) {
	m.Cores.enter(b, h, take)
	for _, a := range h.Amounts {
		m.Amounts.enter(b, a, take)
	}
	for _, d := range h.Devices {
		m.Devices.enter(b, d, take)
	}
}

// Confine changes the kinds of resources that place has. It makes all resources of these kinds
// unavailable, except left, which is the unused part of place.
func (m *Model) Confine(b *Book, place, left *Held) {
	kinds := make([]bool, len(m.Amounts.kinds))
	kinds[CPU] = !place.CPUs.IsEmpty()
	for _, a := range place.Amounts {
		kinds[a.Kind] = true
	}
	for k := range m.Amounts.kinds {
		if kinds[k] {
			row := k * len(m.Cores.nodes)
			copy(b.used[row:row+len(m.Cores.nodes)], m.Amounts.capacity[row:])
		}
	}
	if kinds[CPU] {
		for i := range m.Cores.cores {
			m.Cores.setFree(b, i, 0)
		}
	}
	for _, d := range place.Devices {
		if int(d.Kind) < len(m.Devices.kinds) {
			for i := range m.Devices.kinds[d.Kind].index {
				m.Devices.enter(b, DeviceRef{Kind: d.Kind, Index: uint16(i)}, true)
			}
		}
	}
	m.Give(b, left)
}

// Near limits the free resources of b so that a request uses the resources of h first. The
// resources of h must be free in b. For each kind in h, Near limits the free amount on each NUMA
// node to h's amount there, plus the amount by which the request exceeds the total of h. If cores
// is set, the CPUs that Near leaves free in addition to h's CPUs are whole cores where possible.
func (m *Model) Near(b *Book, h *Held, asked func(KindIndex) uint64, cores bool) {
	n := len(m.Cores.nodes)
	has, own := make([]uint64, len(m.Amounts.capacity)), m.Cores.shut(h)
	for id := range own.All() {
		has[m.Cores.cores[m.Cores.place[id].core].node] += 1000
	}
	for _, a := range h.Amounts {
		has[int(a.Kind)*n+int(a.Node)] += a.N
	}
	for k := range KindIndex(len(m.Amounts.kinds)) {
		row, all := has[int(k)*n:int(k)*n+n], uint64(0)
		for _, amount := range row {
			all += amount
		}
		if all == 0 {
			continue
		}
		beyond := asked(k) - min(asked(k), all)
		for v, amount := range row {
			if room := m.Amounts.Room(b, k, v); room > amount+beyond {
				b.used[int(k)*n+v] += room - amount - beyond
			}
			if k == CPU && !own.IsEmpty() {
				m.Cores.keepBeside(b, &own, span{m.Cores.nodes[v].cores.from, m.Cores.nodes[v].cores.to}, int((beyond+999)/1000), cores)
			}
		}
	}
}

// Trim limits, on each NUMA node, how many CPUs outside h are free in b: no more than the free CPU
// time of o allows. o is a book in which h is assigned. After Trim, a pod that takes all CPUs of h
// and other CPUs does not exceed the free CPU time.
func (m *Model) Trim(b, o *Book, h *Held) {
	keep := m.Cores.shut(h)
	for v := range m.Cores.nodes {
		extra := m.Amounts.Room(o, CPU, v) / 1000
		for i := m.Cores.nodes[v].cores.from; i < m.Cores.nodes[v].cores.to; i++ {
			left := b.free[i]
			for w := left; w != 0; w &= w - 1 {
				bit := w & -w
				switch {
				case keep.Has(m.Cores.cores[i].cpus[bits.TrailingZeros8(bit)]):
				case extra > 0:
					extra--
				default:
					left &^= bit
				}
			}
			m.Cores.setFree(b, int(i), left)
		}
	}
}

// Problem describes why a pod cannot hold h in this book: h has CPUs that do not exist or are
// reserved, it uses or keeps idle CPUs of another pod, or it has devices of another pod. It returns
// "" if there is no problem.
func (m *Model) Problem(b *Book, h *Held) string {
	if extra := h.CPUs.AndNot(&m.Cores.all); !extra.IsEmpty() {
		return "the machine has no CPUs " + extra.String()
	}
	if extra := h.CPUs.And(&m.Cores.reserved); !extra.IsEmpty() {
		return "CPUs " + extra.String() + " are reserved"
	}
	free := m.Cores.Free(b)
	shut := m.Cores.shut(h)
	if extra := shut.AndNot(&free); !extra.IsEmpty() {
		return "another pod has CPUs " + extra.String()
	}
	for _, d := range h.Devices {
		if m.Devices.IsTaken(b, d) {
			return "another pod has " + m.Devices.kinds[d.Kind].name + " " + m.Devices.ID(d)
		}
	}
	return ""
}

// Only makes all CPUs and amounts on the NUMA nodes outside the mask unavailable. It does not
// change devices.
func (m *Model) Only(b *Book, mask hint.Mask) {
	for v := range m.Cores.nodes {
		if mask.Has(v) {
			continue
		}
		for k := range m.Amounts.kinds {
			i := k*len(m.Cores.nodes) + v
			b.used[i] = max(b.used[i], m.Amounts.capacity[i])
		}
		for i := m.Cores.nodes[v].cores.from; i < m.Cores.nodes[v].cores.to; i++ {
			m.Cores.setFree(b, int(i), 0)
		}
	}
}
