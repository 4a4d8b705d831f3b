package plan

import (
	"cmp"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Wish is a member's requirement or preference to have the same NUMA nodes as another member, or
// different ones.
type Wish struct {
	// Mate is the index of the other member in Gang.Members. Index len(Members)+i stands for
	// Gang.Seated[i], a pod that already has a node.
	Mate int
	// All makes the wish apply to all other members and seated pods. If a seated pod has the wish,
	// it applies to Members only. If All is set, Apart must be set too, and Mate has no meaning.
	// All saves memory: the number of separate wishes would grow with the square of the number of
	// members.
	All bool
	// Apart asks for NUMA nodes that the mate does not have. Without Apart, the wish asks for
	// exactly the mate's NUMA nodes.
	Apart bool
	// Required means that the member gets no node on which the wish is not fulfilled. If Required
	// is not set, the plan first tries to fulfil the wish, and ignores it if that fails.
	Required bool
}

// Seat is the place of a pod of the gang that already has its node and is not planned again.
type Seat struct {
	// Node is the pod's node, or Elsewhere if no member can use that node.
	Node int
	// Got is the pod's allocation. If it is not known, Got is not Exact.
	Got Decided
	// Beside are the pod's wishes.
	Beside []Wish
}

// Elsewhere stands for a node that no member can use.
const Elsewhere = -2

// Decided is the allocation of a member on its node.
type Decided struct {
	// NUMA are the NUMA nodes of the member's CPUs, memory and devices; the set is empty if nothing
	// is pinned.
	NUMA topology.NUMASet
	// Exact means that the allocation is certain.
	Exact bool
}

// grants reports whether the wishes among the members on the node, including the new member, are
// fulfilled. If the trial is strict, preferred wishes count too. A wish must be fulfilled in each
// order in which the node's kubelet may admit the members. It counts as not fulfilled if the
// prediction is not exact, or if nothing is pinned for one of the two members. The node's site, in
// the parameter `with`, includes the new member.
func (t *trial) grants(node int, with *site, got *Decided) bool {
	if t.wishes == nil || !slices.ContainsFunc(with.pairs, t.counts) {
		return true
	}
	outcomes := t.outcomes(node, with.members, got)
	return len(outcomes) > 0 && !slices.ContainsFunc(outcomes, func(numa []topology.NUMASet) bool { return !t.keep(with.pairs, numa) })
}

// counts reports whether the trial must fulfil the wish.
func (t *trial) counts(p pair) bool { return p.required || t.strict }

// keep reports whether all pairs that count for the trial (trial.counts) are fulfilled if the
// members of the site have these NUMA nodes.
func (t *trial) keep(pairs []pair, numa []topology.NUMASet) bool {
	return !slices.ContainsFunc(pairs, func(p pair) bool {
		own, other := numa[p.asks], numa[p.mate]
		return t.counts(p) && (own == 0 || !p.apart && own != other || p.apart && (other == 0 || own&other != 0))
	})
}

// others reports whether a wish of m with All applies to the mate. It returns false if both are
// seated.
func (g *Gang) others(m, mate int) bool {
	return m != mate && (m < len(g.Members) || mate < len(g.Members))
}

// wishesOf returns the wishes of a member or a seated pod, by an index as in Wish.Mate.
func (g *Gang) wishesOf(m int) []Wish {
	if m >= len(g.Members) {
		return g.Seated[m-len(g.Members)].Beside
	}
	return g.Members[m].Beside
}

// maxTogether is the maximum number of planned members on a loose node (suppose.Node.Loose) for
// which outcomes tries all orders of admission. With more members, wishes on the node count as not
// fulfilled.
const maxTogether = 4

// outcomes returns the possible NUMA nodes of the members on a node; got is the allocation of the
// last member. There is one outcome or, if the node is loose, one for each order in which the
// kubelet may admit the members. outcomes returns nil if the NUMA nodes are not known.
func (t *trial) outcomes(node int, members []int, got *Decided) (out [][]topology.NUMASet) {
	if !t.plan.Nodes.At(node).Loose() {
		numa := make([]topology.NUMASet, len(members))
		for i, m := range members {
			d := &t.placed[m]
			if i == len(members)-1 {
				d = got
			}
			if !d.Exact {
				return nil
			}
			numa[i] = d.NUMA
		}
		return [][]topology.NUMASet{numa}
	}
	var coming, places []int // the members that are not seated
	for i, m := range members {
		switch {
		case m < len(t.gang.Members):
			coming, places = append(coming, m), append(places, i)
		case !t.placed[m].Exact:
			return nil
		}
	}
	if len(coming) > maxTogether {
		return nil
	}
	exact, played := true, map[[maxTogether + 1]int64][]topology.NUMASet{}
	permute(len(coming), func(order []int) {
		if !exact || t.work.over() {
			exact = false
			return
		}
		key := t.sequence(coming, order)
		numa, known := played[key]
		if !known || t.work.slow {
			var ok bool
			if numa, ok = t.play(node, coming, order); !ok {
				exact = false
				return
			}
			played[key] = numa
		}
		all := make([]topology.NUMASet, len(members))
		for i, m := range members {
			all[i] = t.placed[m].NUMA
		}
		for i, at := range order {
			all[places[at]] = numa[i]
		}
		out = append(out, all)
	})
	if !exact {
		return nil
	}
	return out
}

// sequence returns a key of an order. Orders with equal keys have members of the same kinds at each
// position, so they have the same outcome.
func (t *trial) sequence(members, order []int) (key [maxTogether + 1]int64) {
	for i, at := range order {
		key[i] = int64(t.gang.Members[members[at]].Kind) + 1
	}
	key[maxTogether] = t.created(members[order[0]])
	return key
}

// play promises places to the members, in the given order, on a fork of the node without planned
// members. It returns the NUMA nodes of each member, or false if a member is refused or its
// allocation is not certain.
func (t *trial) play(node int, members, order []int) ([]topology.NUMASet, bool) {
	on, numa := t.field.Node(node), make([]topology.NUMASet, len(members))
	if on.Account() == nil {
		return nil, false
	}
	latest := int64(0)
	for _, m := range members {
		if c := t.gang.Members[m].Candidate; c != nil {
			latest = max(latest, c.Created)
		}
	}
	for i, at := range order {
		next, d := t.gang.Members[members[at]].Pod, placement.Decision{}
		if next.Candidate == nil {
			continue
		}
		t.work.budget.Spend(promiseLooks(&next))
		c := *next.Candidate
		if next.Candidate = &c; i > 0 { // distinct times fix the order of admission
			c.Created = latest + int64(i)
		}
		a := on.Promise(&next, &d)
		if !a.OK() || !a.Exact {
			return nil, false
		}
		numa[i] = on.Account().View().Report().Model.Reach(c.Request, &a.Verdict)
	}
	return numa, true
}

// permute calls do(p) for every permutation p of the numbers from 0 to n-1.
func permute(n int, do func([]int)) {
	var rest func(done []int)
	rest = func(done []int) {
		if len(done) == n {
			do(done)
			return
		}
		for i := range n {
			if !slices.Contains(done, i) {
				rest(append(slices.Clip(done), i))
			}
		}
	}
	rest(nil)
}

// unit is a set of members that must be on one node, because they require the same NUMA nodes. A
// member without such a wish forms a unit of its own.
type unit struct {
	members []int
	kind    int
	size    int64
	// priority is the highest priority of the members.
	priority int32
	// prefers means that a member of the unit has a preferred wish.
	prefers bool
}

// unitsOf joins members into units by their required wishes for the same NUMA nodes. In a unit, the
// largest members come first.
func unitsOf(members []Member) []unit {
	root := make([]int, len(members))
	for i := range root {
		root[i] = i
	}
	find := func(i int) int {
		for root[i] != i {
			i = root[i]
		}
		return i
	}
	for i := range members {
		for _, w := range members[i].Beside {
			if w.Required && !w.Apart && w.Mate < len(members) {
				root[find(i)] = find(w.Mate)
			}
		}
	}
	by := make(map[int]*unit, len(members))
	var order []int
	for i := range members {
		r := find(i)
		if by[r] == nil {
			by[r] = &unit{kind: members[i].Kind, priority: members[i].Priority}
			order = append(order, r)
		}
		u := by[r]
		u.members = append(u.members, i)
		u.size += members[i].Size
		u.priority = max(u.priority, members[i].Priority)
		u.prefers = u.prefers || slices.ContainsFunc(members[i].Beside, func(w Wish) bool { return !w.Required })
	}
	out := make([]unit, 0, len(order))
	for _, r := range order {
		slices.SortStableFunc(by[r].members, func(a, b int) int { return int(members[b].Size - members[a].Size) })
		out = append(out, *by[r])
	}
	return out
}

// In a gang with wishes, a node that refuses one member may admit a later member, so the plan
// cannot drop the node. Instead, the trial stores the refusals of each node, and does not ask again
// for a known answer. If the trial asked again, a gang of thousands of members could block the
// scheduler for minutes.

// site has the members on a node, and the refusals of the node with these members. If the node gets
// another member, the trial replaces the site.
type site struct {
	// members are the members and the seated pods on the node.
	members []int
	pairs   []pair
	// refusals are the known refusals of the node in this state.
	refusals map[refusal]bool
	// seconds are the seconds in which the members were created, ascending. foreign means that pods
	// outside the gang are in flight on the node. seconds and foreign are set if refusals is not
	// nil.
	seconds []int64
	foreign bool
}

// pair is a wish of one member of a site about another member of the site. asks and mate are
// positions in site.members.
type pair struct {
	asks, mate      int
	apart, required bool
}

// refusal describes the members that a node refuses: all members of one kind and age. If wishes are
// the reason, only the members of one class (wishes.classes) are refused. Otherwise class has the
// value nowhere.
type refusal struct {
	kind, class int
	strict      bool
	// age is the second in which the member was created, if site.foreign is set. If not, age is the
	// position of this second relative to site.seconds.
	age int64
}

// wishes has the wishes of members and seated pods, in a form for fast lookups.
type wishes struct {
	// joins has, for each member, the wishes for the same NUMA nodes: its own wishes, and the
	// wishes of other members about it.
	joins map[int][]Wish
	// classes has the class of each member. Members of one class have the same kind and the same
	// wishes, and other members have the same wishes about them.
	classes []int
	// sizes has the number of members of each class.
	sizes []int
	count int
}

func wishesOf(g *Gang) *wishes {
	out := &wishes{joins: map[int][]Wish{}, classes: make([]int, len(g.Members))}
	about := make([][]byte, len(g.Members))
	for m := range len(g.Members) + len(g.Seated) {
		for _, w := range g.wishesOf(m) {
			if out.count++; w.All {
				continue
			}
			if w.Mate < len(about) {
				about[w.Mate] = w.by(m).append(about[w.Mate])
			}
			if !w.Apart {
				out.joins[m] = append(out.joins[m], w)
				out.joins[w.Mate] = append(out.joins[w.Mate], w.by(m))
			}
		}
	}
	known := map[string]int{}
	for m := range g.Members {
		key := strconv.AppendInt(nil, int64(g.Members[m].Kind), 10)
		for _, w := range g.Members[m].Beside {
			key = w.append(key)
		}
		key = append(append(key, '/'), about[m]...)
		if _, ok := known[string(key)]; !ok {
			known[string(key)] = len(known)
			out.sizes = append(out.sizes, 0)
		}
		out.classes[m] = known[string(key)]
		out.sizes[out.classes[m]]++
	}
	return out
}

// by returns the wish as seen from its mate: Mate is m, the member that has the wish.
func (w Wish) by(m int) Wish {
	w.Mate = m
	return w
}

func (w Wish) append(key []byte) []byte {
	for _, is := range []bool{w.All, w.Apart, w.Required} {
		key = strconv.AppendBool(append(key, ' '), is)
	}
	if w.All {
		return key
	}
	return strconv.AppendInt(append(key, ' '), int64(w.Mate), 10)
}

// with returns a new site: the node's site with the further member m. It returns nil if the gang
// has no wishes.
func (t *trial) with(m, node int) *site {
	if t.wishes == nil {
		return nil
	}
	var out site
	if now := t.sites[node]; now != nil {
		out.members, out.pairs = slices.Clip(now.members), slices.Clip(now.pairs)
	}
	for i, mate := range out.members {
		out.pair(t.gang, m, len(out.members), mate, i)
		out.pair(t.gang, mate, i, m, len(out.members))
	}
	t.work.budget.Spend(len(out.members)*len(t.gang.wishesOf(m))/pairsPerLook + len(out.pairs)/pairsPerLook)
	out.members = append(out.members, m)
	return &out
}

// pairsPerLook is the number of pairs of members that the search compares in the time of one look
// (see Looks).
const pairsPerLook = 128

// crowdedOut returns true if it finds that the node has fewer NUMA nodes than members that must all
// be apart from each other, including the new member. It searches greedily, so it may miss such a
// set of members. It is cheap, because it asks no ledger. The node's site, in the parameter `with`,
// includes the new member.
func (t *trial) crowdedOut(node int, with *site) bool {
	if with == nil || len(with.pairs) == 0 || t.work.slow {
		return false
	}
	first := max(0, len(with.members)-64) // only the last 64 members are compared
	var apart [64]uint64
	for _, p := range with.pairs {
		if p.apart && t.counts(p) && p.asks >= first && p.mate >= first {
			apart[p.asks-first] |= 1 << (p.mate - first)
			apart[p.mate-first] |= 1 << (p.asks - first)
		}
	}
	count, others := 1, apart[len(with.members)-1-first]
	for ; others != 0; count++ {
		others &= apart[bits.TrailingZeros64(others)]
	}
	return count > 1 && count > t.numaNodes(node)
}

// numaNodes returns the number of NUMA nodes of the node. If the number is not known, it returns a
// very large one.
func (t *trial) numaNodes(node int) int {
	if account := t.plan.Nodes.At(node).Account(); account != nil {
		if report := account.View().Report(); report != nil {
			return report.Model.NUMANodes().Len()
		}
	}
	return math.MaxInt
}

// settle is called after the search for a unit's node. If each NUMA node of that node belongs to a
// member that must be apart from all others, no further member fits, and settle marks the node as
// taken.
func (t *trial) settle(placed bool) {
	if !placed || t.wishes == nil || len(t.plan.Places) == 0 || t.work.slow {
		return
	}
	node := t.plan.Places[len(t.plan.Places)-1].Node
	all, seated := 0, 0
	for _, m := range t.sites[node].members {
		switch {
		case !slices.ContainsFunc(t.gang.wishesOf(m), func(w Wish) bool { return w.All && w.Apart && w.Required }):
		case m < len(t.gang.Members):
			all++
		default:
			seated = 1 // counts once, because seated pods may share a NUMA node
		}
	}
	if all+seated > 0 && all+seated >= t.numaNodes(node) && !t.taken[node] {
		t.taken[node] = true
		t.fresh++
	}
}

// withoutTaken returns the nodes that are not taken. To save time, it removes nodes only if more
// than one in eight was taken since it last did so.
func (t *trial) withoutTaken(all []int) []int {
	if t.fresh <= len(all)/8 {
		return all
	}
	t.fresh = 0
	return slices.DeleteFunc(slices.Clone(all), func(node int) bool { return t.taken[node] })
}

// pair adds the wishes of m about the mate to s.pairs. The parameters `place` and `its` are the
// positions of m and of the mate in s.members.
func (s *site) pair(g *Gang, m, place, mate, its int) {
	for _, w := range g.wishesOf(m) {
		if w.All && g.others(m, mate) || !w.All && w.Mate == mate {
			s.pairs = append(s.pairs, pair{place, its, w.Apart, w.Required})
		}
	}
}

// meets reports whether the unit must share NUMA nodes with pods that already have places (joins).
// If it must, the result `only` is the one node where it can do so, or Elsewhere if there is no
// such node, for example because these pods are on different nodes.
func (t *trial) meets(u *unit) (only int, joins bool) {
	if t.wishes == nil {
		return 0, false
	}
	for _, m := range u.members {
		for _, w := range t.wishes.joins[m] {
			switch at := t.at[w.Mate]; {
			case at == nowhere || !w.Required && !t.strict:
			case joins && at != only:
				return Elsewhere, true
			default:
				only, joins = at, true
			}
		}
	}
	return only, joins
}

// alike reports whether it is certain that every node gives the same answer about the two units. It
// returns false for units of several members.
func (t *trial) alike(a, b *unit) bool {
	x, y := a.members[0], b.members[0]
	return len(a.members)+len(b.members) == 2 && t.wishes.classes[x] == t.wishes.classes[y] && t.created(x) == t.created(y)
}

func (t *trial) created(m int) int64 {
	if c := t.gang.Members[m].Candidate; c != nil {
		return c.Created
	}
	return 0
}

// refused reports whether the node, with its present members, has already refused a member like m
// (type refusal).
func (t *trial) refused(m, node int) bool {
	s := t.sites[node]
	if s == nil || len(s.refusals) == 0 || t.work.slow {
		return false
	}
	return s.refusals[t.refusal(s, m, false)] || s.refusals[t.refusal(s, m, true)]
}

func (t *trial) refusal(s *site, m int, wish bool) refusal {
	r := refusal{kind: t.gang.Members[m].Kind, class: nowhere, age: t.created(m)}
	if wish {
		r.class, r.strict = t.wishes.classes[m], t.strict
	}
	if !s.foreign {
		before, same := slices.BinarySearch(s.seconds, r.age)
		if r.age = int64(2 * before); same {
			r.age++
		}
	}
	return r
}

// note records that the node refuses the member. The parameter wish means that the wishes are the
// reason.
func (t *trial) note(m, node int, wish bool) {
	if t.wishes == nil || t.field.Coupled(t.gang.Members[m].Kind) || wish && t.wishes.sizes[t.wishes.classes[m]] == 1 {
		return // no other member would use this refusal
	}
	s := t.sites[node]
	if s == nil {
		s = &site{}
		t.sites[node] = s
	}
	if s.refusals == nil {
		s.refusals = map[refusal]bool{}
		t.date(s, node)
	}
	s.refusals[t.refusal(s, m, wish)] = true
}

// date fills in s.seconds and s.foreign. They determine the orders in which the kubelet may admit a
// new member and the members of the site.
func (t *trial) date(s *site, node int) {
	on, seconds := t.plan.Nodes.At(node), map[int64]bool{}
	for _, m := range s.members {
		if m < len(t.gang.Members) && t.gang.Members[m].Candidate != nil {
			seconds[t.created(m)] = true
		}
	}
	s.seconds = slices.SortedFunc(maps.Keys(seconds), cmp.Compare)
	s.foreign = on.Account() != nil && on.Account().View().Census().InFlight() != on.Promised()
}
