package joint

// Steps is the budget of a question. A step is a place, a set of linked devices or a set of NUMA
// nodes that the search checks, and takes some 10 ns. If a question runs out of steps, it gets the
// best place found so far, or one without a search.
const Steps = 1 << 15

// placeSteps and nodeSteps are the fixed costs of a question: once, and for each NUMA node of the
// machine. chooseSteps is the cost of a search for devices on a set of NUMA nodes.
const (
	placeSteps  = 16
	nodeSteps   = 4
	chooseSteps = 8
)

// Budget is the number of steps left for one question, or for several together. It counts steps and
// not time, so that equal questions always get equal answers.
type Budget struct {
	left int
	cut  bool
}

// Refill allows Steps steps.
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

// spend takes a step, and reports whether there was one.
func (b *Budget) spend() bool {
	if b.left == 0 {
		b.cut = true
		return false
	}
	b.left--
	return true
}
