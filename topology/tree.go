package topology

import "slices"

// levelKind names a level of the regular part of a machine string.
type levelKind uint8

const (
	levelPackage levelKind = iota
	levelDie
	levelNUMA
	levelL3
	levelCore
	levelPU
	levelKinds
)

var levelNames = [levelKinds]string{"package", "die", "numa", "l3", "core", "pu"}

func (k levelKind) String() string { return levelNames[k] }

// level is one level of a tree: each object of the level above has count objects.
type level struct {
	kind  levelKind
	count int
}

// tree is a regular machine: all objects of a level have the same number of children. levels begins
// with the outermost level and ends with the logical processors, which are the leaves. The number
// of a CPU has a digit for each level (mixed radix). order lists the levels, beginning with the
// level whose digit changes fastest.
type tree struct {
	levels []level
	order  []levelKind
}

// cpus returns the number of leaves.
func (t *tree) cpus() int {
	n := 1
	for _, l := range t.levels {
		n *= l.count
	}
	return n
}

func (t *tree) has(k levelKind) bool {
	return slices.ContainsFunc(t.levels, func(l level) bool { return l.kind == k })
}

// strides returns, by level, the difference between the CPU numbers of neighbours at that level.
func (t *tree) strides() (s [levelKinds]int) {
	n := 1
	for _, k := range t.order {
		s[k] = n
		for _, l := range t.levels {
			if l.kind == k {
				n *= l.count
			}
		}
	}
	return s
}

// sets returns the CPUs of every object of one level, in depth-first order.
func (t *tree) sets(kind levelKind) []CPUSet {
	below := t.cpus()
	for _, l := range t.levels {
		below /= l.count
		if l.kind == kind {
			break
		}
	}
	out := make([]CPUSet, t.cpus()/below)
	strides := t.strides()
	for leaf := range t.cpus() {
		out[leaf/below].Add(t.number(leaf, &strides))
	}
	return out
}

// number returns the CPU number of the leaf at a depth-first position.
func (t *tree) number(leaf int, strides *[levelKinds]int) CPUID {
	n := 0
	for _, l := range slices.Backward(t.levels) {
		n += leaf % l.count * strides[l.kind]
		leaf /= l.count
	}
	return CPUID(n)
}

type numbering struct {
	name  string
	order func([]level) []levelKind
}

// numberings are the named schemes, the default first.
var numberings = []numbering{
	{"split", func(ls []level) []levelKind { return append(inward(ls[:len(ls)-1]), levelPU) }},
	{"packed", inward},
	{"interleaved", outward},
}

// inward lists the levels from the innermost to the outermost: neighbours in the tree have
// neighbouring numbers.
func inward(ls []level) []levelKind {
	kinds := outward(ls)
	slices.Reverse(kinds)
	return kinds
}

// outward lists the levels from the outermost to the innermost: consecutive numbers alternate
// between packages.
func outward(ls []level) []levelKind {
	kinds := make([]levelKind, len(ls), len(ls)+1)
	for i, l := range ls {
		kinds[i] = l.kind
	}
	return kinds
}

// digits returns order without the levels with a count of 1, which have no digit in a CPU number.
func (t *tree) digits(order []levelKind) []levelKind {
	return slices.DeleteFunc(slices.Clone(order), func(k levelKind) bool {
		return slices.ContainsFunc(t.levels, func(l level) bool { return l.kind == k && l.count == 1 })
	})
}
