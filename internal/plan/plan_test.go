package plan

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/suppose"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

var pinning = placement.Config{
	CPUManagerPolicy: "static", ReservedSystemCPUs: "0", TopologyManagerPolicy: "single-numa-node",
}

func model(t testing.TB, machine string) *placement.Model {
	t.Helper()
	return made.Model(t, machine, pinning)
}

// field is a number of nodes that only have ledgers, in a fixed order.
type field struct {
	again    func(m int, w Lies, again Again) bool
	t        testing.TB
	accounts []*ledger.Node
	// on counts the members on each node, at most limit if that is not 0.
	on    []int
	limit int
	asked int
	// coupled means that the places of members change where others may go.
	coupled bool
	// best is the number of nodes that are named before Widen; 0 for all.
	best int
	// suits is asked about a member's CPUs on a node; nil means that all are suitable.
	suits func(member, node int, would Lies) bool
}

func newField(t testing.TB, m *placement.Model, nodes int) *field {
	t.Helper()
	var all ledger.Ledger
	f := &field{t: t, on: make([]int, nodes)}
	for range nodes {
		n := all.Open(nil)
		snap := m.NewState().Snapshot()
		r, err := ledger.NewReport(1, m, &snap, nil)
		if err != nil {
			t.Fatal(err)
		}
		n.Accept(r)
		f.accounts = append(f.accounts, n)
	}
	return f
}

func (f *field) Nodes(int) []int {
	out := make([]int, len(f.accounts))
	for i := range out {
		out[i] = i
	}
	if f.best > 0 {
		return out[:f.best]
	}
	return out
}
func (f *field) Widen() bool {
	left := f.best > 0
	f.best = 0
	return left
}
func (f *field) Coupled(int) bool           { return f.coupled }
func (f *field) Closed(int, int) bool       { return false }
func (f *field) Reopen(int) bool            { return false }
func (f *field) Node(node int) suppose.Node { return suppose.On(f.accounts[node], nil) }
func (f *field) Admits(_, node int) bool    { f.asked++; return f.limit == 0 || f.on[node] < f.limit }
func (f *field) Suits(m, node int, w Lies, again Again) bool {
	if f.again != nil {
		return f.again(m, w, again)
	}
	return f.suits == nil || f.suits(m, node, w)
}
func (f *field) Put(_, node int)                { f.on[node]++ }
func (f *field) Take(_, node int)               { f.on[node]-- }
func (f *field) reset()                         { clear(f.on) }
func (f *field) reserve(p *Plan, g *Gang) error { return reserveAll(f, p.Places, g) }

// reserveAll reserves the planned places.
func reserveAll(f *field, places []Place, g *Gang) error {
	for _, at := range places {
		if g.Members[at.Member].Candidate == nil {
			continue
		}
		c := *g.Members[at.Member].Candidate
		c.Loose, c.Wave = at.Loose, at.Wave
		var d placement.Decision
		if a := f.accounts[at.Node].Reserve(&c, &d); !a.OK() {
			return fmt.Errorf("member %d on node %d: %+v", at.Member, at.Node, a)
		}
	}
	return nil
}

func member(name string, kind int, cpus int64, second int64) Member {
	return Member{Kind: kind, Size: cpus, Pod: suppose.Pod{Candidate: &ledger.Candidate{Created: second, Request: &placement.Request{
		UID: name, Guaranteed: true, Containers: []placement.ContainerRequest{{Name: "c", MilliCPU: cpus * 1000,
			Memory: []placement.MemoryRequest{{Resource: "memory", Bytes: 1 << 20}}}},
	}}}}
}

func members(sizes ...int64) (out []Member) {
	for i, n := range sizes {
		out = append(out, member(fmt.Sprint("m", i), int(n), n, 100))
	}
	return out
}

// TestMembersAreAskedWhereTheyWouldLie: the field is told the CPUs that a member would get next to
// the others. If it refuses, another node is tried.
func TestMembersAreAskedWhereTheyWouldLie(t *testing.T) {
	machine := shapes.Machine(twoSockets)
	f, used := newField(t, model(t, twoSockets), 2), map[int]topology.NUMASet{}
	f.suits = func(_, node int, would Lies) bool {
		numa := machine.NodesOf(would.Decision.Containers[0].CPUs)
		if !would.Sure || would.Loose || numa.Len() != 1 {
			t.Fatalf("node %d: NUMA nodes %v, %+v", node, numa, would)
		}
		if used[node]&numa != 0 { // each NUMA node has one device
			return false
		}
		used[node] |= numa
		return true
	}
	g := Gang{Minimum: 4}
	for i := range 4 {
		g.Members = append(g.Members, member(fmt.Sprint("m", i), 0, 5, int64(100+i)))
	}
	if p := Make(&g, f, nil); !p.Whole || f.on[0] != 2 || f.on[1] != 2 {
		t.Errorf("whole %t, members on the nodes: %v", p.Whole, f.on)
	}
	f.reset()
	f.suits = func(_, _ int, would Lies) bool { return would.Sure } // members of one second: in waves
	g.Members = g.Members[:0]
	for i := range 4 {
		g.Members = append(g.Members, member(fmt.Sprint("m", i), 0, 5, 100))
	}
	waves := map[int]bool{}
	p := Make(&g, f, nil)
	for _, at := range p.Places {
		waves[at.Wave] = true
		if !at.Got.Exact {
			t.Errorf("member %d is not certain of its CPUs", at.Member)
		}
	}
	if !p.Whole || len(waves) < 2 {
		t.Errorf("of one second: whole %t, waves %v", p.Whole, waves)
	}
	f.reset()
	f.suits = func(m, node int, _ Lies) bool { return node == 1 || m < 1 }
	if p := Make(&g, f, nil); p.Whole || len(p.Places) != 3 {
		t.Errorf("whole %t with %d places", p.Whole, len(p.Places))
	}
}

// TestAMemberIsPromisedAnotherPlace: the last promise for a member counts, together with those for
// the others.
func TestAMemberIsPromisedAnotherPlace(t *testing.T) {
	machine := shapes.Machine(twoSockets)
	m := made.Model(t, twoSockets, placement.Config{Authority: placement.AuthorityBerth, ReservedMilliCPU: 1000})
	on := func(numa topology.NUMAID) *placement.Claimed {
		return &placement.Claimed{Requests: []placement.ClaimRequest{{Users: []string{"c"}, N: 1}}, Devices: []placement.ClaimDevices{{NUMA: topology.NewNUMASet(numa), For: 1, Free: 1, All: 1}}}
	}
	lies := func(l Lies) topology.NUMASet { return machine.NodesOf(l.Decision.Containers[0].CPUs) }
	f := newField(t, m, 1)
	f.again = func(i int, would Lies, again Again) bool {
		if _, ok := again(on(9)); ok {
			t.Error("a member lies near devices that there are not")
		}
		if i == 3 { // its first place is suitable
			first, ok := again(nil)
			return ok && lies(first) != 0
		}
		got, ok := again(on(1))
		return ok && lies(got) == topology.NewNUMASet(1)
	}
	g := Gang{Minimum: 3, Members: []Member{member("m0", 0, 4, 100), member("m1", 0, 4, 101), member("m2", 0, 4, 102), member("m3", 1, 3, 103)}}
	p := Make(&g, f, nil)
	if len(p.Places) != 3 {
		t.Fatalf("%d places, want two members near the devices of NUMA node 1, and another one: %+v", len(p.Places), p.Places)
	}
	for _, at := range p.Places {
		near := at.Candidate.Request.Rules.Claimed != nil
		if near != (at.Member != 3) || near && at.Got.NUMA != topology.NewNUMASet(1) {
			t.Errorf("member %d: near %t on %v", at.Member, near, at.Got.NUMA)
		}
	}
	if got := p.Node(0).Promised(); got != 3 {
		t.Errorf("%d promises, want 3", got)
	}
}

const twoSockets = "package:2 numa:1 core:4 pu:2 mem:16Gi" // 8 CPUs per NUMA node, one of the first reserved

func TestMake(t *testing.T) {
	for _, c := range []struct {
		name   string
		nodes  int
		gang   Gang
		whole  bool
		placed int
	}{
		{"all on one node", 2, Gang{Members: members(4, 4), Minimum: 2}, true, 2},
		{"spread", 2, Gang{Members: members(8, 8), Minimum: 2}, true, 2},
		{"one too many", 2, Gang{Members: members(8, 8, 8), Minimum: 3}, false, 2},
		{"two are enough", 2, Gang{Members: members(8, 8, 8), Minimum: 2}, true, 2},
		{"the small ones are enough", 1, Gang{Members: members(8, 4, 3, 7), Minimum: 3}, true, 3},
		{"the largest first", 1, Gang{Members: members(1, 6, 7), Minimum: 3}, true, 3},
		{"larger than any node", 3, Gang{Members: members(1, 9), Minimum: 2}, false, 1},
		{"nobody", 1, Gang{}, true, 0},
		{"nothing is pinned", 1, Gang{Members: []Member{{}, {}}, Minimum: 2}, true, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newField(t, model(t, twoSockets), c.nodes)
			p := Make(&c.gang, f, nil)
			if p.Whole != c.whole || len(p.Places) != c.placed {
				t.Fatalf("whole %t with %d places: want %t with %d", p.Whole, len(p.Places), c.whole, c.placed)
			}
			if (p.Lacking < 0) != (len(p.Places) == len(c.gang.Members)) {
				t.Errorf("lacking %d with %d of %d placed", p.Lacking, len(p.Places), len(c.gang.Members))
			}
			left := 0
			for _, n := range f.on {
				left += n
			}
			if p.Whole && left != len(p.Places) || !p.Whole && left != 0 {
				t.Errorf("%d members are left in the field", left)
			}
			if p.Whole {
				if err := f.reserve(&p, &c.gang); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestTasksHaveTheirOwnMinimum(t *testing.T) {
	for _, c := range []struct {
		tasks map[string]int
		whole bool
	}{{nil, true}, {map[string]int{"ps": 1}, true}, {map[string]int{"ps": 2}, false}, {map[string]int{"worker": 1}, false}} {
		g := Gang{Members: members(8, 8, 8), Minimum: 2, Tasks: c.tasks}
		g.Members[0].Task, g.Members[1].Task = "ps", "other"
		if p := Make(&g, newField(t, model(t, twoSockets), 2), nil); p.Whole != c.whole {
			t.Errorf("tasks %v: whole %t, want %t", c.tasks, p.Whole, c.whole)
		}
	}
}

// TestEachRoleGetsItsMinimum: in NUMA nodes of 7 and 8 CPUs, neither the largest members nor the
// smallest leave room for the others, but one of each fits.
func TestEachRoleGetsItsMinimum(t *testing.T) {
	g := Gang{Members: members(7, 7, 2, 2, 2, 2, 2, 2, 2), Minimum: 2, Tasks: map[string]int{"large": 1, "small": 1}}
	for i := range g.Members {
		g.Members[i].Task = map[int64]string{7: "large", 2: "small"}[g.Members[i].Size]
	}
	f := newField(t, model(t, twoSockets), 1)
	p := Make(&g, f, nil)
	if !p.Whole || len(p.Places) != 4 {
		t.Fatalf("whole %t with %d places: want 4, one large and three small", p.Whole, len(p.Places))
	}
	if err := f.reserve(&p, &g); err != nil {
		t.Error(err)
	}
}

// TestTheHighestPriorityComesFirst: two of three members fit.
func TestTheHighestPriorityComesFirst(t *testing.T) {
	for minimum := 1; minimum <= 2; minimum++ {
		g := Gang{Members: members(7, 7, 7), Minimum: minimum}
		g.Members[2].Priority = 1
		p := Make(&g, newField(t, model(t, twoSockets), 1), nil)
		if placed := func(p Place) bool { return p.Member == 2 }; !p.Whole || len(p.Places) != 2 || !slices.ContainsFunc(p.Places, placed) {
			t.Errorf("minimum %d: whole %t, places %v: want two, one of them for member 2", minimum, p.Whole, p.Places)
		}
	}
}

// TestAPriorityIsNotTooExpensive: if the budget is not enough for further passes, the plan of the
// first pass is used.
func TestAPriorityIsNotTooExpensive(t *testing.T) {
	cost, planned := 0, 0
	for _, looks := range []int{Looks, 0, 1, 2, 3, 4} {
		g := Gang{Members: members(slices.Repeat([]int64{1}, 20)...), Minimum: 10}
		for i := range g.Members {
			g.Members[i].Priority = int32(i)
		}
		b := NewBudget(t.Context())
		if b.left = looks; looks < Looks { // up to four times the cost of all passes
			b.left = looks * cost / 3
		}
		begun := b.left
		if p := Make(&g, newField(t, model(t, twoSockets), 1), b); p.Whole {
			planned++
		} else if b.left >= 0 {
			t.Errorf("%d looks: %d are planned, and %d looks are left", begun, len(p.Places), b.left)
		}
		if cost == 0 {
			cost = begun - b.left
		}
	}
	if planned < 5 { // one budget is empty
		t.Errorf("%d of 6 are planned", planned)
	}
}

// TestBoundsOfALedgerSpread has many members of different sizes and of the same second. A node
// checks at most 24 orders, so that the plan continues on other nodes. All planned places can then
// be reserved.
func TestBoundsOfALedgerSpread(t *testing.T) {
	m := model(t, "package:2 numa:2 core:16 pu:2 mem:64Gi")
	var sizes []int64
	for i := range int64(24) {
		sizes = append(sizes, 1+i%7)
	}
	g := Gang{Members: members(sizes...), Minimum: len(sizes)}
	f := newField(t, m, 12)
	p := Make(&g, f, nil)
	if !p.Whole {
		t.Fatalf("%d of %d placed", len(p.Places), len(sizes))
	}
	used := map[int]int{}
	for _, at := range p.Places {
		used[at.Node]++
	}
	if len(used) < 3 {
		t.Errorf("the members are on %d nodes, which have room for all: the orders are not bounded", len(used))
	}
	if err := f.reserve(&p, &g); err != nil {
		t.Error(err)
	}
	for _, at := range p.Places {
		if at.Wave != 0 {
			t.Errorf("member %d comes in wave %d: there is room on other nodes", at.Member, at.Wave)
		}
	}
}

// TestWaves has the same members and only one node. They are planned in waves, in an order in which
// they fit.
func TestWaves(t *testing.T) {
	m := model(t, "package:2 numa:2 core:16 pu:2 mem:64Gi")
	var sizes []int64
	for i := range int64(24) {
		sizes = append(sizes, 1+i%7)
	}
	g := Gang{Members: members(sizes...), Minimum: len(sizes)}
	f := newField(t, m, 1)
	p := Make(&g, f, nil)
	if !p.Whole || !p.Crowded {
		t.Fatalf("%d of %d placed, crowded %t: want all, in waves", len(p.Places), len(sizes), p.Crowded)
	}
	last := 0
	for _, at := range p.Places {
		if at.Wave < last || at.Wave > last+1 {
			t.Errorf("wave %d after %d", at.Wave, last)
		}
		last = at.Wave
	}
	if last == 0 || last > maxWaves {
		t.Errorf("%d waves after the first, want 1 to %d", last, maxWaves)
	}
	if err := f.reserve(&p, &g); err != nil {
		t.Error(err)
	}
	g = Gang{Members: members(append(sizes, 40)...), Minimum: len(sizes) + 1}
	if p := Make(&g, newField(t, m, 1), nil); p.Whole || len(p.Waits) > 0 {
		t.Errorf("with one that is too large: whole %t, waits %v: no report helps", p.Whole, p.Waits)
	}
}

// TestThreeKindsFillTheirNodes has 32 members of three kinds and of the same second. They fill the
// nodes completely.
func TestThreeKindsFillTheirNodes(t *testing.T) {
	m := model(t, "package:2 numa:1 core:12 pu:1 mem:16Gi") // 11 and 12 CPUs
	rng := rand.New(rand.NewPCG(14, 23))
	inWaves := 0
	for range 12 {
		left := []int64{11, 12, 11, 12}
		var sizes []int64
		for len(left) > 0 {
			i := rng.IntN(len(left))
			size := min(1+rng.Int64N(3), left[i])
			sizes = append(sizes, size)
			if left[i] -= size; left[i] == 0 {
				left = slices.Delete(left, i, i+1)
			}
		}
		g := Gang{Members: members(sizes...), Minimum: len(sizes)}
		f := newField(t, m, 2)
		p := Make(&g, f, nil)
		if !p.Whole {
			t.Fatalf("%v: %d of %d placed, waits %v", sizes, len(p.Places), len(sizes), p.Waits)
		}
		if p.Crowded {
			inWaves++
		}
		if err := f.reserve(&p, &g); err != nil {
			t.Error(err)
		}
	}
	if inWaves == 0 {
		t.Error("no gang needed waves: the test shows nothing")
	}
}

// fits is the slow twin: it tries every member on every node, in every combination, with real
// ledgers and in the order of a plan.
func fits(t testing.TB, m *placement.Model, nodes int, g *Gang) bool {
	at := make([]int, len(g.Members))
	for {
		f, count, tasks := newField(t, m, nodes), 0, map[string]int{}
		var places []Place
		for i, node := range at {
			if node < nodes {
				places = append(places, Place{Member: i, Node: node, Loose: true})
				count++
				tasks[g.Members[i].Task]++
			}
		}
		for task, least := range g.Tasks {
			if tasks[task] < least {
				count = -1
			}
		}
		if count >= g.Minimum && inSomeOrder(f, nil, places, g) {
			return true
		}
		i := 0
		for ; i < len(at); i++ {
			if at[i]++; at[i] <= nodes {
				break
			}
			at[i] = 0
		}
		if i == len(at) {
			return false
		}
	}
}

// inSomeOrder reports whether there is an order in which the places in left can be reserved after
// those in done.
func inSomeOrder(f *field, done, left []Place, g *Gang) bool {
	if len(left) == 0 {
		forks := field{}
		for _, n := range f.accounts {
			forks.accounts = append(forks.accounts, n.Fork())
		}
		return reserveAll(&forks, done, g) == nil
	}
	for i := range left {
		if inSomeOrder(f, append(slices.Clip(done), left[i]), slices.Delete(slices.Clone(left), i, i+1), g) {
			return true
		}
	}
	return false
}

func TestPlanAgreesWithTwin(t *testing.T) {
	t.Run("one role", func(t *testing.T) { agreesWithTwin(t, nil) })
	t.Run("two roles", func(t *testing.T) { agreesWithTwin(t, []string{"a", "b"}) })
}

// agreesWithTwin compares plans of random gangs with the slow twin. Each role has a minimum of one.
func agreesWithTwin(t *testing.T, roles []string) {
	m := model(t, twoSockets)
	rng := rand.New(rand.NewPCG(14, 2))
	whole, missed, not := 0, 0, 0
	for range 150 {
		nodes, equal := 1+rng.IntN(2), rng.IntN(2) == 0
		var sizes []int64
		for range 1 + rng.IntN(4) {
			sizes = append(sizes, 1+rng.Int64N(9))
		}
		g := Gang{Members: members(sizes...), Minimum: 1 + rng.IntN(len(sizes))}
		for i := range g.Members {
			if equal {
				g.Members[i] = member(fmt.Sprint("m", i), 0, sizes[0], 100)
			} else {
				g.Members[i].Candidate.Created += rng.Int64N(2)
			}
		}
		for i, role := range roles[:min(len(roles), len(sizes))] {
			for at := i; at < len(sizes); at += len(roles) {
				g.Members[at].Task = role
			}
			if g.Tasks == nil {
				g.Tasks = map[string]int{}
			}
			g.Tasks[role], g.Minimum = 1, max(g.Minimum, i+1)
		}
		f := newField(t, m, nodes)
		p, can := Make(&g, f, nil), fits(t, m, nodes, &g)
		switch {
		case p.Whole && !can:
			t.Fatalf("%v on %d nodes, minimum %d: planned, and no combination fits", sizes, nodes, g.Minimum)
		case p.Whole:
			whole++
			if err := f.reserve(&p, &g); err != nil {
				t.Fatalf("%v on %d nodes: %v", sizes, nodes, err)
			}
		case can && equal:
			t.Fatalf("%d of %d CPUs on %d nodes, minimum %d: fits, and was not planned", len(sizes), sizes[0], nodes, g.Minimum)
		case can:
			missed++
		default:
			not++
		}
	}
	t.Logf("%d planned, %d that fit missed, %d do not fit", whole, missed, not)
	if whole < 30 || not < 20 || missed > whole/10 {
		t.Errorf("%d planned, %d missed, %d do not fit", whole, missed, not)
	}
}

// TestTheBestNodesWillDo: a plan with only the best nodes is the same as a plan with all nodes. If
// the best nodes do not admit every member, all nodes are used.
func TestTheBestNodesWillDo(t *testing.T) {
	m := model(t, twoSockets)
	rng := rand.New(rand.NewPCG(20, 26))
	did, widened := 0, 0
	for range 150 {
		var sizes []int64
		for range 1 + rng.IntN(7) {
			sizes = append(sizes, 1+rng.Int64N(9))
		}
		g := Gang{Members: members(sizes...), Minimum: 1 + rng.IntN(len(sizes))}
		all, few := newField(t, m, 4), newField(t, m, 4)
		few.best = 2
		want, got := Make(&g, all, nil), Make(&g, few, nil)
		if few.best > 0 {
			did++
		} else {
			widened++
		}
		if got.Whole != want.Whole || got.Lacking != want.Lacking || !reflect.DeepEqual(got.Places, want.Places) || !slices.Equal(all.on, few.on) {
			t.Fatalf("%v, minimum %d: whole %t, places %v; with all nodes %t, %v", sizes, g.Minimum, got.Whole, got.Places, want.Whole, want.Places)
		}
	}
	if did < 30 || widened < 30 {
		t.Errorf("the best nodes did %d times, and %d times not", did, widened)
	}
}

func TestWishes(t *testing.T) {
	m := model(t, twoSockets)
	for _, c := range []struct {
		name  string
		sizes []int64
		wish  Wish
		nodes int
		whole bool
		same  bool // on the same node
	}{
		{"the same NUMA node", []int64{2, 2}, Wish{Mate: 0, Required: true}, 2, true, true},
		{"the same one, and no room", []int64{6, 6}, Wish{Mate: 0, Required: true}, 2, false, false},
		{"another one", []int64{2, 2}, Wish{Mate: 0, Apart: true, Required: true}, 1, false, false},
		{"another one, on another node", []int64{2, 2}, Wish{Mate: 0, Apart: true, Required: true}, 2, true, false},
		{"preferred", []int64{6, 6}, Wish{Mate: 0}, 1, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := Gang{Members: members(c.sizes...), Minimum: len(c.sizes)}
			g.Members[1].Beside = []Wish{c.wish}
			g.Members[1].Candidate.Created++
			f := newField(t, m, c.nodes)
			p := Make(&g, f, nil)
			if p.Whole != c.whole {
				t.Fatalf("whole %t, want %t", p.Whole, c.whole)
			}
			if p.Whole && (p.Places[0].Node == p.Places[1].Node) != c.same {
				t.Errorf("places %v", p.Places)
			}
			if p.Whole {
				if err := f.reserve(&p, &g); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestOneLookAtAFullNode: equal members ask the node that admitted the last one, and no full node
// is asked again.
func TestOneLookAtAFullNode(t *testing.T) {
	f := newField(t, model(t, twoSockets), 8)
	g := Gang{Minimum: 16}
	for i := range 16 {
		g.Members = append(g.Members, member(fmt.Sprint("m", i), 0, 7, 100))
	}
	if p := Make(&g, f, nil); !p.Whole {
		t.Fatal("not planned")
	}
	if f.asked > 2*len(g.Members) {
		t.Errorf("%d nodes asked for %d members", f.asked, len(g.Members))
	}
}

// BenchmarkMake plans gangs of equal members of 8 CPUs, and reports the time per member.
func BenchmarkMake(b *testing.B) {
	m := model(b, "package:2 numa:2 core:16 pu:2 mem:64Gi")
	for _, c := range []struct{ members, nodes int }{{256, 200}, {1000, 5000}} {
		b.Run(fmt.Sprintf("members=%d/nodes=%d", c.members, c.nodes), func(b *testing.B) {
			f := newField(b, m, c.nodes)
			g := Gang{Minimum: c.members}
			for i := range c.members {
				g.Members = append(g.Members, member(fmt.Sprint("m", i), 0, 8, 100))
			}
			for b.Loop() {
				if p := Make(&g, f, nil); !p.Whole {
					b.Fatal("not planned")
				}
				f.reset()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*c.members), "ns/member")
		})
	}
}

// BenchmarkMakeMixed plans a gang of three shapes with init containers, many of them on one node.
func BenchmarkMakeMixed(b *testing.B) {
	m := model(b, "package:2 numa:1 core:8 pu:2 number:interleaved mem:32Gi")
	f := newField(b, m, 5)
	g := Gang{Minimum: 24}
	for i := range 24 {
		c := member(fmt.Sprint("m", i), i%3, []int64{1, 2, 3}[i%3], 100)
		if i%3 > 0 {
			init := c.Candidate.Request.Containers[0]
			init.Name, init.Kind = "init", placement.Init
			c.Candidate.Request.Containers = append([]placement.ContainerRequest{init}, c.Candidate.Request.Containers...)
		}
		g.Members = append(g.Members, c)
	}
	for b.Loop() {
		if p := Make(&g, f, nil); !p.Whole {
			b.Fatal("not planned")
		}
		f.reset()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(g.Members)), "ns/member")
}
