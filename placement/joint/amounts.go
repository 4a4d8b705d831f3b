package joint

// AmountTable has the capacity of a machine's NUMA nodes for each kind of amount.
type AmountTable struct {
	kinds     []AmountKind
	nodeCount int
	capacity  []uint64 // by kind, then NUMA node
}

// at returns the index of a kind's amount on the NUMA node at a position.
func (all *AmountTable) at(k KindIndex, node int) int { return int(k)*all.nodeCount + node }

// KindIndex identifies a resource that is assigned by amount: 0 is CPU time, and i is
// Config.Amounts[i-1].
type KindIndex uint8

// CPU is the kind of CPU time on every machine, in thousandths of a CPU. A pinned CPU counts as
// 1000.
const CPU KindIndex = 0

// AmountKind is a kind of memory.
type AmountKind struct {
	Name string // such as "memory" or "hugepages-2Mi"
	Unit uint64 // in bytes; the amounts on a NUMA node are multiples of Unit; 0 means 1
}

// Amount is an amount of one kind.
type Amount struct {
	Kind KindIndex
	N    uint64
}

// Room returns the free amount of a kind on the NUMA node at a position, or 0 if more is assigned
// than it has.
func (all *AmountTable) Room(b *Book, k KindIndex, node int) uint64 {
	i := all.at(k, node)
	if b.used[i] >= all.capacity[i] {
		return 0
	}
	return all.capacity[i] - b.used[i]
}

// Kind returns the kind with this resource name, and whether the machine has such a kind.
func (all *AmountTable) Kind(name string) (KindIndex, bool) {
	for k := range all.kinds {
		if all.kinds[k].Name == name {
			return KindIndex(k), true
		}
	}
	return 0, false
}

// KindName returns the name of a kind.
func (all *AmountTable) KindName(k KindIndex) string { return all.kinds[k].Name }

// Kinds returns the number of kinds; they are numbered from 0.
func (all *AmountTable) Kinds() KindIndex { return KindIndex(len(all.kinds)) }

// Capacity returns how much of a kind the NUMA node at a position has.
func (all *AmountTable) Capacity(k KindIndex, node int) uint64 { return all.capacity[all.at(k, node)] }

// Whole returns the amount rounded up to a multiple of the kind's Unit.
func (all *AmountTable) Whole(a Amount) uint64 {
	unit := all.kinds[a.Kind].Unit
	return (a.N + unit - 1) / unit * unit
}

func (all *AmountTable) enter(b *Book, a NodeAmount, take bool) {
	if int(a.Kind) < len(all.kinds) && int(a.Node) < all.nodeCount {
		b.charge(all.at(a.Kind, int(a.Node)), a.N, take)
	}
}

// Take records an amount as assigned.
func (all *AmountTable) Take(b *Book, a NodeAmount) { all.enter(b, a, true) }

// Overdrawn reports whether book b assigns more of some kind than a NUMA node has, and also more
// than book o assigns there.
func (all *AmountTable) Overdrawn(b, o *Book) bool {
	for i, used := range b.used {
		if used > max(all.capacity[i], o.used[i]) {
			return true
		}
	}
	return false
}
