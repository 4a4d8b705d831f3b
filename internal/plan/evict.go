package plan

import (
	"cmp"
	"slices"

	"github.com/berth-dev/berth/internal/suppose"
)

// Occupant is a pod that could be evicted.
type Occupant struct {
	suppose.Pod
	Node int
	// Budgets are the disruption budgets that apply to the pod, as positions in Removal.Allowed.
	Budgets []int
}

// Victim is a set of pods that are evicted together or not at all: one pod, or a gang.
type Victim struct {
	Pods     []Occupant
	Priority int32
	// Started is the earliest start time of the pods, in Unix seconds. Of equal victims, the one
	// that started last is evicted first.
	Started int64
	// Leaving means that the pods are already being deleted, so they cost nothing.
	Leaving bool
	// After has the positions in Removal.Victims of the victims that are evicted, too, if this one
	// is. A gang without its surplus has here the pods of the surplus, each a victim of its own.
	After []int
}

// Removal lists the pods that could be evicted.
type Removal struct {
	Victims []Victim
	// Allowed has the number of further evictions that each disruption budget permits.
	Allowed []int
	// Short is the number of members that a plan without evictions lacked for the minimum. 0 means
	// that no such plan was tried.
	Short int
}

// Crowd is a Field from whose nodes victims can be removed. A Crowd does not have to change
// ledgers: the function Evict itself computes, on forks of ledgers, the CPUs and devices that a
// removal frees.
type Crowd interface {
	Field
	// Evict removes a victim's pods, and Restore puts them back.
	Evict(victim int)
	Restore(victim int)
}

// Eviction has the victims whose eviction makes a gang fit.
type Eviction struct {
	// Victims are the victims to evict, in addition to pods that are already leaving.
	Victims []int
	// Places are the members' places after the eviction.
	Places []Place
	// Asked counts the checks of a member on a node, and the nodes that the Field listed for a
	// kind. Cut means that the search reached MaxAsked or used up its budget, so there may be more
	// victims than necessary.
	Asked int
	Cut   bool
}

// MaxAsked is the maximum of Eviction.Asked in one search. A check takes about 20 to 50
// microseconds, including the filters of the scheduling framework. The scheduler places no other
// pod during the search.
const MaxAsked = 50_000

// Evict finds victims whose eviction lets the gang's minimum fit. Evict first removes the pods that
// are already leaving, which do not count as victims. Then Evict takes the cheapest victims until
// the gang fits, and drops the victims that the gang does not need, the most expensive first. Of
// the victims on nodes that the plan uses, Evict tries to drop at most maxSpared. The result is not
// always the cheapest possible set.
//
// If the eviction of all victims is not enough, Evict tries single victims for a gang with wishes,
// and returns false for any other gang. It also returns false if the search is Cut before it finds
// an answer. Evict restores the Crowd before it returns.
func Evict(g *Gang, f Crowd, r *Removal, b *Budget) (Eviction, bool) {
	return evictAsking(g, f, r, MaxAsked, b)
}

// evictAsking is Evict with a limit in place of MaxAsked.
func evictAsking(g *Gang, f Crowd, r *Removal, limit int, b *Budget) (found Eviction, ok bool) {
	c := newClearing(f, r)
	c.work.limit, c.work.budget = limit, b
	defer c.restoreAll()
	defer func() { found.Asked, found.Cut = c.work.asked, c.work.over() }()
	var order []int
	for i := range r.Victims {
		if r.Victims[i].Leaving {
			c.evict(i)
		} else {
			order = append(order, i)
		}
	}
	if r.Short == 0 || len(order) < len(r.Victims) {
		if places, ok := c.try(g); ok {
			return Eviction{Places: places}, true
		}
	}
	slices.SortStableFunc(order, c.cheaper)
	c.inTurn(order)
	places, enough := c.prefix(g, order)
	if !enough {
		return c.single(g, order)
	}
	places = c.spare(g, order, places)
	var out Eviction
	for _, i := range order {
		if c.out[i] {
			out.Victims = append(out.Victims, i)
		}
	}
	slices.Sort(out.Victims)
	out.Places = places
	return out, true
}

// Cost is the cost of evicting a set of victims. Costs are compared field by field, as in
// kube-scheduler's preemption, and the first difference decides.
type Cost struct {
	// Violations counts pods whose disruption budget does not allow the eviction.
	Violations int
	// Highest is the highest priority of the pods, and Sum the sum of their priorities. 1<<31 is
	// added to each priority, so that none is negative.
	Highest, Sum int64
	Pods         int
}

// Compare orders costs: it returns a negative number if c is lower than o.
func (c Cost) Compare(o Cost) int {
	return cmp.Or(cmp.Compare(c.Violations, o.Violations), cmp.Compare(c.Highest, o.Highest), cmp.Compare(c.Sum, o.Sum), cmp.Compare(c.Pods, o.Pods))
}

// Cost returns the total cost of a set of victims.
func (r *Removal) Cost(set []int) (c Cost) {
	left := slices.Clone(r.Allowed)
	for _, i := range set {
		v := &r.Victims[i]
		if v.Leaving {
			continue
		}
		for _, pod := range v.Pods {
			over := false
			for _, b := range pod.Budgets {
				left[b]--
				over = over || left[b] < 0
			}
			if over {
				c.Violations++
			}
			c.Highest = max(c.Highest, int64(v.Priority)+1<<31)
			c.Sum += int64(v.Priority) + 1<<31
			c.Pods++
		}
	}
	return c
}

// clearing is a Field: a Crowd from which some victims were removed. Its method Nodes orders the
// nodes by the cost of the victims that were removed from them, the cheapest first.
type clearing struct {
	Crowd
	removal *Removal
	alone   []Cost // the cost of each victim
	out     []bool
	// before has, for each victim, the victim that is not evicted without it (Victim.After), or -1.
	before []int
	// nodes are the nodes of the Crowd from which pods were removed.
	nodes suppose.Field[int]
	work  work
	// only has the nodes to try, by kind. If only is nil, all nodes are tried.
	only map[int][]int
}

func newClearing(f Crowd, r *Removal) *clearing {
	c := &clearing{Crowd: f, removal: r, alone: make([]Cost, len(r.Victims)), out: make([]bool, len(r.Victims)), nodes: suppose.Field[int]{Bare: f.Node}}
	c.before = slices.Repeat([]int{-1}, len(r.Victims))
	for i := range r.Victims {
		c.alone[i] = r.Cost([]int{i})
		for _, first := range r.Victims[i].After {
			c.before[first] = i
		}
	}
	return c
}

// inTurn moves each victim of the order behind the last of its Victim.After.
func (c *clearing) inTurn(order []int) {
	last := make([]int, len(c.out))
	for at, i := range order {
		last[i] = at
	}
	for i := range c.removal.Victims {
		for _, first := range c.removal.Victims[i].After {
			last[i] = max(last[i], last[first])
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(last[a], last[b]), cmp.Compare(len(c.removal.Victims[a].After), len(c.removal.Victims[b].After)))
	})
}

// cheaper compares two victims by violations, priority and number of pods. Of equal victims, the
// one that started last comes first.
func (c *clearing) cheaper(a, b int) int {
	x, y := &c.removal.Victims[a], &c.removal.Victims[b]
	return cmp.Or(cmp.Compare(c.alone[a].Violations, c.alone[b].Violations), cmp.Compare(x.Priority, y.Priority),
		cmp.Compare(len(x.Pods), len(y.Pods)), cmp.Compare(y.Started, x.Started))
}

func (c *clearing) evict(i int) {
	c.out[i] = true
	c.Evict(i)
	pods := c.removal.Victims[i].Pods
	for at := range pods {
		c.nodes.At(pods[at].Node).Take(&pods[at].Pod)
	}
}

func (c *clearing) restore(i int) {
	c.out[i] = false
	c.Restore(i)
	pods := c.removal.Victims[i].Pods
	for at := range pods {
		c.nodes.At(pods[at].Node).Put(&pods[at].Pod)
	}
}

func (c *clearing) restoreAll() {
	for i, out := range c.out {
		if out {
			c.restore(i)
		}
	}
}

// Node implements Field. It returns the node without the removed victims. If the ledger cannot
// predict the node without them, Node returns the node with them.
func (c *clearing) Node(node int) suppose.Node {
	if without := c.nodes.Known(node); without != nil && without.Changed() {
		if cleared, ok := without.Cleared(); ok {
			return cleared
		}
	}
	return c.Crowd.Node(node)
}

// Nodes implements Field.
func (c *clearing) Nodes(kind int) []int {
	if c.only != nil {
		return c.only[kind]
	}
	nodes := c.Crowd.Nodes(kind)
	costs := map[int]Cost{}
	for i, out := range c.out {
		if !out || c.removal.Victims[i].Leaving {
			continue
		}
		cost := c.alone[i]
		for _, pod := range c.removal.Victims[i].Pods {
			sum := costs[pod.Node]
			costs[pod.Node] = Cost{Violations: sum.Violations + cost.Violations, Highest: max(sum.Highest, cost.Highest), Sum: sum.Sum + cost.Sum, Pods: sum.Pods + cost.Pods}
		}
	}
	slices.SortStableFunc(nodes, func(a, b int) int { return costs[a].Compare(costs[b]) })
	return nodes
}

// try plans the gang, reverts the plan, and returns its places. It returns false if the minimum
// does not fit.
func (c *clearing) try(g *Gang) ([]Place, bool) {
	if c.work.over() {
		return nil, false
	}
	p := makePlan(g, c, &c.work)
	if !p.Whole {
		return nil, false
	}
	p.Undo(c)
	return p.Places, true
}

// prefix searches, by bisection, for the shortest prefix of order whose eviction is enough, and
// leaves these victims evicted. If the eviction of all victims is not enough, prefix leaves all of
// them evicted and returns false.
func (c *clearing) prefix(g *Gang, order []int) (places []Place, enough bool) {
	now := 0
	tries := func(count int) (p []Place, ok bool) {
		for ; now > count; now-- {
			c.restore(order[now-1])
		}
		for ; now < count; now++ {
			c.evict(order[now])
		}
		return c.try(g)
	}
	low, high := 0, len(order) // order[:low] is not enough, order[:high] is enough
	guess := c.guess(order)
	if guess < high {
		if places, enough = tries(guess); enough {
			high = guess
		} else {
			low, guess = guess, 2*guess
		}
	}
	if !enough {
		if places, enough = tries(high); !enough {
			return nil, false
		}
	}
	for high-low > 1 && !c.work.over() {
		middle := (low + high) / 2
		if low < guess && guess < middle {
			middle, guess = guess, 2*guess
		}
		if p, ok := tries(middle); ok {
			places, high = p, middle
		} else {
			low = middle
		}
	}
	for ; now > high; now-- {
		c.restore(order[now-1])
	}
	for ; now < high; now++ {
		c.evict(order[now])
	}
	return places, true
}

// guess returns the number of victims with which prefix begins: the first victims that together
// have as many pods as members lacked a place (Removal.Short), or all victims. If prefix began with
// all victims, it could reach its limit before it finds a small set.
func (c *clearing) guess(order []int) int {
	pods := 0
	for at, i := range order {
		if pods += len(c.removal.Victims[i].Pods); c.removal.Short > 0 && pods >= c.removal.Short {
			return at + 1
		}
	}
	return len(order)
}

// single finds one victim whose eviction (with its Victim.After) is enough for a gang with wishes,
// although the eviction of all victims is not enough. That can happen because, on an emptier node,
// the kubelet may place a pod on NUMA nodes that contradict the wishes. The caller has evicted all
// victims.
func (c *clearing) single(g *Gang, order []int) (Eviction, bool) {
	if !g.Wishes() {
		return Eviction{}, false
	}
	for _, i := range order {
		c.restore(i)
	}
	for _, i := range order[:min(len(order), maxSpared)] {
		set := append(slices.Clone(c.removal.Victims[i].After), i)
		for _, victim := range set {
			c.evict(victim)
		}
		if places, ok := c.try(g); ok {
			slices.Sort(set)
			return Eviction{Victims: set, Places: places}, true
		}
		for _, victim := range set {
			c.restore(victim)
		}
	}
	return Eviction{}, false
}

// maxSpared is the maximum number of victims that spare and single each try one by one.
const maxSpared = 256

// spare puts back victims that the gang does not need, the most expensive first. A victim without
// pods on the nodes of the plan is always put back. Any other victim is put back if the gang still
// fits.
func (c *clearing) spare(g *Gang, order []int, places []Place) []Place {
	used, only := map[int]bool{}, map[int][]int{}
	for _, at := range places {
		used[at.Node] = true
	}
	for i := range g.Members {
		if kind := g.Members[i].Kind; only[kind] == nil {
			only[kind] = slices.DeleteFunc(c.Nodes(kind), func(node int) bool { return !used[node] })
		}
	}
	c.only = only
	defer func() { c.only = nil }()
	tried := 0
	for _, i := range slices.Backward(order) {
		switch {
		case !c.out[i]:
		case c.before[i] >= 0 && c.out[c.before[i]]: // the minimum of its gang is evicted
		case !slices.ContainsFunc(c.removal.Victims[i].Pods, func(p Occupant) bool { return used[p.Node] }):
			c.restore(i)
		case tried < maxSpared && !c.work.over():
			tried++
			c.restore(i)
			if p, ok := c.try(g); ok {
				places = p
			} else {
				c.evict(i)
			}
		}
	}
	return places
}
