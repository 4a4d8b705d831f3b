package cpu

import (
	"math/bits"
	"slices"
	"strconv"

	"github.com/berth-dev/berth/placement/release"
	"github.com/berth-dev/berth/topology"
)

// Options are the CPU manager's policy options (KubeletConfiguration.cpuManagerPolicyOptions) and
// the release that interprets them. The caller checks which combinations the kubelet accepts.
type Options struct {
	FullPhysicalCPUsOnly  bool // full-pcpus-only
	DistributeAcrossNUMA  bool // distribute-cpus-across-numa
	AlignBySocket         bool // align-by-socket
	DistributeAcrossCores bool // distribute-cpus-across-cores
	StrictReservation     bool // strict-cpu-reservation
	PreferAlignByUncore   bool // prefer-align-cpus-by-uncorecache
	// Version is the kubelet's release, the minor number of 1.x; 0 means 36. The kubelet takes CPUs
	// in three different ways: up to 33, from 34 to 36, and since 37.
	Version release.Version
}

// Thread is a CPU as the kubelet stores it (cpumanager/topology.CPUInfo).
type Thread struct {
	CPU    topology.CPUID
	NUMA   topology.NUMAID
	Socket int
	Core   int // the lowest CPU of the core's threads on this NUMA node
	Uncore int // the core's first uncore cache, or Socket if it has none
}

// Node is the machine as the kubelet's cpumanager/topology.CPUTopology has it. The counts are
// separate from Threads, as in the kubelet, which divides by them.
type Node struct {
	NumCPUs    int // MachineInfo.NumCores, which counts threads
	NumCores   int // sum of len(MachineInfo.Topology[i].Cores)
	NumSockets int // MachineInfo.NumSockets
	// Threads may be in any order. If two threads have the same CPU, the later one counts.
	Threads []Thread
}

// words is a CPUSet as machine words. A Topology uses only the first Topology.words of them.
type words = [topology.MaxCPUs / 64]uint64

// piece is the part of a CPU set in one machine word.
type piece struct {
	mask uint64
	word uint8
}

// group has the CPUs of a NUMA node, socket, core or uncore cache.
type group struct {
	id     int
	size   int
	pieces []piece
}

// kind has all groups of one kind: NUMA nodes, sockets, cores or uncore caches.
type kind struct {
	groups   []group // in ascending order of id, so that indices have the same order as ids
	smallest int     // the size of the smallest group
	// average is the kubelet's integer average of CPUs in a group, or 0 for NUMA nodes. byAverage
	// means that the kubelet treats a group as completely free if the number of its free CPUs
	// equals average, whatever the size of the group.
	average   int
	byAverage bool
}

// whole returns the number of free CPUs with which the kubelet treats a group as completely free.
func (k *kind) whole(g *group) int {
	if k.byAverage {
		return k.average
	}
	return g.size
}

// link means that the group with index child, of another kind, has CPUs in common with a parent.
type link struct {
	child uint16
	// part has the CPUs in common. It is nil if the parent contains the whole child.
	part []piece
}

// Topology is a Node compiled for one set of Options. It is immutable.
type Topology struct {
	opts  Options
	words int
	all   topology.CPUSet

	numSockets int // Node.NumSockets
	regular    bool

	numa, sockets, cores, uncores kind
	// numaFirst means that the outer groups are the NUMA nodes and the inner groups the sockets. If
	// it is not set, the outer groups are the sockets.
	numaFirst    bool
	outer, inner kind

	inners      [][]link // by outer group
	coresOf     [][]link // by inner group
	uncoresOf   [][]link // by NUMA node
	uncoreCores [][]link // by uncore cache

	// reach has, by NUMA node, the CPUs that the kubelet takes first for a hint with this NUMA
	// node: its own CPUs or, with align-by-socket, all CPUs of its sockets.
	reach [][]piece
	// socketsOf has, by NUMA node, a bit set with the indices of the sockets that have CPUs there.
	socketsOf []words
}

// New compiles a Node. The error is a *NodeError.
func New(n Node, o Options) (*Topology, error) {
	if o.Version == 0 {
		o.Version = release.V136
	}
	if err := check(&n, &o); err != nil {
		return nil, err
	}
	threads := unique(n.Threads)
	t := &Topology{opts: o, numSockets: n.NumSockets}
	for _, th := range threads {
		t.all.Add(th.CPU)
		t.words = max(t.words, int(th.CPU)/64+1)
	}
	t.numa = kindOf(threads, func(th *Thread) int { return int(th.NUMA) })
	t.sockets = kindOf(threads, func(th *Thread) int { return th.Socket })
	t.sockets.average, t.sockets.byAverage = n.NumCPUs/n.NumSockets, true
	t.cores = kindOf(threads, func(th *Thread) int { return th.Core })
	t.cores.average, t.cores.byAverage = n.NumCPUs/n.NumCores, true
	t.uncores = kindOf(threads, func(th *Thread) int { return th.Uncore })
	t.uncores.average = n.NumCPUs / len(t.uncores.groups)
	t.linkUp()
	t.regular = t.isRegular()
	return t, nil
}

// check refuses counts with which the kubelet would divide by zero, unknown releases, and ids that
// topology.CPUSet or topology.NUMASet cannot contain.
func check(n *Node, o *Options) error {
	switch {
	case len(n.Threads) == 0:
		return &NodeError{"Threads", 0, "at least one"}
	case n.NumSockets < 1:
		return &NodeError{"NumSockets", n.NumSockets, "at least 1"}
	case n.NumCores < 1:
		return &NodeError{"NumCores", n.NumCores, "at least 1"}
	case n.NumCPUs < n.NumCores:
		return &NodeError{"NumCPUs", n.NumCPUs, "at least NumCores"}
	case !o.Version.Known():
		return &NodeError{"Options.Version", int(o.Version), "33 to 37"}
	}
	for i := range n.Threads {
		switch th := &n.Threads[i]; {
		case th.CPU >= topology.MaxCPUs:
			return &NodeError{"Threads[" + strconv.Itoa(i) + "].CPU", int(th.CPU), "less than " + strconv.Itoa(topology.MaxCPUs)}
		case th.NUMA >= topology.MaxNUMANodes:
			return &NodeError{"Threads[" + strconv.Itoa(i) + "].NUMA", int(th.NUMA), "less than " + strconv.Itoa(topology.MaxNUMANodes)}
		}
	}
	return nil
}

// unique returns the threads in ascending order of CPU. Of several threads with the same CPU,
// unique returns only the last.
func unique(threads []Thread) []Thread {
	sorted := slices.Clone(threads)
	slices.SortStableFunc(sorted, func(a, b Thread) int { return int(a.CPU) - int(b.CPU) })
	kept := sorted[:0]
	for i, th := range sorted {
		if i+1 == len(sorted) || sorted[i+1].CPU != th.CPU {
			kept = append(kept, th)
		}
	}
	return kept
}

// kindOf groups threads by their keys. The threads are in ascending order of CPU.
func kindOf(threads []Thread, key func(*Thread) int) kind {
	sets := map[int]*topology.CPUSet{}
	var ids []int
	for i := range threads {
		id := key(&threads[i])
		if sets[id] == nil {
			sets[id] = new(topology.CPUSet)
			ids = append(ids, id)
		}
		sets[id].Add(threads[i].CPU)
	}
	slices.Sort(ids)
	k := kind{smallest: topology.MaxCPUs}
	for _, id := range ids {
		g := group{id: id, size: sets[id].Len(), pieces: piecesOf(sets[id].Words())}
		k.groups, k.smallest = append(k.groups, g), min(k.smallest, g.size)
	}
	return k
}

func piecesOf(w *words) []piece {
	var ps []piece
	for i, m := range w {
		if m != 0 {
			ps = append(ps, piece{mask: m, word: uint8(i)})
		}
	}
	return ps
}

// linkUp sets numaFirst and the links between groups. As in the kubelet, the number of sockets is
// Node.NumSockets, and only NUMA nodes with CPUs count.
func (t *Topology) linkUp() {
	t.numaFirst = t.numSockets >= len(t.numa.groups)
	t.outer, t.inner = t.sockets, t.numa
	if t.numaFirst {
		t.outer, t.inner = t.numa, t.sockets
	}
	t.inners = links(&t.outer, &t.inner)
	t.coresOf = links(&t.inner, &t.cores)
	t.uncoresOf = links(&t.numa, &t.uncores)
	t.uncoreCores = links(&t.uncores, &t.cores)
	for i, ls := range links(&t.numa, &t.sockets) {
		var near, indices words
		for _, l := range ls {
			add(t.sockets.groups[l.child].pieces, &near)
			indices[l.child/64] |= 1 << (l.child % 64)
		}
		if !t.opts.AlignBySocket {
			near = t.numa.groups[i].words()
		}
		t.reach = append(t.reach, piecesOf(&near))
		t.socketsOf = append(t.socketsOf, indices)
	}
}

// socketCount returns on how many sockets the NUMA nodes with the given indices have CPUs.
func (t *Topology) socketCount(nodes []uint8) (n int) {
	var sockets words
	for _, i := range nodes {
		for w, m := range t.socketsOf[i] {
			sockets[w] |= m
		}
	}
	for _, m := range sockets {
		n += bits.OnesCount64(m)
	}
	return n
}

// links returns, for each parent, the children that share CPUs with the parent, in ascending order.
func links(parents, children *kind) [][]link {
	all := make([][]link, len(parents.groups))
	for p := range parents.groups {
		w := parents.groups[p].words()
		for c := range children.groups {
			common, n := intersect(children.groups[c].pieces, &w)
			switch n {
			case 0:
				continue
			case children.groups[c].size:
				common = nil
			}
			all[p] = append(all[p], link{child: uint16(c), part: common})
		}
	}
	return all
}

func (g *group) words() (w words) {
	for _, p := range g.pieces {
		w[p.word] |= p.mask
	}
	return w
}

func intersect(ps []piece, w *words) (common []piece, size int) {
	for _, p := range ps {
		if m := p.mask & w[p.word]; m != 0 {
			common = append(common, piece{mask: m, word: p.word})
			size += bits.OnesCount64(m)
		}
	}
	return common, size
}

// WholeCore returns the number of CPUs per core if the option full-pcpus-only is set, and 0 if it
// is not set.
func (t *Topology) WholeCore() uint64 {
	if !t.opts.FullPhysicalCPUsOnly {
		return 0
	}
	return uint64(t.cores.average)
}

// CPUs returns all CPUs of the machine.
func (t *Topology) CPUs() topology.CPUSet { return t.all }

// Regular reports whether every core and every socket has the average number of CPUs, and every
// core and every inner group is inside one group of the next higher kind. With
// prefer-align-cpus-by-uncorecache, every uncore cache must also be inside one NUMA node. On a
// Regular machine, the kubelet takes only available CPUs, and as many as requested. On other
// machines (with offline siblings or hybrid processors), the kubelet may assign CPUs that other
// containers have (kubernetes#140495 and #124066).
func (t *Topology) Regular() bool { return t.regular }

func (t *Topology) isRegular() bool {
	uneven := func(k *kind) bool {
		return slices.ContainsFunc(k.groups, func(g group) bool { return g.size != k.average })
	}
	return !uneven(&t.cores) && !uneven(&t.sockets) &&
		!spans(t.inners) && !spans(t.coresOf) && !(t.opts.PreferAlignByUncore && spans(t.uncoresOf))
}

// spans reports whether any child is only partly inside a parent.
func spans(all [][]link) bool {
	for _, ls := range all {
		for i := range ls {
			if ls[i].part != nil {
				return true
			}
		}
	}
	return false
}

// Siblings returns all CPUs of every core that has a CPU in set. For the reserved CPUs this is the
// kubelet's reservedPhysicalCPUs. If the machine lacks a CPU of set, the error is a *NodeError with
// this CPU.
func (t *Topology) Siblings(set topology.CPUSet) (topology.CPUSet, error) {
	if foreign := set.AndNot(&t.all); !foreign.IsEmpty() {
		id, _ := foreign.Lowest()
		return topology.CPUSet{}, &NodeError{"CPU", int(id), "a CPU of the node"}
	}
	var out topology.CPUSet
	w := set.Words()
	for i := range t.cores.groups {
		if core := &t.cores.groups[i]; overlaps(core.pieces, w) {
			add(core.pieces, out.Words())
		}
	}
	return out, nil
}

// count returns how many CPUs of ps are in w.
func count(ps []piece, w *words) int {
	n := 0
	for _, p := range ps {
		n += bits.OnesCount64(p.mask & w[p.word&15])
	}
	return n
}

// overlaps reports whether any CPU of ps is in w.
func overlaps(ps []piece, w *words) bool {
	for _, p := range ps {
		if p.mask&w[p.word&15] != 0 {
			return true
		}
	}
	return false
}

func add(ps []piece, w *words) {
	for _, p := range ps {
		w[p.word&15] |= p.mask
	}
}
