package joint

// Steps is the budget of one call of Place. In a step, which takes some 10 ns, the search checks a
// PCIe place, a set of linked devices or a set of NUMA nodes. When the steps run out, Place uses
// the best result so far, or chooses one without a search.
const Steps = 1 << 15

// placeSteps is the fixed cost of a call of Place. nodeSteps is added for each NUMA node of the
// machine. chooseSteps is the cost to start a search for devices on a set of NUMA nodes.
const (
	placeSteps  = 16
	nodeSteps   = 4
	chooseSteps = 8
)

// Budget is the number of steps left for one call of Place, or for several calls together. It
// limits steps and not time, so that equal requests always get equal results.
type Budget struct {
	left int
	cut  bool
}

// Refill sets the budget to Steps.
func (b *Budget) Refill() { *b = Budget{left: Steps} }

// Left returns the number of steps that are left.
func (b *Budget) Left() int { return b.left }

// Cut reports whether a search ended because it ran out of steps, so that a better answer may
// exist.
func (b *Budget) Cut() bool { return b.cut }

// CutOff records that a search ended because it ran out of steps.
func (b *Budget) CutOff() { b.cut = true }

// Charge subtracts steps, down to 0.
func (b *Budget) Charge(n int) { b.left = max(b.left-n, 0) }

// spend takes one step, and reports whether a step was left.
func (b *Budget) spend() bool {
	if b.left == 0 {
		b.cut = true
		return false
	}
	b.left--
	return true
}
