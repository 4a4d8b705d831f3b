package joint

// Steps is the budget of a question. A step is a place, a set of linked devices or a set of NUMA
// nodes that the search looks at, and takes some 10 ns. A question that runs out of steps gets the
// best place found so far, or one that is found without a search.
const Steps = 1 << 15

// placeSteps and nodeSteps are what a question costs whatever it asks: once, and for each NUMA node
// of the machine. chooseSteps is what it costs to look for devices on a set of NUMA nodes.
const (
	placeSteps  = 16
	nodeSteps   = 4
	chooseSteps = 8
)

// Budget is what is left of the steps that one question, or several together, may take. It counts
// steps and not time, so that the same question always gets the same answer.
type Budget struct {
	left int
	cut  bool
}

// Refill allows Steps steps.
func (b *Budget) Refill() { *b = Budget{left: Steps} }

// Left is how many steps are left.
func (b *Budget) Left() int { return b.left }

// Cut reports whether a search ended because it ran out of steps, so that a better answer may
// exist.
func (b *Budget) Cut() bool { return b.cut }

// CutOff says that a search ended because it ran out of steps.
func (b *Budget) CutOff() { b.cut = true }

// Charge takes steps that nobody can spare.
func (b *Budget) Charge(n int) { b.left = max(b.left-n, 0) }

// spend takes a step, and says whether there was one.
func (b *Budget) spend() bool {
	if b.left == 0 {
		b.cut = true
		return false
	}
	b.left--
	return true
}
