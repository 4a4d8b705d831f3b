package plan

import (
	"cmp"
	"maps"
	"slices"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/suppose"
	"github.com/berth-dev/berth/placement"
)

// Member is a pod of the gang for which the plan must find a node.
type Member struct {
	suppose.Pod
	// Kind identifies the kind of the member. All plugins and nodes treat members of one kind
	// equally.
	Kind int
	// Task is the task of the gang to which the member belongs.
	Task string
	// Size orders members: larger members are harder to place.
	Size int64
	// Priority orders members if not all of them fit: those with a higher priority come first.
	Priority int32
	// Beside are the member's wishes to have the same NUMA nodes as other members, or different
	// ones.
	Beside []Wish
}

// Field has all rules about which nodes members may use, except those of the ledgers. A Field also
// numbers the nodes, and determines the order in which the plan tries them.
type Field interface {
	// Nodes returns the nodes that members of the kind may now use, best first. If there are many,
	// Nodes may return only the best of them until Widen is called.
	Nodes(kind int) []int
	// Widen makes Nodes return all nodes from now on. Widen reports whether an earlier call of
	// Nodes omitted nodes.
	Widen() bool
	// Coupled reports whether a placed member can change which nodes are feasible for the kind by
	// more than the resources that it takes, for example through spread constraints. For such a
	// kind, Nodes also returns nodes that may admit a member only later. Admits always answers for
	// the present state.
	Coupled(kind int) bool
	// Closed reports whether the node, or its topology domain, has refused a member of the coupled
	// kind. The plan then does not ask the node again before Reopen.
	Closed(kind, node int) bool
	// Reopen forgets those refusals of the kind (Closed) that may no longer hold, and reports
	// whether there were any. The plan calls Reopen before the first member of a kind, and when no
	// node admits a member.
	Reopen(kind int) bool
	// Node returns the node as it is before the plan.
	Node(node int) suppose.Node
	// Admits reports whether the Field's rules allow the member on the node now. The ledger of the
	// Node is checked separately.
	Admits(member, node int) bool
	// Suits reports whether the member can get the devices of its resource claims at its place on
	// the node. To move the member to another place on the node, for example near devices, Suits
	// may call the function of type Again.
	Suits(member, node int, would Lies, again Again) bool
	// Put records that the member is on the node, and Take reverts this.
	Put(member, node int)
	Take(member, node int)
}

// Lies describes the allocation of a member on a node.
type Lies struct {
	// Decision is the member's allocation. It has no containers if nothing is pinned for the
	// member.
	Decision *placement.Decision
	// Sure means that the allocation is certain. Loose means that the ledger promises that the
	// members on the node are admitted, but not which CPUs they get.
	Sure, Loose bool
}

// Again replaces the promised place of a member with another place on the same node. If near is not
// nil, the new place is near these devices. Again returns false if there is no such place.
type Again func(near *placement.Claimed) (Lies, bool)

// Uncoupled implements some methods of Field. A Field may embed Uncoupled if its Nodes never omits
// a node, its members have no claimed devices, and its members affect each other only by the
// resources that they take.
type Uncoupled struct{}

// Suits implements Field.
func (Uncoupled) Suits(int, int, Lies, Again) bool { return true }

// Widen implements Field.
func (Uncoupled) Widen() bool { return false }

// Coupled implements Field.
func (Uncoupled) Coupled(int) bool { return false }

// Closed implements Field.
func (Uncoupled) Closed(int, int) bool { return false }

// Reopen implements Field.
func (Uncoupled) Reopen(int) bool { return false }

// Gang is the input of a plan.
type Gang struct {
	Members []Member
	// Minimum is the number of members that must get a node. Tasks has such a minimum for each
	// task, by Member.Task.
	Minimum int
	Tasks   map[string]int
	// Seated are the pods of the gang that already have nodes. Pods without wishes, about which no
	// member has a wish, may be omitted.
	Seated []Seat
}

// Wish adds a wish to a member or a seated pod. The parameter `of` is the index of this member or
// pod, as in Wish.Mate.
func (g *Gang) Wish(of int, w Wish) {
	if of < len(g.Members) {
		g.Members[of].Beside = append(g.Members[of].Beside, w)
		return
	}
	seat := &g.Seated[of-len(g.Members)]
	seat.Beside = append(seat.Beside, w)
}

// Wishes reports whether any member or seated pod has a wish.
func (g *Gang) Wishes() bool { return g.wishes(func(Wish) bool { return true }) }

func (g *Gang) wishes(is func(Wish) bool) bool {
	return slices.ContainsFunc(g.Members, func(m Member) bool { return slices.ContainsFunc(m.Beside, is) }) ||
		slices.ContainsFunc(g.Seated, func(s Seat) bool { return slices.ContainsFunc(s.Beside, is) })
}

// Place is the node of a member.
type Place struct {
	Member, Node int
	// Loose is the value for ledger.Candidate.Loose: the CPUs of the member depend on the order in
	// which the kubelet admits the members on the node.
	Loose bool
	// Wave is the value for ledger.Candidate.Wave.
	Wave int
	// Got is the member's allocation on the node.
	Got Decided
	// Candidate is the member's candidate, or a copy from Candidate.Near if the member was moved
	// near its claimed devices. Candidate is nil if nothing is pinned.
	Candidate *ledger.Candidate
}

// Plan is the assignment of members to nodes.
type Plan struct {
	// Places are in the order in which they must be reserved.
	Places []Place
	// Whole means that the plan reaches the gang's minimum.
	Whole bool
	// Lacking is the first member that got no node, or -1.
	Lacking int
	// Waits has the nodes that refused a member only because they wait for a report, with the
	// reason of each.
	Waits map[int]ledger.Wait
	// Tangled has the nodes that refused a member although they may admit it: they would admit it
	// only in some of the orders in which the kubelet may admit the members, and already have the
	// maximum number of waves.
	Tangled map[int]bool
	// Crowded means that a node with planned members refused a further member that it might accept
	// in a later wave.
	Crowded bool
	// Cut means that the budget was used up before the minimum was reached. The gang might still
	// fit.
	Cut bool
	// Nodes has the nodes on which the plan tried members, with their planned members.
	Nodes suppose.Field[int]
}

// Make plans the gang. If members were created in the same second, a kubelet may admit them in any
// order, so Make looks for places that are valid in every order. If it finds no such plan, it plans
// several waves. The members of a wave are bound after a report shows that the node has admitted
// the previous wave. If the plan is Whole, the members stay at their places on the Field
// (Field.Put). Otherwise Make reverts all changes of the Field.
func Make(g *Gang, f Field, b *Budget) Plan {
	return makePlan(g, f, &work{budget: b})
}

// work limits the effort of a plan. asked counts the checks of a member on a node, and the nodes
// that the Field listed for a kind. If limit is not 0, the plan stops when asked reaches it.
type work struct {
	asked, limit int
	budget       *Budget
	slow         bool    // every member asks every node, for tests
	wishes       *wishes // the gang's wishes, or nil before the first call of wishesOf
}

func (w *work) over() bool { return w.limit > 0 && w.asked >= w.limit || w.budget.Over() }

// affords reports whether the work may spend twice this cost, in looks and in work.asked.
func (w *work) affords(looks, asked int) bool {
	return w.budget.rest() > 2*looks && (w.limit == 0 || w.limit-w.asked > 2*asked)
}

// wishesPerLook is the number of wishes that the plan reads in the time of one look (see Looks).
const wishesPerLook = 8

func (w *work) wishesOf(g *Gang) *wishes {
	if w.wishes == nil {
		w.wishes = wishesOf(g)
		w.budget.Spend(w.wishes.count / wishesPerLook)
	}
	return w.wishes
}

func makePlan(g *Gang, f Field, w *work) Plan {
	p := bestPass(g, f, w)
	p.Cut = !p.Whole && w.over()
	return p
}

func bestPass(g *Gang, f Field, w *work) Plan {
	largest := func(a, b unit) int { return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.kind, b.kind)) }
	before, asked := w.budget.rest(), w.asked
	first := pass(g, f, w, largest, false)
	if first.Lacking >= 0 && f.Widen() {
		first.Undo(f)
		first = pass(g, f, w, largest, false)
	}
	if first.Whole && (first.Lacking < 0 || !g.ranked() || !w.affords(before-w.budget.rest(), w.asked-asked)) {
		return first
	}
	first.Undo(f)
	if w.over() {
		return first
	}
	if g.Minimum < len(g.Members) {
		if next, ok := otherPass(g, f, w, &first, largest); ok {
			return next
		}
		first.Whole = false // otherwise otherPass has used up the budget
	}
	if !first.Crowded || w.over() {
		return first
	}
	third := pass(g, f, w, largest, true)
	if !third.Whole {
		third.Undo(f)
	}
	return third
}

// otherPass plans a gang that does not need all its members, and for which the pass first, in the
// order largest, did not place all. It returns the first plan that reaches the minimum: with the
// members of the highest priority, as in first, with the smallest members, or with as few members
// as the minimum of each task needs.
func otherPass(g *Gang, f Field, w *work, first *Plan, largest func(a, b unit) int) (Plan, bool) {
	needed := g.needed()
	orders := []func(a, b unit) int{
		func(a, b unit) int { return cmp.Or(cmp.Compare(b.priority, a.priority), largest(a, b)) },
		largest,
		func(a, b unit) int { return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.kind, b.kind)) },
		func(a, b unit) int {
			switch x, y := needed[a.members[0]], needed[b.members[0]]; {
			case x == y:
				return largest(a, b)
			case x:
				return -1
			}
			return 1
		},
	}
	for i, skip := range []bool{!g.ranked(), !first.Whole, false, len(g.Tasks) == 0} {
		if skip {
			continue
		}
		next := pass(g, f, w, orders[i], false)
		if next.Whole {
			return next, true
		}
		next.Undo(f)
	}
	return Plan{}, false
}

// ranked reports whether the members have different priorities.
func (g *Gang) ranked() bool {
	return slices.ContainsFunc(g.Members, func(m Member) bool { return m.Priority != g.Members[0].Priority })
}

// needed returns the smallest members with which the gang reaches its minimum and that of each
// task. Members that must be on one node are needed together.
func (g *Gang) needed() map[int]bool {
	units := unitsOf(g.Members)
	slices.SortStableFunc(units, func(a, b unit) int { return cmp.Compare(a.size, b.size) })
	left, out := map[string]int{}, map[int]bool{}
	maps.Copy(left, g.Tasks)
	take := func(u *unit) {
		for _, m := range u.members {
			out[m] = true
			left[g.Members[m].Task]--
		}
	}
	for i := range units {
		if slices.ContainsFunc(units[i].members, func(m int) bool { return left[g.Members[m].Task] > 0 }) {
			take(&units[i])
		}
	}
	for i := range units {
		if len(out) < g.Minimum && !out[units[i].members[0]] {
			take(&units[i])
		}
	}
	return out
}

// Node returns a copy of a node with its planned members. The copy promises them no particular
// CPUs. So if the copy refuses a pod, the node refuses the pod in every order of the members. Node
// returns nil if the plan has not tried the node.
func (p *Plan) Node(node int) *suppose.Node {
	n := p.Nodes.Known(node)
	if n == nil {
		return nil
	}
	out, later := suppose.Node{}, false
	if n.Wave > 0 {
		out, later = n.Cleared() // the node after the admission of all its members
	}
	if !later {
		out = n.Clone()
	}
	out.Loosen()
	return &out
}

// Undo takes the members from their places on the Field.
func (p *Plan) Undo(f Field) {
	for _, at := range slices.Backward(p.Places) {
		f.Take(at.Member, at.Node)
	}
}

// pass tries to place each unit of members once, in the given order. If inWaves is set and a node
// does not admit its members in every order, pass may put them into waves, which fix the order.
func pass(g *Gang, f Field, w *work, order func(a, b unit) int, inWaves bool) Plan {
	count := len(g.Members) + len(g.Seated)
	t := &trial{gang: g, field: f, work: w, inWaves: inWaves, at: make([]int, count), placed: make([]Decided, count)}
	t.plan = Plan{Lacking: -1, Nodes: suppose.Field[int]{Bare: f.Node}}
	for i := range t.at {
		t.at[i] = nowhere
	}
	for i := range g.Seated {
		t.at[len(g.Members)+i], t.placed[len(g.Members)+i] = g.Seated[i].Node, g.Seated[i].Got
	}
	if g.Wishes() {
		t.wishes, t.sites, t.taken = w.wishesOf(g), map[int]*site{}, map[int]bool{}
		for m := len(g.Members); m < count; m++ {
			if t.at[m] != Elsewhere {
				t.sites[t.at[m]] = t.with(m, t.at[m])
			}
		}
	}
	units := unitsOf(g.Members)
	slices.SortStableFunc(units, order)
	var all, open []int // all has the nodes for the kind; open has the nodes that may still admit the next unit
	for i, u := range units {
		if w.over() {
			if t.plan.Lacking < 0 {
				t.plan.Lacking = u.members[0]
			}
			break
		}
		switch {
		case i == 0 || units[i-1].kind != u.kind:
			f.Reopen(u.kind)
			all = f.Nodes(u.kind)
			w.asked += len(all)
			open = all
		case w.slow:
			open = all
		case t.wishes != nil && !t.alike(&units[i-1], &u):
			all = t.withoutTaken(all)
			open = all
		}
		open = t.place(&u, open)
	}
	t.plan.Whole = t.whole()
	for i := range t.plan.Places {
		p := &t.plan.Places[i]
		p.Loose = t.plan.Nodes.At(p.Node).Loose()
		p.Got.Exact = p.Got.Exact && !p.Loose
	}
	return t.plan
}

const nowhere = -1

// trial is the state of one pass.
type trial struct {
	gang  *Gang
	field Field
	work  *work
	plan  Plan
	at    []int // the node of each member and seated pod, by an index as in Wish.Mate; or nowhere
	// inWaves is the parameter of pass with this name.
	inWaves bool
	placed  []Decided // the allocation on that node, by the same index
	// lies describes the place that was promised last.
	lies Lies
	// before has, for each member of the unit, the state of the node before the member was put
	// there.
	before []before
	// taken are the nodes on which every NUMA node belongs to a member that accepts no other member
	// on its NUMA node. fresh counts the taken nodes that withoutTaken has not removed yet. skips
	// counts the calls of passesBy that returned true.
	taken map[int]bool
	fresh int
	skips int
	// full are the nodes that refused a member of a coupled kind, because of their ledgers or
	// amounts, since roomy last removed such nodes.
	full []int
	// wishes and sites are nil if no member has wishes.
	wishes *wishes
	sites  map[int]*site
	// strict means that preferred wishes count as required.
	strict bool
}

// place puts the unit on a node if any node admits it. It returns the nodes that may admit the next
// unit, if that unit is like this one.
func (t *trial) place(u *unit, open []int) []int {
	if u.prefers {
		t.strict = true
		_, kept := t.first(u, open)
		if t.strict = false; kept {
			return open
		}
	}
	rest, found := t.first(u, open)
	if !found && t.plan.Lacking < 0 {
		t.plan.Lacking = u.members[0]
	}
	switch {
	case u.prefers:
		return open // a node that refused this unit may admit the next unit
	case found:
		return rest
	}
	return nil
}

// first puts the unit on the first node that admits it, and returns the nodes that may admit
// another unit like it. The result found is false if no node admits the unit.
func (t *trial) first(u *unit, open []int) (rest []int, found bool) {
	only, joins := t.meets(u)
	takes := func(node int) bool { return (!joins || node == only) && t.putAll(u.members, node) }
	if !t.field.Coupled(u.kind) {
		at := slices.IndexFunc(open, takes)
		t.settle(at >= 0)
		return open[max(0, at):], at >= 0
	}
	for again := true; ; {
		for i, node := range open {
			if !t.field.Closed(u.kind, node) && takes(node) {
				t.work.budget.Spend(i / (16 * skipsPerLook))
				t.settle(true)
				return t.roomy(u, open), true
			}
			if t.work.over() {
				return open, false
			}
		}
		t.work.budget.Spend(len(open) / (16 * skipsPerLook))
		if !again || !t.field.Reopen(u.kind) {
			return open, false
		}
		again = false
	}
}

// roomy returns the open nodes that are not in t.full, and then empties t.full.
func (t *trial) roomy(u *unit, open []int) []int {
	if len(t.full) == 0 || t.wishes != nil || len(u.members) > 1 {
		return open
	}
	open = slices.DeleteFunc(slices.Clone(open), func(node int) bool { return slices.Contains(t.full, node) })
	t.full = t.full[:0]
	return open
}

// putAll puts all members on the node, or none of them.
func (t *trial) putAll(members []int, node int) bool {
	for i, m := range members {
		if t.put(m, node) {
			continue
		}
		for _, done := range slices.Backward(members[:i]) {
			t.take(done)
		}
		return false
	}
	clear(t.before) // restore is not called for these states again, and they use much memory
	t.before = t.before[:0]
	return true
}

// skipsPerLook is the number of nodes with known refusals that the plan skips in the time of one
// look (see Looks).
const skipsPerLook = 16

// passesBy reports whether the plan already knows that the node refuses the member.
func (t *trial) passesBy(m, node int) bool {
	if !t.taken[node] && !t.refused(m, node) {
		return false
	}
	if t.skips++; t.skips%skipsPerLook == 0 {
		t.work.budget.Spend(1)
	}
	return true
}

func (t *trial) put(m, node int) bool {
	if t.work.over() || t.passesBy(m, node) {
		return false
	}
	t.work.asked++
	t.work.budget.Spend(1)
	next := t.with(m, node)
	if t.crowdedOut(node, next) {
		return false
	}
	was := before{site: t.sites[node], pod: &t.gang.Members[m].Pod}
	got, ok := t.asks(m, node, &was)
	if !ok {
		t.note(m, node, false)
		return false
	}
	on := t.plan.Nodes.At(node)
	if !t.grants(node, next, &got) {
		was.restore(on)
		t.note(m, node, true)
		return false
	}
	if !t.field.Suits(m, node, t.lies, t.again(m, node, next, &was, &got)) && !t.suitsLater(m, node, next, &was, &got) {
		t.note(m, node, false)
		return false
	}
	t.field.Put(m, node)
	t.before = append(t.before, was)
	if t.wishes != nil {
		t.sites[node] = next
	}
	t.at[m], t.placed[m] = node, got
	t.plan.Places = append(t.plan.Places, Place{Member: m, Node: node, Wave: on.Wave, Got: got, Candidate: was.pod.Candidate})
	return true
}

// again returns the function of type Again for a member that is promised a place on the node.
func (t *trial) again(m, node int, next *site, was *before, got *Decided) Again {
	return func(near *placement.Claimed) (Lies, bool) {
		on, pod := t.plan.Nodes.At(node), t.gang.Members[m].Pod
		if was.restore(on); t.work.over() || !on.Pins(&pod) {
			return Lies{}, false
		}
		if near != nil {
			pod.Candidate = pod.Candidate.Near(near)
		}
		*was = before{site: was.site, wave: on.Wave, pod: &pod}
		var d placement.Decision
		t.work.budget.Spend(promiseLooks(&pod))
		a := on.Promise(&pod, &d)
		*got = t.decided(&pod, on, &a, &d)
		return t.lies, a.OK() && t.grants(node, next, got)
	}
}

// suitsLater withdraws the promise to a member that Suits refused. If waves are allowed and may
// help, it then promises the member a place in a further wave, after the other members on the node.
// If Suits refuses this place too, suitsLater withdraws it and returns false.
func (t *trial) suitsLater(m, node int, next *site, was *before, got *Decided) bool {
	on, pod := t.plan.Nodes.At(node), &t.gang.Members[m].Pod
	unsure := !t.lies.Sure && on.Pins(pod) && on.Promised() > 1
	was.restore(on)
	t.plan.Crowded = t.plan.Crowded || unsure
	if !unsure || !t.inWaves || on.Wave == maxWaves {
		return false
	}
	*was = before{site: was.site, wave: on.Wave, pod: pod}
	var d placement.Decision
	t.work.budget.Spend(promiseLooks(pod))
	a := nextWave(pod, on, &d)
	if !a.OK() {
		return false
	}
	if *got = t.decided(pod, on, &a, &d); t.grants(node, next, got) && t.field.Suits(m, node, t.lies, t.again(m, node, next, was, got)) {
		return true
	}
	was.restore(on)
	return false
}

// asks checks the Field's rules and the node's amounts, and makes the node's ledger promise the
// member a place. It does not check wishes.
func (t *trial) asks(m, node int, was *before) (Decided, bool) {
	if !t.field.Admits(m, node) {
		return Decided{}, false
	}
	on, pod := t.plan.Nodes.At(node), &t.gang.Members[m].Pod
	if on.Enough(pod) {
		was.wave = on.Wave
		if got, ok := t.promise(pod, node, on, was); ok {
			return got, true
		}
	}
	if t.field.Coupled(t.gang.Members[m].Kind) {
		t.full = append(t.full, node)
	}
	return Decided{}, false
}

// before is the state of a node before the plan promised a place on it to a pod.
type before struct {
	pod *suppose.Pod
	// tight is the node before loosen changed it, or nil.
	tight *suppose.Node
	wave  int
	site  *site
}

// restore reverts the promise to the pod and all changes of the node for it.
func (b *before) restore(on *suppose.Node) {
	if b.tight != nil {
		*on = *b.tight
		return
	}
	on.Withdraw(b.pod)
	on.Wave = b.wave
}

// promise promises a pod its place. If loosen changes the node, promise records the earlier state
// in was.tight.
func (t *trial) promise(p *suppose.Pod, node int, on *suppose.Node, was *before) (Decided, bool) {
	var d placement.Decision
	a := on.Promise(p, &d)
	if on.Pins(p) {
		t.work.budget.Spend(promiseLooks(p))
	}
	if a.Outcome == ledger.Waiting && a.Wait == ledger.PromiseAtRisk && !on.Loose() {
		t.work.budget.Spend(promiseLooks(p))
		a, was.tight = loosen(p, on, &d)
	}
	if a.Outcome == ledger.Waiting && on.Promised() > 0 {
		t.plan.Crowded = true
		if t.inWaves && on.Wave < maxWaves {
			t.work.budget.Spend(promiseLooks(p))
			a = nextWave(p, on, &d)
		}
	}
	if a.Outcome == ledger.Waiting {
		t.waits(node, on, a.Wait)
	}
	got := t.decided(p, on, &a, &d)
	return got, a.OK()
}

// decided stores the pod's place from the node's answer in t.lies, and returns the place as a
// Decided.
func (t *trial) decided(p *suppose.Pod, on *suppose.Node, a *ledger.Answer, d *placement.Decision) Decided {
	t.lies = Lies{Decision: d, Sure: a.Exact && !on.Loose(), Loose: on.Loose()}
	if !a.OK() || !on.Pins(p) {
		return Decided{}
	}
	return Decided{Exact: a.Exact, NUMA: on.Account().View().Report().Model.Reach(p.Candidate.Request, &a.Verdict)}
}

// waits records in the plan that a node refuses a member but may admit it after a report. If the
// node has used all its waves, waits records it as tangled.
func (t *trial) waits(node int, on *suppose.Node, why ledger.Wait) {
	if t.inWaves && on.Promised() > 0 && on.Wave == maxWaves {
		if t.plan.Tangled == nil {
			t.plan.Tangled = map[int]bool{}
		}
		t.plan.Tangled[node] = true
		return
	}
	if t.plan.Waits == nil {
		t.plan.Waits = map[int]ledger.Wait{}
	}
	t.plan.Waits[node] = why
}

// loosen promises the pod a place on a node where the kubelet may admit the pod before the planned
// members, which may then get other CPUs. So it first withdraws the promises of particular CPUs to
// these members. It returns the earlier state of the node, or nil if it has not changed the node.
func loosen(p *suppose.Pod, on *suppose.Node, d *placement.Decision) (ledger.Answer, *suppose.Node) {
	loose := on.Clone()
	loose.Loosen()
	a := loose.Promise(p, d)
	if !a.OK() {
		return a, nil
	}
	*on, loose = loose, *on
	return a, &loose
}

// maxWaves is the maximum number of waves of a node after the first wave. Each wave takes about a
// second, and the kubelet must admit all waves before the gang's deadline.
const maxWaves = 8

// nextWave promises the pod a place in a wave after all members on the node.
func nextWave(p *suppose.Pod, on *suppose.Node, d *placement.Decision) ledger.Answer {
	on.Wave++
	a := on.Promise(p, d)
	if !a.OK() {
		on.Wave--
	}
	return a
}

// take reverts the last put, which was for m.
func (t *trial) take(m int) {
	node, last := t.at[m], len(t.before)-1
	t.before[last].restore(t.plan.Nodes.At(node))
	if t.wishes != nil {
		t.sites[node] = t.before[last].site
	}
	t.before = t.before[:last]
	t.field.Take(m, node)
	t.at[m] = nowhere
	t.plan.Places = t.plan.Places[:len(t.plan.Places)-1]
}

// whole reports whether the plan reaches the minimum of the gang and of each task.
func (t *trial) whole() bool {
	if len(t.plan.Places) < t.gang.Minimum {
		return false
	}
	tasks := map[string]int{}
	for _, at := range t.plan.Places {
		tasks[t.gang.Members[at.Member].Task]++
	}
	for task, least := range t.gang.Tasks {
		if tasks[task] < least {
			return false
		}
	}
	return true
}
