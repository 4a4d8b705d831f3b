package plan

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/suppose"
	"github.com/berth-dev/berth/topology"
)

// TestWishesInEveryOrder: NUMA nodes have 7 and 8 CPUs, and the kubelet uses the first one with
// room. Pods of 2 CPUs then share a NUMA node, but pods of 4 CPUs do not, in whichever order they
// are admitted.
func TestWishesInEveryOrder(t *testing.T) {
	m := model(t, twoSockets)
	same := func(mate int) Wish { return Wish{Mate: mate, Required: true} }
	apart := func(mate int) Wish { return Wish{Mate: mate, Apart: true, Required: true} }
	for _, c := range []struct {
		name   string
		nodes  int
		sizes  []int64
		wishes map[int][]Wish
		ticks  bool // pods are created in different seconds
		whole  bool
		used   int // number of nodes
	}{
		{"nothing asked", 2, []int64{2, 2}, nil, false, true, 1},
		{"the same, as it is anyway", 2, []int64{2, 2}, map[int][]Wish{0: {same(1)}}, false, true, 1},
		{"the same, in different seconds", 2, []int64{2, 2}, map[int][]Wish{1: {same(0)}}, true, true, 1},
		{"the same, which no order gives", 2, []int64{4, 4}, map[int][]Wish{0: {same(1)}}, false, false, 0},
		{"the same, which some order gives", 1, []int64{4, 3, 3}, map[int][]Wish{2: {same(1)}}, false, false, 0},
		{"apart, on one node", 1, []int64{4, 4}, map[int][]Wish{0: {apart(1)}}, false, true, 1},
		{"apart, on two nodes", 2, []int64{2, 2}, map[int][]Wish{0: {apart(1)}}, false, true, 2},
		{"apart, and one node", 1, []int64{2, 2}, map[int][]Wish{0: {apart(1)}}, false, false, 0},
		{"all apart", 3, []int64{2, 2, 2}, map[int][]Wish{0: {apart(1), apart(2)}, 1: {apart(2)}}, false, true, 3},
		{"preferred apart", 2, []int64{2, 2}, map[int][]Wish{1: {{Mate: 0, Apart: true}}}, false, true, 2},
		{"preferred apart, and one node", 1, []int64{2, 2}, map[int][]Wish{1: {{Mate: 0, Apart: true}}}, false, true, 1},
		{"preferred the same, in vain", 2, []int64{4, 4}, map[int][]Wish{1: {{Mate: 0}}}, false, true, 1},
		{"nothing is pinned", 2, []int64{0, 0}, map[int][]Wish{1: {same(0)}}, false, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := Gang{Members: members(c.sizes...), Minimum: len(c.sizes)}
			for i := range g.Members {
				g.Members[i].Beside = c.wishes[i]
				if c.ticks {
					g.Members[i].Candidate.Created += int64(i)
				}
				if c.sizes[i] == 0 {
					g.Members[i].Candidate = nil
				}
			}
			f := newField(t, m, c.nodes)
			p := Make(&g, f, nil)
			var used []int
			for _, at := range p.Places {
				if !slices.Contains(used, at.Node) {
					used = append(used, at.Node)
				}
			}
			if p.Whole != c.whole || c.whole && len(used) != c.used {
				t.Fatalf("whole %t on nodes %v: want %t on %d; %+v", p.Whole, used, c.whole, c.used, p.Places)
			}
			if p.Whole {
				if err := f.reserve(&p, &g); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestApartFromAll: a wish about all others has the same effect as wishes about each of them,
// whether they are placed already or not.
func TestApartFromAll(t *testing.T) {
	m, rng := model(t, twoSockets), rand.New(rand.NewPCG(11, 28))
	whole, apart := 0, 0
	for range 300 {
		one := Gang{Members: members(make([]int64, 2+rng.IntN(3))...)}
		for range rng.IntN(3) {
			one.Seated = append(one.Seated, Seat{Node: rng.IntN(3), Got: Decided{NUMA: topology.NUMASet(1 + rng.IntN(2)), Exact: true}})
		}
		one.Minimum = len(one.Members) - rng.IntN(2)
		each := Gang{Minimum: one.Minimum, Seated: slices.Clone(one.Seated)}
		all := len(one.Members) + len(one.Seated)
		for i := range one.Members {
			size := 1 + rng.Int64N(4)
			one.Members[i] = member(fmt.Sprint("m", i), int(size), size, 100+rng.Int64N(2))
		}
		each.Members = slices.Clone(one.Members)
		for i := range all {
			mate, required := rng.IntN(all), rng.IntN(3) > 0
			if i < len(one.Members) && mate != i && rng.IntN(4) == 0 {
				w := Wish{Mate: mate, Required: required}
				one.Wish(i, w)
				each.Wish(i, w)
			}
			if rng.IntN(2) == 0 {
				continue
			}
			one.Wish(i, Wish{All: true, Apart: true, Required: required})
			for mate := range all {
				if mate != i && (i < len(one.Members) || mate < len(one.Members)) {
					each.Wish(i, Wish{Mate: mate, Apart: true, Required: required})
				}
			}
		}
		got, want := Make(&one, newField(t, m, 3), nil), Make(&each, newField(t, m, 3), nil)
		if got.Whole != want.Whole || got.Lacking != want.Lacking || !reflect.DeepEqual(got.Places, want.Places) {
			t.Fatalf("%+v, %+v: whole %t, places %v; want %t, %v", one.Members, one.Seated, got.Whole, got.Places, want.Whole, want.Places)
		}
		whole, apart = whole+b2i(got.Whole), apart+b2i(!got.Whole)
	}
	if whole < 50 || apart < 50 {
		t.Errorf("%d gangs are whole and %d are not", whole, apart)
	}
}

// TestRefusedWishesLeaveNothing: nodes that refused a member do not affect the promises. If members
// are put on their planned nodes directly, the promises are the same.
func TestRefusedWishesLeaveNothing(t *testing.T) {
	m, rng := model(t, twoSockets), rand.New(rand.NewPCG(28, 11))
	whole, loose, tight, waves := 0, 0, 0, 0
	for range 600 {
		g := Gang{Members: members(make([]int64, 2+rng.IntN(5))...)}
		for i := range g.Members {
			size := 1 + rng.Int64N(4)
			g.Members[i] = member(fmt.Sprint("m", i), int(size), size, 100+rng.Int64N(2))
			if mate := rng.IntN(len(g.Members)); mate != i && rng.IntN(2) == 0 {
				g.Wish(i, Wish{Mate: mate, Apart: rng.IntN(3) > 0, Required: rng.IntN(3) > 0})
			}
		}
		g.Minimum = len(g.Members) - rng.IntN(2)
		f := newField(t, m, 3)
		p := Make(&g, f, nil)
		if !p.Whole {
			continue
		}
		whole++
		alone := trial{gang: &Gang{Members: slices.Clone(g.Members)}, field: newField(t, m, 3), work: &work{}, at: make([]int, len(g.Members)), placed: make([]Decided, len(g.Members))}
		alone.plan.Nodes = suppose.Field[int]{Bare: alone.field.Node}
		for _, at := range p.Places {
			alone.inWaves = alone.inWaves || at.Wave > 0
		}
		for _, at := range p.Places {
			if !alone.put(at.Member, at.Node) {
				t.Fatalf("%+v: member %d is refused where it was planned: %+v", g.Members, at.Member, p.Places)
			}
		}
		for i, at := range p.Places {
			if want := alone.plan.Nodes.At(at.Node).Loose(); at.Loose != want || at.Wave != alone.plan.Places[i].Wave {
				t.Fatalf("%+v: member %d on node %d: loose %t in wave %d, want %t in %d", g.Members, at.Member, at.Node, at.Loose, at.Wave, want, alone.plan.Places[i].Wave)
			}
			loose, tight, waves = loose+b2i(at.Loose), tight+b2i(!at.Loose), waves+b2i(at.Wave > 0)
		}
		if err := f.reserve(&p, &g); err != nil {
			t.Error(err)
		}
	}
	if t.Logf("%d gangs are whole: %d members loose, %d not, %d in later waves", whole, loose, tight, waves); whole < 100 || loose < 50 || tight < 50 {
		t.Error("the test shows too little")
	}
}

// TestNothingOfNodesBeforeIsKept: the earlier state of a node is kept only while a unit is tried,
// and a refusal only if it can be used again.
func TestNothingOfNodesBeforeIsKept(t *testing.T) {
	g := Gang{Members: members(2, 2, 2)}
	g.Wish(0, Wish{All: true, Apart: true})
	g.Wish(2, Wish{Mate: 0, Apart: true, Required: true})
	f := newField(t, model(t, twoSockets), 1)
	one := &trial{gang: &g, field: f, work: &work{}, at: make([]int, 3), placed: make([]Decided, 3), wishes: wishesOf(&g), sites: map[int]*site{}}
	one.plan.Nodes = suppose.Field[int]{Bare: f.Node}
	if !one.putAll([]int{0}, 0) || !one.putAll([]int{1}, 0) || len(one.before) > 0 {
		t.Errorf("%d nodes of before are kept", len(one.before))
	}
	if one.putAll([]int{2}, 0) || len(one.sites[0].refusals) > 0 {
		t.Errorf("%v is kept of a member that is like no other", one.sites[0].refusals)
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestAnAnswerStandsForTheLike: one answer is used for all equal members. The twin asks every node
// for every member.
func TestAnAnswerStandsForTheLike(t *testing.T) {
	m, spared, whole, not := model(t, twoSockets), 0, 0, 0
	for seed := range uint64(1500) {
		g, nodes := wishful(seed)
		if !g.Wishes() {
			continue
		}
		f, slow := newField(t, m, nodes), newField(t, m, nodes)
		if seed%3 == 0 {
			f.limit, slow.limit = 1+int(seed%2), 1+int(seed%2)
		}
		got, want := Make(&g, f, nil), makePlan(&g, slow, &work{slow: true})
		if got.Whole != want.Whole || got.Lacking != want.Lacking || !reflect.DeepEqual(got.Places, want.Places) || !slices.Equal(f.on, slow.on) {
			t.Fatalf("seed %d, %d nodes: whole %t, lacking %d, places %+v; want %t, %d, %+v; %+v", seed, nodes, got.Whole, got.Lacking, got.Places, want.Whole, want.Lacking, want.Places, g)
		}
		spared, whole, not = spared+slow.asked-f.asked, whole+b2i(got.Whole), not+b2i(!got.Whole)
	}
	if t.Logf("%d questions spared; %d gangs are whole, %d are not", spared, whole, not); spared < 1000 || whole < 300 || not < 300 {
		t.Error("the test shows too little")
	}
}

// wishful returns a gang of a few kinds with wishes, and a number of nodes for it.
func wishful(seed uint64) (g Gang, nodes int) {
	rng := rand.New(rand.NewPCG(seed, 11))
	nodes = 1 + rng.IntN(4)
	g = Gang{Members: members(make([]int64, 2+rng.IntN(7))...)}
	sizes, seconds := [3]int64{1 + rng.Int64N(5), 1 + rng.Int64N(5), 1 + rng.Int64N(5)}, 1+rng.Int64N(4)
	for i := range g.Members {
		kind := rng.IntN(len(sizes))
		g.Members[i] = member(fmt.Sprint("m", i), kind, sizes[kind], 100+rng.Int64N(seconds))
	}
	for range rng.IntN(3) {
		seat := Seat{Node: Elsewhere, Got: Decided{NUMA: topology.NUMASet(rng.IntN(4)), Exact: rng.IntN(4) > 0}}
		if rng.IntN(4) > 0 {
			seat.Node = rng.IntN(nodes)
		}
		g.Seated = append(g.Seated, seat)
	}
	g.Minimum = len(g.Members) - rng.IntN(2)
	all, most := len(g.Members)+len(g.Seated), 1+rng.IntN(3)
	for i := range all {
		if required := rng.IntN(3) > 0; rng.IntN(most) == 0 {
			g.Wish(i, Wish{All: true, Apart: true, Required: required})
		}
		if mate := rng.IntN(all); rng.IntN(4) == 0 && mate != i && (i < len(g.Members) || mate < len(g.Members)) {
			g.Wish(i, Wish{Mate: mate, Apart: rng.IntN(3) > 0, Required: rng.IntN(2) > 0})
		}
	}
	return g, nodes
}

// TestManyApart: a plan is made quickly for a large gang whose members are apart from all others,
// whether there are nodes for all of them or for two, and in however many seconds they were
// created.
func TestManyApart(t *testing.T) {
	const many, looks = 4096, 200 * 4096
	for _, c := range []struct{ nodes, second int }{{1, many}, {many, many}, {many, 50}, {many, 1}} {
		g := Gang{Minimum: many}
		for i := range many {
			g.Members = append(g.Members, member(fmt.Sprint("m", i), 0, 2, 100+int64(i/c.second)))
			g.Wish(i, Wish{All: true, Apart: true, Required: true})
		}
		f, budget := newField(t, model(t, twoSockets), c.nodes), &Budget{ctx: t.Context(), until: time.Now().Add(time.Hour), left: looks}
		if p := Make(&g, f, budget); p.Whole != (c.nodes == many) || p.Cut {
			t.Errorf("%d members apart on %d nodes of two NUMA nodes: whole %t, cut off %t", many, c.nodes, p.Whole, p.Cut)
		}
		if t.Logf("%d nodes, %d members in a second: %d questions, %d looks", c.nodes, c.second, f.asked, looks-budget.left); f.asked > 4*many || budget.Over() {
			t.Errorf("%d questions: want %d at most, and %d looks", f.asked, 4*many, looks)
		}
	}
}
