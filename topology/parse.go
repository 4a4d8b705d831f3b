package topology

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// MaxMachineText is the length in bytes of the longest machine string that Parse reads.
const MaxMachineText = 256 << 10

// ParseError names the item of a machine string that cannot be parsed.
type ParseError struct {
	Item  string // the item's key, such as "numa"
	Value string
	Want  string // the expected form
}

func (e *ParseError) Error() string {
	return fmt.Sprintf("machine string: %s: %.80q: want %s", e.Item, e.Value, e.Want)
}

// Parse reads a machine string (docs/topology.md has the grammar). A machine string has items
// KEY:VALUE, separated by white space. The order of items does not matter, except for the levels of
// the tree: each level is inside the level before it.
//
//	package:2 numa:4 l3:2 core:8 pu:2 number:split mem:64Gi dist:10,12,32
//
// The error is a *ParseError. If the items contradict one another, it wraps the *Violation of
// Check.
func Parse(text string) (*Machine, error) {
	if len(text) > MaxMachineText {
		return nil, &ParseError{"machine", text[:80], fmt.Sprintf("at most %d bytes, not %d", MaxMachineText, len(text))}
	}
	p := parser{values: map[string]string{}}
	if err := p.split(text); err != nil {
		return nil, err
	}
	for _, step := range []func() error{
		p.parseTree, p.parseCPUs, p.parsePackages, p.parseDies, p.parseCores, p.parseL3s, p.parseNodes, p.parseDevices, p.parseLinks,
		p.settle, p.parseMemory, p.parseHugePages, p.parseDistances,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	if err := p.m.Check(); err != nil {
		return nil, fmt.Errorf("machine string: %w", err)
	}
	return &p.m, nil
}

// Keys returns the keys that items of a machine string may have.
func Keys() []string { return slices.Concat(levelNames[:], itemKeys) }

// itemKeys are the keys that are not levels. Only "dev" and "link" may occur more than once.
var itemKeys = []string{
	"cpu", "offline", "number", "packageid", "dieid", "numaid", "l3id", "coreid", "memonly", "mem", "huge", "dist", "dev", "link",
}

type parser struct {
	m      Machine
	values map[string]string
	levels []string // keys of levels in the order written
	devs   []string
	links  []string
	tree   *tree
}

func (p *parser) split(text string) error {
	for item := range strings.FieldsSeq(text) {
		key, value, ok := strings.Cut(item, ":")
		switch {
		case !ok || value == "":
			return &ParseError{"machine", item, "items of the form KEY:VALUE"}
		case key == "dev":
			p.devs = append(p.devs, value)
			continue
		case key == "link":
			p.links = append(p.links, value)
			continue
		case slices.Contains(levelNames[:], key):
			p.levels = append(p.levels, key)
		case !slices.Contains(itemKeys, key):
			return &ParseError{"machine", item, "one of the keys " + strings.Join(levelNames[:], ", ") + ", " + strings.Join(itemKeys, ", ")}
		}
		if _, twice := p.values[key]; twice {
			return &ParseError{key, value, "the key once"}
		}
		p.values[key] = value
	}
	return nil
}

// fail converts the error of a function that parses a value into a ParseError about the item with
// the key.
func (p *parser) fail(key string, err error) error {
	if value, want, ok := strings.Cut(err.Error(), ": want "); ok {
		if part, err := strconv.Unquote(value); err == nil {
			return &ParseError{key, part, want}
		}
	}
	return &ParseError{key, p.values[key], err.Error()}
}

// explicit reports whether the objects of a level are listed one by one.
func (p *parser) explicit(key string) bool { return strings.Contains(p.values[key], "=") }

// parseTree reads the levels that are given as counts, and their numbering.
func (p *parser) parseTree() error {
	var t tree
	total := 1
	for _, key := range p.levels {
		if p.explicit(key) {
			continue
		}
		n, err := parseNumber(p.values[key], MaxCPUs)
		if err != nil || n == 0 || total*n > MaxCPUs {
			return &ParseError{key, p.values[key], fmt.Sprintf("a count of at least 1 (the product of all counts is at most %d CPUs), or a list ID=CPUS;...", MaxCPUs)}
		}
		total *= n
		t.levels = append(t.levels, level{levelKind(slices.Index(levelNames[:], key)), n})
	}
	if len(t.levels) == 0 {
		if number, ok := p.values["number"]; ok {
			return &ParseError{"number", number, "levels with counts, such as core:4 pu:2, because number defines the ids of counted objects"}
		}
		return nil
	}
	if i := len(t.levels) - 1; !t.has(levelPU) || t.levels[i].kind != levelPU {
		return &ParseError{t.levels[i].kind.String(), p.values[t.levels[i].kind.String()], "pu:N as the last level that is a count: pu:1, or pu:2 if a core has two threads"}
	}
	if core := slices.IndexFunc(t.levels, func(l level) bool { return l.kind == levelCore }); core >= 0 && core != len(t.levels)-2 {
		return &ParseError{"core", p.values["core"], "core to come just before pu"}
	}
	p.tree = &t
	return p.parseNumbering()
}

func (p *parser) parseNumbering() error {
	text, ok := p.values["number"]
	if !ok {
		text = numberings[0].name
	}
	for _, n := range numberings {
		if n.name == text {
			p.tree.order = n.order(p.tree.levels)
			return nil
		}
	}
	for name := range strings.SplitSeq(text, ",") {
		k := slices.Index(levelNames[:], name)
		if k < 0 || !p.tree.has(levelKind(k)) || slices.Contains(p.tree.order, levelKind(k)) {
			return p.badNumbering()
		}
		p.tree.order = append(p.tree.order, levelKind(k))
	}
	if len(p.tree.digits(p.tree.order)) != len(p.tree.digits(inward(p.tree.levels))) {
		return p.badNumbering()
	}
	return nil
}

func (p *parser) badNumbering() error {
	return &ParseError{"number", p.values["number"],
		"split, packed, interleaved, or a list of the levels with a count above 1, each once, the fastest first (\"core,package,pu\")"}
}

func (p *parser) parseCPUs() error {
	var err error
	if p.m.Offline, err = ParseCPUList(p.values["offline"]); err != nil {
		return p.fail("offline", err)
	}
	list, listed := p.values["cpu"]
	switch {
	case listed && p.tree != nil:
		return &ParseError{"cpu", list, "no list together with levels given as counts, which define the CPUs"}
	case listed:
		if p.m.Online, err = ParseCPUList(list); err != nil {
			return p.fail("cpu", err)
		}
	case p.tree == nil:
		return &ParseError{"machine", "", "either pu:N with the levels above it, or cpu:LIST"}
	default:
		for id := range p.tree.cpus() {
			p.m.Online.Add(CPUID(id))
		}
		p.m.Online = p.m.Online.AndNot(&p.m.Offline)
	}
	return nil
}

// entry is one object of an explicit list.
type entry struct {
	id   int
	cpus CPUSet
}

// list returns the objects of a level, and whether the level is given as a count. Objects of a
// level that is given as a count have no ids yet.
func (p *parser) list(kind levelKind, limit int) (entries []entry, counted bool, err error) {
	key := kind.String()
	if p.tree != nil && p.tree.has(kind) {
		for _, set := range p.tree.sets(kind) {
			entries = append(entries, entry{cpus: set})
		}
		return entries, true, nil
	}
	if p.values[key] == "" {
		return nil, false, nil
	}
	for item := range strings.SplitSeq(p.values[key], ";") {
		e, err := parseEntry(key, item, limit)
		if err != nil {
			return nil, false, err
		}
		entries = append(entries, e)
	}
	return entries, false, nil
}

func parseEntry(key, item string, limit int) (entry, error) {
	id, cpus, ok := strings.Cut(item, "=")
	n, err := parseNumber(id, limit)
	if err != nil || !ok {
		return entry{}, &ParseError{key, item, fmt.Sprintf("ID=CPUS with an id from 0 to %d", limit)}
	}
	set, err := ParseCPUList(cpus)
	if err != nil {
		return entry{}, &ParseError{key, item, err.Error()}
	}
	return entry{n, set}, nil
}

// ids returns the ids of n counted objects: 0 to n-1, unless the item with the given key lists
// other ids.
func (p *parser) ids(key string, n, limit int) ([]int, error) {
	text, ok := p.values[key]
	if !ok {
		return upTo(n), nil
	}
	ids, err := parseSequence(text, limit)
	if err != nil {
		return nil, p.fail(key, err)
	}
	if len(ids) != n {
		return nil, &ParseError{key, text, fmt.Sprintf("%d ids, in the order of the tree", n)}
	}
	return ids, nil
}

func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// identified returns the objects of a level with their ids. If the level is given as a count, the
// item idKey may list the ids.
func (p *parser) identified(kind levelKind, idKey string, limit int) ([]entry, error) {
	entries, counted, err := p.list(kind, limit)
	if err != nil {
		return nil, err
	}
	if !counted {
		return entries, p.unused(idKey, kind)
	}
	ids, err := p.ids(idKey, len(entries), limit)
	if err != nil {
		return nil, err
	}
	for i := range entries {
		entries[i].id = ids[i]
	}
	return entries, nil
}

// unused returns an error if the item idKey exists, although the level is not given as a count.
func (p *parser) unused(idKey string, kind levelKind) error {
	if text, ok := p.values[idKey]; ok {
		return &ParseError{idKey, text, fmt.Sprintf("also %s:COUNT, because %s lists the ids of counted objects", kind, idKey)}
	}
	return nil
}

func (p *parser) parsePackages() error {
	if p.values["packageid"] == "none" {
		p.m.UnnumberedPackages = true
		delete(p.values, "packageid")
	}
	entries, err := p.identified(levelPackage, "packageid", math.MaxInt32)
	for _, e := range entries {
		p.m.Packages = append(p.m.Packages, Package{PackageID(e.id), e.cpus})
	}
	return err
}

func (p *parser) parseL3s() error {
	if p.values["l3id"] == "cpu" {
		return p.parseUnnumberedL3s()
	}
	entries, err := p.identified(levelL3, "l3id", math.MaxInt32)
	for _, e := range entries {
		p.m.L3s = append(p.m.L3s, L3{L3ID(e.id), e.cpus})
	}
	return err
}

// parseUnnumberedL3s reads L3s whose ids are their lowest online CPUs.
func (p *parser) parseUnnumberedL3s() error {
	entries, counted, err := p.list(levelL3, MaxCPUs-1)
	p.m.UnnumberedCaches = true
	for _, e := range entries {
		if counted {
			online := e.cpus.And(&p.m.Online)
			lowest, _ := online.Lowest()
			e.id = int(lowest)
		}
		p.m.L3s = append(p.m.L3s, L3{L3ID(e.id), e.cpus})
	}
	return err
}

func (p *parser) parseNodes() error {
	entries, err := p.identified(levelNUMA, "numaid", math.MaxUint16)
	if err != nil {
		return err
	}
	for _, e := range entries {
		p.m.NUMANodes = append(p.m.NUMANodes, NUMANode{ID: NUMAID(e.id), CPUs: e.cpus})
	}
	if text, ok := p.values["memonly"]; ok {
		ids, err := parseSequence(text, math.MaxUint16)
		if err != nil {
			return p.fail("memonly", err)
		}
		for _, id := range ids {
			p.m.NUMANodes = append(p.m.NUMANodes, NUMANode{ID: NUMAID(id)})
		}
	}
	if len(p.m.NUMANodes) > MaxNodes {
		return &ParseError{"memonly", p.values["memonly"], fmt.Sprintf("at most %d nodes", MaxNodes)}
	}
	return nil
}

// packageOf returns the index and the id of the first package with a CPU of the set. If there is no
// such package, it returns the number of packages and NoPackage.
func (m *Machine) packageOf(set *CPUSet) (int, PackageID) {
	for i := range m.Packages {
		if m.Packages[i].CPUs.Intersects(set) {
			return i, m.Packages[i].ID
		}
	}
	return len(m.Packages), NoPackage
}

// packageIDs assigns ids that are unique inside a package. seqs is empty, has one sequence for all
// packages, or one sequence for each package. If it is empty, the ids are 0, 1, 2 ...
type packageIDs struct {
	seqs [][]int
	used map[int]int
}

func (p *parser) packageIDs(key string) (*packageIDs, error) {
	ids := &packageIDs{used: map[int]int{}}
	text, ok := p.values[key]
	if !ok {
		return ids, nil
	}
	for part := range strings.SplitSeq(text, "|") {
		seq, err := parseSequence(part, math.MaxInt32)
		if err != nil {
			return nil, p.fail(key, err)
		}
		ids.seqs = append(ids.seqs, seq)
	}
	return ids, nil
}

// The method next returns the next id of a package; ok is false when the sequence is too short.
func (ids *packageIDs) next(pkg int) (id int, ok bool) {
	n := ids.used[pkg]
	ids.used[pkg]++
	if len(ids.seqs) == 0 {
		return n, true
	}
	seq := ids.seqs[0]
	if len(ids.seqs) > 1 {
		if pkg >= len(ids.seqs) {
			return 0, false
		}
		seq = ids.seqs[pkg]
	}
	if n >= len(seq) {
		return 0, false
	}
	return seq[n], true
}

// counted calls the function add for each object of a level that is given as a count, with the
// object's package and its id inside the package.
func (p *parser) counted(kind levelKind, idKey string, add func(PackageID, int, CPUSet)) error {
	ids, err := p.packageIDs(idKey)
	if err != nil {
		return err
	}
	for _, set := range p.tree.sets(kind) {
		pos, pkg := p.m.packageOf(&set)
		id, ok := ids.next(pos)
		if !ok {
			return &ParseError{idKey, p.values[idKey], fmt.Sprintf("an id for every %s of a package, in the order of the tree; packages separated by |", kind)}
		}
		add(pkg, id, set)
	}
	return nil
}

func (p *parser) parseDies() error {
	addDie := func(pkg PackageID, id int, set CPUSet) {
		p.m.Dies = append(p.m.Dies, Die{pkg, DieID(id), set})
	}
	if p.tree != nil && p.tree.has(levelDie) {
		return p.counted(levelDie, "dieid", addDie)
	}
	return p.eachListed(levelDie, "dieid", func(pkg PackageID, ids, cpus string) error {
		id, err := parseNumber(ids, math.MaxInt32)
		if err != nil {
			return err
		}
		set, err := ParseCPUList(cpus)
		addDie(pkg, id, set)
		return err
	})
}

func (p *parser) parseCores() error {
	addCore := func(pkg PackageID, id int, set CPUSet) {
		p.m.Cores = append(p.m.Cores, Core{pkg, CoreID(id), set})
	}
	if p.tree != nil && p.tree.has(levelCore) {
		return p.counted(levelCore, "coreid", addCore)
	}
	return p.eachListed(levelCore, "coreid", func(pkg PackageID, ids, cpus string) error {
		seq, err := parseSequence(ids, math.MaxInt32)
		if err != nil {
			return err
		}
		sets, err := parseZip(cpus, len(seq))
		if err != nil {
			return err
		}
		if len(p.m.Cores)+len(sets) > MaxCPUs {
			return fmt.Errorf("at most %d cores", MaxCPUs)
		}
		for i, set := range sets {
			addCore(pkg, seq[i], set)
		}
		return nil
	})
}

// eachListed calls read for the items PACKAGE/IDS=CPUS of a listed level.
func (p *parser) eachListed(kind levelKind, idKey string, read func(pkg PackageID, ids, cpus string) error) error {
	key := kind.String()
	if err := p.unused(idKey, kind); err != nil || p.values[key] == "" {
		return err
	}
	for item := range strings.SplitSeq(p.values[key], ";") {
		head, cpus, ok := strings.Cut(item, "=")
		pkgText, ids, ok2 := strings.Cut(head, "/")
		pkg, err := parsePackageID(pkgText)
		if !ok || !ok2 || err != nil {
			return &ParseError{key, item, `PACKAGE/ID=CPUS, with "-" as the PACKAGE if it is not known`}
		}
		if err := read(pkg, ids, cpus); err != nil {
			return &ParseError{key, item, err.Error()}
		}
	}
	return nil
}

func parsePackageID(text string) (PackageID, error) {
	if text == "-" {
		return NoPackage, nil
	}
	n, err := parseNumber(text, math.MaxInt32)
	return PackageID(n), err
}

// parseZip reads the CPUs of n cores, "0-10/2+1-11/2": one sequence of n numbers for the first
// threads, one for the second, and so on.
func parseZip(text string, n int) ([]CPUSet, error) {
	if n > MaxCPUs {
		return nil, fmt.Errorf("at most %d cores", MaxCPUs)
	}
	sets := make([]CPUSet, n)
	for part := range strings.SplitSeq(text, "+") {
		seq, err := parseSequence(part, MaxCPUs-1)
		if err != nil {
			return nil, err
		}
		if len(seq) != n {
			return nil, fmt.Errorf("%.40q: want %d CPUs, one for each core id", part, n)
		}
		for i, cpu := range seq {
			sets[i].Add(CPUID(cpu))
		}
	}
	return sets, nil
}

// perNode reads one value for every NUMA node, ascending by id; a single value stands for all.
func (p *parser) perNode(key, text string) ([]string, error) {
	values, err := parseRepeats(text)
	if err != nil {
		return nil, p.fail(key, err)
	}
	n := len(p.m.NUMANodes)
	if len(values) == 1 && !strings.Contains(text, "*") {
		return slices.Repeat(values, n), nil
	}
	if len(values) != n {
		want := "one value for all NUMA nodes"
		if n > 1 {
			want += fmt.Sprintf(", or %d values, not %d", n, len(values))
		}
		return nil, &ParseError{key, text, want}
	}
	return values, nil
}

func (p *parser) parseMemory() error {
	text, ok := p.values["mem"]
	if !ok {
		return nil
	}
	values, err := p.perNode("mem", text)
	if err != nil {
		return err
	}
	for i, v := range values {
		if p.m.NUMANodes[i].MemoryBytes, err = ParseBytes(v); err != nil {
			return p.fail("mem", err)
		}
	}
	return nil
}

func (p *parser) parseHugePages() error {
	text, ok := p.values["huge"]
	if !ok {
		return nil
	}
	pools := strings.Split(text, ";")
	if len(pools) > 64 {
		return &ParseError{"huge", text, "each page size once"}
	}
	for _, pool := range pools {
		if err := p.parsePool(pool); err != nil {
			return err
		}
	}
	for i := range p.m.NUMANodes {
		slices.SortFunc(p.m.NUMANodes[i].HugePages, func(a, b HugePages) int { return cmp.Compare(a.PageBytes, b.PageBytes) })
	}
	return nil
}

// parsePool reads "2Mi=128,0,-": a count for every NUMA node, or "-" if the NUMA node has no such
// pool.
func (p *parser) parsePool(pool string) error {
	size, counts, ok := strings.Cut(pool, "=")
	page, err := ParseBytes(size)
	if err != nil || !ok || strings.Contains(counts, "=") {
		return &ParseError{"huge", pool, `SIZE=COUNTS, such as "2Mi=128", with ";" between page sizes`}
	}
	values, err := p.perNode("huge", counts)
	if err != nil {
		return err
	}
	for i, v := range values {
		if v == "-" {
			continue
		}
		count, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			return &ParseError{"huge", pool, `a number of pages, or "-" for no pool`}
		}
		p.m.NUMANodes[i].HugePages = append(p.m.NUMANodes[i].HugePages, HugePages{page, count})
	}
	return nil
}

// parseDistances reads either rows separated by "/", or one distance for each class of nodes: "10",
// "10,21" (the node itself, all others) or "10,12,32" (the node itself, other nodes of its package,
// all others).
func (p *parser) parseDistances() error {
	text, ok := p.values["dist"]
	n := len(p.m.NUMANodes)
	switch {
	case !ok:
		return nil
	case n == 0:
		return &ParseError{"dist", text, "a machine with NUMA nodes"}
	}
	rows := strings.Split(text, "/")
	if len(rows) == 1 && (n > 1 || !strings.Contains(text, "*") && text != "-") {
		return p.distanceClasses(text)
	}
	if len(rows) != n {
		return &ParseError{"dist", text, fmt.Sprintf("%d rows separated by /, or LOCAL,REMOTE, or LOCAL,NEAR,FAR", n)}
	}
	for i, row := range rows {
		if row == "-" {
			continue
		}
		values, err := parseRepeats(row)
		if err != nil || len(values) != n {
			return &ParseError{"dist", row, fmt.Sprintf(`%d distances in a row, or "-"`, n)}
		}
		if p.m.NUMANodes[i].Distances, err = parseDistanceList(values); err != nil {
			return err
		}
	}
	return nil
}

func parseDistanceList(values []string) ([]uint32, error) {
	out := make([]uint32, len(values))
	for i, v := range values {
		d, err := parseNumber(v, math.MaxUint32)
		if err != nil || d == 0 {
			return nil, &ParseError{"dist", v, "a distance of at least 1; 10 is local"}
		}
		out[i] = uint32(d)
	}
	return out, nil
}

func (p *parser) distanceClasses(text string) error {
	classes, err := parseDistanceList(strings.Split(text, ","))
	if err != nil {
		return err
	}
	if len(classes) > 3 {
		return &ParseError{"dist", text, "LOCAL, LOCAL,REMOTE or LOCAL,NEAR,FAR, or rows separated by /"}
	}
	local, near, far := classes[0], classes[len(classes)-1], classes[len(classes)-1]
	if len(classes) == 3 {
		near = classes[1]
	}
	p.m.setDistances(local, near, far)
	return nil
}

// setDistances sets the distance of each pair of nodes by their class. A node without CPUs is in no
// package, so it is far from all other nodes.
func (m *Machine) setDistances(local, near, far uint32) {
	packages := make([]PackageID, len(m.NUMANodes))
	for i := range m.NUMANodes {
		_, packages[i] = m.packageOf(&m.NUMANodes[i].CPUs)
	}
	for i := range m.NUMANodes {
		row := make([]uint32, len(m.NUMANodes))
		for j := range row {
			switch {
			case i == j:
				row[j] = local
			case packages[i] == packages[j] && packages[i] != NoPackage:
				row[j] = near
			default:
				row[j] = far
			}
		}
		m.NUMANodes[i].Distances = row
	}
}

// settle removes offline CPUs, and sorts the objects. The objects of counted levels are in the
// order of the tree until then.
func (p *parser) settle() error {
	p.dropOffline()
	p.order()
	return nil
}

// dropOffline removes the offline CPUs from all objects. It drops objects that have no other CPU,
// except NUMA nodes, which still have memory.
func (p *parser) dropOffline() {
	m := &p.m
	if m.Offline.IsEmpty() {
		return
	}
	m.Packages = online(m.Packages, &m.Offline, func(o *Package) *CPUSet { return &o.CPUs })
	m.Dies = online(m.Dies, &m.Offline, func(o *Die) *CPUSet { return &o.CPUs })
	m.Cores = online(m.Cores, &m.Offline, func(o *Core) *CPUSet { return &o.CPUs })
	m.L3s = online(m.L3s, &m.Offline, func(o *L3) *CPUSet { return &o.CPUs })
	for i := range m.NUMANodes {
		m.NUMANodes[i].CPUs = m.NUMANodes[i].CPUs.AndNot(&m.Offline)
	}
}

// online removes offline CPUs from the objects. It drops objects that have no other CPUs.
func online[T any](all []T, offline *CPUSet, cpus func(*T) *CPUSet) []T {
	all = slices.DeleteFunc(all, func(o T) bool { return cpus(&o).IsSubsetOf(offline) })
	for i := range all {
		set := cpus(&all[i])
		*set = set.AndNot(offline)
	}
	return all
}

func (p *parser) order() {
	m := &p.m
	slices.SortStableFunc(m.Packages, func(a, b Package) int { return int(a.ID) - int(b.ID) })
	slices.SortStableFunc(m.Dies, compareDies)
	slices.SortStableFunc(m.Cores, compareCores)
	slices.SortStableFunc(m.L3s, func(a, b L3) int { return int(a.ID) - int(b.ID) })
	slices.SortStableFunc(m.NUMANodes, func(a, b NUMANode) int { return int(a.ID) - int(b.ID) })
	slices.SortStableFunc(m.Devices, compareDevices)
}
