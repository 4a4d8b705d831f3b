package joint

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

func ones(m uint8) int { return bits.OnesCount8(m) }

// Book records the assigned resources of a machine. Use it only with the Model that created it.
type Book struct {
	// free has, for each core, a bit for each free thread that may be pinned, as in core.own.
	free []uint8
	// used is the assigned amount of each kind, by kind, then NUMA node. In the kind CPU, each CPU
	// that is pinned or stays idle for a pod counts as 1000.
	used []uint64
	// nodes sums up free for each NUMA node, and groups for each element of CoreTable.groups.
	nodes, groups []stat
	// devices has a bit for each healthy and free device, kind after kind, in the order of the
	// model (deviceKind). taken has the devices that pods have, and sick the devices that MarkSick
	// marked.
	devices, taken, sick []uint64
}

// stat sums up the free threads of some cores.
type stat struct {
	free  int32 // threads
	whole int32 // cores with all their threads free
	some  int32 // cores with at least one free thread
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

// CopyFrom copies o to b, and reuses the memory of b.
func (b *Book) CopyFrom(o *Book) {
	b.free = append(b.free[:0], o.free...)
	b.used = append(b.used[:0], o.used...)
	b.nodes = append(b.nodes[:0], o.nodes...)
	b.groups = append(b.groups[:0], o.groups...)
	b.devices = append(b.devices[:0], o.devices...)
	b.taken = append(b.taken[:0], o.taken...)
	b.sick = append(b.sick[:0], o.sick...)
}

// Equal reports whether both books have the same CPUs, amounts and devices assigned.
func (b *Book) Equal(o *Book) bool {
	return slices.Equal(b.free, o.free) && slices.Equal(b.used, o.used) &&
		slices.Equal(b.devices, o.devices) && slices.Equal(b.taken, o.taken)
}

// Append appends to buf everything in the book that a result of Place depends on.
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

func (b *Book) charge(i int, n uint64, take bool) {
	if take {
		b.used[i] += n
	} else {
		b.used[i] -= min(n, b.used[i])
	}
}
