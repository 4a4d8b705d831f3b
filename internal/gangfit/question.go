// Package gangfit decides whether all members of a gang that still need nodes fit at the same time.
// If they do not, it explains why. The scheduler, `berth explain gang`, the map and the simulator
// use it. A Question has the requests of the members and of their group. Each caller provides the
// nodes, as a plan.Field. The answer is a Verdict.
//
// The package is pure: it uses no random numbers and does no I/O. The package reads a clock only
// for a Budget.
package gangfit

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/berth-dev/berth/internal/plan"
	"github.com/berth-dev/berth/internal/suppose"
)

// Question has all inputs of the decision whether a gang fits, except the nodes.
type Question struct {
	// Gang has the members that need nodes, with their kinds and the wishes (plan.Wish) about each
	// other's NUMA nodes. It also has the members that have nodes (Seated).
	plan.Gang
	// Kinds are the groups of members that all rules about nodes treat equally.
	Kinds []Kind
	// Done is the number of members that have nodes or have succeeded. Start is the number of
	// members that must start together, including those in Done.
	Done, Start int
	// Claim has the resources that must be available before the group's pods are planned, or is
	// nil. Room returns the resources with which the Claim is compared. If oneByOne is set, this
	// Room has each pod, and so knows which pods could be evicted. Otherwise it has only the sum of
	// all pods' requests, which is cheaper.
	Claim *Claim
	Room  func(oneByOne bool) *Room
	// Budget limits the cost of the answer; nil means no limit. Dear counts what makes the gang
	// expensive to plan, for the message if the budget is used up.
	Budget *plan.Budget
	Dear   plan.Dear

	known map[[sha256.Size]byte]int
}

// Kind is a group of interchangeable members: the index of its first member, and the number of its
// members.
type Kind struct{ First, Size int }

// memberLooks is the number of looks (plan.Looks) that Question.Add takes from the Budget for a
// member. Add takes one more look for every bytesPerLook bytes of the argument `likeness`.
const (
	memberLooks  = 1
	bytesPerLook = 192
)

// Add adds a member. Its likeness encodes everything that rules about nodes read, so members with
// equal likenesses are of one kind. Add returns false if the budget is used up. If there are
// already plan.MaxKinds kinds, a member of a further kind uses up the budget.
func (q *Question) Add(m plan.Member, likeness []byte) bool {
	if !q.Budget.Spend(memberLooks) {
		return false
	}
	q.Budget.Spend(len(likeness) / bytesPerLook)
	key := sha256.Sum256(likeness)
	k, known := q.known[key]
	if !known {
		if k = len(q.Kinds); k == plan.MaxKinds {
			q.Budget.Spend(plan.Looks)
			q.Dear.Kinds = k + 1
			return false
		}
		if q.known == nil {
			q.known = map[[sha256.Size]byte]int{}
		}
		q.known[key] = k
		q.Kinds = append(q.Kinds, Kind{First: len(q.Members)})
		q.Dear.Kinds = k + 1
	}
	q.Kinds[k].Size++
	m.Kind, m.Size = k, m.Asks.Size()
	q.Members = append(q.Members, m)
	return true
}

// Ask plans the gang on the nodes, unless the Claim fails or the budget is used up. If the gang
// fits (Plan.Whole), its members stay on the nodes (plan.Field.Put); otherwise Ask leaves the nodes
// unchanged.
func (q *Question) Ask(nodes plan.Field) *Verdict {
	v := &Verdict{Plan: plan.Plan{Lacking: -1}, Start: q.Start, Fit: q.Done, question: q, nodes: nodes}
	switch short := q.short(); {
	case q.Budget.Over():
		v.Cut = true
	case short != nil:
		v.Short = short
	default:
		if v.Plan = plan.Make(&q.Gang, nodes, q.Budget); !v.Cut {
			v.Fit += len(v.Places)
		}
	}
	v.Dear = q.Dear
	v.Dear.Late = q.Budget.Late()
	return v
}

func (q *Question) short() *Shortage {
	if q.Claim == nil || q.Budget.Over() || q.Room(false).Short(q.Claim) == nil { // enough is free without evictions
		return nil
	}
	return q.Room(true).Short(q.Claim)
}

// Verdict is the answer to a Question.
type Verdict struct {
	// Plan has the places of the members. If Short is set, no plan was tried, and Plan has no
	// places.
	plan.Plan
	// Fit is the number of members that have succeeded, have a node or would get one; if Cut is
	// set, it is only Question.Done. Start is Question.Start.
	Fit, Start int
	// Short is the resource of which there is too little for the group's Claim, or nil.
	Short *Shortage
	// Dear counts what makes the gang expensive to plan. If Cut is set, the gang is too expensive.
	Dear plan.Dear

	question *Question
	nodes    plan.Field
}

// Counted describes how many of the members that start together fit.
func (v *Verdict) Counted() string {
	if !v.Whole && v.Fit >= v.Start { // only a task's minimum can be missing
		return fmt.Sprintf("enough pods fit now: %d (the gang needs %d), but too few of some task", v.Fit, v.Start)
	}
	return fmt.Sprintf("%d of %d pods fit now", v.Fit, v.Start)
}

// String returns the verdict as a sentence.
func (v *Verdict) String() string {
	switch {
	case v.Short != nil:
		return v.Short.String()
	case v.Cut:
		return v.Dear.String()
	case v.Whole && v.Lacking < 0:
		return "all fit now"
	case v.Whole:
		return fmt.Sprintf("enough pods fit now: %d (the gang needs %d)", v.Fit, v.Start)
	case v.Hopes():
		return v.Counted() + "; nodes' next reports will decide on the others"
	case len(v.Tangled) > 0:
		return v.Counted() + "; others fit only in some of the orders in which kubelets may admit pods of the same second"
	}
	return v.Counted()
}

// Reporting is implemented by a plan.Field whose nodes may wait for a report.
type Reporting interface {
	// Waiting returns the nodes that refuse members of the kind now, but might admit them after
	// their next report.
	Waiting(kind int) []int
	// Hoped returns a waiting node without its ledger. Hopes reports whether the node's free
	// amounts are enough for the member. No report increases these amounts.
	Hoped(node int) suppose.Node
	Hopes(member, node int) bool
}

// Hopes reports whether the gang does not fit now but could fit after nodes have reported.
func (v *Verdict) Hopes() bool {
	nodes, report := v.nodes.(Reporting)
	if v.Whole || v.Short != nil || v.Cut || !report {
		return false
	}
	h := &hope{Field: v.nodes, nodes: nodes, waits: map[int]bool{}}
	for node := range v.Waits {
		h.waits[node] = true
	}
	for kind := range v.question.Kinds {
		for _, node := range nodes.Waiting(kind) {
			h.waits[node] = true
		}
	}
	if len(h.waits) == 0 || v.question.Wishes() { // wishes depend on NUMA nodes, which are not known on waiting nodes
		return len(h.waits) > 0
	}
	p := plan.Make(&v.question.Gang, h, v.question.Budget)
	if p.Whole {
		p.Undo(h)
	}
	return p.Whole
}

// hope is a plan.Field in which nodes that wait for a report admit all pods whose amounts fit.
type hope struct {
	plan.Field
	nodes Reporting
	waits map[int]bool
}

// Nodes implements plan.Field: the nodes that wait for a report come last.
func (h *hope) Nodes(kind int) []int {
	return append(h.Field.Nodes(kind), slices.Sorted(slices.Values(h.nodes.Waiting(kind)))...)
}

// Node implements plan.Field: the state of a node that waits for a report is not known.
func (h *hope) Node(node int) suppose.Node {
	if h.waits[node] {
		return h.nodes.Hoped(node)
	}
	return h.Field.Node(node)
}

// Admits implements plan.Field.
func (h *hope) Admits(member, node int) bool {
	if h.waits[node] {
		return h.nodes.Hopes(member, node)
	}
	return h.Field.Admits(member, node)
}

// Closed implements plan.Field.
func (h *hope) Closed(kind, node int) bool { return !h.waits[node] && h.Field.Closed(kind, node) }
