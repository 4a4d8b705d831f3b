package plan

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/berth-dev/berth/internal/suppose"
)

// A plan delays all other work: the scheduler places no other pod meanwhile, and the user of a page
// or a command waits. So each plan has a Budget.
const (
	// Looks is the maximum cost of a plan, in looks. A look is about a microsecond of processor
	// time, the cost of checking one member on one node without asking the node's ledger.
	Looks = 150_000
	// Patience is the maximum time for a plan. On a busy machine, this time may be over before the
	// looks are used up.
	Patience = 5 * time.Second
)

// MaxKinds is the maximum number of kinds of members in a gang.
const MaxKinds = 256

// Dear has the numbers that explain why a gang is too expensive to plan.
type Dear struct {
	// Members is the number of members that are planned together, and Kinds the number of their
	// kinds. Names counts how often pods of the gang name each other in their wishes (Wish).
	Members, Kinds, Names int
	// Late means that the plan was stopped because it took too long.
	Late bool
	// Terms counts the spread constraints, and the inter-pod affinity and anti-affinity terms, of
	// all kinds.
	Terms int
}

// String explains why the gang is too expensive, and how it would be cheaper.
func (d Dear) String() string {
	if d.Kinds > MaxKinds {
		return fmt.Sprintf("its pods are of more than %d kinds: pods of one kind have the same images, requests, node selectors, affinity, tolerations and priority, and no claims for volumes or devices", MaxKinds)
	}
	pods := counted(d.Members, "pod", "pods")
	if d.Late {
		return fmt.Sprintf("its %s could not be planned within %v; this machine may be busy", pods, Patience)
	}
	kinds := "one kind"
	if d.Kinds != 1 {
		kinds = fmt.Sprintf("%d kinds", d.Kinds)
	}
	text := fmt.Sprintf("its plan would need more than %d checks of nodes: %s of %s", Looks, pods, kinds)
	cheaper, with := "; use fewer pods", ", with "
	if d.Kinds > 1 {
		cheaper += " or fewer kinds of pods"
	}
	if d.Terms > 0 {
		text += with + counted(d.Terms, "spread constraint or affinity term", "spread constraints and affinity terms")
		with = ", and "
	}
	if d.Terms > 1 {
		cheaper += " or fewer such terms"
	}
	if d.Names > 0 {
		text += with + counted(d.Names, "reference to another pod in an annotation", "references to other pods in annotations")
		cheaper += " or fewer such references"
	}
	return text + cheaper
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Budget limits the cost of a plan, by a number of looks and by a context. A nil Budget has no
// limit. A Budget is not safe for concurrent use.
type Budget struct {
	ctx   context.Context //nolint:containedctx // a budget lives as long as the call that it bounds
	until time.Time
	left  int
	late  bool
}

// NewBudget returns the budget of a plan that begins now. Its number of looks is the constant
// Looks. It ends after Patience, or when ctx ends.
func NewBudget(ctx context.Context) *Budget {
	return &Budget{ctx: ctx, until: time.Now().Add(Patience), left: Looks}
}

// Spend subtracts looks from the budget, and returns false if the budget is then Over.
func (b *Budget) Spend(looks int) bool {
	if b != nil {
		b.left = max(b.left-looks, -1)
	}
	return !b.Over()
}

// rest returns the number of looks that are left. A nil Budget has the largest number.
func (b *Budget) rest() int {
	if b == nil {
		return math.MaxInt
	}
	return b.left
}

// Over reports whether more looks were spent than the budget had, the time is over, or the context
// has ended.
func (b *Budget) Over() bool {
	switch {
	case b == nil:
		return false
	case b.left < 0:
	case b.ctx.Err() != nil || time.Now().After(b.until):
		b.left, b.late = -1, true
	default:
		return false
	}
	return true
}

// Late reports whether Over has returned true because the time was over or the context had ended.
func (b *Budget) Late() bool { return b != nil && b.late }

// promiseLooks returns the cost of asking a ledger about a pod, in looks. The cost grows with the
// square of the number of containers, because the ledger compares each container with the others.
func promiseLooks(p *suppose.Pod) int {
	if p.Candidate == nil || p.Candidate.Request == nil {
		return 1
	}
	n := len(p.Candidate.Request.Containers)
	return 10 + 4*n + n*n/8
}
