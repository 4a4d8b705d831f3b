package joint

// Width limits the number of NUMA nodes that a request may use.
type Width uint8

// The widths, from the freest to the strictest.
const (
	// AnyWidth accepts any number of NUMA nodes. Place still uses as few as possible.
	AnyWidth Width = iota
	// Fewest accepts no more NUMA nodes than an empty machine would need for the request.
	Fewest
	// One accepts only one NUMA node.
	One
)

// Bind tells which threads of the cores Place takes.
type Bind uint8

// BindAny, the zero value, takes any CPUs, but whole cores first.
const (
	BindAny Bind = iota
	// FullCores takes whole cores: all threads of each core.
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
	// ExclusiveCore: the other threads of the container's cores stay idle.
	ExclusiveCore
	// ExclusiveNUMA: the other CPUs of the container's NUMA nodes stay idle. No other pod may have
	// CPUs or CPU time on these NUMA nodes.
	ExclusiveNUMA

	exclusives // the number of values
)

// Strength is how strictly a wish applies: not at all, as a preference, or as a requirement.
type Strength uint8

// Unset, the zero value, means that there is no such wish.
const (
	Unset Strength = iota
	Preferred
	Required

	strengths // the number of values
)

// Rules are the requirements and preferences for CPUs. The zero value has none. Place drops
// preferences in this order until there is room: exclusiveness, level-3 caches, binding. Place
// never uses more NUMA nodes to keep a preference.
type Rules struct {
	Bind         Bind
	BindHow      Strength // not Unset if Bind is set
	Exclusive    Exclusive
	ExclusiveHow Strength // not Unset if Exclusive is set
	// L3 asks for no more level-3 caches than the CPUs would need on an empty machine. A cache that
	// spans NUMA nodes counts once for each NUMA node.
	L3 Strength
}

// Sane reports whether all values and strengths of the rules are valid.
func (r Rules) Sane() bool {
	return r.Bind < binds && r.BindHow < strengths && r.Exclusive < exclusives && r.ExclusiveHow < strengths && r.L3 < strengths &&
		(r.Bind == BindAny) == (r.BindHow == Unset) && (r.Exclusive == Shareable) == (r.ExclusiveHow == Unset)
}

// Strategy is how Place chooses among equally good sets of NUMA nodes.
type Strategy uint8

// The strategies.
const (
	// MostAllocated, the zero value, takes the NUMA nodes with the least free CPU time, so that
	// other NUMA nodes stay empty.
	MostAllocated Strategy = iota
	// LeastAllocated takes the NUMA nodes with the most free CPU time.
	LeastAllocated
	// FillNodes is MostAllocated among the NUMA nodes of a node. In addition, the scheduler prefers
	// nodes with pods to empty nodes.
	FillNodes
)

// Score returns a node's score from 0 to 100, given how many of its NUMA nodes would be in use. The
// score rises with this number, or falls if s is LeastAllocated (Koordinator's proposal "NUMA
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

// terms are the Rules without the dropped preferences.
type terms struct {
	bind Bind      // required
	like Bind      // the Bind by which CPUs are taken, required or preferred
	excl Exclusive // required
	byL3 bool      // CPUs are taken cache by cache
	l3   bool      // required
}

// maxLevels is the number of preferences that can be dropped, plus one.
const maxLevels = 4

// at returns the terms at a level. Level 0 keeps every preference, and each further level drops one
// more.
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
