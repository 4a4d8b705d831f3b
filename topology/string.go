package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// String prints the machine as a machine string, in the grammar of docs/topology.md. The text is
// one line, which is short if the machine is regular. If a Machine passes Check, Parse returns an
// equal Machine from its text.
func (m *Machine) String() string {
	w := writer{m: m}
	w.fit()
	w.writeLevels()
	w.writeNodes()
	w.b = appendLinks(appendDevices(w.b, m.Devices), m.Links)
	return strings.TrimPrefix(string(w.b), " ")
}

// Equal reports whether two machines are the same in every field; nil and empty lists are equal.
func (m *Machine) Equal(o *Machine) bool {
	return m.Online == o.Online && m.Offline == o.Offline && m.UnnumberedCaches == o.UnnumberedCaches && m.UnnumberedPackages == o.UnnumberedPackages &&
		slices.Equal(m.Packages, o.Packages) && slices.Equal(m.Dies, o.Dies) && slices.Equal(m.Cores, o.Cores) &&
		slices.Equal(m.L3s, o.L3s) && slices.EqualFunc(m.NUMANodes, o.NUMANodes, equalNodes) &&
		slices.Equal(m.Devices, o.Devices) && slices.Equal(m.Links, o.Links)
}

func equalNodes(a, b NUMANode) bool {
	return a.ID == b.ID && a.CPUs == b.CPUs && a.MemoryBytes == b.MemoryBytes &&
		slices.Equal(a.HugePages, b.HugePages) && slices.Equal(a.Distances, b.Distances)
}

// writer prints one machine. It writes the levels that the tree describes correctly as counts, and
// lists the objects of all other levels. fit finds the tree.
type writer struct {
	m    *Machine
	b    []byte
	tree *tree
}

func (w *writer) item(key string) { w.b = append(append(append(w.b, ' '), key...), ':') }

// part starts part i of an item.
func (w *writer) part(key string, i int) {
	if i > 0 {
		w.b = append(w.b, ';')
		return
	}
	w.item(key)
}

// setsOf returns the CPUs of the objects of a level, without NUMA nodes that have no CPUs.
func (w *writer) setsOf(kind levelKind) []CPUSet {
	switch kind {
	case levelPackage:
		return setsIn(w.m.Packages, func(o *Package) CPUSet { return o.CPUs })
	case levelDie:
		return setsIn(w.m.Dies, func(o *Die) CPUSet { return o.CPUs })
	case levelNUMA:
		sets := setsIn(w.m.NUMANodes, func(o *NUMANode) CPUSet { return o.CPUs })
		return slices.DeleteFunc(sets, func(s CPUSet) bool { return s.IsEmpty() })
	case levelL3:
		return setsIn(w.m.L3s, func(o *L3) CPUSet { return o.CPUs })
	case levelCore:
		return setsIn(w.m.Cores, func(o *Core) CPUSet { return o.CPUs })
	}
	return nil
}

func setsIn[T any](all []T, of func(*T) CPUSet) (sets []CPUSet) {
	for i := range all {
		sets = append(sets, of(&all[i]))
	}
	return sets
}

// fit looks for a tree. It begins with all levels that cover the machine. If the tree describes
// some of these levels wrongly, fit tries again without the wrong ones.
func (w *writer) fit() {
	total := w.extent()
	var kinds []levelKind
	for kind := levelPackage; kind < levelPU; kind++ {
		if covers(w.setsOf(kind), &w.m.Online) {
			kinds = append(kinds, kind)
		}
	}
	for total > 0 && len(kinds) > 0 {
		t := w.guess(kinds, total)
		held := w.held(t)
		if len(held) == len(t.levels)-1 {
			w.tree = t
			return
		}
		kinds = held
	}
}

// extent returns the number of CPUs that a tree of the machine needs. A tree numbers its CPUs from
// 0 without gaps, so the number includes offline CPUs. extent returns 0 if online CPUs are beyond a
// gap.
func (w *writer) extent() int {
	present := w.m.Online.Or(&w.m.Offline)
	n := 0
	for id := range present.All() {
		if int(id) != n {
			break
		}
		n++
	}
	last := 0
	for id := range w.m.Online.All() {
		last = int(id) + 1
	}
	if last > n {
		return 0
	}
	return w.roundUp(last, n)
}

// roundUp rounds last up to a multiple of the size of the largest package, NUMA node or core. If
// the result exceeds limit, it returns last.
func (w *writer) roundUp(last, limit int) int {
	unit := 1
	for _, kind := range []levelKind{levelPackage, levelNUMA, levelCore} {
		unit = max(unit, widest(w.setsOf(kind)))
	}
	if n := (last + unit - 1) / unit * unit; n <= limit {
		return n
	}
	return last
}

func covers(sets []CPUSet, all *CPUSet) bool {
	var union CPUSet
	for i := range sets {
		union = union.Or(&sets[i])
	}
	return len(sets) > 0 && union == *all
}

func widest(sets []CPUSet) int {
	n := 0
	for i := range sets {
		n = max(n, sets[i].Len())
	}
	return n
}

// guess builds a tree from the size of the largest object of each level. It skips a level whose
// size does not divide the size of the level above.
func (w *writer) guess(kinds []levelKind, total int) *tree {
	kinds = slices.Clone(kinds)
	slices.SortStableFunc(kinds, func(a, b levelKind) int {
		return cmp.Compare(widest(w.setsOf(b)), widest(w.setsOf(a)))
	})
	t := &tree{}
	strides := [levelKinds]int{}
	outer := w.m.Online.Or(&w.m.Offline)
	size := total
	for _, kind := range kinds {
		sets := w.setsOf(kind)
		n := widest(sets)
		if size%n != 0 && total%len(sets) == 0 {
			n = total / len(sets)
		}
		if size%n != 0 {
			continue
		}
		t.levels = append(t.levels, level{kind, size / n})
		inner := first(sets)
		strides[kind] = stride(&outer, &inner)
		outer, size = inner, n
	}
	t.levels = append(t.levels, level{levelPU, size})
	strides[levelPU] = stride(&outer, &CPUSet{})
	t.order = inward(t.levels)
	slices.SortStableFunc(t.order, func(a, b levelKind) int { return cmp.Compare(strides[a], strides[b]) })
	return t
}

// The function first returns the set with the lowest CPU.
func first(sets []CPUSet) CPUSet {
	return slices.MinFunc(sets, func(a, b CPUSet) int {
		la, _ := a.Lowest()
		lb, _ := b.Lowest()
		return cmp.Compare(la, lb)
	})
}

// stride returns the distance from the lowest CPU of an object to the first CPU of its next child:
// in a regular machine, the stride of that level.
func stride(outer, inner *CPUSet) int {
	base, _ := outer.Lowest()
	rest := outer.AndNot(inner)
	rest.Remove(base)
	next, ok := rest.Lowest()
	if !ok {
		return MaxCPUs
	}
	return int(next - base)
}

// The method held returns the levels that the tree describes correctly: the sets of the tree,
// without the offline CPUs, equal the machine's sets, and Parse would read the level correctly
// (writable).
func (w *writer) held(t *tree) (kinds []levelKind) {
	for _, l := range t.levels[:len(t.levels)-1] {
		want := map[CPUSet]bool{}
		for _, set := range t.sets(l.kind) {
			if left := set.AndNot(&w.m.Offline); !left.IsEmpty() {
				want[left] = true
			}
		}
		sets := w.setsOf(l.kind)
		same := len(sets) == len(want)
		for _, set := range sets {
			same = same && want[set]
		}
		if same && w.writable(t, l.kind) {
			kinds = append(kinds, l.kind)
		}
	}
	return kinds
}

// writable reports whether Parse would read the level correctly at its position. Cores must come
// just before the logical processors. No NUMA node of the tree may be completely offline, because
// Parse would keep it as a node without CPUs. Packages without ids must be in the order of the
// tree.
func (w *writer) writable(t *tree, kind levelKind) bool {
	switch kind {
	case levelCore:
		return t.levels[len(t.levels)-2].kind == levelCore
	case levelNUMA:
		return len(t.sets(kind)) == len(w.setsOf(kind))
	case levelPackage:
		return !w.m.UnnumberedPackages || slices.EqualFunc(t.sets(kind), w.m.Packages, func(set CPUSet, p Package) bool {
			return set.AndNot(&w.m.Offline) == p.CPUs
		})
	default:
		return true
	}
}

// writeLevels prints the tree and the levels outside it.
func (w *writer) writeLevels() {
	if w.tree == nil {
		w.item("cpu")
		w.b = w.m.Online.AppendText(w.b)
	} else {
		for _, l := range w.tree.levels {
			w.item(l.kind.String())
			w.b = strconv.AppendInt(w.b, int64(l.count), 10)
		}
		w.writeNumbering()
	}
	if !w.m.Offline.IsEmpty() {
		w.item("offline")
		w.b = w.m.Offline.AppendText(w.b)
	}
	w.writePackages()
	w.writeDies()
	w.writeCores()
	w.writeL3s()
}

// writeNumbering prints how the CPUs are numbered, unless this is the default.
func (w *writer) writeNumbering() {
	digits := w.tree.digits(w.tree.order)
	for i, n := range numberings {
		if !slices.Equal(w.tree.digits(n.order(w.tree.levels)), digits) {
			continue
		}
		if i > 0 {
			w.item("number")
			w.b = append(w.b, n.name...)
		}
		return
	}
	w.item("number")
	for i, kind := range digits {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.b = append(w.b, kind.String()...)
	}
}

func (w *writer) counted(kind levelKind) bool { return w.tree != nil && w.tree.has(kind) }

// treeIDs returns the ids of the objects of a level in the order of the tree. The id of a
// completely offline object is one more than the id before it. The id of such an object has no
// effect, because Parse drops the object.
func (w *writer) treeIDs(kind levelKind, byCPUs map[CPUSet]int) []int {
	sets := w.tree.sets(kind)
	ids := make([]int, len(sets))
	for i, set := range sets {
		id, ok := byCPUs[set.AndNot(&w.m.Offline)]
		if !ok && i > 0 {
			id = ids[i-1] + 1
		}
		ids[i] = id
	}
	return ids
}

// writeIDs prints the ids of a counted level, unless they are 0, 1, 2 ...
func (w *writer) writeIDs(key string, ids []int) {
	if slices.Equal(ids, upTo(len(ids))) {
		return
	}
	w.item(key)
	w.b = appendSequence(w.b, ids)
}

// writeList prints "KEY:ID=CPUS;ID=CPUS".
func (w *writer) writeList(kind levelKind, entries []entry) {
	for i, e := range entries {
		w.part(kind.String(), i)
		w.b = append(strconv.AppendInt(w.b, int64(e.id), 10), '=')
		w.b = e.cpus.AppendText(w.b)
	}
}

// writeLevel prints the objects of a level whose ids are unique on the whole machine.
func (w *writer) writeLevel(kind levelKind, idKey string, entries []entry) {
	if !w.counted(kind) {
		w.writeList(kind, entries)
		return
	}
	byCPUs := map[CPUSet]int{}
	for _, e := range entries {
		byCPUs[e.cpus] = e.id
	}
	w.writeIDs(idKey, w.treeIDs(kind, byCPUs))
}

func (w *writer) writePackages() {
	var entries []entry
	for _, p := range w.m.Packages {
		entries = append(entries, entry{int(p.ID), p.CPUs})
	}
	w.writeLevel(levelPackage, "packageid", entries)
	if w.m.UnnumberedPackages {
		w.item("packageid")
		w.b = append(w.b, "none"...)
	}
}

func (w *writer) writeL3s() {
	var entries []entry
	for _, l := range w.m.L3s {
		entries = append(entries, entry{int(l.ID), l.CPUs})
	}
	if !w.m.UnnumberedCaches {
		w.writeLevel(levelL3, "l3id", entries)
		return
	}
	if !w.counted(levelL3) {
		w.writeList(levelL3, entries)
	}
	w.item("l3id")
	w.b = append(w.b, "cpu"...)
}

// member is an object whose id is unique only inside its package.
type member struct {
	pkg  PackageID
	id   int
	cpus CPUSet
}

func (w *writer) writeDies() {
	var dies []member
	for _, d := range w.m.Dies {
		dies = append(dies, member{d.Package, int(d.ID), d.CPUs})
	}
	if w.counted(levelDie) {
		w.writeMemberIDs(levelDie, "dieid", dies)
		return
	}
	for i, d := range dies {
		w.startMember("die", i, d.pkg)
		w.b = append(strconv.AppendInt(w.b, int64(d.id), 10), '=')
		w.b = d.cpus.AppendText(w.b)
	}
}

func (w *writer) startMember(key string, i int, pkg PackageID) {
	w.part(key, i)
	if pkg == NoPackage {
		w.b = append(w.b, "-/"...)
		return
	}
	w.b = append(strconv.AppendInt(w.b, int64(pkg), 10), '/')
}

func (w *writer) writeCores() {
	var cores []member
	for _, c := range w.m.Cores {
		cores = append(cores, member{c.Package, int(c.ID), c.CPUs})
	}
	if w.counted(levelCore) {
		w.writeMemberIDs(levelCore, "coreid", cores)
		return
	}
	for i, n := 0, 0; i < len(cores); i += n {
		n = 1
		for i+n < len(cores) && cores[i+n].pkg == cores[i].pkg && cores[i+n].cpus.Len() == cores[i].cpus.Len() {
			n++
		}
		w.startMember("core", i, cores[i].pkg)
		w.writeZip(cores[i : i+n])
	}
}

// writeZip prints cores of one package with equally many threads: their ids, then their first
// threads, second threads and so on.
func (w *writer) writeZip(cores []member) {
	ids := make([]int, len(cores))
	threads := make([][]int, cores[0].cpus.Len())
	for i, c := range cores {
		ids[i] = c.id
		t := 0
		for cpu := range c.cpus.All() {
			threads[t] = append(threads[t], int(cpu))
			t++
		}
	}
	w.b = appendSequence(w.b, ids)
	for t, seq := range threads {
		w.b = append(w.b, "=+"[min(t, 1)])
		w.b = appendSequence(w.b, seq)
	}
}

// writeMemberIDs prints the ids of a counted level whose ids are unique inside packages. It prints
// nothing if they are 0, 1, 2 ... in each package. If all packages have the same ids, it prints one
// list.
func (w *writer) writeMemberIDs(kind levelKind, key string, members []member) {
	seqs := w.memberIDs(kind, members)
	regular := true
	for _, seq := range seqs {
		regular = regular && slices.Equal(seq, upTo(len(seq)))
	}
	if regular || len(seqs) == 0 {
		return
	}
	w.item(key)
	if slices.ContainsFunc(seqs, func(seq []int) bool { return !slices.Equal(seq, seqs[0]) }) {
		for i, seq := range seqs {
			if i > 0 {
				w.b = append(w.b, '|')
			}
			w.b = appendSequence(w.b, seq)
		}
		return
	}
	w.b = appendSequence(w.b, seqs[0])
}

// memberIDs returns the ids of a counted level by package, in the order in which Parse assigns
// them. The id of a completely offline object is one more than the id before it.
func (w *writer) memberIDs(kind levelKind, members []member) [][]int {
	byCPUs := map[CPUSet]int{}
	for _, o := range members {
		byCPUs[o.cpus] = o.id
	}
	full := w.fullPackages()
	seqs := make([][]int, len(full)+1)
	for _, set := range w.tree.sets(kind) {
		pos := slices.IndexFunc(full, func(p CPUSet) bool { return p.Intersects(&set) })
		if pos < 0 {
			pos = len(full)
		}
		id, ok := byCPUs[set.AndNot(&w.m.Offline)]
		if n := len(seqs[pos]); !ok && n > 0 {
			id = seqs[pos][n-1] + 1
		}
		seqs[pos] = append(seqs[pos], id)
	}
	if len(seqs[len(full)]) == 0 {
		seqs = seqs[:len(full)]
	}
	return seqs
}

// fullPackages returns the packages in the order in which Parse assigns ids to them. Packages of a
// tree are in the order of the tree and have their offline CPUs.
func (w *writer) fullPackages() []CPUSet {
	if w.counted(levelPackage) {
		return w.tree.sets(levelPackage)
	}
	return w.setsOf(levelPackage)
}

func (w *writer) writeNodes() {
	var entries []entry
	var memoryOnly []int
	for i := range w.m.NUMANodes {
		n := &w.m.NUMANodes[i]
		if n.CPUs.IsEmpty() {
			memoryOnly = append(memoryOnly, int(n.ID))
			continue
		}
		entries = append(entries, entry{int(n.ID), n.CPUs})
	}
	w.writeLevel(levelNUMA, "numaid", entries)
	if len(memoryOnly) > 0 {
		w.item("memonly")
		w.b = appendSequence(w.b, memoryOnly)
	}
	w.writeMemory()
	w.writeHugePages()
	w.writeDistances()
}

// writePerNode prints one value for each node, or a single value if all are equal.
func (w *writer) writePerNode(values []string) {
	if !slices.ContainsFunc(values, func(v string) bool { return v != values[0] }) {
		values = values[:1]
	}
	w.b = appendRepeats(w.b, values)
}

func (w *writer) writeMemory() {
	values := make([]string, len(w.m.NUMANodes))
	some := false
	for i := range w.m.NUMANodes {
		values[i] = FormatBytes(w.m.NUMANodes[i].MemoryBytes)
		some = some || w.m.NUMANodes[i].MemoryBytes > 0
	}
	if some {
		w.item("mem")
		w.writePerNode(values)
	}
}

func (w *writer) writeHugePages() {
	var sizes []uint64
	for i := range w.m.NUMANodes {
		for _, h := range w.m.NUMANodes[i].HugePages {
			sizes = append(sizes, h.PageBytes)
		}
	}
	slices.Sort(sizes)
	for i, size := range slices.Compact(sizes) {
		w.part("huge", i)
		w.b = append(append(w.b, FormatBytes(size)...), '=')
		w.writePerNode(w.pools(size))
	}
}

// pools returns the number of pages of one size on every node. It is "-" if a node has no such
// pool.
func (w *writer) pools(size uint64) []string {
	counts := make([]string, len(w.m.NUMANodes))
	for i := range w.m.NUMANodes {
		counts[i] = "-"
		for _, h := range w.m.NUMANodes[i].HugePages {
			if h.PageBytes == size {
				counts[i] = strconv.FormatUint(h.Count, 10)
			}
		}
	}
	return counts
}

func (w *writer) writeDistances() {
	nodes := w.m.NUMANodes
	if !slices.ContainsFunc(nodes, func(n NUMANode) bool { return len(n.Distances) > 0 }) {
		return
	}
	w.item("dist")
	if classes := w.distanceClasses(); classes != nil {
		w.b = append(w.b, strings.Trim(strings.ReplaceAll(fmt.Sprint(classes), " ", ","), "[]")...)
		return
	}
	for i := range nodes {
		if i > 0 {
			w.b = append(w.b, '/')
		}
		w.b = appendRow(w.b, nodes[i].Distances)
	}
}

func appendRow(b []byte, distances []uint32) []byte {
	if len(distances) == 0 {
		return append(b, '-')
	}
	row := make([]string, len(distances))
	for i, d := range distances {
		row[i] = strconv.FormatUint(uint64(d), 10)
	}
	return appendRepeats(b, row)
}

// distanceClasses returns LOCAL, LOCAL,REMOTE or LOCAL,NEAR,FAR if these describe all distances,
// otherwise nil.
func (w *writer) distanceClasses() []uint32 {
	nodes := w.m.NUMANodes
	if slices.ContainsFunc(nodes, func(n NUMANode) bool { return len(n.Distances) != len(nodes) }) {
		return nil
	}
	local, near, far := nodes[0].Distances[0], uint32(0), uint32(0)
	_, home := w.m.packageOf(&nodes[0].CPUs)
	for j := 1; j < len(nodes); j++ {
		if _, at := w.m.packageOf(&nodes[j].CPUs); home != NoPackage && at == home {
			near = nodes[0].Distances[j]
		} else {
			far = nodes[0].Distances[j]
		}
	}
	for _, classes := range [][]uint32{{local}, {local, cmp.Or(far, near)}, {local, near, far}} {
		if w.describes(classes) {
			return classes
		}
	}
	return nil
}

// describes reports whether the classes describe exactly the machine's distances.
func (w *writer) describes(classes []uint32) bool {
	if slices.Contains(classes, 0) || len(classes) == 1 && len(w.m.NUMANodes) > 1 {
		return false
	}
	twin := Machine{Packages: w.m.Packages, NUMANodes: slices.Clone(w.m.NUMANodes)}
	twin.setDistances(classes[0], classes[min(1, len(classes)-1)], classes[len(classes)-1])
	return slices.EqualFunc(twin.NUMANodes, w.m.NUMANodes, equalNodes)
}
