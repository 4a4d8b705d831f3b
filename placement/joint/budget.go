package joint

// Steps is the number of steps of a full Budget. In one step, about 10 ns, the search checks a PCIe
// place, a set of linked devices or a set of NUMA nodes. When the steps run out, Place uses the
// best result so far. If it has no result yet, it chooses resources without a search.
const Steps = 1 << 15

// A call of Place costs placeSteps, and nodeSteps for each NUMA node of the machine. Each search
// for devices on a set of NUMA nodes costs chooseSteps at its start.
const (
	placeSteps  = 16
	nodeSteps   = 4
	chooseSteps = 8
)

// Budget has the number of steps that are left for one or more calls of Place. A Budget limits
// steps and not time, so that equal requests always get equal results.
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

// spend subtracts one step. If no step is left, it returns false.
func (b *Budget) spend() bool {
	if b.left == 0 {
		b.cut = true
		return false
	}
	b.left--
	return true
}
