package joint

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/topology"
)

// The twin computes Try.Place's answer by trying every set of CPUs of every set of NUMA nodes. It
// does not use units, caps and picks.

// twin is a want for a machine in a state.
type twin struct {
	m *Model
	b *Book
	w *Want
}

// answer is the twin's answer about the best set of nodes.
type answer struct {
	nodes hint.Mask
	terms terms
	most  int
}

// levels returns the terms that some CPUs can meet, the terms with most preferences first.
func (t twin) levels() (out []answer) {
	for level := range maxLevels {
		a := answer{terms: t.w.Rules.at(level)}
		if t.w.CPUs == 0 {
			a.terms = terms{}
		}
		a.most = 1 << 20
		if a.terms.l3 && t.w.Nodes == 0 {
			anywhere := *t.w
			anywhere.CPUsWithinEmpty = nil
			a.most = twin{t.m, t.m.empty, &anywhere}.fewestCaches(a)
		}
		out = append(out, a)
	}
	return out
}

func (t twin) fewestCaches(a answer) int {
	least := 1 << 20
	t.sets(t.m.space.All(), func(c topology.CPUSet) {
		if t.keeps(a, c, t.m.space.All()) {
			least = min(least, len(t.caches(c)))
		}
	})
	return least
}

// place returns the answer for the width.
func (t twin) place(width Width) (answer, bool) {
	limit := t.m.space.Len()
	if t.w.Nodes > 0 {
		width = AnyWidth
	}
	switch width {
	case One:
		limit = 1
	case Fewest:
		limit = 0
		levels := twin{t.m, t.m.empty, t.w}.levels()
		if best, ok := (twin{t.m, t.m.empty, t.w}).narrowest(levels[len(levels)-1:], t.m.space.Len()); ok {
			limit = best.nodes.Len()
		}
	}
	return t.narrowest(t.levels(), limit)
}

func (t twin) narrowest(levels []answer, limit int) (answer, bool) {
	for k := 1; k <= limit; k++ {
		if t.w.Nodes > 0 && k != t.w.Nodes {
			continue
		}
		for _, a := range levels {
			found := false
			for _, mask := range t.m.space.OfSize(k) {
				if t.fits(a, mask) && (!found || t.better(mask, a.nodes)) {
					a.nodes, found = mask, true
				}
			}
			if found {
				return a, true
			}
		}
	}
	return answer{}, false
}

func (t twin) better(x, y hint.Mask) bool {
	if t.m.distance[x] != t.m.distance[y] {
		return t.m.distance[x] < t.m.distance[y]
	}
	left := func(mask hint.Mask) (n uint64) {
		for v := range mask.All() {
			n += t.m.Amounts.Room(t.b, CPU, v)
		}
		return n
	}
	if left(x) != left(y) {
		return (left(x) < left(y)) == (t.m.strategy == MostAllocated)
	}
	return x < y
}

func (t twin) fits(a answer, mask hint.Mask) (ok bool) {
	t.sets(mask, func(c topology.CPUSet) { ok = ok || t.keeps(a, c, mask) })
	return ok
}

// sets calls f with every set of the wanted number of free CPUs.
func (t twin) sets(mask hint.Mask, f func(topology.CPUSet)) {
	var ids []topology.CPUID
	free := t.m.Cores.Free(t.b)
	for id := range free.All() {
		if mask.Has(t.node(id)) {
			ids = append(ids, id)
		}
	}
	for w := range 1 << len(ids) {
		if bits.OnesCount(uint(w)) != t.w.CPUs {
			continue
		}
		var c topology.CPUSet
		for i, id := range ids {
			if w>>i&1 == 1 {
				c.Add(id)
			}
		}
		f(c)
	}
}

func (t twin) node(id topology.CPUID) int { return int(t.m.Cores.cores[t.m.Cores.place[id].core].node) }

func (t twin) nodes(c topology.CPUSet) (nodes hint.Mask) {
	for id := range c.All() {
		nodes |= 1 << t.node(id)
	}
	return nodes
}

// near returns the sets of NUMA nodes that the CPUs may be on; nil for all.
func (t twin) near() hint.Set {
	if t.b == t.m.empty {
		return t.w.CPUsWithinEmpty
	}
	return t.w.CPUsWithin
}

func (t twin) caches(c topology.CPUSet) map[uint16]bool {
	out := map[uint16]bool{}
	for id := range c.All() {
		out[t.m.Cores.cores[t.m.Cores.place[id].core].group] = true
	}
	return out
}

// keeps reports whether CPUs c on the nodes of the mask meet the terms and leave room for the
// amounts.
func (t twin) keeps(a answer, c topology.CPUSet, mask hint.Mask) bool {
	free := t.m.Cores.Free(t.b)
	cost := make([]uint64, len(t.m.Cores.nodes))
	kept := 0 // CPUs on cores that are taken from
	for i := range t.m.Cores.cores {
		k := &t.m.Cores.cores[i]
		var all, mine int
		whole := true
		for s := range ones(k.full) {
			all++
			mine += b2i(c.Has(k.cpus[s]))
			whole = whole && free.Has(k.cpus[s])
		}
		if mine == 0 {
			continue
		}
		switch {
		case (a.terms.bind == FullCores || a.terms.excl == ExclusiveCore) && t.m.Cores.threads == 0,
			a.terms.bind == Spread && t.m.Cores.threads == 0,
			a.terms.bind == FullCores && mine != all,
			a.terms.bind == Spread && mine > 1,
			a.terms.excl == ExclusiveCore && !whole:
			return false
		}
		if a.terms.excl == ExclusiveCore {
			mine = all
		}
		kept += all
		cost[k.node] += 1000 * uint64(mine)
	}
	on := t.nodes(c)
	if (t.w.Nodes > 0 || t.near() != nil && on.Len() > 1) && a.terms.excl == ExclusiveCore && a.terms.bind != Spread && kept >= c.Len()+t.m.Cores.threads {
		return false // no more cores are kept from others than the CPUs need
	}
	if t.w.CPUs == 0 {
		on = mask
	}
	if near := t.near(); near != nil && !near.Has(on) {
		return false
	}
	if t.w.Pays && (a.terms.excl == ExclusiveCore && kept > c.Len() || a.terms.excl == ExclusiveNUMA && !t.pays(c)) {
		return false
	}
	if a.terms.l3 && len(t.caches(c)) > a.most || t.w.Nodes > 0 && !t.onEach(c, mask) {
		return false
	}
	return t.affords(a, cost, mask)
}

// onEach reports whether each NUMA node of the mask has some of the CPUs or, without CPUs, may have
// some of the first amount.
func (t twin) onEach(c topology.CPUSet, mask hint.Mask) bool {
	if t.w.CPUs > 0 {
		return t.nodes(c) == mask
	}
	if len(t.w.Amounts) == 0 {
		return t.w.PerNode > 0
	}
	first := t.w.Amounts[0]
	unit := t.m.Amounts.kinds[first.Kind].Unit
	for v := range mask.All() {
		if t.m.Amounts.Room(t.b, first.Kind, v) < unit {
			return false
		}
	}
	return t.m.Amounts.Whole(first) >= unit*uint64(mask.Len())
}

// pays reports whether the want requests all resources of the NUMA nodes that have CPUs c.
func (t twin) pays(c topology.CPUSet) bool {
	asked, kept := 1000*uint64(c.Len()), uint64(0)
	for _, want := range t.w.Amounts {
		if want.Kind == CPU {
			asked += want.N
		}
	}
	nodes := map[int]bool{}
	for id := range c.All() {
		nodes[t.node(id)] = true
	}
	all := t.m.Cores.Free(t.m.empty)
	for id := range all.All() {
		kept += 1000 * uint64(b2i(nodes[t.node(id)]))
	}
	return kept <= asked
}

func (t twin) affords(a answer, cost []uint64, mask hint.Mask) bool {
	for v := range mask.All() {
		if cost[v] > t.m.Amounts.Room(t.b, CPU, v) || a.terms.excl == ExclusiveNUMA && t.b.used[v] > 0 {
			return false
		}
	}
	for _, want := range t.w.Amounts {
		var room uint64
		for v := range mask.All() {
			room += t.m.Amounts.Room(t.b, want.Kind, v)
			if want.Kind == CPU {
				room -= cost[v]
			}
		}
		if room < t.m.Amounts.Whole(want) {
			return false
		}
	}
	return true
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

var smallMachines = []string{
	"package:2 numa:1 l3:2 core:1 pu:2 mem:8Gi huge:2Mi=4 dist:10,21",
	"package:1 numa:1 l3:2 core:2 pu:2 number:packed mem:8Gi huge:2Mi=4 dist:10",
	"package:2 numa:2 l3:1 core:1 pu:2 mem:8Gi huge:2Mi=4 dist:10,12,32",
	"package:3 numa:1 l3:1 core:2 pu:1 mem:8Gi huge:2Mi=4 dist:10,20",
	"package:1 numa:2 l3:1 core:2 pu:2 number:packed mem:4Gi huge:2Mi=4 dist:10,12",
	"package:2 numa:1 l3:1 core:1 pu:4 mem:8Gi huge:2Mi=4 dist:10,21",
}

// hybridCores is a machine with two cores of two threads and three of one.
const hybridCores = "package:1 numa:1 l3:1 pu:7 core:0/0-1=0-2/2+1-3/2;0/2-4=4-6 mem:8Gi dist:10"

func TestAgainstTheTwin(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	rounds := 400
	if testing.Short() {
		rounds = 100
	}
	var outcomes [len(outcomeNames)]int
	for i := range rounds * len(smallMachines) {
		text := smallMachines[i%len(smallMachines)]
		m := randomModel(t, rng, text)
		if m == nil {
			continue
		}
		b := randomBook(rng, m)
		w := randomWant(rng, m)
		outcomes[compare(t, m, b, &w, fmt.Sprintf("seed %d, round %d, %s", seed, i, text))]++
	}
	for o, n := range outcomes {
		if o := PlaceResult(o); n == 0 && o != UnequalCores && o != NoDevices && o != NotTogether {
			t.Errorf("no case ended with %q", PlaceResult(o))
		}
	}
	t.Logf("seed %d: %v", seed, outcomes)
}

func TestUnequalCores(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	seen := 0
	for i := range 300 {
		m := modelOf(t, hybridCores, "", MostAllocated)
		b := randomBook(rng, m)
		w := randomWant(rng, m)
		seen += b2i(compare(t, m, b, &w, fmt.Sprintf("round %d", i)) == UnequalCores)
	}
	if seen == 0 {
		t.Error("no case was refused for unequal cores")
	}
}

func randomModel(t *testing.T, rng *rand.Rand, text string) *Model {
	var reserved topology.CPUSet
	if rng.IntN(3) == 0 {
		reserved.Add(topology.CPUID(rng.IntN(6)))
	}
	c := configOf(text, reserved)
	c.Strategy = Strategy(rng.IntN(2))
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func randomBook(rng *rand.Rand, m *Model) *Book {
	b := m.NewBook()
	for range rng.IntN(3) {
		var h Held
		free := m.Cores.Free(b)
		for id := range free.All() {
			if rng.IntN(4) == 0 {
				h.CPUs.Add(id)
			}
		}
		h.Exclusive, h.Alone = Exclusive(rng.IntN(4)%3), h.CPUs
		if m.Problem(b, &h) == "" {
			m.Take(b, &h)
		}
	}
	for v := range m.Cores.nodes {
		for k := range m.Amounts.kinds {
			if room := m.Amounts.Room(b, KindIndex(k), v); rng.IntN(3) == 0 && room > 0 {
				n := rng.Uint64N(room + 1)
				m.Take(b, &Held{Amounts: []NodeAmount{{Kind: KindIndex(k), Node: uint8(v), N: n / m.Amounts.kinds[k].Unit * m.Amounts.kinds[k].Unit}}})
			}
		}
	}
	return b
}

func randomWant(rng *rand.Rand, m *Model) Want {
	w := Want{Width: Width(rng.IntN(3)), Pays: rng.IntN(2) == 0}
	if rng.IntN(3) == 0 {
		w.Nodes = 1 + rng.IntN(m.space.Len()+1)
	}
	if rng.IntN(5) > 0 {
		w.CPUs = 1 + rng.IntN(4)
	}
	for k := range m.Amounts.kinds {
		if rng.IntN(3) == 0 {
			w.Amounts = append(w.Amounts, Amount{Kind: KindIndex(k), N: 1 + rng.Uint64N(m.Amounts.Capacity(KindIndex(k), 0)+2)})
		}
	}
	r := &w.Rules
	if r.Bind = Bind(rng.IntN(int(binds))); r.Bind != BindAny {
		r.BindHow = Strength(1 + rng.IntN(2))
	}
	if r.Exclusive = Exclusive(rng.IntN(5) % int(exclusives)); r.Exclusive != Shareable {
		r.ExclusiveHow = Strength(1 + rng.IntN(2))
	}
	r.L3 = Strength(rng.IntN(int(strengths)))
	if rng.IntN(3) == 0 {
		w.CPUsWithin, w.CPUsWithinEmpty = m.space.NewSet(), m.space.NewSet()
		for range rng.IntN(3) {
			addWider(m, w.CPUsWithin, hint.Mask(1+rng.IntN(int(m.space.All()))))
		}
		copy(w.CPUsWithinEmpty, w.CPUsWithin)
		addWider(m, w.CPUsWithinEmpty, hint.Mask(1+rng.IntN(int(m.space.All()))))
	}
	return w
}

// addWider adds a set of NUMA nodes, and all that include it.
func addWider(m *Model, to hint.Set, set hint.Mask) {
	for _, mask := range m.space.BySize() {
		if set&^mask == 0 {
			to.Add(mask)
		}
	}
}

// unevenNodes reports whether NUMA nodes have different numbers of CPUs that can be pinned.
func unevenNodes(m *Model) bool {
	for v := range m.Cores.nodes {
		if m.Cores.nodeTime(v) != m.Cores.nodeTime(0) {
			return true
		}
	}
	return false
}

// compare compares Place with the twin, and checks what Place took.
func compare(t *testing.T, m *Model, b *Book, w *Want, what string) PlaceResult {
	t.Helper()
	try := m.NewTry()
	try.Begin(b)
	var g Grant
	got := try.Place(w, &g)
	tw := twin{m, b, w}
	want, ok := tw.place(w.Width)
	if w.Pays && w.Rules.Exclusive == ExclusiveNUMA && unevenNodes(m) {
		return got // of unequal nodes that are kept, Place may try the larger
	}
	if (w.Nodes > 0 || w.CPUsWithin != nil) && w.Rules.L3 != Unset { // which caches are enough depends on how CPUs are split
		bare := *w
		bare.Rules.L3 = Unset
		if _, room := (twin{m, b, &bare}).place(w.Width); got == Placed && (!room || w.Nodes > 0 && !tw.onEach(g.CPUs, g.Nodes) ||
			w.CPUsWithin != nil && w.CPUs > 0 && !w.CPUsWithin.Has(tw.nodes(g.CPUs))) {
			t.Fatalf("%s: %+v: %v on %b, room without caches: %v", what, *w, g.CPUs, g.Nodes, room)
		}
		return got
	}
	say := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("%s: %+v, free %v, used %v, reserved %v: %s", what, *w, m.Cores.Free(b), b.used, m.Cores.reserved, fmt.Sprintf(format, args...))
	}
	if (got == Placed) != ok {
		say("%v, the twin says %v %b", got, ok, want.nodes)
	}
	if !ok {
		insists := w.Pays && w.Rules.ExclusiveHow == Required // its refusal may come before others
		if got == Withholds && !insists {
			say("%v, and nobody else is kept off", got)
		}
		if w.Nodes > 0 || w.CPUsWithin != nil {
			bare := *w
			bare.Nodes, bare.CPUsWithin, bare.CPUsWithinEmpty = 0, nil, nil
			tw.w = &bare
		}
		if _, room := tw.place(AnyWidth); !insists && got != NotOffered && room != (got == TooWide || got == NotExactly || got == OutOfReach) {
			say("%v, the twin finds room if the width does not matter: %v", got, room)
		}
		if !try.Book.Equal(b) {
			say("refused, and something was taken")
		}
		return got
	}
	if g.Nodes != want.nodes {
		say("nodes %b, the twin says %b", g.Nodes, want.nodes)
	}
	free := m.Cores.Free(b)
	if g.CPUs.Len() != w.CPUs || !g.CPUs.IsSubsetOf(&free) || !tw.keeps(want, g.CPUs, want.nodes) || g.Exclusive != want.terms.excl {
		say("CPUs %v, exclusive %d: do not keep %+v", g.CPUs, g.Exclusive, want)
	}
	if w.Nodes > 0 && w.CPUs == 0 {
		given := hint.Mask(0)
		for _, a := range g.Amounts {
			if a.Kind == w.Amounts[0].Kind {
				given |= 1 << a.Node
			}
		}
		if given != g.Nodes {
			say("on nodes %b, and %+v are on %b", g.Nodes, g.Amounts, given)
		}
	}
	checkAmounts(m, b, w, &g, say)
	again := m.NewBook()
	again.CopyFrom(b)
	m.Take(again, &Held{CPUs: g.CPUs, Alone: g.CPUs, Exclusive: g.Exclusive, Amounts: g.Amounts})
	if !again.Equal(&try.Book) {
		say("Take comes to another book")
	}
	m.Give(again, &Held{CPUs: g.CPUs, Alone: g.CPUs, Exclusive: g.Exclusive, Amounts: g.Amounts})
	if !again.Equal(b) {
		say("Give does not give back")
	}
	return got
}

func checkAmounts(m *Model, b *Book, w *Want, g *Grant, say func(string, ...any)) {
	for _, want := range w.Amounts {
		var sum uint64
		for _, a := range g.Amounts {
			if a.Kind != want.Kind {
				continue
			}
			sum += a.N
			if !g.Nodes.Has(int(a.Node)) || a.N%m.Amounts.kinds[a.Kind].Unit != 0 {
				say("amount %+v: on nodes that were not chosen, or a broken unit", a)
			}
			if a.N > m.Amounts.Room(b, a.Kind, int(a.Node)) {
				say("amount %+v: more than there is", a)
			}
		}
		if sum != m.Amounts.Whole(want) {
			say("kind %d: %d in all, want %d", want.Kind, sum, m.Amounts.Whole(want))
		}
	}
}
