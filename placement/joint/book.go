package joint

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/berth-dev/berth/topology"
)

func ones(m uint8) int { return bits.OnesCount8(m) }

// Book says what is handed out of a machine. It belongs to the Model that made it.
type Book struct {
	// free holds, for each core, the threads that may be pinned and that nobody has.
	free []uint8
	// used is what is handed out of each kind, by kind and node. Pinned CPUs and the ones that stay
	// idle for somebody count 1000 each in kind CPU.
	used []uint64
	// nodes and groups sum up free; they follow from it.
	nodes, groups []stat
	// devices are the devices that can be had, kind after kind, as bits in the order of the model:
	// the ones that are well, and that nobody has. taken and sick say why others cannot.
	devices, taken, sick []uint64
}

// stat sums up the free threads of some cores.
type stat struct {
	free  int32 // threads
	whole int32 // cores with all their threads free
	some  int32 // cores with a free thread
}

func (s *stat) add(k *core, free uint8, sign int32) {
	if free == 0 {
		return
	}
	s.free += sign * int32(ones(free))
	s.some += sign
	if free == k.full {
		s.whole += sign
	}
}

// setFree says which threads of a core are free.
func (m *Model) setFree(b *Book, i int, free uint8) {
	k := &m.cores[i]
	for _, s := range [...]*stat{&b.nodes[k.node], &b.groups[k.group]} {
		s.add(k, b.free[i], -1)
		s.add(k, free, 1)
	}
	b.free[i] = free
}

// BeginFull begins with a machine that is handed out completely, so that what is given back to it
// is all there is.
func (t *Try) BeginFull() {
	clear(t.Book.free)
	clear(t.Book.nodes)
	clear(t.Book.groups)
	clear(t.Book.devices)
	clear(t.Book.sick)
	copy(t.Book.taken, t.m.ownDevices)
	copy(t.Book.used, t.m.capacity)
}

// CopyFrom makes b equal to o, reusing its memory.
func (b *Book) CopyFrom(o *Book) {
	b.free = append(b.free[:0], o.free...)
	b.used = append(b.used[:0], o.used...)
	b.nodes = append(b.nodes[:0], o.nodes...)
	b.groups = append(b.groups[:0], o.groups...)
	b.devices = append(b.devices[:0], o.devices...)
	b.taken = append(b.taken[:0], o.taken...)
	b.sick = append(b.sick[:0], o.sick...)
}

// Equal says whether the same is handed out.
func (b *Book) Equal(o *Book) bool {
	return slices.Equal(b.free, o.free) && slices.Equal(b.used, o.used) &&
		slices.Equal(b.devices, o.devices) && slices.Equal(b.taken, o.taken)
}

// Append adds to buf everything that an answer depends on.
func (b *Book) Append(buf []byte) []byte {
	buf = append(buf, b.free...)
	for _, n := range b.used {
		buf = binary.AppendUvarint(buf, n)
	}
	for _, w := range b.devices {
		buf = binary.LittleEndian.AppendUint64(buf, w)
	}
	return buf
}

// FreeCPUs returns the CPUs that may be pinned and that nobody has.
func (m *Model) FreeCPUs(b *Book) topology.CPUSet { return m.cpusOf(b.free) }

// SharedCPUs returns the CPUs on which shared containers run: the ones that nobody has, and the
// reserved ones.
func (m *Model) SharedCPUs(b *Book) topology.CPUSet {
	s := m.cpusOf(b.free)
	return s.Or(&m.reserved).And(&m.all)
}

// cpusOf translates threads by core to CPUs.
func (m *Model) cpusOf(threads []uint8) topology.CPUSet {
	var s topology.CPUSet
	for i, w := range threads {
		for ; w != 0; w &= w - 1 {
			s.Add(m.cores[i].cpus[bits.TrailingZeros8(w)])
		}
	}
	return s
}

// room returns what is left of a kind on the node at a position, 0 if more is used than there is.
func (m *Model) room(b *Book, k Kind, node int) uint64 {
	i := int(k)*len(m.nodes) + node
	if b.used[i] >= m.capacity[i] {
		return 0
	}
	return m.capacity[i] - b.used[i]
}

// FreeOn returns how many CPUs of the NUMA node at a position can still be pinned.
func (m *Model) FreeOn(b *Book, node int) int {
	return int(min(uint64(b.nodes[node].free), m.room(b, CPU, node)/1000))
}

// Room returns what is left of a kind on the NUMA node at a position.
func (m *Model) Room(b *Book, k Kind, node int) uint64 { return m.room(b, k, node) }

// Used says how many NUMA nodes have something handed out.
func (m *Model) Used(b *Book) (n int) {
	for v := range m.nodes {
		for k := range m.kinds {
			if b.used[k*len(m.nodes)+v] > 0 {
				n++
				break
			}
		}
	}
	return n
}

// Held is what a pod holds as a whole: the union of its containers' CPUs, and on each NUMA node the
// most that it has at one time.
type Held struct {
	CPUs topology.CPUSet
	// Alone is those of the CPUs that are exclusive at the level Exclusive.
	Alone     topology.CPUSet
	Exclusive Exclusive
	Amounts   []NodeAmount
	Devices   []DeviceRef
}

// Amount is what is held of a kind on all NUMA nodes, of CPU with 1000 for each CPU.
func (h *Held) Amount(k Kind) (n uint64) {
	if k == CPU {
		n = 1000 * uint64(h.CPUs.Len())
	}
	for _, a := range h.Amounts {
		if a.Kind == k {
			n += a.N
		}
	}
	return n
}

// Count is how many devices of a kind are held.
func (h *Held) Count(kind uint8) (n int) {
	for _, d := range h.Devices {
		if d.Kind == kind {
			n++
		}
	}
	return n
}

// NodeAmount is an amount on the NUMA node at a position.
type NodeAmount struct {
	Kind Kind
	Node uint8
	N    uint64
}

// Take writes down what a pod holds. CPUs and nodes that the machine does not have are left out:
// Problem finds them.
func (m *Model) Take(b *Book, h *Held) { m.enter(b, h, true) }

// Give takes back what Take wrote down.
func (m *Model) Give(b *Book, h *Held) { m.enter(b, h, false) }

// Confine leaves of each kind of a place nothing but what is left of it. Other kinds stay as they
// are.
func (m *Model) Confine(b *Book, place, left *Held) {
	kinds := make([]bool, len(m.kinds))
	kinds[CPU] = !place.CPUs.IsEmpty()
	for _, a := range place.Amounts {
		kinds[a.Kind] = true
	}
	for k := range m.kinds {
		if kinds[k] {
			row := k * len(m.nodes)
			copy(b.used[row:row+len(m.nodes)], m.capacity[row:])
		}
	}
	if kinds[CPU] {
		for i := range m.cores {
			m.setFree(b, i, 0)
		}
	}
	for _, d := range place.Devices {
		if int(d.Kind) < len(m.devices) {
			for i := range m.devices[d.Kind].index {
				m.enterDevice(b, DeviceRef{Kind: d.Kind, Index: uint16(i)}, true)
			}
		}
	}
	m.Give(b, left)
}

// For each kind that h has any of, Near leaves no more on a NUMA node than h has there plus what is
// asked beyond all of h. What h has is free in b. What takes the request then takes that first.
// With cores, CPUs beyond those of h are left as whole cores.
func (m *Model) Near(b *Book, h *Held, asked func(Kind) uint64, cores bool) {
	n := len(m.nodes)
	has, own := make([]uint64, len(m.capacity)), m.shut(h)
	for id := range own.All() {
		has[m.cores[m.place[id].core].node] += 1000
	}
	for _, a := range h.Amounts {
		has[int(a.Kind)*n+int(a.Node)] += a.N
	}
	for k := range Kind(len(m.kinds)) {
		row, all := has[int(k)*n:int(k)*n+n], uint64(0)
		for _, amount := range row {
			all += amount
		}
		if all == 0 {
			continue
		}
		beyond := asked(k) - min(asked(k), all)
		for v, amount := range row {
			if room := m.room(b, k, v); room > amount+beyond {
				b.used[int(k)*n+v] += room - amount - beyond
			}
			if k == CPU && !own.IsEmpty() {
				m.keepBeside(b, &own, span{m.nodes[v].cores.from, m.nodes[v].cores.to}, int((beyond+999)/1000), cores)
			}
		}
	}
}

// keepBeside leaves of some free CPUs, beside those of own, so many: those of cores first that are
// free as a whole. With cores the last of these stays whole.
func (m *Model) keepBeside(b *Book, own *topology.CPUSet, of span, extra int, cores bool) {
	free := slices.Clone(b.free)
	for _, whole := range [...]bool{true, false} {
		for i := of.from; i < of.to; i++ {
			k, keep, enough := &m.cores[i], free[i], extra <= 0
			if whole != (keep == k.full) {
				continue
			}
			for w := keep; w != 0; w &= w - 1 {
				bit := w & -w
				switch {
				case own.Has(k.cpus[bits.TrailingZeros8(bit)]):
				case enough, extra <= 0 && !cores:
					keep &^= bit
				default:
					extra--
				}
			}
			m.setFree(b, int(i), keep)
		}
	}
}

// Overdrawn says whether more of some kind is handed out on a NUMA node than there is, and more
// than in o.
func (m *Model) Overdrawn(b, o *Book) bool {
	for i, used := range b.used {
		if used > max(m.capacity[i], o.used[i]) {
			return true
		}
	}
	return false
}

func (m *Model) enter(b *Book, h *Held, take bool) {
	shut := m.shut(h)
	for i, w := range shut.Words() {
		for ; w != 0; w &= w - 1 {
			at := m.place[i*64+bits.TrailingZeros64(w)]
			k := &m.cores[at.core]
			if at.bit&k.own == 0 {
				continue
			}
			if was := b.free[at.core]; take {
				m.setFree(b, int(at.core), was&^at.bit)
			} else {
				m.setFree(b, int(at.core), was|at.bit)
			}
			b.charge(int(k.node), 1000, take)
		}
	}
	for _, a := range h.Amounts {
		m.enterAmount(b, a, take)
	}
	for _, d := range h.Devices {
		m.enterDevice(b, d, take)
	}
}

func (m *Model) enterAmount(b *Book, a NodeAmount, take bool) {
	if int(a.Kind) < len(m.kinds) && int(a.Node) < len(m.nodes) {
		b.charge(int(a.Kind)*len(m.nodes)+int(a.Node), a.N, take)
	}
}

// TakeAmount writes down an amount alone.
func (m *Model) TakeAmount(b *Book, a NodeAmount) { m.enterAmount(b, a, true) }

// TakeCPUs writes down CPUs alone, that may be shared at any level.
func (m *Model) TakeCPUs(b *Book, cpus topology.CPUSet) {
	for i, w := range cpus.Words() {
		for ; w != 0; w &= w - 1 {
			at := m.place[i*64+bits.TrailingZeros64(w)]
			m.shutThreads(b, int(at.core), at.bit&m.cores[at.core].own)
		}
	}
}

// shutCores takes threads by core, with the ones that stay idle for them.
func (m *Model) shutCores(b *Book, got []uint8, e Exclusive) {
	for i, w := range got {
		if w == 0 {
			continue
		}
		switch k := &m.cores[i]; e {
		case ExclusiveNUMA:
			for j := m.nodes[k.node].cores.from; j < m.nodes[k.node].cores.to; j++ {
				m.shutThreads(b, int(j), b.free[j])
			}
		case ExclusiveCore:
			m.shutThreads(b, i, k.own)
		default:
			m.shutThreads(b, i, w)
		}
	}
}

func (m *Model) shutThreads(b *Book, i int, threads uint8) {
	if threads != 0 {
		b.used[m.cores[i].node] += 1000 * uint64(ones(threads))
		m.setFree(b, i, b.free[i]&^threads)
	}
}

func (b *Book) charge(i int, n uint64, take bool) {
	if take {
		b.used[i] += n
	} else {
		b.used[i] -= min(n, b.used[i])
	}
}

// Trim leaves no more free CPUs in b beside those of h on each NUMA node than there is CPU time for
// in o, the book in which h is handed out: who takes some of both is to overdraw nothing.
func (m *Model) Trim(b, o *Book, h *Held) {
	keep := m.shut(h)
	for v := range m.nodes {
		extra := m.room(o, CPU, v) / 1000
		for i := m.nodes[v].cores.from; i < m.nodes[v].cores.to; i++ {
			left := b.free[i]
			for w := left; w != 0; w &= w - 1 {
				bit := w & -w
				switch {
				case keep.Has(m.cores[i].cpus[bits.TrailingZeros8(bit)]):
				case extra > 0:
					extra--
				default:
					left &^= bit
				}
			}
			m.setFree(b, int(i), left)
		}
	}
}

// shut is the CPUs that nobody else gets: those of the pod, and the ones that stay idle for it.
func (m *Model) shut(h *Held) topology.CPUSet {
	out := h.CPUs.And(&m.all)
	if h.Exclusive == Shareable {
		return out
	}
	alone := h.Alone.And(&m.all)
	for i, w := range alone.Words() {
		for ; w != 0; w &= w - 1 {
			at := m.place[i*64+bits.TrailingZeros64(w)]
			s := span{at.core, at.core + 1}
			if h.Exclusive == ExclusiveNUMA {
				s = m.nodes[m.cores[at.core].node].cores
			}
			for c := s.from; c < s.to; c++ {
				m.addThreads(&out, &m.cores[c])
			}
		}
	}
	return out
}

func (m *Model) addThreads(s *topology.CPUSet, k *core) {
	for w := k.own; w != 0; w &= w - 1 {
		s.Add(k.cpus[bits.TrailingZeros8(w)])
	}
}

// Problem says what keeps a pod from holding h in this book: CPUs that the machine does not have,
// that are reserved, or that somebody else has, and devices that somebody else has. An empty text
// means none.
func (m *Model) Problem(b *Book, h *Held) string {
	if extra := h.CPUs.AndNot(&m.all); !extra.IsEmpty() {
		return "the machine has no CPUs " + extra.String()
	}
	if extra := h.CPUs.And(&m.reserved); !extra.IsEmpty() {
		return "CPUs " + extra.String() + " are reserved"
	}
	free := m.FreeCPUs(b)
	shut := m.shut(h)
	if extra := shut.AndNot(&free); !extra.IsEmpty() {
		return "somebody else has CPUs " + extra.String()
	}
	for _, d := range h.Devices {
		if m.IsTaken(b, d) {
			return "somebody else has " + m.devices[d.Kind].name + " " + m.DeviceID(d)
		}
	}
	return ""
}
