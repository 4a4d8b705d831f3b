package defrag

import (
	"cmp"
	"context"
	"slices"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/suppose"
)

// Pod is a pod that may be moved, or a wanted pod. The replacement of a moved pod has the same
// request and a new UID, and counts as created after all existing pods.
type Pod struct {
	suppose.Pod
	// Node is where it is; of no meaning for one that is wanted.
	Node int
	// Budgets are the disruption budgets that count the pod, as indices into Problem.Budgets.
	Budgets []int
}

// Problem is the input of Find.
type Problem struct {
	Nodes []suppose.Node
	// Pods are the pods that may be moved.
	Pods []Pod
	// Wanted are the pods that should get a place, in order.
	Wanted []Pod
	// Budgets are how many of their pods may be moved.
	Budgets []int
	// May reports whether the pod may run on the node by taints and selectors, without regard to
	// what is free.
	May func(p *Pod, node int) bool
	// MostMoves bounds the moves for one wanted pod; 0 stands for DefaultMoves.
	MostMoves int
	// Effort bounds the questions to ledgers; 0 stands for DefaultEffort. Looks at amounts alone
	// are bounded too, at looksPerQuestion for each.
	Effort int
}

// Defaults of a Problem.
const (
	DefaultMoves  = 6
	DefaultEffort = 200_000
)

const (
	// looksPerQuestion is how many looks at a node may come to a question to a ledger: if amounts
	// are what is short, no ledger is asked, and the sets of pods that may leave are as many as
	// ever.
	looksPerQuestion = 50
	// looksUnheard is how many looks pass until the search hears that its context has ended.
	looksUnheard = 256
)

// Move is one step of a plan.
type Move struct {
	// Pod is its place in Problem.Pods, To the node that it goes to.
	Pod, To int
}

// Ending is how a search ended.
type Ending uint8

// The outcomes.
const (
	// Found: the search found a plan.
	Found Ending = iota
	// NoRoom: no plan with the allowed number of moves makes room.
	NoRoom
	// GaveUp: Effort was used up or the context ended before a plan was found. There may be one.
	GaveUp
)

// String returns the outcome in words.
func (o Ending) String() string {
	return [...]string{"found", "no room", "gave up", "outcome(?)"}[min(o, GaveUp+1)]
}

// Plan lists which pods move, and where.
type Plan struct {
	Outcome Ending
	// Nodes are the nodes found for the wanted pods.
	Nodes []int
	// Moves are in the order in which they are carried out.
	Moves []Move
	// Asked is how many questions ledgers were asked.
	Asked int
}

// Find searches for the fewest moves. If several pods are wanted, each gets a place after the
// earlier ones, with the fewest moves for itself. They start in their order after all moves, so a
// plan is right for pods that start together. The search ends with the context.
func Find(ctx context.Context, p *Problem) Plan {
	s := newSearch(p)
	s.ctx = ctx
	out := Plan{}
	for i := range p.Wanted {
		if !s.deepen(i) {
			out.Outcome = NoRoom
			if s.spent() {
				out.Outcome = GaveUp
			}
			break
		}
	}
	out.Nodes, out.Moves, out.Asked = s.arrive, s.log, s.asked
	return out
}

// search is a problem with the moves that are supposed.
type search struct {
	*Problem
	ctx          context.Context
	effort, most int
	// asked are the questions to ledgers, looked the looks at nodes, whether or not a ledger was
	// asked. ended says that the context has.
	asked, looked int
	ended         bool
	// log is the moves in order. After them the wanted pods come: arrive is their nodes.
	log     []Move
	arrive  []int
	moved   []bool
	budgets []int // what is left of them
	on      [][]int
	// nodes are the nodes of the problem with the assumed changes.
	nodes []suppose.Node
	// known are answers about nodes on which nothing is supposed.
	known map[*Pod][]answer
	// sources are nodes that pods leave, and how often; clearing those whose pods have no new place
	// yet, so that they leave later than what is placed now.
	sources, clearing []int
}

type answer uint8

const (
	unasked answer = iota
	fits
	refused
)

func newSearch(p *Problem) *search {
	s := &search{
		Problem: p, effort: cmp.Or(p.Effort, DefaultEffort), most: cmp.Or(p.MostMoves, DefaultMoves),
		moved: make([]bool, len(p.Pods)), budgets: slices.Clone(p.Budgets), on: make([][]int, len(p.Nodes)),
		nodes: slices.Clone(p.Nodes), known: map[*Pod][]answer{}, sources: make([]int, len(p.Nodes)), clearing: make([]int, len(p.Nodes)),
	}
	for i := range p.Pods {
		s.on[p.Pods[i].Node] = append(s.on[p.Pods[i].Node], i)
	}
	return s
}

// spent reports whether the search has to end.
func (s *search) spent() bool {
	return s.ended || s.asked >= s.effort || s.looked/looksPerQuestion >= s.effort
}

// look counts a look at a node.
func (s *search) look() {
	if s.looked++; s.looked%looksUnheard == 0 {
		s.ended = s.ctx.Err() != nil
	}
}

// deepen finds the i-th wanted pod a node with the fewest moves.
func (s *search) deepen(i int) bool {
	w := &s.Wanted[i]
	least := s.estimates(w)
	for moves := 0; moves <= s.most && !s.spent(); moves++ {
		ok := s.place(w, moves, least, func(n, _ int) bool {
			s.arrive = append(s.arrive, n)
			if s.replay() {
				return true
			}
			s.arrive = s.arrive[:i]
			return false
		})
		if ok {
			return true
		}
	}
	return false
}

// replay reports whether the log can be carried out in its order, with the wanted pods after it:
// each place is free before it is taken, whatever moves later. Nobody comes to a node that another
// pod leaves after that: a ledger that is asked about both makes the one leave first, and the other
// may get another place than it really would. Nor to that of a wanted pod, whose place it could
// take.
func (s *search) replay() bool {
	nodes := slices.Clone(s.Nodes)
	comes := func(p *Pod, to int) bool {
		ok := s.ask(p, &nodes[to])
		nodes[to].Put(&p.Pod)
		return ok
	}
	for _, m := range s.log {
		p := &s.Pods[m.Pod]
		if !comes(p, m.To) {
			return false
		}
		if nodes[p.Node].Came() {
			return false
		}
		nodes[p.Node].Take(&p.Pod)
	}
	for i, node := range s.arrive {
		if slices.ContainsFunc(s.log, func(m Move) bool { return m.To == node }) {
			return false
		}
		if !comes(&s.Wanted[i], node) {
			return false
		}
	}
	return true
}

// present is what the log has done to the node so far.
func (s *search) present(n int) suppose.Node {
	now := s.Nodes[n]
	for _, m := range s.log {
		p := &s.Pods[m.Pod]
		if m.To == n {
			now.Put(&p.Pod)
		}
		if p.Node == n {
			now.Take(&p.Pod)
		}
	}
	return now
}

// place finds a place for the pod with at most so many moves, assumes the pod there, and calls then
// with the node and the moves that are left. If then returns false, it tries the next place. If it
// finds none, it reverts all assumptions. least are the estimates for the pod; nil if none were
// made.
func (s *search) place(p *Pod, moves int, least []int, then func(node, left int) bool) bool {
	for n := range s.Nodes {
		if s.open(p, n) && (p.UID == "" || s.clearing[n] == 0 && !slices.Contains(s.arrive, n)) && s.free(p, n) && s.with(p, n, func() bool { return then(n, moves) }) {
			return true
		}
	}
	if moves == 0 {
		return false
	}
	return slices.ContainsFunc(s.clearable(p, moves, least), func(n int) bool { return s.clear(p, n, moves, then) })
}

// clearable are the nodes on which that many moves may make room for the pod, the fewest first.
// least are the estimates; nil: not made yet.
func (s *search) clearable(p *Pod, moves int, least []int) []int {
	if least == nil {
		least = s.estimates(p)
	}
	order := make([]int, 0, len(s.Nodes))
	for n := range s.Nodes {
		if s.open(p, n) && (p.UID == "" || s.sources[n] == 0) && least[n] > 0 && least[n] <= moves+1 {
			order = append(order, n)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return least[a] - least[b] })
	return order
}

// open reports whether the pod may be put on the node at all.
func (s *search) open(p *Pod, n int) bool {
	return (p.UID == "" || p.Node != n) && s.May(p, n)
}

// free reports whether the node takes the pod, and does so already when its turn comes: what is to
// leave the node later is there then.
func (s *search) free(p *Pod, n int) bool {
	if p.UID == "" || s.sources[n] == 0 {
		return s.fits(p, n)
	}
	now := s.present(n)
	return s.ask(p, &now) && s.fits(p, n)
}

// with supposes the pod on the node for as long as then runs, and for good if it says yes.
func (s *search) with(p *Pod, n int, then func() bool) bool {
	s.nodes[n].Put(&p.Pod)
	if then() {
		return true
	}
	s.nodes[n].Take(&p.Pod)
	return false
}

// clear makes room for the pod on the node by moving others away: sets of them whose going lets it
// in.
func (s *search) clear(p *Pod, n, moves int, then func(node, left int) bool) bool {
	s.sources[n]++
	s.clearing[n]++
	ok := s.choose(p, n, 0, nil, moves, then)
	if !ok {
		s.sources[n]--
		s.clearing[n]--
	}
	return ok
}

// choose extends the set of pods that leave the node, starting at the given pod of the node.
func (s *search) choose(p *Pod, n, from int, set []int, moves int, then func(node, left int) bool) bool {
	if len(set) > 0 && s.fits(p, n) {
		return s.settle(set, moves-len(set), func(left int) bool {
			s.clearing[n]--
			if s.with(p, n, func() bool { return then(n, left) }) {
				return true
			}
			s.clearing[n]++
			return false
		})
	}
	if len(set) == moves || s.spent() {
		return false
	}
	for i := from; i < len(s.on[n]); i++ {
		q := s.on[n][i]
		if s.moved[q] || !s.spend(q) {
			continue
		}
		if s.choose(p, n, i+1, append(slices.Clip(set), q), moves, then) {
			return true
		}
		s.refund(q)
	}
	return false
}

// spend supposes that a pod leaves, and reports whether its budgets allow it.
func (s *search) spend(q int) bool {
	pod := &s.Pods[q]
	if slices.ContainsFunc(pod.Budgets, func(b int) bool { return s.budgets[b] <= 0 }) {
		return false
	}
	for _, b := range pod.Budgets {
		s.budgets[b]--
	}
	s.moved[q] = true
	s.nodes[pod.Node].Take(&pod.Pod)
	return true
}

// refund takes back what spend supposed.
func (s *search) refund(q int) {
	pod := &s.Pods[q]
	for _, b := range pod.Budgets {
		s.budgets[b]++
	}
	s.moved[q] = false
	s.nodes[pod.Node].Put(&pod.Pod)
}

// settle finds each pod of the set a new place. Moves that make room for one come before its own.
func (s *search) settle(set []int, moves int, then func(left int) bool) bool {
	if len(set) == 0 {
		return then(moves)
	}
	q := set[0]
	return s.place(&s.Pods[q], moves, nil, func(to, left int) bool {
		s.log = append(s.log, Move{q, to})
		if s.settle(set[1:], left, then) {
			return true
		}
		s.log = s.log[:len(s.log)-1]
		return false
	})
}

// fits reports whether the node takes the pod as things are supposed to stand.
func (s *search) fits(p *Pod, n int) bool {
	if s.nodes[n].Changed() {
		return s.ask(p, &s.nodes[n])
	}
	known := s.known[p]
	if known == nil {
		known = make([]answer, len(s.Nodes))
		s.known[p] = known
	}
	if known[n] == unasked {
		known[n] = refused
		if s.ask(p, &s.nodes[n]) {
			known[n] = fits
		}
	}
	return known[n] == fits
}

func (s *search) ask(p *Pod, n *suppose.Node) bool {
	s.look()
	if !n.Enough(&p.Pod) {
		return false
	}
	if p.Candidate == nil {
		return true
	}
	s.asked++
	a := n.Ask(&p.Pod)
	return a.OK()
}

// never is the estimate of a node that takes the pod however many leave.
const never = 1 << 30

// estimates returns for each node an upper bound of the pods that must leave for the pod to fit. It
// removes all pods and puts back those that it can, the largest first. It is 0 for nodes that admit
// the pod now.
func (s *search) estimates(p *Pod) []int {
	out := make([]int, len(s.Nodes))
	for n := range s.Nodes {
		out[n] = never
		if !s.open(p, n) {
			continue
		}
		if s.fits(p, n) {
			out[n] = 0
			continue
		}
		out[n] = s.estimate(p, n)
	}
	return out
}

// estimate leaves budgets aside: which of their pods go is chosen later.
func (s *search) estimate(p *Pod, n int) int {
	on := &s.nodes[n]
	var gone []int
	for _, q := range s.on[n] {
		if !s.moved[q] && !slices.ContainsFunc(s.Pods[q].Budgets, func(b int) bool { return s.budgets[b] <= 0 }) {
			gone = append(gone, q)
			on.Take(&s.Pods[q].Pod)
		}
	}
	least := never
	if len(gone) > 0 && !s.spent() && s.fits(p, n) {
		gone = s.letBack(p, n, gone)
		least = len(gone)
	}
	for _, q := range gone {
		on.Put(&s.Pods[q].Pod)
	}
	return least
}

// letBack puts back the pods that need not leave, the largest first, and returns the others.
func (s *search) letBack(p *Pod, n int, gone []int) []int {
	back := slices.Clone(gone)
	slices.SortStableFunc(back, func(a, b int) int {
		return cmp.Compare(s.Pods[b].Asks[amounts.CPU], s.Pods[a].Asks[amounts.CPU])
	})
	return slices.DeleteFunc(back, func(q int) bool {
		pod := &s.Pods[q].Pod
		s.nodes[n].Put(pod)
		fits := s.fits(p, n)
		if !fits {
			s.nodes[n].Take(pod)
		}
		return fits
	})
}
