package plan

import (
	"slices"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Wish is what a member asks about its place beside another member's.
type Wish struct {
	// Mate is the other member. From the number of members on it is one that has its place: the
	// next one is the first of Gang.Seated.
	Mate int
	// All, which goes with Apart, asks it of all others, and Mate says nothing. A mate that has its
	// place asks it of the members alone. A wish for each of them would take the room of the square
	// of their number.
	All bool
	// Apart asks for another NUMA node than the mate's; else it is the same one that is asked for,
	// on the same node.
	Apart bool
	// Required wishes are kept, or the member gets no node. A preferred one is kept where a node
	// can be had that keeps it.
	Required bool
}

// Seat is the place of a mate that is not planned: it has its node.
type Seat struct {
	// Node is Elsewhere where no member may go.
	Node int
	// Got is what it has there; it is not Exact where nobody has told.
	Got Decided
	// Beside are its wishes.
	Beside []Wish
}

// Elsewhere is a node that no member can be on.
const Elsewhere = -2

// Decided is what a member got on its node.
type Decided struct {
	// NUMA are the NUMA nodes of its CPUs, memory and devices; empty where nothing is pinned.
	NUMA topology.NUMASet
	// Exact says that this is certain.
	Exact bool
}

// grants says whether the wishes about the member and those placed before it are kept: the ones
// that are required and, while the trial is strict, the ones that are preferred. A wish is about an
// exact prediction, in each order in which the node's kubelet may admit the members: where no such
// order exists, or nothing is pinned, it is not kept.
func (t *trial) grants(m, node int, got *Decided) bool {
	if !t.wishing {
		return true
	}
	if t.parted(m, node) {
		return false
	}
	var here []int // the members on the node
	for mate, at := range t.at {
		if at == node && mate != m {
			here = append(here, mate)
		}
	}
	here = append(here, m)
	if !t.anyWish(here) {
		return true
	}
	outcomes := t.outcomes(node, here, got)
	return len(outcomes) > 0 && !slices.ContainsFunc(outcomes, func(numa []topology.NUMASet) bool { return !t.keep(here, numa) })
}

// parted says whether a mate on another node and the member must be on one NUMA node.
func (t *trial) parted(m, node int) bool {
	if !t.joining {
		return false
	}
	for mate, at := range t.at {
		if at != nowhere && at != node && mate != m && (t.wants(m, mate, false) || t.wants(mate, m, false)) {
			return true
		}
	}
	return false
}

// wants says whether a member asks for that of a mate.
func (t *trial) wants(m, mate int, apart bool) bool {
	return slices.ContainsFunc(t.wishesOf(m), func(w Wish) bool {
		return w.Apart == apart && (w.Required || t.strict) && (w.All && t.others(m, mate) || !w.All && w.Mate == mate)
	})
}

// others says whether a mate is one of all others for a member, or for a mate that has its place.
func (t *trial) others(m, mate int) bool {
	return m != mate && (m < len(t.gang.Members) || mate < len(t.gang.Members))
}

// wishesOf are those of a member, or of a mate that has its place.
func (t *trial) wishesOf(m int) []Wish {
	if m >= len(t.gang.Members) {
		return t.gang.Seated[m-len(t.gang.Members)].Beside
	}
	return t.gang.Members[m].Beside
}

// anyWish says whether any of the members asks anything about another one of them.
func (t *trial) anyWish(members []int) bool {
	for _, m := range members {
		for _, mate := range members {
			if t.wants(m, mate, false) || t.wants(m, mate, true) {
				return true
			}
		}
	}
	return false
}

// keep says whether members on these NUMA nodes have what they ask of each other.
func (t *trial) keep(members []int, numa []topology.NUMASet) bool {
	for i, m := range members {
		for j, mate := range members {
			switch {
			case t.wants(m, mate, false) && (numa[i] == 0 || numa[i] != numa[j]):
				return false
			case t.wants(m, mate, true) && (numa[i] == 0 || numa[j] == 0 || numa[i]&numa[j] != 0):
				return false
			}
		}
	}
	return true
}

// maxTogether is how many members with wishes share a node in unknown order: the search considers
// all their orders.
const maxTogether = 4

// outcomes are the NUMA nodes that the members on a node may getonce the last of them got its own:
// one outcome where the node's prediction is exact, else one for each order. None says that nobody
// can tell.
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
	var coming, places []int // the ones that have no place yet
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
	exact := true
	permute(len(coming), func(order []int) {
		numa, ok := t.play(node, coming, order)
		if !ok {
			exact = false
			return
		}
		all := make([]topology.NUMASet, len(members))
		for i, m := range members {
			all[i] = t.placed[m].NUMA
		}
		for i, at := range places {
			all[at] = numa[i]
		}
		out = append(out, all)
	})
	if !exact {
		return nil
	}
	return out
}

// play lets a copy of the node admit members in an order.
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
		c := *next.Candidate
		if next.Candidate = &c; i > 0 { // they come one after the other
			c.Created = latest + int64(i)
		}
		a := on.Promise(&next, &d)
		if !a.OK() || !a.Exact {
			return nil, false
		}
		numa[at] = on.Account().View().Report().Model.Reach(c.Request, &a.Verdict)
	}
	return numa, true
}

// permute calls do with every order of n things.
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

// unit is members that go to one node or nowhere: the ones that ask for one NUMA node.
type unit struct {
	members []int
	kind    int
	size    int64
	// prefers: some wish is merely preferred.
	prefers bool
}

// unitsOf joins members by their required wishes for the same NUMA node. Members of one kind stand
// together.
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
			by[r] = &unit{kind: members[i].Kind}
			order = append(order, r)
		}
		u := by[r]
		u.members = append(u.members, i)
		u.size += members[i].Size
		u.prefers = u.prefers || slices.ContainsFunc(members[i].Beside, func(w Wish) bool { return !w.Required })
	}
	out := make([]unit, 0, len(order))
	for _, r := range order {
		slices.SortStableFunc(by[r].members, func(a, b int) int { return int(members[b].Size - members[a].Size) })
		out = append(out, *by[r])
	}
	return out
}
