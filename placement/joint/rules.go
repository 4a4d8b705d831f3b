package joint

// Width says how many NUMA nodes something may lie on.
type Width uint8

// The widths, from the freest to the strictest.
const (
	// AnyWidth takes the narrowest set there is, however wide.
	AnyWidth Width = iota
	// Fewest takes no more NUMA nodes than an empty machine would need for all that is asked at
	// once.
	Fewest
	// One takes one NUMA node or refuses.
	One
)

// Bind says how CPUs lie on cores.
type Bind uint8

// The ways to bind CPUs; the zero value leaves the choice to the node: whole cores first.
const (
	BindAny Bind = iota
	// FullCores gives whole cores: all their threads.
	FullCores
	// Spread gives one thread of each core.
	Spread

	binds // the number of values
)

// Exclusive says what a container's CPUs are not shared with others' pinned CPUs.
type Exclusive uint8

// The levels of exclusiveness.
const (
	Shareable Exclusive = iota
	// ExclusiveCore: the other threads of its cores stay idle.
	ExclusiveCore
	// ExclusiveNUMA: the other CPUs of its NUMA nodes stay idle, and the nodes were empty.
	ExclusiveNUMA

	exclusives // the number of values
)

// Strength says whether a wish may be given up.
type Strength uint8

// The strengths of a wish. A wish that is unset is none.
const (
	Unset Strength = iota
	Preferred
	Required

	strengths // the number of values
)

// Rules are how CPUs are wanted. The zero value leaves everything to the node. Preferences are
// given up in this order until there is room: exclusiveness, level-3 caches, binding; but never for
// a wider set of NUMA nodes.
type Rules struct {
	Bind         Bind
	BindHow      Strength // set if Bind is
	Exclusive    Exclusive
	ExclusiveHow Strength // set if Exclusive is
	// L3 asks for no more level-3 caches than an empty machine would need. A cache that spans NUMA
	// nodes counts once for each.
	L3 Strength
}

// Sane reports whether the rules hold values that exist, and strengths where they belong.
func (r Rules) Sane() bool {
	return r.Bind < binds && r.BindHow < strengths && r.Exclusive < exclusives && r.ExclusiveHow < strengths && r.L3 < strengths &&
		(r.Bind == BindAny) == (r.BindHow == Unset) && (r.Exclusive == Shareable) == (r.ExclusiveHow == Unset)
}

// Strategy says which of the NUMA nodes that would do as well are taken.
type Strategy uint8

// The strategies.
const (
	// MostAllocated fills NUMA nodes up, so that others stay whole. The zero value.
	MostAllocated Strategy = iota
	// LeastAllocated takes the emptiest.
	LeastAllocated
	// FillNodes is MostAllocated, and of several nodes those come first that are in use.
	FillNodes
)

// Score is how well a node suits that would use so many of its NUMA nodes, from 0 to 100:
// MostAllocated rises with the part in use, LeastAllocated falls (Koordinator's proposal "NUMA
// Topology Scheduling", 2023).
func (s Strategy) Score(used, total int) int {
	if total <= 0 {
		return 0
	}
	used = min(max(used, 0), total)
	if s == LeastAllocated {
		used = total - used
	}
	return used * 100 / total
}

// terms are rules at one level of giving up: what is still insisted on.
type terms struct {
	bind Bind      // insisted on
	like Bind      // how CPUs are taken, insisted on or not
	excl Exclusive // insisted on
	byL3 bool      // taken cache by cache
	l3   bool      // insisted on
}

// maxLevels is how often something can be given up, and one more.
const maxLevels = 4

// at returns the terms at a level, 0 keeping every preference.
func (r Rules) at(level int) terms {
	keep := func(s Strength, from int) bool { return s == Required || s == Preferred && level < from }
	t := terms{like: r.Bind, byL3: r.L3 != Unset, l3: keep(r.L3, 2)}
	if keep(r.ExclusiveHow, 1) {
		t.excl = r.Exclusive
	}
	if keep(r.BindHow, 3) {
		t.bind = r.Bind
	}
	return t
}
