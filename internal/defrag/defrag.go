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
	// Node is the index of the pod's node in Problem.Nodes. It has no meaning for a wanted pod.
	Node int
	// Budgets are the PodDisruptionBudgets that select the pod, as indices into Problem.Budgets.
	Budgets []int
}

// Problem is the input of Find.
type Problem struct {
	Nodes []suppose.Node
	// Pods are the pods that may be moved.
	Pods []Pod
	// Wanted are the pods that need a place. Find places them in this order.
	Wanted []Pod
	// Budgets has, for each PodDisruptionBudget, the number of its pods that may be moved.
	Budgets []int
	// May reports whether taints and selectors allow the pod on the node. It ignores free
	// resources.
	May func(p *Pod, node int) bool
	// MostMoves is the maximum number of moves for one wanted pod; 0 means DefaultMoves.
	MostMoves int
	// Effort limits the number of questions to ledgers; 0 means DefaultEffort. The number of all
	// checks of nodes is limited to Effort times looksPerQuestion.
	Effort int
}

// Defaults of a Problem.
const (
	DefaultMoves  = 6
	DefaultEffort = 200_000
)

const (
	// looksPerQuestion is the number of checks of nodes that take as long as one question to a
	// ledger. Checks need a limit too, because a check of a node with too few free amounts asks no
	// ledger, and a search can consist only of such checks.
	looksPerQuestion = 50
	// looksUnheard is the number of checks after which the search tests whether its context has
	// ended.
	looksUnheard = 256
)

// Move is one step of a plan.
type Move struct {
	// Pod is an index in Problem.Pods. To is the index of the pod's new node in Problem.Nodes.
	Pod, To int
}

// Ending is how a search ended.
type Ending uint8

// The values of Plan.Outcome.
const (
	// Found: the search found a plan.
	Found Ending = iota
	// NoRoom: the search found no plan with the allowed number of moves.
	NoRoom
	// GaveUp: Effort was used up, or the context ended, before the search found a plan. A plan may
	// exist.
	GaveUp
)

// String describes the ending in words.
func (o Ending) String() string {
	return [...]string{"found", "no room", "gave up", "outcome(?)"}[min(o, GaveUp+1)]
}

// Plan lists the pods that move, and their new nodes.
type Plan struct {
	Outcome Ending
	// Nodes has an index in Problem.Nodes for each wanted pod, in the order of Problem.Wanted. If
	// Outcome is not Found, it has only the nodes of the wanted pods before the first one for which
	// no node was found.
	Nodes []int
	// Moves are in the order in which they are carried out.
	Moves []Move
	// Asked is the number of questions to ledgers.
	Asked int
}

// Find searches for a plan with the fewest moves. It places several wanted pods one after another,
// each with the fewest further moves. The plan assumes that the wanted pods start in this order
// after all moves. If ctx ends, the search ends.
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

// search is the state of Find: a problem, and the moves that are assumed so far.
type search struct {
	*Problem
	ctx          context.Context
	effort, most int
	// asked is the number of questions to ledgers; `looked` is the number of checks of nodes.
	// `ended` means that the context has ended.
	asked, looked int
	ended         bool
	// log has the moves in order. `arrive` has the nodes of the wanted pods, which start after all
	// moves.
	log     []Move
	arrive  []int
	moved   []bool
	budgets []int // how many pods each budget still allows to move
	on      [][]int
	// nodes are the nodes of the problem after the assumed moves.
	nodes []suppose.Node
	// known caches the answers of nodes that no assumed move changes.
	known map[*Pod][]answer
	// sources counts, for each node, the sets of pods that leave the node to make room for another
	// pod. `clearing` counts only the sets of which some pod has no new place yet. In the plan, the
	// pods of such a set leave after the pod that is being placed.
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

// spent reports whether the search must end, because Effort is used up or the context has ended.
func (s *search) spent() bool {
	return s.ended || s.asked >= s.effort || s.looked/looksPerQuestion >= s.effort
}

// look counts one check of a node. At every looksUnheard-th check, it tests whether the context has
// ended.
func (s *search) look() {
	if s.looked++; s.looked%looksUnheard == 0 {
		s.ended = s.ctx.Err() != nil
	}
}

// deepen finds a node for the i-th wanted pod with the fewest moves. It returns false if it finds
// none.
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

// replay carries out the log on the original nodes. It reports whether every place is free when a
// pod takes it, and whether the wanted pods fit after all moves. No pod may move to a node that
// another pod leaves later. A fork of the ledger removes the leaving pod first, so the moved pod
// could get a place that is in reality still in use. No pod may move to the node of a wanted pod,
// because it could take the wanted pod's place.
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

// present returns the node as it is after the moves of the log. Pods that are assumed to leave but
// have no new place yet are still there.
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

// place searches for a node for the pod. To make room there, it may use at most the given number of
// moves. It assumes the pod on the node, and calls the callback with the node and the number of
// remaining moves. If the callback returns false, place tries the next node. If no node works, it
// reverts all assumptions and returns false. `least` has the estimates for the pod, or is nil.
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

// clearable returns the nodes on which the given number of moves may make room for the pod, in
// ascending order of their estimated moves. `least` has the estimates for the pod, or is nil.
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

// open reports whether the pod may run on the node if there is room. A pod that moves must leave
// its node.
func (s *search) open(p *Pod, n int) bool {
	return (p.UID == "" || p.Node != n) && s.May(p, n)
}

// free reports whether the node admits the pod both after all assumed moves, and at the time of the
// pod's own move, when pods that leave later are still there.
func (s *search) free(p *Pod, n int) bool {
	if p.UID == "" || s.sources[n] == 0 {
		return s.fits(p, n)
	}
	now := s.present(n)
	return s.ask(p, &now) && s.fits(p, n)
}

// with assumes that the pod is on the node, calls the callback, and reverts the assumption if the
// callback returns false.
func (s *search) with(p *Pod, n int, then func() bool) bool {
	s.nodes[n].Put(&p.Pod)
	if then() {
		return true
	}
	s.nodes[n].Take(&p.Pod)
	return false
}

// clear tries to make room for the pod on the node. It tries sets of other pods whose departure
// lets the pod fit.
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

// choose adds pods of node n to the set of leaving pods until p fits, and then looks for new places
// for the set. It adds only pods of s.on[n][from:], so that it tries no set twice. It returns true
// if the callback does.
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

// spend assumes that the pod leaves its node, and charges its budgets for the move. It returns
// false and changes nothing if a budget does not allow the move.
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

func (s *search) refund(q int) {
	pod := &s.Pods[q]
	for _, b := range pod.Budgets {
		s.budgets[b]++
	}
	s.moved[q] = false
	s.nodes[pod.Node].Put(&pod.Pod)
}

// settle finds a new place for each pod of the set, and logs its move. Moves that make room for a
// pod come before its own move.
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

// fits reports whether the node admits the pod after all assumed moves.
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

// never is the estimate for a node that refuses the pod even if all movable pods leave.
const never = 1 << 30

// estimates returns, for each node, an estimate of how many pods must leave to make room for the
// pod. It is 0 if the node admits the pod now, and the constant never if no departure makes room.
// For the estimate, all pods leave, and then as many as possible return, the largest first. Fewer
// pods may be enough.
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

// estimate returns the estimate for node n. It removes each pod whose budgets allow one more move,
// even if the budgets do not allow all of these moves together.
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

// letBack puts back the pods that need not leave, in descending order of CPUs, and returns the
// others.
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
