package joint

// Width limits the number of NUMA nodes that a request may use.
type Width uint8

// The widths, from the freest to the strictest.
const (
	// AnyWidth accepts any number of NUMA nodes, but the fewest available ones win.
	AnyWidth Width = iota
	// Fewest accepts no more NUMA nodes than an empty machine would need for the request.
	Fewest
	// One takes one NUMA node or refuses.
	One
)

// Bind is how CPUs are chosen from cores.
type Bind uint8

// The ways to bind CPUs; the zero value leaves the choice to the node: whole cores first.
const (
	BindAny Bind = iota
	// FullCores gives whole cores: all their threads.
	FullCores
	// Spread takes one thread of each core.
	Spread

	binds // the number of values
)

// Exclusive is the unit, a core or a NUMA node, on which a container's CPUs are the only pinned
// CPUs.
type Exclusive uint8

// The levels of exclusiveness.
const (
	Shareable Exclusive = iota
	// ExclusiveCore: the other threads of its cores stay idle.
	ExclusiveCore
	// ExclusiveNUMA: the other CPUs of its NUMA nodes stay idle. The nodes must be empty before.
	ExclusiveNUMA

	exclusives // the number of values
)

// Strength tells if a wish is required or preferred.
type Strength uint8

// The strengths of a wish. The zero value means no wish.
const (
	Unset Strength = iota
	Preferred
	Required

	strengths // the number of values
)

// Rules are the requirements for CPUs. The zero value leaves everything to the node. Preferences
// are dropped in this order until there is room: exclusiveness, level-3 caches, binding. A wider
// set of NUMA nodes is never used to keep a preference.
type Rules struct {
	Bind         Bind
	BindHow      Strength // not Unset if Bind is set
	Exclusive    Exclusive
	ExclusiveHow Strength // not Unset if Exclusive is set
	// L3 asks for no more level-3 caches than an empty machine would need. A cache that spans NUMA
	// nodes counts once for each.
	L3 Strength
}

// Sane reports whether all values and strengths of the rules are valid.
func (r Rules) Sane() bool {
	return r.Bind < binds && r.BindHow < strengths && r.Exclusive < exclusives && r.ExclusiveHow < strengths && r.L3 < strengths &&
		(r.Bind == BindAny) == (r.BindHow == Unset) && (r.Exclusive == Shareable) == (r.ExclusiveHow == Unset)
}

// Strategy chooses among equally good NUMA nodes.
type Strategy uint8

// The strategies.
const (
	// MostAllocated fills NUMA nodes, so that others stay empty. The zero value.
	MostAllocated Strategy = iota
	// LeastAllocated takes the emptiest NUMA nodes.
	LeastAllocated
	// FillNodes does what MostAllocated does, and the scheduler uses nodes with pods before empty
	// nodes.
	FillNodes
)

// Score returns a node's score from 0 to 100, given how many of its NUMA nodes would be in use. The
// score rises with this number for MostAllocated, and falls for LeastAllocated (Koordinator's
// proposal "NUMA Topology Scheduling", 2023).
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

// terms are rules after some preferences were dropped.
type terms struct {
	bind Bind      // required
	like Bind      // how CPUs are taken, required or not
	excl Exclusive // required
	byL3 bool      // CPUs are taken cache by cache
	l3   bool      // required
}

// maxLevels is the number of preferences that can be dropped, plus one.
const maxLevels = 4

// at returns the terms at a level. Level 0 keeps every preference.
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
