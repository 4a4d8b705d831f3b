package plan

import (
	"slices"

	"github.com/berth-dev/berth/topology"
)

// Wish is what a member asks about its place beside another member's.
type Wish struct {
	// Mate is the other member.
	Mate int
	// Apart asks for another NUMA node than the mate's; else it is the same one that is asked for,
	// on the same node.
	Apart bool
	// Required wishes are kept, or the member gets no node. A wish that is preferred is tried
	// first: a Field orders nodes by it.
	Required bool
}

// Decided is what a member got on its node.
type Decided struct {
	// NUMA are the NUMA nodes of its CPUs, memory and devices; empty where nothing is pinned.
	NUMA topology.NUMASet
	// Exact says that this is certain.
	Exact bool
}

// grants says whether the required wishes about the member and those placed before it are kept. A
// wish is about an exact prediction: where it is not exact, or nothing is pinned, it is not kept.
func (t *trial) grants(m, node int, got *Decided) bool {
	if !t.wishing {
		return true
	}
	for _, w := range t.gang.Members[m].Beside {
		if w.Required && t.at[w.Mate] != nowhere && !t.keeps(w.Mate, node, got, w.Apart) {
			return false
		}
	}
	for mate := range t.gang.Members {
		if t.at[mate] == nowhere {
			continue
		}
		for _, w := range t.gang.Members[mate].Beside {
			if w.Required && w.Mate == m && !t.keeps(mate, node, got, w.Apart) {
				return false
			}
		}
	}
	return true
}

// keeps says whether a place and that of a mate are as asked.
func (t *trial) keeps(mate, node int, got *Decided, apart bool) bool {
	other := &t.placed[mate]
	if t.at[mate] != node {
		return apart
	}
	if !got.Exact || !other.Exact || got.NUMA == 0 || other.NUMA == 0 {
		return false
	}
	if apart {
		return got.NUMA&other.NUMA == 0
	}
	return got.NUMA == other.NUMA
}

// unit is members that go to one node or nowhere: those that ask for one NUMA node.
type unit struct {
	members []int
	kind    int
	size    int64
	wishes  bool
}

// firm says that a node which refuses the unit refuses others of its kind.
func (u *unit) firm() bool { return !u.wishes }

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
			if w.Required && !w.Apart {
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
		u.wishes = u.wishes || len(members[i].Beside) > 0
	}
	out := make([]unit, 0, len(order))
	for _, r := range order {
		slices.SortStableFunc(by[r].members, func(a, b int) int { return int(members[b].Size - members[a].Size) })
		out = append(out, *by[r])
	}
	return out
}
